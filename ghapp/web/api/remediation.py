"""Stop remediation, and let it go on: for whoever holds a token of scope `admin`. Who did it is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from redis.asyncio import Redis
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.queue.jobs import JobName
from ghapp.report.documents import timestamp
from ghapp.settings import Settings
from ghapp.store.connect import redis_errors
from ghapp.store.fuses import WHOLE_ORG, Fuses, Pause
from ghapp.web.api.health import Clock, Enqueue
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader, OrgState
from ghapp.web.problems import not_installed, problem
from ghapp.web.request_body import parse_json, read_body

LARGEST_BYTES = 64 * 1024
TAKES = '{"pool": name or null}, and a pause also its "why"'
PoolName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PauseBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be paused: a pool, or without one (or as `*`) the whole org; and why."""

    why: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    pool: PoolName | None = None


class ResumeBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is to go on: a pool, or without one the whole org and every pool of it."""

    pool: PoolName | None = None


class RemediationEndpoints:
    """The endpoints."""

    def __init__(
        self, settings: Settings, redis: Redis, reads: FleetReader, gate: Authenticator, ask: Enqueue, clock: Clock
    ) -> None:
        self._settings, self._reads, self._gate, self._ask, self._clock = settings, reads, gate, ask, clock
        self._fuses = Fuses(redis)

    def routes(self) -> Sequence[Route]:
        """Both of them."""
        return [
            Route("/v1/orgs/{org}/pause", self._pause, methods=["POST"]),
            Route("/v1/orgs/{org}/resume", self._resume, methods=["POST"]),
        ]

    async def _pause(self, request: Request) -> Response:
        org, now = request.path_params["org"], self._clock()
        if refusal := await self._gate.refuse(request, "admin", org, now):
            return refusal
        stop = parse_json(PauseBody, await read_body(request, LARGEST_BYTES), TAKES)
        if (of := await self._reads.org(org)) is None:
            return not_installed(org)
        if unknown := await self._unknown_pool(of, stop.pool):
            return unknown
        async with redis_errors():
            pause = Pause(await self._gate.who(request), stop.why, now)
            first = await self._fuses.pause(of.installation.id, stop.pool or WHOLE_ORG, pause)
        self._reads.forget(org)
        if (first.who, first.why) == (pause.who, pause.why):  # asked again after an answer that was lost
            return Response(status_code=204)
        return problem(
            409,
            f"it is paused already, by {first.who} since {timestamp(first.at)}: {first.why}; that pause holds, and "
            "this reason was not recorded",
        )

    async def _resume(self, request: Request) -> Response:
        """End pauses, and let stopped fuses prove anew; a sweep looks first at what is lost."""
        org, now = request.path_params["org"], self._clock()
        if refusal := await self._gate.refuse(request, "admin", org, now):
            return refusal
        go = parse_json(ResumeBody, await read_body(request, LARGEST_BYTES) or b"{}", TAKES)
        if (of := await self._reads.org(org)) is None:
            return not_installed(org)
        if unknown := await self._unknown_pool(of, go.pool):
            return unknown
        installation = of.installation
        limits = self._settings.of(installation.org).fuse
        async with redis_errors():
            done = await self._fuses.resume(installation, go.pool, await self._gate.who(request), now, limits)
            await self._ask(JobName.SWEEP, installation.id, key=f"sweep-{installation.id}", retry=False)
        self._reads.forget(org)
        body = {"ended": sorted(done.ended), "proving": sorted(done.proving)}
        return Response(msgspec.json.encode(body), media_type="application/json")

    async def _unknown_pool(self, of: OrgState, pool: str | None) -> Response | None:
        """The problem of a pool that the org does not have: a mistyped name would stop, or resume, nothing."""
        if pool is None or pool == WHOLE_ORG or pool in (pools := await self._reads.pools(of)):
            return None
        return problem(404, f"{of.installation.org} has no pool {pool}; it has {', '.join(sorted(pools)) or 'none'}")
