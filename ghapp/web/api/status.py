"""Liveness, readiness and metrics, for orchestrators and Prometheus. No tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.metrics import DEATHS
from ghapp.deliveries.metrics import DEAD_LETTERS, INBOX_LAG
from ghapp.errors import Refusal, StoreRefusedError, StoreUnavailableError
from ghapp.gate.shard_status import has_shards, shard_of
from ghapp.installations.installation import Installation
from ghapp.installations.metrics import BUDGET_LEFT, BUDGET_LIMIT, BUDGET_USED, NEXT_SWEEP
from ghapp.installations.pacing import Allowance, left
from ghapp.installations.pool_matching import OTHER_POOL, PoolRule, pool_of, rule_named, runner_pool
from ghapp.loading.views import load_unseen
from ghapp.metric import Sample
from ghapp.pods.metrics import PHANTOMS, WATCH_VIEW_AGE
from ghapp.pods.phantom_kinds import PhantomKind
from ghapp.remediation.fuse import Fuse
from ghapp.remediation.pause import Pause
from ghapp.remediation.status import is_healed, is_loss_over, is_lost
from ghapp.report.documents import Timestamp, timestamp
from ghapp.report.metrics import (
    FUSE,
    LAST_SWEEP,
    LAST_SWEEP_RUNNERS,
    PAUSED,
    REPLACEMENTS_UNANSWERED,
    RUNNERS,
    RUNNERS_HEALED,
    SWEEPS_FAILING_SINCE,
)
from ghapp.report.org_view import OrgView
from ghapp.runners.delivery_lag import completeness, in_words
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.next_attempt import NextAttempt, next_attempt
from ghapp.runners.verdict import Reason, State, judge
from ghapp.settings import PoolSettings, Settings
from ghapp.store.connect import probe_write
from ghapp.store.metric_counters import MOST_SHARDS, OTHER_SHARD
from ghapp.store.stores import Stores
from ghapp.versions.api import version_samples
from ghapp.versions.lifetime import EndDates
from ghapp.web.api.expositions import Exposition, Expositions
from ghapp.web.api.metrics import FORMATS, exposition, format_for
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems
from ghapp.workflow_jobs.capacity import available_runners
from ghapp.workflow_jobs.demand import demand
from ghapp.workflow_jobs.job import Job, is_over
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.metrics import JOBS, OLDEST_QUEUED, RUNNERS_IDLE, UNSERVED
from ghapp.workflow_jobs.runner_groups import RunnerGroups

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


class InstallationStatus(NamedTuple):
    """The data of one installation for these endpoints."""

    installation: Installation
    allowance: Allowance
    survey: Survey
    attempt: NextAttempt


class _Collected(NamedTuple):
    """What an exposition has: gauges, and counters by series."""

    gauges: Sequence[Sample]
    counters: Mapping[str, float]


class _OrgRecords(NamedTuple):
    """The records of one installation that metrics are made from."""

    runners: Mapping[int, Evidence]
    fuses: Mapping[str, Fuse]
    pauses: Mapping[str, Pause]
    summary: ClusterSummary | None
    jobs: Sequence[Job]
    groups: RunnerGroups | None
    end_dates: Mapping[str, EndDates]


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

    `redis` is `away` without an answer; it is `replica`, `memory` (full), `disk` (full) or `refused` if it rejects
    writes, which are tried each time.
    `degraded` has a sentence for each installation whose deliveries are missing or late, and for each source of the
    cluster and the log store that is not seen, without the reason, which `ghapp doctor` has; that affects no readiness.
    """

    ready: bool
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


class StatusEndpoints:
    """The endpoints. Reads of many installations are pipelined into a few round trips."""

    def __init__(self, settings: Settings, stores: Stores, clock: Clock) -> None:
        self._settings, self._stores, self._clock = settings, stores, clock
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
        """Ready if Redis accepts writes; the state of each installation is included but does not affect readiness."""
        try:
            await probe_write(self._stores.redis)
            known = [each async for each in self._known()]
            rows = [self._row(each) for each in known]
            degraded = [*await self._behind(known), *await self._not_seen()]
        except StoreRefusedError as error:
            return _json(
                ReadyDocument(ready=False, redis=REFUSALS.get(error.refusal, "refused"), installations=[]), 503
            )
        except StoreUnavailableError:
            return _json(ReadyDocument(ready=False, redis="away", installations=[]), 503)
        return _json(ReadyDocument(ready=True, redis="ok", installations=rows, degraded=degraded))

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
                samples += self._of_org(each, state)
                await asyncio.sleep(0)  # other requests are answered between two orgs
        orgs = {each.installation.org: self._settings.pools_of(each.installation.org) for each in known}
        return _Collected(samples, {**no_deaths(orgs), **counters})

    async def _of_views(self) -> list[Sample]:
        """Returns the age of each namespace's snapshot; none for a namespace that was never seen."""
        seen = self._pods.seen_at
        ages = {each: at for each in self._settings.namespaces if (at := await seen(each)) is not None}
        now = self._clock()
        return [WATCH_VIEW_AGE.sample(max(0.0, now - at), namespace=each) for each, at in ages.items()]

    async def _state_of(self, known: InstallationStatus) -> _OrgRecords:
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
        return _OrgRecords(*records, end_dates)

    def _of_org(self, known: InstallationStatus, records: _OrgRecords) -> list[Sample]:
        installation, allowance, survey, attempt = known
        runners, fuses, pauses, summary, jobs, groups, end_dates = records
        now, org = self._clock(), installation.org
        samples = [
            BUDGET_LIMIT.sample(allowance.limit, org=org),
            BUDGET_USED.sample(allowance.used, org=org),
            BUDGET_LEFT.sample(self._left(installation, allowance), org=org),
        ]
        if attempt.at is not None:
            samples.append(NEXT_SWEEP.sample(attempt.at, org=org))
        samples += _phantoms(org, summary)
        samples += self._counted(installation, survey, runners.values(), now)
        policy, rules = self._settings.of(installation.org), self._settings.pools_of(installation.org)
        view = OrgView(
            installation.org,
            rules,
            policy.evidence,
            survey,
            fuses,
            pauses,
            mode=policy.remediation.mode,
            end_dates=end_dates,
            version_limits=policy.versions,
        )
        queue = view.job_queue(runners.values(), jobs, now, groups=groups)
        samples += job_samples(org, queue, by_shard(runners.values(), rules))
        samples += version_samples(org, view.versions(runners.values(), now), rules)
        return samples + org_samples(org, survey, fuses, pauses)

    def _counted(
        self, installation: Installation, survey: Survey, runners: Iterable[Evidence], now: float
    ) -> list[Sample]:
        """Returns runners by pool and state; healed ones and requests without a successor are counted separately."""
        policy, rules = self._settings.of(installation.org), self._settings.pools_of(installation.org)
        counts: Counter[tuple[str, str]] = Counter()
        healed: Counter[str] = Counter()
        unanswered: Counter[str] = Counter({rule.name: 0 for rule in rules})
        pools: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        for evidence in runners:
            if not evidence.registered:
                continue
            labels = (evidence.labels, evidence.custom_labels)
            if (pool := pools.get(labels)) is None:
                pool = pools[labels] = pool_of(*labels, rules)
            verdict = judge(evidence, survey, now, policy.evidence)
            if is_loss_over(evidence, verdict, now):
                healed[pool] += is_healed(evidence, verdict)
                continue
            is_open = is_lost(evidence, verdict)
            counts[pool, (State.INVALIDATED if is_open else verdict.state).value] += 1
            if is_open and evidence.replaced_at is not None:
                unanswered[pool] += now - evidence.replaced_at > policy.fuse.prove_seconds
        org = installation.org
        return [
            *(
                RUNNERS.sample(count, org=org, pool=pool, state=state)
                for (pool, state), count in sorted(counts.items())
            ),
            *(RUNNERS_HEALED.sample(count, org=org, pool=pool) for pool, count in sorted(healed.items())),
            *(REPLACEMENTS_UNANSWERED.sample(count, org=org, pool=pool) for pool, count in sorted(unanswered.items())),
        ]


def _chunks(several: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (several[start : start + size] for start in range(0, len(several), size))


def _time(at: float | None) -> str | None:
    return None if at is None else timestamp(at)


def _phantoms(org: str, summary: ClusterSummary | None) -> list[Sample]:
    """Returns phantoms by kind, zeros included, so that a series returns to 0; none without a cluster."""
    if summary is None:
        return []
    counts = Counter(each.kind for each in summary.phantoms)
    return [PHANTOMS.sample(counts[kind], org=org, kind=kind) for kind in PhantomKind]


def lacking(installation: Installation) -> list[str]:
    """Returns the missing permissions as `name: level`, and `suspended` if the App is."""
    return [*installation.missing(), *(["suspended"] if installation.suspended else [])]


def no_deaths(orgs: Mapping[str, Sequence[PoolRule]]) -> dict[str, float]:
    """Returns a zero for each cause and each configured pool of the orgs, and for their pool `other`.

    Prometheus takes the first value of a series as its start: without the zero, the first deaths of a pool would be
    missing from `increase()`, and so from the alert.
    """
    return {
        DEATHS.series(org=org, pool=pool, cause=cause.value): 0.0
        for org, rules in orgs.items()
        if rules
        for pool in (*(rule.name for rule in rules), OTHER_POOL)
        for cause in Cause
        if cause is not Cause.CLEAN_EXIT
    }


def org_samples(org: str, survey: Survey, fuses: Mapping[str, Fuse], pauses: Mapping[str, Pause]) -> list[Sample]:
    """Returns samples of an org's fuses, pauses and last sweeps. Pool `*` is the whole installation."""
    samples = [FUSE.sample(1, org=org, pool=pool, position=fuse.position.value) for pool, fuse in sorted(fuses.items())]
    samples += [PAUSED.sample(1, org=org, pool=pool) for pool in sorted(pauses)]
    if survey.swept_at is not None:
        samples.append(LAST_SWEEP.sample(survey.swept_at, org=org))
        samples.append(LAST_SWEEP_RUNNERS.sample(survey.total, org=org))
    if survey.failing_since is not None:
        samples.append(SWEEPS_FAILING_SINCE.sample(survey.failing_since, org=org, reason=survey.failure))
    return samples


class ShardRunners(NamedTuple):
    """The runners of one shard: all by id, and how many of them are idle."""

    ids: set[int]
    idle: int


Shards = Mapping[tuple[str, str], ShardRunners]
"""By pool and shard."""

NO_SHARDS: Shards = {}


def by_shard(runners: Iterable[Evidence], rules: Sequence[PoolSettings]) -> Shards:
    """Returns the runners of pools that have shards; of a pool's shards beyond `MOST_SHARDS`, as the shard `other`."""
    if not any(map(has_shards, rules)):
        return NO_SHARDS
    found: dict[str, dict[str, list[Evidence]]] = {}
    for each in runners:
        rule = rule_named(runner_pool(each, rules), rules)
        if each.registered and rule is not None and (shard := shard_of(each, rule)):
            found.setdefault(rule.name, {}).setdefault(shard.lower(), []).append(each)
    members: dict[tuple[str, str], list[Evidence]] = {}
    for pool, shards in found.items():
        for place, shard in enumerate(sorted(shards)):
            name = shard if place < MOST_SHARDS else OTHER_SHARD
            members.setdefault((pool, name), []).extend(shards[shard])
    return {key: ShardRunners({each.id for each in those}, _idle(those, rules)) for key, those in members.items()}


def _idle(members: Iterable[Evidence], rules: Sequence[PoolSettings]) -> int:
    return sum(each.online and not each.busy for each in available_runners(members, rules))


def job_samples(org: str, queue: JobQueue, shards: Shards = NO_SHARDS) -> list[Sample]:
    """Returns samples of an org's jobs and idle runners by pool, zeros included, so that a series returns to 0.

    Running jobs and idle runners of a shard have the label `shard`; the series without it has all others of the pool.
    """
    known = {each.pool for each in queue.capacities} | {rule.name for rule in queue.inputs.rules}
    pools, unserved = demand(queue)
    jobs: Counter[tuple[str, str]] = Counter({(pool, state): 0 for pool in known for state in ("queued", "running")})
    oldest, idle = dict.fromkeys(known, 0.0), dict.fromkeys(known, 0)
    for row in pools:
        pool = row.pool if row.pool in known else OTHER_POOL
        jobs[pool, "queued"] += row.queued
        jobs[pool, "running"] += row.running
        idle[pool] = idle.get(pool, 0) + row.idle
        age = 0.0 if row.oldest_queued_at is None else max(0.0, queue.now - row.oldest_queued_at)
        oldest[pool] = max(oldest.get(pool, 0.0), age)
    in_shards: dict[tuple[str, str], int] = {}
    taken = Counter(
        job.runner_id
        for job in queue.inputs.jobs
        if job.status == "running" and not is_over(job, queue.now) and queue.is_ours(job)
    )
    for (pool, shard), those in shards.items():
        in_shards[pool, shard] = sum(taken[each] for each in those.ids)
        jobs[pool, "running"] = max(0, jobs[pool, "running"] - in_shards[pool, shard])
        idle[pool] = max(0, idle.get(pool, 0) - those.idle)
    without_runner = Counter((each.pool if each.pool in known else OTHER_POOL, each.reason) for each in unserved)
    return [
        *(JOBS.sample(jobs[pool, state], org=org, pool=pool, state=state) for pool, state in sorted(jobs)),
        *(
            JOBS.sample(count, org=org, pool=pool, state="running", shard=shard)
            for (pool, shard), count in sorted(in_shards.items())
        ),
        *(
            RUNNERS_IDLE.sample(those.idle, org=org, pool=pool, shard=shard)
            for (pool, shard), those in sorted(shards.items())
        ),
        *(OLDEST_QUEUED.sample(oldest[pool], org=org, pool=pool) for pool in sorted(oldest)),
        *(RUNNERS_IDLE.sample(idle[pool], org=org, pool=pool) for pool in sorted(idle)),
        *(
            UNSERVED.sample(count, org=org, pool=pool, reason=reason.value)
            for (pool, reason), count in sorted(without_runner.items())
        ),
    ]


def _json(document: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")
