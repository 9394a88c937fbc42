"""One call of the API, from the request to the account of it.

An operation is an act on the world with the rules that stand before it: who may call, and what that takes. The act
itself is a plain function of a `Call`, does no I/O, and is therefore never interrupted by another.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ghapp.sandbox.apps import App, Installation, Token
from ghapp.sandbox.credentials import bearer, calling_app, calling_token
from ghapp.sandbox.fleet.jobs import Repository
from ghapp.sandbox.ratelimits import Meter
from ghapp.sandbox.rest.answers import Refusal, not_found, unprocessable
from ghapp.sandbox.world import Organization, World

#: Where in the ASGI scope the server notes `/api/v3`, when the request came that way.
PREFIX_KEY = "sandbox.prefix"

Shape = TypeVar("Shape")


class Caller(Enum):
    """Who may call an operation."""

    ANYONE = auto()
    APP = auto()
    INSTALLATION = auto()


@dataclass(slots=True)
class Call:
    """A request that was let in.

    Attributes:
        base: the API's root as the caller reached it, with `/api/v3` when it came that way.
        body: as it came.
    """

    world: World
    request: Request
    base: str
    body: bytes
    _org: Organization | None = None
    _app: App | None = None
    _token: Token | None = None
    _repository: Repository | None = None

    @property
    def app(self) -> App:
        """The App that calls, by JWT or through an installation."""
        if self._app is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Requires authentication")
        return self._app

    @property
    def token(self) -> Token:
        """The installation token it called with."""
        if self._token is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Requires authentication")
        return self._token

    @property
    def installation(self) -> Installation:
        """The installation that calls."""
        return self.token.installation

    @property
    def org(self) -> Organization:
        """The organization in the path, or the caller's."""
        if self._org is None:
            raise not_found()
        return self._org

    @property
    def login(self) -> str | None:
        """The name of that organization, when there is one."""
        return None if self._org is None else self._org.login

    @property
    def repository(self) -> Repository:
        """The repository in the path."""
        if self._repository is None:
            raise not_found()
        return self._repository

    @property
    def now(self) -> float:
        """Epoch seconds."""
        return self.world.now()

    def number(self, name: str) -> int:
        """A number in the path; 404 for anything else."""
        text = self.request.path_params[name]
        if not text.isdecimal():
            raise not_found()
        return int(text)

    def json(self, shape: type[Shape]) -> Shape:
        """The body; 400 when it is no JSON, 422 when it is not of this shape."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=shape)
        except msgspec.ValidationError as error:
            raise unprocessable(f"Invalid request.\n\n{error}") from error
        except msgspec.DecodeError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "Problems parsing JSON") from error

    def identify(self, caller: Caller) -> None:
        """Finds out who calls; 403 without a User-Agent, 401 without a good credential."""
        if not self.request.headers.get("user-agent"):
            raise Refusal(HTTPStatus.FORBIDDEN, "Request forbidden by administrative rules: no User-Agent header.")
        if caller is Caller.ANYONE:
            return
        credential = bearer(self.request.headers.get("authorization", ""))
        if caller is Caller.APP:
            self._app = calling_app(self.world.registry, credential)
        else:
            self._token = calling_token(self.world.registry, credential, self.now)
            self._app = self._token.installation.app

    def locate(self) -> None:
        """Finds the organization and repository that the path names; 404 for those that an installation cannot see."""
        if self._token is None:
            return
        params = self.request.path_params
        home = self.world.orgs[self.installation.org.lower()]
        if params.keys() & {"org", "organization_id", "owner", "repository_id"} and self._org is not home:
            raise not_found()
        self._org = home
        if "repo" in params:
            self._repository = home.repositories.get(params["repo"])
        elif "repository_id" in params:
            self._repository = home.repository_with_id(self.number("repository_id"))
        if self._repository is not None and not self.installation.sees(self._repository.name):
            raise not_found()


Act = Callable[[Call], Response]


@dataclass(frozen=True, slots=True)
class Operation:
    """A method and a path template of the API, and what stands before its act; an ASGI application.

    Attributes:
        needs: permission and level that the installation must hold.
        counted: whether a call costs one of the hour's.
    """

    method: str
    template: str
    act: Act
    caller: Caller = Caller.INSTALLATION
    needs: tuple[str, str] | None = None
    counted: bool = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        request = Request(scope, receive)
        world: World = scope["app"].state.world
        org = organization_in(world, request.path_params)
        login = None if org is None else org.login
        effect = world.faults.pick(request.method, scope["path"], login, world.now())
        if effect is not None and await effect(scope, receive, send):
            world.account.called(self.name, login, None, counted=False)
            return
        if world.faults.latency_seconds:
            await asyncio.sleep(world.faults.latency_seconds)
        base = f"{request.url.scheme}://{request.url.netloc}{scope.get(PREFIX_KEY, '')}"
        call = Call(world, request, base, await request.body(), org)
        response, counted = self._answer(call)
        world.account.called(self.name, call.login, response.status_code, counted=counted)
        await response(scope, receive, send)

    @property
    def name(self) -> str:
        """As the account calls it."""
        return f"{self.method} {self.template}"

    def _answer(self, call: Call) -> tuple[Response, bool]:
        """The answer, and whether it cost a call."""
        meter: Meter | None = None
        try:
            call.identify(self.caller)
            if self.caller is Caller.INSTALLATION:
                meter = call.world.limits.meter(call.installation.id, call.now)
            self._admit(call, meter)
            response = self.act(call)
        except Refusal as refusal:
            response = refusal.response()
        if meter is None:
            return response, False
        counted = self.counted and meter.remaining > 0 and response.status_code != HTTPStatus.NOT_MODIFIED
        meter.used += counted
        response.headers.update(meter.headers())
        return response, counted

    def _admit(self, call: Call, meter: Meter | None) -> None:
        """Lets a known caller in, or not: 403 over the limit, 404 out of sight, 403 without the permission."""
        if meter is not None and self.counted and not meter.remaining:
            spent = f"API rate limit exceeded for installation ID {call.installation.id}."
            raise Refusal(HTTPStatus.FORBIDDEN, spent)
        call.locate()
        if self.needs is not None and not call.token.allows(*self.needs):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "Resource not accessible by integration",
                {"x-accepted-github-permissions": "=".join(self.needs)},
            )


def organization_in(world: World, params: dict[str, str]) -> Organization | None:
    """The organization that path parameters name, in whichever way."""
    if login := params.get("org") or params.get("owner"):
        return world.organization(login)
    if re.fullmatch(r"\d+", params.get("organization_id", "")):
        return world.organization_with_id(int(params["organization_id"]))
    if re.fullmatch(r"\d+", params.get("repository_id", "")):
        wanted = int(params["repository_id"])
        return next((org for org in world.orgs.values() if org.repository_with_id(wanted)), None)
    if re.fullmatch(r"\d+", params.get("installation_id", "")):
        installation = world.registry.installations.get(int(params["installation_id"]))
        return None if installation is None else world.organization(installation.org)
    return None
