"""The history of a pool in steps: gauges that sweeps sample, and counts of events. Pure; times are epoch seconds.

A step of 300 s joins the samples and counts of its time; a longer step joins shorter ones. Joining does not depend on
the order or on the grouping, so that any split of the samples into batches gives the same steps. A step without a
sample is a gap: no complete sweep covers it, and its gauges and losses are unknown, never zero.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from math import ceil, floor
from typing import NamedTuple

from ghapp.installations.pool_matching import (
    ALL_POOLS,
    GENERIC_LABELS,
    OTHER_POOL,
    PoolMatcher,
    PoolRule,
    pool_of,
    runner_pool,
)
from ghapp.remediation.status import is_loss_open, is_lost
from ghapp.remediation.successors import lost_since
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.verdict import Limits, State, judge
from ghapp.workflow_jobs.job import Job, may_be_ours

STEP_SECONDS, HOUR_SECONDS = 300, 3600
WIDTHS = (STEP_SECONDS, HOUR_SECONDS)
"""The steps that are stored, in seconds."""

KEPT_SECONDS = {STEP_SECONDS: 7 * 86_400, HOUR_SECONDS: 90 * 86_400}
"""How long steps of each width are kept."""

MOST_POOLS = 100
"""Pools of an installation with a history of their own, besides `*` and `OTHER_POOL`, which has all others."""

GAUGES = ("healthy", "busy", "queued", "starting", "offline", "invalidated", "suspect", "unknown")
"""Positions of the gauges in a stored step; only ever appended. Runners by state without retired and healed ones, those
of them that are busy, and queued jobs. Rare ones are last, because zeros at the end are not stored."""

COUNTS = ("jobs", "waited_seconds", "calls", "lost", "healed", "heal_seconds")
"""Positions of the counts; only ever appended. Jobs that a runner took and the sum of their waits; calls to GitHub that
count against its hourly limit; runners that were lost; losses whose successor came online, and the sum of the times
that it took."""

CAUSES = (
    "clean-exit",
    "terminated",
    "host-oom",
    "guest-oom-or-kill",
    "vanished",
    "lost-communication",
    "external-teardown",
    "crash",
    "deleted-registration",
    "version-deprecated",
    "unknown",
)
"""Positions of the causes of death; only ever appended. As texts they would double the size of a step."""

SPREAD_BOUNDS = (2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 86400)
"""Upper bounds of the buckets of waits and of times to heal, in seconds, the last bucket has none; only ever appended.
From them percentiles are estimated, also over any time: those of short steps could not be joined. They are few, so
that most steps of five minutes stay below the 64 bytes up to which Redis stores values compactly."""

WAIT_PREFIX, HEAL_PREFIX = "wait:", "heal:"
"""Before the number of a bucket, in the name of its count."""

OBSERVED = ("lost", "healed", "heal_seconds")
"""Counts that only sweeps find: unknown in a gap."""

DEATH_PREFIX = "death:"
"""Before the cause of a death, in the name of its count."""

LATEST_SECONDS = 2 * HOUR_SECONDS
"""Losses are counted again at each sweep, from this long ago. It must exceed the time between two sweeps."""

SUCCESSOR_SECONDS = HOUR_SECONDS
"""A successor comes online at most this long before a sweep finds whose it is."""


class HistoryStep(NamedTuple):
    """A step of one pool. Fields are only ever appended.

    Attributes:
        samples: sweeps that sampled the gauges; 0: a gap.
        at: of the last sample, in whole seconds.
        last: the last sample, by `GAUGES`.
        total: sums over the samples, by `GAUGES`.
        peak: the highest of the samples, by `GAUGES`.
        counts: by `COUNTS`.
        deaths: number of the deaths that were recorded, by `CAUSES`.
        waits: number of the jobs of `jobs` by their wait, by the buckets of `SPREAD_BOUNDS`.
        heals: number of the losses of `healed` by the time that it took, by the same buckets.
    """

    samples: int = 0
    at: int = 0
    last: tuple[int, ...] = ()
    total: tuple[int, ...] = ()
    peak: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    deaths: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    heals: tuple[int, ...] = ()

    def count(self, name: str) -> int:
        """Returns one of `COUNTS`."""
        return _at(self.counts, COUNTS.index(name))

    def wait_percentile(self, share: float) -> int | None:
        """Returns a percentile of the waits, in seconds; None without a job that was taken."""
        return percentile(self.waits, share, self.count("waited_seconds"))

    def heal_percentile(self, share: float) -> int | None:
        """Returns a percentile of the times to heal, in seconds; None without a loss that healed."""
        return percentile(self.heals, share, self.count("heal_seconds"))

    def died_of(self, cause: str) -> int:
        """Returns the number of deaths by one of `CAUSES`."""
        return _at(self.deaths, CAUSES.index(cause))

    def last_of(self, gauge: str) -> int:
        """Returns the last sample of a gauge."""
        return _at(self.last, GAUGES.index(gauge))

    def mean(self, gauge: str) -> float:
        """Returns the mean of a gauge over the samples; 0 without one."""
        return _at(self.total, GAUGES.index(gauge)) / self.samples if self.samples else 0.0

    def highest(self, gauge: str) -> int:
        """Returns the highest sample of a gauge."""
        return _at(self.peak, GAUGES.index(gauge))


Gauges = Mapping[str, int]
"""By name; missing gauges are 0."""

Counted = Mapping[str, int]
"""By the name of a count, or `death:` and a cause."""


def step_of(at: float, width: int = STEP_SECONDS) -> int:
    """Returns the begin of the step that contains a time."""
    return floor(at / width) * width


def sampled(gauges: Gauges, at: float) -> HistoryStep:
    """Returns the step of one sample."""
    values = _trimmed(gauges.get(name, 0) for name in GAUGES)
    return HistoryStep(1, floor(at), values, values, values)


def counted(counts: Counted) -> HistoryStep:
    """Returns a step with these counts and no sample."""
    deaths = _trimmed(counts.get(f"{DEATH_PREFIX}{cause}", 0) for cause in CAUSES)
    return HistoryStep(
        counts=_trimmed(counts.get(name, 0) for name in COUNTS),
        deaths=deaths,
        waits=_spread(counts, WAIT_PREFIX),
        heals=_spread(counts, HEAL_PREFIX),
    )


def bucket_of(seconds: float) -> int:
    """Returns the number of the bucket of a wait, or of a time to heal."""
    return bisect_left(SPREAD_BOUNDS, seconds)


def percentile(spread: Sequence[int], share: float, total: int) -> int | None:
    """Returns the seconds that a share of the values does not exceed, in whole seconds; None without a value.

    It is estimated within the bucket that contains it, as if values were evenly spread there, and is at most what the
    sum of the values permits: of few values the estimate would exceed the longest.

    Args:
        spread: number of values by bucket.
        share: as 0.95.
        total: sum of the values.
    """
    values = sum(spread)
    rank, below = share * values, 0
    most = ceil(total / max(1, values - ceil(rank) + 1))  # so many values are no shorter
    for bucket, number in enumerate(spread):
        if number and below + number >= rank:
            low = SPREAD_BOUNDS[bucket - 1] if bucket else 0
            high = SPREAD_BOUNDS[min(bucket, len(SPREAD_BOUNDS) - 1)]
            return max(low, min(most, round(low + (high - low) * max(0.0, rank - below) / number)))
        below += number
    return None


def spread_of(spreads: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Returns the spread of all values of several ones."""
    return reduce(_added, map(tuple, spreads), ())


def joined(one: HistoryStep, other: HistoryStep) -> HistoryStep:
    """Returns both steps as one. Of two last samples at the same second the greater one counts."""
    return HistoryStep(
        samples=one.samples + other.samples,
        at=max(one.at, other.at),
        last=max((one.at, one.last), (other.at, other.last))[1],
        total=_added(one.total, other.total),
        peak=_highest(one.peak, other.peak),
        counts=_added(one.counts, other.counts),
        deaths=_added(one.deaths, other.deaths),
        waits=_added(one.waits, other.waits),
        heals=_added(one.heals, other.heals),
    )


def repeated(step: HistoryStep, times: int) -> HistoryStep:
    """Returns the step with its last sample so many times more; a gap stays one."""
    if not step.samples:
        return step
    return step._replace(
        samples=step.samples + times, total=_added(step.total, tuple(times * each for each in step.last))
    )


def at_least(step: HistoryStep, counts: Counted) -> HistoryStep:
    """Returns the step with each count raised to the given one, which may be given any number of times.

    A count that was given before and is lower now, because records were deleted since, stays.
    """
    given = counted(counts)
    raised = step._replace(
        counts=_highest(step.counts, given.counts),
        deaths=_highest(step.deaths, given.deaths),
        waits=_highest(step.waits, given.waits),
        heals=_highest(step.heals, given.heals),
    )
    return step if raised == step else raised


def folded(steps: Mapping[int, HistoryStep], width: int) -> dict[int, HistoryStep]:
    """Returns the steps, by their begin, joined to longer ones."""
    found: dict[int, HistoryStep] = {}
    for begin in sorted(steps):
        to = step_of(begin, width)
        found[to] = joined(found[to], steps[begin]) if to in found else steps[begin]
    return found


def pool_of_job(job: Job, runner: Evidence | None, rules: Iterable[PoolRule]) -> str:
    """Returns the pool of the runner that took a job, or, without a registered one, of the job's labels."""
    if runner is not None and runner.registered:
        return runner_pool(runner, rules)
    return pool_of(job.labels, [each for each in job.labels if each.lower() not in GENERIC_LABELS], rules)


class HistorySample(NamedTuple):
    """What one complete sweep adds: its gauges at `at`, by pool, and the counts of recent steps, by pool and step.

    `repeats` sweeps before it, the last one at `repeated_at`, found what the sample before has, and added none.
    """

    at: float
    gauges: Mapping[str, Gauges]
    counts: Mapping[tuple[str, int], Counted]
    repeats: int = 0
    repeated_at: float = 0.0


def sample(
    runners: Collection[Evidence],
    jobs: Iterable[Job],
    survey: Survey,
    limits: Limits,
    rules: Sequence[PoolRule],
    at: float,
    since: float | None = None,
) -> HistorySample:
    """Returns what a complete sweep adds to the history.

    Args:
        runners: all records.
        jobs: those that are not over.
        survey: of the sweep.
        limits: of the judgement.
        rules: the configured pools.
        at: of the sweep.
        since: when the complete list before was begun; None: unknown.
    """
    matcher = PoolMatcher(rules)
    gauges: dict[str, Counter[str]] = defaultdict(Counter)
    for each in runners:
        if not each.registered:
            continue
        verdict = judge(each, survey, at, limits)
        is_open = is_loss_open(each, verdict, at)
        if not is_open and (verdict.state is State.RETIRED or is_lost(each, verdict)):
            continue
        here = gauges[matcher.pool(each)]
        here[(State.INVALIDATED if is_open else verdict.state).value] += 1
        if each.is_busy and verdict.state is State.HEALTHY:
            here["busy"] += 1
    known = {*gauges, *(rule.name for rule in rules)}
    ours = {label.lower() for rule in rules for label in rule.labels}.union(survey.own_images)
    for job in jobs:
        if job.status == "queued" and not job.waiting and may_be_ours(job, ours):
            pool = pool_of_job(job, None, rules)
            gauges[pool if pool in known else OTHER_POOL]["queued"] += 1
    whole = sum(gauges.values(), Counter[str]())
    begin = min(at - LATEST_SECONDS, (at if since is None else since) - SUCCESSOR_SECONDS)
    counts = losses(runners, matcher, max(begin, at - 86_400.0), at)
    return HistorySample(at, {**gauges, ALL_POOLS: whole}, counts)


def losses(
    runners: Iterable[Evidence], matcher: PoolMatcher, since: float, until: float
) -> dict[tuple[str, int], Counted]:
    """Returns the losses of a span, and their healings, by pool and step; also of the whole organization.

    They follow from the records alone, so that a sweep may count them any number of times: a loss belongs to the step
    of its confirmation, a healing to that in which its successor was online. Records are kept for a day.
    """
    found: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)

    def add(pool: str, at: float, name: str, number: int = 1) -> None:
        for each in (pool, ALL_POOLS):
            found[each, step_of(at)][name] += number

    for each in runners:
        if each.confirmed_at is None and each.healed_at is None:
            continue
        pool = matcher.pool(each)
        if each.confirmed_at is not None and since <= each.confirmed_at <= until:
            add(pool, each.confirmed_at, "lost")
        healed_at = each.healed_at
        if healed_at is not None and since <= healed_at <= until:
            add(pool, healed_at, "healed")
            seconds = round(max(0.0, healed_at - lost_since(each)))
            add(pool, healed_at, "heal_seconds", seconds)
            add(pool, healed_at, f"{HEAL_PREFIX}{bucket_of(seconds)}")
    return dict(found)


def _at(values: tuple[int, ...], position: int) -> int:
    return values[position] if position < len(values) else 0


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def _highest(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(a, b) for a, b in zip_longest(one, other, fillvalue=0))


def _spread(counts: Counted, prefix: str) -> tuple[int, ...]:
    return _trimmed(counts.get(f"{prefix}{bucket}", 0) for bucket in range(len(SPREAD_BOUNDS) + 1))


def _trimmed(values: Iterable[int]) -> tuple[int, ...]:
    """Returns the values without zeros at the end."""
    found = tuple(values)
    length = len(found)
    while length and not found[length - 1]:
        length -= 1
    return found[:length]
