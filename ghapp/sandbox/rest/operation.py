"""One operation of the API, from the request to the account of it.

An operation is an act on the world with the rules that stand before it: who may call, and what that takes. The act
itself is a plain function of a `Call`, does no I/O, and is therefore never interrupted by another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ghapp.sandbox.ratelimits import Meter
from ghapp.sandbox.rest.answers import Refusal
from ghapp.sandbox.rest.call import Call, Caller, organization_in
from ghapp.sandbox.world import World

#: Where in the ASGI scope the server notes `/api/v3`, when the request came that way.
PREFIX_KEY = "sandbox.prefix"

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
