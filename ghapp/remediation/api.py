"""Pause and resume remediation, and sweep now, with a token of scope `admin`; the token's name is recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ghapp.installations.pool_matching import ALL_POOLS, LONGEST_POOL
from ghapp.remediation.pause import LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS, Pause, PauseResult
from ghapp.report.documents import Timestamp, pause_in_words, timestamp
from ghapp.settings import Settings
from ghapp.store.presses import SWEEP_TOPIC
from ghapp.store.stores import Stores
from ghapp.web.api.record_change import ApiAudit
from ghapp.web.authentication import Authenticator
from ghapp.web.fleet_view import FleetReader, OrgState
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems
from ghapp.web.problems import problem
from ghapp.web.request_body import parse_json, read_body
from ghapp.wording import meant

LARGEST_BYTES = 64 * 1024
TAKES = '{"pool": name or null}, and a pause also its "why" and optionally "for_seconds" (60 to 2592000)'
SWEEP_ID = re.compile("[0-9a-f]{16}")
NEEDS_REASON = "no pause is running there that could be changed; `why` is the reason of a new one"
PoolName = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_POOL)]


class PauseBody(msgspec.Struct, forbid_unknown_fields=True):
    """The pool to pause, all of the org without a pool (or with `*`), the reason, and for how long from now.

    Without `for_seconds` a pause lasts until a person resumes. A pause that is running is extended; the token
    that started it may also shorten it, and change its reason. Without `why` only the end changes.
    """

    why: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None
    pool: PoolName | None = None
    for_seconds: Annotated[float, msgspec.Meta(ge=SHORTEST_PAUSE_SECONDS, le=LONGEST_PAUSE_SECONDS)] | None = None


class ResumeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The pool to resume; without a pool, the org and all its pools."""

    pool: PoolName | None = None


class PauseDocument(msgspec.Struct, frozen=True):
    """A pause of a pool, or of all of them (`*`): who paused, why, since and until when; `text` has it in words."""

    pool: str
    who: str
    why: str
    since: Timestamp
    until: Timestamp | None
    text: str


class PauseAnswer(msgspec.Struct, frozen=True):
    """The pause that is in effect, and what the request did: `paused`, `extended`, `changed` or `already-paused`.

    `before` is the pause as it was before an extension or a change.
    """

    org: str
    result: str
    pause: PauseDocument
    before: PauseDocument | None = None


class ResumeResult(msgspec.Struct, frozen=True):
    """The pools whose pause was cleared, and those whose fuse, of runners or of the reaper, is now proving.

    `pauses` has the pauses that were cleared, in the order of `ended`.
    """

    ended: list[str]
    pauses: list[PauseDocument]
    proving: list[str]
    reaping: list[str]


class SweepRequested(msgspec.Struct, frozen=True):
    """A sweep that was made due; `…/sweeps/{sweep_id}` has its outcome."""

    org: str
    requested_at: Timestamp
    sweep_id: str


class LostRunners(msgspec.Struct, frozen=True):
    """Lost runners of one pool that have the same `remediation.status` and `blocked_by`, and what happens next."""

    pool: str
    runners: int
    status: str
    blocked_by: str | None
    text: str


class SweepOutcome(msgspec.Struct, frozen=True):
    """What a sweep that was asked for found and cost, or why it failed, and which runners remain lost after it.

    `outcome` and `lost` are null while it is not over; `losses` has the worst groups, at most 20.
    """

    org: str
    sweep_id: str
    outcome: str | None
    failed: bool
    lost: int | None
    losses: list[LostRunners]


PAUSE = Operation(
    "POST",
    "/v1/orgs/{org}/pause",
    "Stop remediation, of a pool or of the whole org, or extend a pause that is running.",
    {
        200: Answer("Remediation is paused there: the pause that is in effect.", PauseAnswer),
        **problems(404, 413),
        **problems(409, because="Already paused, by whom and why is in `detail`; that pause stays in effect."),
    },
    "admin",
    body=PauseBody,
)
RESUME = Operation(
    "POST",
    "/v1/orgs/{org}/resume",
    "Clear pauses and restart stopped fuses, which then prove that replacements work.",
    {200: Answer("The pauses cleared, and the pools now proving.", ResumeResult), **problems(404, 413)},
    "admin",
    body=ResumeBody,
)
SWEEP = Operation(
    "POST",
    "/v1/orgs/{org}/sweep",
    "Sweep now: a worker lists the runners, judges them, and acts as the mode says, within the budget.",
    {202: Answer("A sweep is due.", SweepRequested), **problems(404, 413)},
    "admin",
)
GET_SWEEP = Operation(
    "GET",
    "/v1/orgs/{org}/sweeps/{sweep_id}",
    "What a sweep that was asked for within the hour found and cost, and which runners remain lost.",
    {200: Answer("Its outcome; null while it is not over.", SweepOutcome), **problems(404)},
    "read",
)
OPERATIONS = (PAUSE, RESUME, SWEEP, GET_SWEEP)


class RemediationEndpoints:
    """The endpoints."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        reader: FleetReader,
        authenticator: Authenticator,
        clock: Clock,
    ) -> None:
        self._settings, self._reader, self._authenticator, self._clock = settings, reader, authenticator, clock
        self._fuses, self._schedule, self._presses = stores.fuses, stores.schedule, stores.presses
        self._audit = ApiAudit(stores.audit, authenticator, clock)

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers."""
        return {PAUSE: self._pause, RESUME: self._resume, SWEEP: self._sweep, GET_SWEEP: self._swept}

    async def _pause(self, request: Request) -> Response:
        org, now = request.path_params["org"], self._clock()
        body = parse_json(PauseBody, await read_body(request, LARGEST_BYTES), TAKES)
        org_state = await self._reader.installed(org)
        await self._require_pool(org_state, body.pool)
        until = None if body.for_seconds is None else now + body.for_seconds
        asked = Pause(await self._authenticator.who(request), body.why or "", now, until)
        installation, subject = org_state.installation.id, body.pool or ALL_POOLS
        async with self._audit.change(request, installation, "pause", subject, why=asked.why) as outcome:
            pause, result, before = done = await self._fuses.pause(installation, subject, asked)
            outcome.set(result, has_effect=done.has_effect, until=pause.until, detail=done.in_words)
        self._reader.forget(org)
        if result is PauseResult.NEEDS_REASON:
            return problem(404, NEEDS_REASON)
        if done.has_effect or pause.who == asked.who:  # or a retry of a request whose answer was lost
            changed = None if before is None else _document(subject, before)
            document = PauseAnswer(org_state.installation.org, result.value, _document(subject, pause), changed)
            return Response(msgspec.json.encode(document), media_type="application/json")
        return problem(
            409, f"already paused {pause_in_words(pause)}; that pause stays in effect: others can only extend it"
        )

    async def _resume(self, request: Request) -> Response:
        """Clears pauses, restarts stopped fuses, and makes a sweep due."""
        org, now = request.path_params["org"], self._clock()
        body = parse_json(ResumeBody, await read_body(request, LARGEST_BYTES) or b"{}", TAKES)
        org_state = await self._reader.installed(org)
        await self._require_pool(org_state, body.pool)
        installation = org_state.installation
        limits = self._settings.of(installation.org).fuse
        who = await self._authenticator.who(request)
        async with self._audit.change(request, installation.id, "resume", body.pool or ALL_POOLS) as outcome:
            done = await self._fuses.resume(installation, body.pool, who, now, limits)
            outcome.set("resumed" if done else "nothing-to-resume", has_effect=bool(done), detail=done.in_words)
        if done and outcome.entry is not None:
            await self._presses.follow(installation.id, SWEEP_TOPIC, outcome.entry)
        await self._schedule.due_by(installation.id, now)
        self._reader.forget(org)
        pauses = [_document(pool, pause) for pool, pause in sorted(done.ended.items())]
        document = ResumeResult(sorted(done.ended), pauses, sorted(done.proving), sorted(done.reaping))
        return Response(msgspec.json.encode(document), media_type="application/json")

    async def _sweep(self, request: Request) -> Response:
        """Makes a sweep due now, as the page's button does; a worker sweeps, within the budget."""
        org, now = request.path_params["org"], self._clock()
        await read_body(request, LARGEST_BYTES)
        installation = (await self._reader.installed(org)).installation
        entry = await self._audit.entry(request, "sweep", "")
        sweep_id = await self._presses.begin(installation.id, SWEEP_TOPIC, entry)
        await self._schedule.due_by(installation.id, now)
        document = SweepRequested(installation.org, timestamp(now), sweep_id)
        return Response(msgspec.json.encode(document), 202, media_type="application/json")

    async def _swept(self, request: Request) -> Response:
        """Returns the outcome of a sweep that was asked for within the hour, here or on the page."""
        org, sweep_id = request.path_params["org"], request.path_params["sweep_id"]
        installation = (await self._reader.installed(org)).installation
        press = await self._presses.get(installation.id, sweep_id) if SWEEP_ID.fullmatch(sweep_id) else None
        if press is None or press.topic != SWEEP_TOPIC:
            raise HTTPException(404, f"{installation.org} has no such sweep of the last hour")
        lost, groups = (None, ()) if press.losses is None else press.losses
        document = SweepOutcome(
            installation.org,
            sweep_id,
            press.outcome or None,
            press.has_failed,
            lost,
            [LostRunners(each.pool, each.runners, each.status, each.blocked_by or None, each.text) for each in groups],
        )
        return Response(msgspec.json.encode(document), media_type="application/json")

    async def _require_pool(self, org_state: OrgState, pool: str | None) -> None:
        """Raises HTTPException if the org has no such pool: a mistyped name would stop or resume nothing."""
        if pool is None or pool == ALL_POOLS or pool in (pools := await self._reader.pools(org_state)):
            return
        raise HTTPException(404, f"{org_state.installation.org} has no pool {pool}; {meant(pool, pools, 'it has')}")


def _document(pool: str, pause: Pause) -> PauseDocument:
    until = None if pause.until is None else timestamp(pause.until)
    return PauseDocument(pool, pause.who, pause.why, timestamp(pause.at), until, pause_in_words(pause))
