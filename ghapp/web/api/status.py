"""Liveness, readiness and metrics, for orchestrators and Prometheus. No tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.credentials import AppCredentials
from ghapp.deliveries.metrics import DEAD_LETTERS, INBOX_LAG
from ghapp.errors import Refusal, StoreRefusedError, StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Allowance, left
from ghapp.loading.views import load_unseen
from ghapp.metric import Sample
from ghapp.pods.metrics import WATCH_VIEW_AGE
from ghapp.report.documents import Timestamp, timestamp
from ghapp.runners.delivery_lag import completeness, in_words
from ghapp.runners.next_attempt import next_attempt
from ghapp.runners.verdict import Reason
from ghapp.settings import Settings
from ghapp.store.connect import probe_write
from ghapp.store.stores import Stores
from ghapp.web.api.expositions import Exposition, Expositions
from ghapp.web.api.gauges import InstallationStatus, OrgRecords, installation_samples, no_deaths
from ghapp.web.api.metrics import FORMATS, exposition, format_for
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems
from ghapp.wording import time_of

T = TypeVar("T")

ORGS_AT_ONCE = 50
"""Installations whose runners are loaded at once; limits memory."""

PREPARE_SECONDS = 5.0
"""The longest time for the first expositions; web listens when they are made. Those of 1,000 installations take two."""

STATES_AT_ONCE = 200
"""Installations whose surveys and budgets are loaded at once; limits how long Redis is busy with them."""


REFUSALS: Mapping[Refusal, Literal["replica", "memory", "disk"]] = {
    Refusal.REPLICA: "replica",
    Refusal.MEMORY: "memory",
    Refusal.DISK: "disk",
}
"""What `/readyz` calls a Redis that rejects writes."""


class _Collected(NamedTuple):
    """What an exposition has: gauges, and counters by series."""

    gauges: Sequence[Sample]
    counters: Mapping[str, float]


class LiveDocument(msgspec.Struct, frozen=True):
    """The process answers."""

    alive: Literal[True] = True


class InstallationDocument(msgspec.Struct, frozen=True):
    """Whether an installation can be swept, and what prevents that.

    `lacks` names missing permissions, and is null while GitHub refuses calls for want of one that its list of granted
    permissions does not lack; `failing_since` and `failure` describe failing sweeps.
    """

    org: str
    lacks: list[str] | None
    calls_left: Annotated[int, msgspec.Meta(ge=0)]
    next_sweep_at: Timestamp | None
    prevented_by: str | None
    failing_since: Timestamp | None
    failure: str | None


class ReadyDocument(msgspec.Struct, frozen=True):
    """Whether the dependencies of this process work, and the state of each installation.

    `app` is `missing` until there is an App here, which /setup creates, and `no-webhook-secret` while it has no secret:
    `/webhook` answers 503 then. The process is ready nonetheless, so that /setup is reached through a load balancer.
    `redis` is `away` without an answer; it is `replica`, `memory` (full), `disk` (full) or `refused` if it rejects
    writes, which are tried each time.
    `degraded` has a sentence for each installation whose runners cannot be read, or whose deliveries are missing or
    late, and for each source of the cluster and the log store that is not seen, without the reason, which
    `ghapp doctor` has; that affects no readiness.
    """

    ready: bool
    app: Literal["ok", "missing", "no-webhook-secret"]
    redis: Literal["ok", "away", "replica", "memory", "disk", "refused"]
    installations: list[InstallationDocument]
    degraded: list[str] = []


GET_LIVEZ = Operation(
    "GET", "/livez", "Whether the process is alive.", {200: Answer("It is.", LiveDocument)}, needs_token=False
)
GET_READYZ = Operation(
    "GET",
    "/readyz",
    "Whether its dependencies answer.",
    {200: Answer("They do.", ReadyDocument), 503: Answer("They do not.", ReadyDocument)},
    needs_token=False,
)
GET_METRICS = Operation(
    "GET",
    "/metrics",
    "Metrics for Prometheus, as text or, where `Accept` asks for it, in OpenMetrics' format.",
    {200: Answer("Metrics.", media_types=["text/plain", "application/openmetrics-text"]), **problems(503)},
    needs_token=False,
)
OPERATIONS = (GET_LIVEZ, GET_READYZ, GET_METRICS)


def _unread(known: Iterable[InstallationStatus]) -> list[str]:
    """Returns a sentence for each installation whose runners cannot be read."""
    return [
        f"{each.installation.org}: runners cannot be read since {time_of(each.survey.blind_since)}: "
        f"{each.survey.failure}"
        for each in known
        if each.survey.blind_since is not None
    ]


class StatusEndpoints:
    """The endpoints. Reads of many installations are pipelined into a few round trips."""

    def __init__(
        self, settings: Settings, stores: Stores, clock: Clock, credentials: Callable[[], AppCredentials | None]
    ) -> None:
        """`credentials` returns the App's; None before there is an App."""
        self._settings, self._stores, self._clock, self._credentials = settings, stores, clock, credentials
        self._installations, self._inbox = stores.installations, stores.inbox
        self._budget, self._counters, self._schedule = stores.budget, stores.counters, stores.schedule
        self._runners, self._fuses = stores.runners, stores.fuses
        self._pods, self._cluster_summaries = stores.pods, stores.cluster_summaries
        self._delivery_status = stores.delivery_status
        self._demand, self._runner_groups = stores.demand, stores.runner_groups
        self._runner_versions = stores.runner_versions
        self._expositions = Expositions()

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handlers."""
        return {GET_LIVEZ: self._livez, GET_READYZ: self._readyz, GET_METRICS: self._metrics}

    async def _livez(self, _: Request) -> Response:
        return _json(LiveDocument())

    async def _readyz(self, _: Request) -> Response:
        """Ready if Redis accepts writes; the App and the state of each installation do not affect readiness."""
        app = self._app()
        try:
            await probe_write(self._stores.redis)
            known = [each async for each in self._known()]
            rows = [self._row(each) for each in known]
            degraded = [*_unread(known), *await self._behind(known), *await self._not_seen()]
        except StoreRefusedError as error:
            refused = ReadyDocument(
                ready=False, app=app, redis=REFUSALS.get(error.refusal, "refused"), installations=[]
            )
            return _json(refused, 503)
        except StoreUnavailableError:
            return _json(ReadyDocument(ready=False, app=app, redis="away", installations=[]), 503)
        return _json(ReadyDocument(ready=True, app=app, redis="ok", installations=rows, degraded=degraded))

    def _app(self) -> Literal["ok", "missing", "no-webhook-secret"]:
        known = self._credentials()
        if known is None:
            return "missing"
        return "ok" if known.webhook_secrets else "no-webhook-secret"

    async def _behind(self, known: Sequence[InstallationStatus]) -> list[str]:
        """Returns a sentence for each installation whose deliveries are missing or late."""
        found = []
        for several in _chunks(known, STATES_AT_ONCE):
            facts = await self._delivery_status.facts([each.installation.id for each in several])
            gaps = ((each.installation, completeness(facts[each.installation.id], self._clock())) for each in several)
            found += [f"{installation.org}: {in_words(each)}" for installation, each in gaps if each]
        return found

    async def _not_seen(self) -> list[str]:
        """Returns a sentence for each source that is not seen. Anybody may read it: the reasons name accounts."""
        has_log_store = self._settings.loki_url is not None
        unseen = await load_unseen(self._stores, self._settings.pools, self._clock(), has_log_store=has_log_store)
        places = [f"namespace {each.namespace}" for each in unseen.namespaces] + [each.place for each in unseen.sources]
        return [f"not seen: {place}; `ghapp doctor` says why" for place in places]

    async def _known(self) -> AsyncIterator[InstallationStatus]:
        """Yields every installation; `STATES_AT_ONCE` per round trip."""
        installations, due, discovery_at = await asyncio.gather(
            self._installations.all(), self._schedule.all(), self._schedule.next_discovery()
        )
        now = self._clock()
        for several in _chunks(installations, STATES_AT_ONCE):
            ids, callers = [each.id for each in several], [each.caller for each in several]
            surveys, allowances = await asyncio.gather(self._runners.surveys(ids), self._budget.left_of(callers, now))
            for each in several:
                survey, allowance = surveys[each.id], allowances[each.caller]
                attempt = next_attempt(each, survey, due.get(each.id), discovery_at, now)
                yield InstallationStatus(each, allowance, survey, attempt)

    def _row(self, known: InstallationStatus) -> InstallationDocument:
        installation, allowance, survey, attempt = known
        refuses_unnamed = Reason.PERMISSION_MISSING in (survey.failure, attempt.prevented_by)
        return InstallationDocument(
            org=installation.org,
            lacks=lacking(installation) or (None if refuses_unnamed else []),
            calls_left=self._left(installation, allowance),
            next_sweep_at=_time(attempt.at),
            prevented_by=attempt.prevented_by or None,
            failing_since=_time(survey.failing_since),
            failure=survey.failure or None,
        )

    def _left(self, installation: Installation, allowance: Allowance) -> int:
        return left(allowance, self._settings.of(installation.org).budget)

    async def _metrics(self, request: Request) -> Response:
        chosen = format_for(request.headers.get("accept", ""))
        found, age = await self._expositions.read(chosen, partial(self._expose, chosen))
        return Response(found.body, headers={"Content-Type": found.media_type, "Age": f"{age:.0f}"})

    async def prepare(self) -> None:
        """Makes the first expositions, for at most `PREPARE_SECONDS`: the first scrape finds them made."""
        with suppress(StoreUnavailableError, TimeoutError):
            async with asyncio.timeout(PREPARE_SECONDS):
                collected = await self._collect()
                for each in FORMATS:
                    await self._expositions.prepare(each, partial(self._render, each, collected))

    async def _expose(self, chosen: str) -> Exposition:
        return await self._render(chosen, await self._collect())

    @staticmethod
    async def _render(chosen: str, collected: _Collected) -> Exposition:
        # In a thread: some 10 µs for each series would otherwise delay other requests.
        return Exposition(*await asyncio.to_thread(exposition, chosen, collected.gauges, collected.counters))

    async def _collect(self) -> _Collected:
        lag, dead, counters = await asyncio.gather(self._inbox.lag(), self._inbox.dead_letters(), self._counters.all())
        samples = [INBOX_LAG.sample(lag), DEAD_LETTERS.sample(dead), *await self._of_views()]
        known = [each async for each in self._known()]
        for several in _chunks(known, ORGS_AT_ONCE):
            for each, state in zip(several, await asyncio.gather(*map(self._state_of, several)), strict=True):
                samples += installation_samples(each, state, self._settings, self._clock())
                await asyncio.sleep(0)  # other requests are answered between two orgs
        orgs = {each.installation.org: self._settings.pools_of(each.installation.org) for each in known}
        return _Collected(samples, {**no_deaths(orgs), **counters})

    async def _of_views(self) -> list[Sample]:
        """Returns the age of each namespace's snapshot; none for a namespace that was never seen."""
        seen = self._pods.seen_at
        ages = {each: at for each in self._settings.namespaces if (at := await seen(each)) is not None}
        now = self._clock()
        return [WATCH_VIEW_AGE.sample(max(0.0, now - at), namespace=each) for each, at in ages.items()]

    async def _state_of(self, known: InstallationStatus) -> OrgRecords:
        installation = known.installation.id
        records, end_dates = await asyncio.gather(
            asyncio.gather(
                self._runners.all(installation),
                self._fuses.all(installation),
                self._fuses.pauses(installation),
                self._cluster_summaries.of(installation),
                self._demand.all(installation),
                self._runner_groups.of(installation),
            ),
            self._runner_versions.all(installation),
        )
        return OrgRecords(*records, end_dates)


def _chunks(several: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (several[start : start + size] for start in range(0, len(several), size))


def _time(at: float | None) -> str | None:
    return None if at is None else timestamp(at)


def lacking(installation: Installation) -> list[str]:
    """Returns the missing permissions as `name: level`, and `suspended` if the App is."""
    return [*installation.missing(), *(["suspended"] if installation.suspended else [])]


def _json(document: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")
