"""Pod claims: a controller with a token of scope `claim` declares a pod busy, and no longer busy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Annotated

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ghapp.errors import PodClaimsFullError
from ghapp.installations.installation import Installation
from ghapp.pods.claim_store import LONGEST_SECONDS, SHORTEST_SECONDS
from ghapp.store.audit import ChangeOutcome, Trail
from ghapp.store.stores import Stores
from ghapp.web.api.record_change import ApiAudit
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader
from ghapp.web.operation import Answer, Clock, Handler, Operation, Schema, problems
from ghapp.web.problems import problem
from ghapp.web.request_body import parse_json, read_body

LARGEST_BYTES = 64 * 1024
LONGEST_NAME = 253
POD_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
TAKES = '{"ttl_seconds": 1 to 86400}, and optionally "runner_name" (default: the pod\'s name) and "job_id" (a number)'
LARGEST_ID = 10**18


class ClaimBody(msgspec.Struct, forbid_unknown_fields=True):
    """How many seconds the pod is busy, for which runner, and with which job."""

    ttl_seconds: Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
    runner_name: (
        Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    job_id: Annotated[int, msgspec.Meta(ge=1, lt=LARGEST_ID)] | None = None


POD: Schema = {"type": "string", "pattern": f"^{POD_NAME.pattern}$", "maxLength": LONGEST_NAME}

CLAIM_POD = Operation(
    "PUT",
    "/v1/orgs/{org}/claims/{pod}",
    "Claim a pod as busy for `ttl_seconds`: its runner is not replaced, and the pod is not reaped. `runner_name` "
    "(default: the pod's name) and `job_id` are optional.",
    {204: Answer("The pod is claimed; a new claim replaces an earlier one."), **problems(404, 413, 507)},
    "claim",
    in_path={"pod": POD},
    body=ClaimBody,
)
RELEASE_POD = Operation(
    "DELETE",
    "/v1/orgs/{org}/claims/{pod}",
    "Release a claim.",
    {204: Answer("The pod is not claimed, or never was."), **problems(404)},
    "claim",
    in_path={"pod": POD},
)
OPERATIONS = (CLAIM_POD, RELEASE_POD)


class ClaimEndpoints:
    """The endpoints. Requests may be repeated: the latest claim replaces earlier ones."""

    def __init__(self, stores: Stores, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._clock = reader, clock
        self._claims, self._audit = stores.pod_claims, ApiAudit(stores.audit, authenticator, clock)

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns both handlers."""
        return {CLAIM_POD: self._claim, RELEASE_POD: self._release}

    async def _claim(self, request: Request) -> Response:
        org, pod, now = request.path_params["org"], request.path_params["pod"], self._clock()
        installation = await self._installation(org, pod)
        claim = parse_json(ClaimBody, await read_body(request, LARGEST_BYTES), TAKES)
        runner_name = claim.runner_name or pod
        put = partial(self._claims.claim, installation.id, pod, runner_name, claim.job_id, now + claim.ttl_seconds)
        is_claimed = await self._claims.is_claimed(installation.id, pod)  # most requests renew a claim
        declaration = self._declaration(request, installation, "claim", pod)
        async with nullcontext(ChangeOutcome()) if is_claimed else declaration as outcome:
            try:
                outcome.has_effect = await put()
            except PodClaimsFullError as error:
                outcome.has_effect = False
                return problem(507, str(error))
        self._reader.forget(org)
        return Response(status_code=204)

    async def _release(self, request: Request) -> Response:
        org, pod = request.path_params["org"], request.path_params["pod"]
        installation = await self._installation(org, pod)
        async with self._declaration(request, installation, "release", pod) as outcome:
            outcome.has_effect = await self._claims.release(installation.id, pod)
        self._reader.forget(org)
        return Response(status_code=204)

    def _declaration(
        self, request: Request, installation: Installation, action: str, pod: str
    ) -> AbstractAsyncContextManager[ChangeOutcome]:
        return self._audit.change(request, installation.id, action, pod, trail=Trail.CONTROLLERS)

    async def _installation(self, org: str, pod: str) -> Installation:
        """Returns the pod's installation; raises HTTPException if the request is rejected."""
        if len(pod) > LONGEST_NAME or POD_NAME.fullmatch(pod) is None:
            raise HTTPException(
                400, f"{pod[:LONGEST_NAME]!r} is not a pod's name; it takes lower-case letters, digits, - and ."
            )
        return (await self._reader.installed(org)).installation
