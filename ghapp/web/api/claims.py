"""Controllers say that a pod is legitimately busy, and when it no longer is: for holders of the scope `claim`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from redis.asyncio import Redis
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.errors import PodClaimsFullError
from ghapp.health.installation import Installation
from ghapp.store.connect import redis_errors
from ghapp.store.pod_claims import LONGEST_SECONDS, SHORTEST_SECONDS, PodClaims
from ghapp.web.api.health import Clock
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.problems import not_installed, problem
from ghapp.web.request_body import parse_json, read_body

LARGEST_BYTES = 64 * 1024
LONGEST_NAME = 253
POD_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
TAKES = (
    '{"ttl_seconds": 1 to 86400}, and, where they say something, "runner_name" (when it is not the pod\'s name) and '
    '"job_id" (a number)'
)
LARGEST_ID = 10**18


class ClaimBody(msgspec.Struct, forbid_unknown_fields=True):
    """For how many seconds the pod is busy, as which runner, and with which job."""

    ttl_seconds: Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
    runner_name: (
        Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    job_id: Annotated[int, msgspec.Meta(ge=1, lt=LARGEST_ID)] | None = None


class ClaimEndpoints:
    """The endpoints. Each may be asked again and again: the last word holds."""

    def __init__(self, redis: Redis, reads: FleetReader, gate: Authenticator, clock: Clock) -> None:
        self._reads, self._gate, self._clock = reads, gate, clock
        self._claims = PodClaims(redis, clock)

    def routes(self) -> Sequence[Route]:
        """Both of them."""
        path = "/v1/orgs/{org}/claims/{pod}"
        return [Route(path, self._claim, methods=["PUT"]), Route(path, self._give_back, methods=["DELETE"])]

    async def _claim(self, request: Request) -> Response:
        org, pod, now = request.path_params["org"], request.path_params["pod"], self._clock()
        installation = await self._admitted(request, org, pod, now)
        if isinstance(installation, Response):
            return installation
        busy = parse_json(ClaimBody, await read_body(request, LARGEST_BYTES), TAKES)
        runner_name = busy.runner_name or pod
        try:
            async with redis_errors():
                await self._claims.claim(installation.id, pod, runner_name, busy.job_id, now + busy.ttl_seconds)
        except PodClaimsFullError as error:
            return problem(507, str(error))
        self._reads.forget(org)
        return Response(status_code=204)

    async def _give_back(self, request: Request) -> Response:
        org, pod, now = request.path_params["org"], request.path_params["pod"], self._clock()
        installation = await self._admitted(request, org, pod, now)
        if isinstance(installation, Response):
            return installation
        async with redis_errors():
            await self._claims.give_back(installation.id, pod)
        self._reads.forget(org)
        return Response(status_code=204)

    async def _admitted(self, request: Request, org: str, pod: str, now: float) -> Installation | Response:
        """Whose pod it is; or why that is refused."""
        if refusal := await self._gate.refuse(request, "claim", org, now):
            return refusal
        if len(pod) > LONGEST_NAME or POD_NAME.fullmatch(pod) is None:
            return problem(400, f"{pod[:LONGEST_NAME]!r} is no pod's name: small letters, digits, - and .")
        of = await self._reads.org(org)
        return not_installed(org) if of is None else of.installation
