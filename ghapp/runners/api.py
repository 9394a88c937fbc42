"""The health of runners, for their controllers and for the runners' own liveness probes.

The health of one runner is answered from memory, before Starlette (`FastHealth`): the only route that controllers call
for each of their runners. Starlette's request, routing and response take longer than the answer itself. Whatever is not
a plain read of a known runner with a known token goes on to the application, which decides as if `FastHealth` did not
exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Annotated, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from ghapp.errors import StoreUnavailableError
from ghapp.installations.scope_paths import address_in
from ghapp.log import logger
from ghapp.queue.jobs import Enqueue, JobName, remediation_key
from ghapp.report.documents import HealthDocument
from ghapp.runners.evidence import Evidence
from ghapp.runners.observations import removal_reported, replaced
from ghapp.runners.verdict import State
from ghapp.settings import Settings
from ghapp.store.audit import Trail
from ghapp.store.budget import BucketSize
from ghapp.store.stores import Stores
from ghapp.web.api.record_change import ApiAudit
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import MOST_ORGS, FleetPage, FleetReader, Termination
from ghapp.web.operation import (
    CURSOR,
    DEFAULT_PAGE,
    IF_NONE_MATCH,
    LIMIT,
    MISSING_ID,
    MOST_AT_ONCE,
    MOST_DIGITS,
    NONEMPTY,
    NOT_A_CURSOR,
    NOT_A_LIMIT,
    POOL,
    RUNNER_ID,
    Answer,
    Clock,
    Handler,
    Operation,
    Parameter,
    etag_matches,
    problems,
    ref,
    runner_number,
    whole_number,
)
from ghapp.web.problems import problem
from ghapp.web.rate_limit import RateLimit
from ghapp.web.request_body import parse_json, read_body
from ghapp.workflow_jobs.api import DemandDocument, demand_document
from ghapp.workflow_jobs.demand import assigned_by_pool

log = logger(__name__)

LARGEST_BATCH_BYTES = 1024 * 1024
LOOK_SECONDS, LOOK_AGAIN_SECONDS = 2.5, 0.1
"""How long `…/alive` waits for GitHub's answer about a lost runner, and between two reads of its record."""

LOOKS = BucketSize(at_once=60, an_hour=540)
"""Such questions of each organization, of all web processes: at most 600 in any hour, of two calls each."""

ALIVE_SECONDS = 0.5
"""A probe times out after a second, and counts that as a failure."""

CHECKS_AT_ONCE, CHECKS_AN_HOUR = 50, 250
"""Limit per installation and web process: a twentieth of the smallest rate limit that GitHub grants."""

TOO_MANY_CHECKS = "too many checks were requested; sweeps cover every runner anyway, or try again later"
FLAGS = {None: None, "true": True, "false": False}
STATES = {state.value for state in State}


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """The runners of one batch request."""

    ids: Annotated[
        list[Annotated[int, msgspec.Meta(ge=1, lt=10**MOST_DIGITS)]], msgspec.Meta(max_length=MOST_AT_ONCE)
    ] = []
    names: Annotated[list[Annotated[str, msgspec.Meta(min_length=1)]], msgspec.Meta(max_length=MOST_AT_ONCE)] = []


class BatchResult(msgspec.Struct, frozen=True):
    """The documents of one batch request, in the order asked, ids first."""

    runners: list[HealthDocument]


class RunnersPage(msgspec.Struct, frozen=True):
    """A page of the fleet, by id.

    `total` counts the runners of all pages, `healed` the lost ones whose replacement runner is online, `retired` those
    that left, also where the pages leave them out.
    """

    runners: list[HealthDocument]
    total: Annotated[int, msgspec.Meta(ge=0)]
    healed: Annotated[int, msgspec.Meta(ge=0)]
    retired: Annotated[int, msgspec.Meta(ge=0)]
    next_cursor: str | None


RUNNERS = "/v1/orgs/{org}/runners"
OF_A_RUNNER = {"runner_id": RUNNER_ID}

GET_HEALTH = Operation(
    "GET",
    f"{RUNNERS}/{{runner_id}}/health",
    "One runner. Unknown runners are `unknown`, not 404.",
    {200: Answer("The health document.", HealthDocument)},
    "read",
    in_path=OF_A_RUNNER,
)
FIND_HEALTH = Operation(
    "GET",
    f"{RUNNERS}/health",
    "One runner, by name.",
    {200: Answer("The health document.", HealthDocument)},
    "read",
    parameters=[Parameter("name", NONEMPTY, required=True)],
)
BATCH_HEALTH = Operation(
    "POST",
    f"{RUNNERS}/health",
    "Up to 1,000 runners, in the order asked, ids first.",
    {200: Answer("The documents.", BatchResult), **problems(413)},
    "read",
    body=Batch,
)
LIST_RUNNERS = Operation(
    "GET",
    RUNNERS,
    "The fleet, by id, in pages, as `ghapp runners` lists it: without runners that are over, which are those retired "
    "within the last 24 hours, and lost ones that are healed or whose successor is not awaited any more. `all=true` "
    "lists these, too; so do `state`, and `healed`, whose `false` leaves out lost ones with a successor online. "
    "`total` counts what is listed, `healed` and `retired` what matches, also where it is left out.",
    {200: Answer("A page.", RunnersPage), 304: Answer("Only ages have changed.")},
    "read",
    parameters=[
        Parameter("state", ref(State)),
        POOL,
        Parameter("healed", {"type": "boolean"}),
        Parameter("all", {"type": "boolean"}),
        LIMIT,
        CURSOR,
        IF_NONE_MATCH,
    ],
)
REPORT_REMOVAL = Operation(
    "DELETE",
    f"{RUNNERS}/{{runner_id}}",
    "Report that this runner was removed on purpose.",
    {204: Answer("It is retired.")},
    "claim",
    in_path=OF_A_RUNNER,
)
REPORT_REPLACEMENT = Operation(
    "POST",
    f"{RUNNERS}/{{runner_id}}/replaced",
    "Report that its replacement was requested.",
    {204: Answer("Recorded.")},
    "claim",
    in_path=OF_A_RUNNER,
)
CHECK_RUNNER = Operation(
    "POST",
    f"{RUNNERS}/{{runner_id}}/check",
    "Check it now, within the budget.",
    {202: Answer("Queued."), **problems(404, 429)},
    "read",
    in_path=OF_A_RUNNER,
)
GET_ALIVE = Operation(
    "GET",
    f"{RUNNERS}/{{name}}/alive",
    "For a livenessProbe. Fails open.",
    {200: Answer("Alive, or unknown."), 410: Answer("Invalidated, and being replaced: stop the pod.")},
    needs_token=False,
)
GET_DEMAND = Operation(
    "GET",
    "/v1/orgs/{org}/demand",
    "Jobs by pool, and jobs that no runner can take.",
    {200: Answer("The demand.", DemandDocument), **problems(404)},
    "read",
)
OPERATIONS = (
    GET_HEALTH,
    FIND_HEALTH,
    BATCH_HEALTH,
    LIST_RUNNERS,
    REPORT_REMOVAL,
    REPORT_REPLACEMENT,
    CHECK_RUNNER,
    GET_ALIVE,
    GET_DEMAND,
)


class HealthEndpoints:
    """The endpoints."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        reader: FleetReader,
        authenticator: Authenticator,
        enqueue: Enqueue,
        clock: Clock,
    ) -> None:
        self._settings, self._reader, self._authenticator, self._enqueue, self._clock = (
            settings,
            reader,
            authenticator,
            enqueue,
            clock,
        )
        self._checks: RateLimit[int] = RateLimit(CHECKS_AT_ONCE, CHECKS_AN_HOUR, MOST_ORGS)
        self._rate_limits = stores.rate_limits
        self._audit = ApiAudit(stores.audit, authenticator, clock)

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers, the most used first."""
        return {
            GET_HEALTH: self._by_id,
            FIND_HEALTH: self._by_name,
            BATCH_HEALTH: self._batch,
            GET_ALIVE: self._alive,
            REPORT_REMOVAL: self._retired,
            REPORT_REPLACEMENT: self._replaced,
            CHECK_RUNNER: self._check,
            LIST_RUNNERS: self._fleet,
            GET_DEMAND: self._demand,
        }

    async def _by_id(self, request: Request) -> Response:
        org, given, now = request.path_params["org"], request.path_params["runner_id"], self._clock()
        if (runner_id := runner_number(given)) is None:
            return problem(400, f"{given!r}: {MISSING_ID}")
        return _document((await self._reader.by_id(org, runner_id, now)).at(now))

    async def _by_name(self, request: Request) -> Response:
        org, name, now = request.path_params["org"], request.query_params.get("name"), self._clock()
        if not name:
            return problem(400, "name the runner: ?name=…")
        return _document((await self._reader.by_name(org, name, now)).at(now))

    async def _batch(self, request: Request) -> Response:
        org, now = request.path_params["org"], self._clock()
        batch = parse_json(Batch, await read_body(request, LARGEST_BATCH_BYTES), '{"ids": [1, 2], "names": ["a"]}')
        if len(batch.ids) + len(batch.names) > MOST_AT_ONCE:
            return problem(400, f"a request may name at most {MOST_AT_ONCE} runners")
        return _json(
            BatchResult(_raw(each.at(now) for each in await self._reader.many(org, batch.ids, batch.names, now)))
        )

    async def _fleet(self, request: Request) -> Response:
        org, now, query = request.path_params["org"], self._clock(), request.query_params
        state, pool, cursor = query.get("state"), query.get("pool"), query.get("cursor", "0")
        limit, after = whole_number(query.get("limit", str(DEFAULT_PAGE))), whole_number(cursor)
        if state is not None and state not in STATES:
            return problem(400, f"{state!r} is not a state; states are {', '.join(sorted(STATES))}")
        if limit is None or not 1 <= limit <= MOST_AT_ONCE:
            return problem(400, NOT_A_LIMIT)
        if after is None:
            return problem(400, NOT_A_CURSOR)
        if (healed := query.get("healed")) not in FLAGS:
            return problem(400, "healed takes true or false")
        if (every := query.get("all")) not in FLAGS:
            return problem(400, "all takes true or false")
        page = await self._reader.fleet(
            org, state, pool, after, limit, now, healed=FLAGS[healed], with_past=bool(FLAGS[every])
        )
        return _page(page, request.headers.get("if-none-match"), now)

    async def _retired(self, request: Request) -> Response:
        """Records that a controller removed this runner on purpose."""
        return await self._record(request, "removed", removal_reported)

    async def _replaced(self, request: Request) -> Response:
        """Records that a polling controller replaced the runner; without a grant it has no effect."""
        return await self._record(request, "replaced", _replaced)

    async def _record(
        self, request: Request, action: str, fold: Callable[[Evidence | None, int, float], Evidence | None]
    ) -> Response:
        org, given, now = request.path_params["org"], request.path_params["runner_id"], self._clock()
        if (runner_id := runner_number(given)) is None:
            return problem(400, f"{given!r}: {MISSING_ID}")
        if (org_state := await self._reader.org(org)) is not None:
            installation, subject = org_state.installation.id, f"runner {runner_id}"
            async with self._audit.change(request, installation, action, subject, trail=Trail.CONTROLLERS):
                await self._reader.record(installation, runner_id, lambda evidence: fold(evidence, runner_id, now))
        return Response(status_code=204)

    async def _alive(self, request: Request) -> Response:
        """Answers 410 only for an invalidated runner that is being replaced; in any doubt, errors included, 200."""
        org, name = request.path_params["org"], request.path_params["name"]
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                found = await self._reader.termination(org, name, self._clock())
            lost = found.may_end or (bool(found.installation) and await self._is_lost_now(org, name, found))
        except (StoreUnavailableError, TimeoutError):
            lost = False
        except Exception:  # a bug must not kill a fleet
            log.exception("alive check failed", org=org, runner=name)
            lost = False
        return problem(410, "its registration was deleted; stop its pod") if lost else Response(status_code=200)

    async def _is_lost_now(self, org: str, name: str, found: Termination) -> bool:
        """Has GitHub asked for a lost runner and its name, and waits for the answer; without it the runner lives.

        Looks are limited for each organization, over all web processes, since the endpoint needs no token.
        """
        async with asyncio.timeout(LOOK_SECONDS):
            if not await self._rate_limits.grant_look(found.installation, LOOKS, self._clock()):
                return False
            key = remediation_key(found.installation, found.runner_id)
            await self._enqueue(JobName.REMEDIATE, found.installation, found.runner_id, key=key)
            while found.installation and not found.may_end:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                found = await self._reader.termination(org, name, self._clock())
        return found.may_end

    async def _check(self, request: Request) -> Response:
        """Enqueues a check of this runner; requests while a check is queued have no further effect.

        Each check costs a call from the budget of sweeps, so checks per hour are limited. For unknown runners one
        check per installation is queued at a time: any number is a valid id, but the queue is finite.
        """
        org, given, now = request.path_params["org"], request.path_params["runner_id"], self._clock()
        if (runner_id := runner_number(given)) is None:
            return problem(400, f"{given!r}: {MISSING_ID}")
        org_state = await self._reader.installed(org)
        installation = org_state.installation.id
        if wait := self._checks.grant(installation, now):
            return problem(429, TOO_MANY_CHECKS, {"Retry-After": str(ceil(wait))})
        which = runner_id if await self._reader.knows(org_state, runner_id) else "unknown"
        await self._enqueue(JobName.CHECK, installation, runner_id, key=f"check-{installation}-{which}", retry=False)
        return Response(status_code=202)

    async def _demand(self, request: Request) -> Response:
        org, now = request.path_params["org"], self._clock()
        org_state = await self._reader.installed(org)
        named, rules = org_state.installation.org, self._settings.pools_of(org_state.installation.org)
        assigned = assigned_by_pool(named, await self._reader.objects(org_state, now), rules)
        queue = await self._reader.job_queue(org_state, now, with_ended=False)
        return _json(demand_document(queue, org_state.view.survey, assigned))


def _page(page: FleetPage, known: str | None, now: float) -> Response:
    """Returns the page, or 304 if only ages changed; therefore the ETag is weak."""
    following = None if page.following is None else str(page.following)
    documents = _raw(each.at(now) for each in page.documents)
    body = RunnersPage(documents, page.total, page.healed, page.retired, following)
    ageless = msgspec.structs.replace(body, runners=_raw(each.ageless for each in page.documents))
    tag = f'"{hashlib.sha256(msgspec.json.encode(ageless)).hexdigest()[:32]}"'
    if etag_matches(tag, known):
        return Response(status_code=304, headers={"ETag": f"W/{tag}"})
    return _json(body, {"ETag": f"W/{tag}"})


def _raw(documents: Iterable[bytes]) -> list[HealthDocument]:
    """Returns documents that are encoded already as what they are; msgspec copies their bytes."""
    return cast("list[HealthDocument]", [msgspec.Raw(each) for each in documents])


def _replaced(evidence: Evidence | None, _: int, at: float) -> Evidence | None:
    return evidence if evidence is None or evidence.granted_at is None else replaced(evidence, at)


def _document(encoded: bytes) -> Response:
    return Response(encoded, media_type="application/json")


def _json(document: object, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(document), headers=headers, media_type="application/json")


_PATH = re.compile(rf"/v1/orgs/([\w.~-]+)/runners/([1-9][0-9]{{0,{MOST_DIGITS - 1}}})/health", re.ASCII)


class FastHealth:
    """The answers."""

    def __init__(self, reader: FleetReader, authenticator: Authenticator, clock: Clock) -> None:
        self._reader, self._authenticator, self._clock = reader, authenticator, clock

    def document(self, scope: Scope) -> bytes | None:
        """Returns the document that answers a request; None if it is another one, or needs a read from Redis."""
        asked = _PATH.fullmatch(scope["path"]) if scope["method"] == "GET" and not scope["query_string"] else None
        if asked is None:
            return None
        org, now = address_in(asked[1]), self._clock()
        if not self._authenticator.is_known_to_allow(_authorization(scope["headers"]), "read", org, now):
            return None
        found = self._reader.in_memory(org, int(asked[2]), now)
        return None if found is None else found.at(now)


def _authorization(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"authorization":
            return value
    return b""
