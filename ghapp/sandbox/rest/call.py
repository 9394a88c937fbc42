"""A request on its way in: who makes it, what its path names, what its body says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.requests import Request

from ghapp.sandbox.apps import App, Installation, Token
from ghapp.sandbox.credentials import bearer, calling_app, calling_token
from ghapp.sandbox.fleet.jobs import Repository
from ghapp.sandbox.rest.answers import Refusal, not_found, unprocessable
from ghapp.sandbox.world import Organization, World

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
