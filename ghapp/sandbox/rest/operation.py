"""One operation of the API, from the request to its record in the ledger.

An operation is an act on the world with the checks before it: who may call, and with which permission. The act itself
is a plain function of a `RestCall`, does no I/O, and is therefore never interrupted by another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ghapp.sandbox.apps import holds
from ghapp.sandbox.faults import RequestFault
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.people import PersonalToken, spender_of
from ghapp.sandbox.ratelimits import RateMeter
from ghapp.sandbox.rest.answers import RestError, not_found
from ghapp.sandbox.rest.call import Caller, RestCall, organization_calling, organization_in
from ghapp.sandbox.world import World

Act = Callable[[RestCall], Response]

OWNERS_ALONE = ("organization_self_hosted_runners", "administration")

SCOPES = {
    "organization_self_hosted_runners": "admin:org",
    "administration": "repo",
    "actions": "repo",
    "checks": "repo",
    "metadata": "repo",
    "enterprise_runners": "manage_runners:enterprise",
}
"""The scope that a classic token needs in place of a permission."""


@dataclass(frozen=True, slots=True)
class RestOperation:
    """A method and a path template of the API, and the checks before its act; an ASGI application.

    Attributes:
        needs: permission and level that the installation must have.
        counted: True if a call counts against the hourly limit.
    """

    method: str
    template: str
    act: Act
    caller: Caller = Caller.INSTALLATION
    needs: tuple[str, str] | None = None
    counted: bool = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, and records it in the ledger."""
        request = Request(scope, receive)
        world: World = scope["app"].state.world
        named = organization_in(world, request.path_params)
        org = named or organization_calling(world, request)
        sent = SentAnswer(send, world.stated(world.now()))
        call = RestCall(world, request, await request.body(), named)
        pressure = None if org is None or self.caller is Caller.APP else world.ledger.pressed_by(org.login)
        ledger, login = world.ledger, None if org is None else org.login
        if pressure is not None:
            pressure.begin(self.method, world.now())
        try:
            await self._faulted(partial(self._respond, call, sent), request, org)(scope, receive, sent)
        finally:
            if pressure is not None:
                pressure.end()
            ledger.called(self.name, login, sent.status, counted=sent.counted)

    @property
    def name(self) -> str:
        """Returns its name in the ledger."""
        return f"{self.method} {self.template}"

    def _faulted(self, onward: ASGIApp, request: Request, org: Organization | None) -> ASGIApp:
        """Returns the answer, wrapped in the faults that affect this request."""
        world: World = request.app.state.world
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        faults = world.faults.active(RequestFault, None if org is None else org.id, world.now())
        for fault in reversed([fault for fault in faults if fault.affects(request.method, path)]):
            onward = partial(fault.effect, onward)
        return onward

    async def _respond(self, call: RestCall, sent: SentAnswer, scope: Scope, receive: Receive, send: Send) -> None:
        if call.world.faults.latency_seconds:
            await asyncio.sleep(call.world.faults.latency_seconds)
        response, sent.counted = self._answer(call)
        await response(scope, receive, send)

    def _answer(self, call: RestCall) -> tuple[Response, bool]:
        """The answer, and whether it cost the installation a call."""
        meter: RateMeter | None = None
        try:
            call.identify(self.caller)
            if self.caller is Caller.INSTALLATION and not call.is_of_a_person:
                meter = call.world.limits.meter(call.installation.id, call.now)
            elif call.personal is not None:
                meter = call.world.limits.meter(spender_of(call.person), call.now)
            elif self.caller is Caller.APP:
                meter = call.world.limits.meter_of_app(call.app.id, call.now)
            self._admit(call, meter)
            response = self.act(call)
        except RestError as refusal:
            response = refusal.response()
        if call.personal is not None:
            response.headers.update(self._scopes(call.personal))
        if meter is None:
            return response, False
        counted = self.counted and meter.remaining > 0 and response.status_code != HTTPStatus.NOT_MODIFIED
        meter.used += counted
        response.headers.update(meter.headers(call.world.stated(meter.reset)))
        return response, counted and self.caller is not Caller.APP

    def _admit(self, call: RestCall, meter: RateMeter | None) -> None:
        """Checks a known caller: 403 or 429 over the limit, 404 out of sight, 403 without the permission."""
        if meter is not None and self.counted and not meter.remaining:
            spender = (
                "App"
                if self.caller is Caller.APP
                else f"user ID {call.person.id}"
                if call.is_of_a_person
                else f"installation ID {call.installation.id}"
            )
            spent = f"API rate limit exceeded for {spender}."
            raise RestError(meter.refusal, spent)
        params = call.request.path_params
        owner = params.get("org") or params.get("owner")
        if call.personal is not None and not call.personal.is_authorized and owner:
            url = f"{call.world.url}/orgs/{owner}/sso?authorization_request=A"
            why = "Resource protected by organization SAML enforcement."
            raise RestError(HTTPStatus.FORBIDDEN, why, {"x-github-sso": f"required; url={url}"})
        call.locate()
        if self.needs is None:
            return
        if call.is_of_a_person:
            self._admit_person(call, self.needs)
            return
        withheld = call.world.directory.refusal_of(call.installation, self.needs[0])
        if withheld == HTTPStatus.NOT_FOUND:
            raise not_found()
        if withheld is not None or not call.token.allows(*self.needs):
            raise RestError(
                HTTPStatus.FORBIDDEN,
                "Resource not accessible by integration",
                {"x-accepted-github-permissions": "=".join(self.needs)},
            )

    def _admit_person(self, call: RestCall, needs: tuple[str, str]) -> None:
        """403 for a person, or for a token of theirs, that may not do this."""
        personal, (permission, _) = call.personal, needs
        if permission in OWNERS_ALONE and call.role_in(call.org) != "owner":
            raise RestError(HTTPStatus.FORBIDDEN, "Must have admin rights to organization.")
        if personal is None:
            return
        withheld = call.world.directory.withheld_from_people(call.org, permission)
        if withheld == HTTPStatus.NOT_FOUND:
            raise not_found()
        if personal.scopes is not None and SCOPES[permission] not in personal.scopes:
            raise RestError(HTTPStatus.FORBIDDEN, "Must have admin rights to organization.")
        if withheld is not None or (personal.scopes is None and not holds(dict(personal.permissions), *needs)):
            why = "Resource not accessible by personal access token"
            raise RestError(HTTPStatus.FORBIDDEN, why, {"x-accepted-github-permissions": "=".join(needs)})

    def _scopes(self, personal: PersonalToken) -> dict[str, str]:
        """Returns the headers about scopes, which answers to classic tokens have."""
        if personal.scopes is None:
            return {}
        accepted = "" if self.needs is None else SCOPES[self.needs[0]]
        return {"x-oauth-scopes": ", ".join(personal.scopes), "x-accepted-oauth-scopes": accepted}


class SentAnswer:
    """Passes an answer on, dates it, and records how much of it was sent.

    Attributes:
        counted: True if the call counts against the hourly limit.
    """

    def __init__(self, send: Send, date: float) -> None:
        self.counted = False
        self._send = send
        self._date = formatdate(date, usegmt=True).encode()
        self._status: int | None = None
        self._complete = False

    @property
    def status(self) -> int | None:
        """The status of an answer that was sent to its end; None for any other."""
        return self._status if self._complete else None

    async def __call__(self, message: Message) -> None:
        """Sends a part of it."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message = {**message, "headers": [(b"date", self._date), *message["headers"]]}
        else:
            self._complete = not message.get("more_body", False)
        await self._send(message)
