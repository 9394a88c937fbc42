"""Post-mortems: how a runner ended, why, and what the platform team should change."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from redis.asyncio import Redis
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.report.documents import death_document
from ghapp.store.connect import redis_errors
from ghapp.store.deaths import Deaths
from ghapp.web.api.health import Clock
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.problems import not_installed, problem


class DeathEndpoints:
    """The endpoint. What is asked once, after something went wrong, needs no cache."""

    def __init__(self, redis: Redis, reads: FleetReader, gate: Authenticator, clock: Clock) -> None:
        self._reads, self._gate, self._clock = reads, gate, clock
        self._deaths = Deaths(redis, clock)

    def routes(self) -> Sequence[Route]:
        """It alone."""
        return [Route("/v1/orgs/{org}/deaths/{runner_name}", self._of, methods=["GET"])]

    async def _of(self, request: Request) -> Response:
        org, name = request.path_params["org"], request.path_params["runner_name"]
        if refusal := await self._gate.refuse(request, "read", org, self._clock()):
            return refusal
        if (of := await self._reads.org(org)) is None:
            return not_installed(org)
        async with redis_errors():
            found = await self._deaths.of(of.installation.id, name)
        if found is None:
            return problem(404, f"no runner of {org} called {name} is known to have died in the last 30 days")
        return Response(msgspec.json.encode(death_document(found)), media_type="application/json")
