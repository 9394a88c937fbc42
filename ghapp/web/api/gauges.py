"""The gauges of one scrape of `/metrics`: made from records, an installation at a time. Pure.

Each gauge is declared by its subject (`metrics.DECLARED_IN`); here it gets its values. `status` reads the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.metrics import DEATHS
from ghapp.gate.shard_status import has_shards, shard_of
from ghapp.installations.installation import Installation
from ghapp.installations.metrics import BUDGET_LEFT, BUDGET_LIMIT, BUDGET_USED, NEXT_SWEEP
from ghapp.installations.pacing import Allowance, left
from ghapp.installations.pool_matching import OTHER_POOL, PoolRule, pool_of, rule_named, runner_pool
from ghapp.metric import Sample
from ghapp.pods.metrics import PHANTOMS
from ghapp.pods.phantom_kinds import PhantomKind
from ghapp.remediation.fuse import Fuse
from ghapp.remediation.pause import Pause
from ghapp.remediation.status import is_healed, is_loss_over, is_lost
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
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.next_attempt import NextAttempt
from ghapp.runners.verdict import State, judge
from ghapp.settings import Policy, PoolSettings, Settings
from ghapp.store.metric_counters import MOST_SHARDS, OTHER_SHARD
from ghapp.versions.api import version_samples
from ghapp.versions.lifetime import EndDates
from ghapp.workflow_jobs.capacity import available_runners
from ghapp.workflow_jobs.demand import demand
from ghapp.workflow_jobs.job import Job, is_over
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.metrics import JOBS, OLDEST_QUEUED, RUNNERS_IDLE, UNSERVED
from ghapp.workflow_jobs.runner_groups import RunnerGroups


class InstallationStatus(NamedTuple):
    """What an installation may spend, how its sweeps go on, and when the next one is tried."""

    installation: Installation
    allowance: Allowance
    survey: Survey
    attempt: NextAttempt


class OrgRecords(NamedTuple):
    """The records of one installation that metrics are made from."""

    runners: Mapping[int, Evidence]
    fuses: Mapping[str, Fuse]
    pauses: Mapping[str, Pause]
    summary: ClusterSummary | None
    jobs: Sequence[Job]
    groups: RunnerGroups | None
    end_dates: Mapping[str, EndDates]


def installation_samples(
    known: InstallationStatus, records: OrgRecords, settings: Settings, now: float
) -> list[Sample]:
    """Returns all gauges of an installation."""
    installation, allowance, survey, attempt = known
    runners, fuses, pauses, summary, jobs, groups, end_dates = records
    org = installation.org
    policy, rules = settings.of(org), settings.pools_of(org)
    samples = [
        BUDGET_LIMIT.sample(allowance.limit, org=org),
        BUDGET_USED.sample(allowance.used, org=org),
        BUDGET_LEFT.sample(left(allowance, policy.budget), org=org),
    ]
    if attempt.at is not None:
        samples.append(NEXT_SWEEP.sample(attempt.at, org=org))
    samples += _phantom_samples(org, summary)
    samples += _runner_samples(org, survey, runners.values(), policy, rules, now)
    view = OrgView(
        org,
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
    samples += _job_samples(org, queue, by_shard(runners.values(), rules))
    samples += version_samples(org, view.versions(runners.values(), now), rules)
    return samples + _org_samples(org, survey, fuses, pauses)


def _runner_samples(
    org: str,
    survey: Survey,
    runners: Iterable[Evidence],
    policy: Policy,
    rules: Sequence[PoolSettings],
    now: float,
) -> list[Sample]:
    """Returns runners by pool and state; healed ones and requests without a successor are counted separately."""
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
    return [
        *(RUNNERS.sample(count, org=org, pool=pool, state=state) for (pool, state), count in sorted(counts.items())),
        *(RUNNERS_HEALED.sample(count, org=org, pool=pool) for pool, count in sorted(healed.items())),
        *(REPLACEMENTS_UNANSWERED.sample(count, org=org, pool=pool) for pool, count in sorted(unanswered.items())),
    ]


def _phantom_samples(org: str, summary: ClusterSummary | None) -> list[Sample]:
    """Returns phantoms by kind, zeros included, so that a series returns to 0; none without a cluster."""
    if summary is None:
        return []
    counts = Counter(each.kind for each in summary.phantoms)
    return [PHANTOMS.sample(counts[kind], org=org, kind=kind) for kind in PhantomKind]


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


def _org_samples(org: str, survey: Survey, fuses: Mapping[str, Fuse], pauses: Mapping[str, Pause]) -> list[Sample]:
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


def _job_samples(org: str, queue: JobQueue, shards: Shards = NO_SHARDS) -> list[Sample]:
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
