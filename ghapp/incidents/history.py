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
from sys import maxsize
from types import MappingProxyType
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
from ghapp.remediation.healing import lost_since
from ghapp.remediation.pause import PauseSpan
from ghapp.remediation.status import is_loss_open, is_lost
from ghapp.runners.evidence import Evidence, Survey, blind_spans
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

COUNTS = ("jobs", "waited_seconds", "calls", "lost", "healed", "heal_seconds", "blind_seconds", "paused_seconds")
"""Positions of the counts; only ever appended. Jobs that a runner took and the sum of their waits; calls to GitHub that
count against its hourly limit; runners that were lost; losses whose successor came online, and the sum of the times
that it took; the seconds that no complete list covers; those in which remediation was paused."""

LONGEST = ("longest_wait", "longest_heal")
"""The longest wait and the longest time to heal, in seconds. They are given as counts are; the greater one stays."""

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
that most steps of five minutes stay below the 64 bytes up to which Redis stores values compactly: 23 of them would take
a quarter more memory."""

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


class TimeSpread(NamedTuple):
    """Waits, or times to heal, of any number of steps.

    Attributes:
        buckets: number of the values by the buckets of `SPREAD_BOUNDS`, without zeros at the end.
        total: sum of the values, in seconds.
        longest: the longest of them, in seconds above the lower bound of the last bucket.
    """

    buckets: tuple[int, ...] = ()
    total: int = 0
    longest: int = 0

    @property
    def most(self) -> int:
        """The longest of the values, in seconds."""
        return _bounds(len(self.buckets) - 1)[0] + self.longest if self.buckets else 0

    def percentile(self, share: float) -> int | None:
        """Returns the seconds that a share of the values does not exceed, in whole seconds; None without a value.

        It is estimated within the bucket that contains it, as if values were evenly spread there, and never exceeds
        the longest value, nor what the sum of the values permits. It is off by less than the width of that bucket;
        the last bucket ends at the longest value.

        Args:
            share: as 0.95.
        """
        values, below = sum(self.buckets), 0
        rank = ceil(share * values)
        permitted = min(self.most, ceil(self.total / max(1, values - rank + 1)))  # so many values are no shorter
        for bucket, number in enumerate(self.buckets):
            if number and below + number >= rank:
                low, high = _bounds(bucket)
                estimate = round(low + (min(high, self.most) - low) * max(0, rank - below) / number)
                return max(low, min(permitted, estimate))
            below += number
        return None


def spread_of(buckets: tuple[int, ...], total: int, most: int) -> TimeSpread:
    """Returns the spread of values that do not exceed `most` seconds; one below the last bucket is of other values."""
    low = _bounds(len(buckets) - 1)[0] if buckets else 0
    return TimeSpread(buckets, total, max(0, most - low) if buckets else 0)


def all_times(spreads: Iterable[TimeSpread]) -> TimeSpread:
    """Returns the values of several spreads as one."""
    return reduce(_joined_times, spreads, TimeSpread())


def _joined_times(one: TimeSpread, other: TimeSpread) -> TimeSpread:
    return spread_of(_added(one.buckets, other.buckets), one.total + other.total, max(one.most, other.most))


def _bounds(bucket: int) -> tuple[int, int]:
    """Returns the seconds that the values of a bucket exceed, and those that they do not exceed."""
    return SPREAD_BOUNDS[bucket - 1] if bucket else 0, SPREAD_BOUNDS[bucket] if bucket < len(SPREAD_BOUNDS) else maxsize


class HistoryStep(NamedTuple):
    """A step of one pool. Fields are only ever appended.

    Attributes:
        samples: sweeps that sampled the gauges; 0: a gap.
        at: of the last sample, in whole seconds since the begin of its hour: a step is an hour at most.
        last: the last sample, by `GAUGES`.
        total: sums over the samples, by `GAUGES`.
        peak: the highest of the samples, by `GAUGES`.
        counts: by `COUNTS`.
        deaths: number of the deaths that were recorded, by `CAUSES`.
        waits: number of the jobs of `jobs` by their wait, by the buckets of `SPREAD_BOUNDS`.
        heals: number of the losses of `healed` by the time that it took, by the same buckets.
        longest_wait: of the jobs of `jobs`, in seconds above the bound that all waits in the last bucket of `waits`
            exceed: a number below 128 takes a byte. 0 if none waited.
        longest_heal: the same of the losses of `healed`.
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
    longest_wait: int = 0
    longest_heal: int = 0

    def count(self, name: str) -> int:
        """Returns one of `COUNTS`."""
        return _at(self.counts, COUNTS.index(name))

    @property
    def wait_times(self) -> TimeSpread:
        """How long the jobs waited that runners took."""
        return TimeSpread(self.waits, self.count("waited_seconds"), self.longest_wait)

    @property
    def heal_times(self) -> TimeSpread:
        """How long it took until the successors of lost runners were online."""
        return TimeSpread(self.heals, self.count("heal_seconds"), self.longest_heal)

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
    return HistoryStep(1, floor(at % HOUR_SECONDS), values, values, values)


def counted(counts: Counted) -> HistoryStep:
    """Returns a step with these counts and no sample."""
    deaths = _trimmed(counts.get(f"{DEATH_PREFIX}{cause}", 0) for cause in CAUSES)
    step = HistoryStep(
        counts=_trimmed(counts.get(name, 0) for name in COUNTS),
        deaths=deaths,
        waits=_spread(counts, WAIT_PREFIX),
        heals=_spread(counts, HEAL_PREFIX),
    )
    return _with_longest(step, counts.get("longest_wait", 0), counts.get("longest_heal", 0))


def _with_longest(step: HistoryStep, longest_wait: int, longest_heal: int) -> HistoryStep:
    return step._replace(
        longest_wait=spread_of(step.waits, 0, longest_wait).longest,
        longest_heal=spread_of(step.heals, 0, longest_heal).longest,
    )


def add_count(counts: Counter[str], name: str, number: int) -> None:
    """Adds to the counts of a step; of `LONGEST` the greater one stays."""
    counts[name] = max(counts[name], number) if name in LONGEST else counts[name] + number


def bucket_of(seconds: float) -> int:
    """Returns the number of the bucket of a wait, or of a time to heal."""
    return bisect_left(SPREAD_BOUNDS, seconds)


def joined(one: HistoryStep, other: HistoryStep) -> HistoryStep:
    """Returns both steps of one hour as one. Of two last samples at the same second the greater one counts."""
    waits, heals = (
        _joined_times(one.wait_times, other.wait_times),
        _joined_times(one.heal_times, other.heal_times),
    )
    at, last = max((each.at, each.last) for each in (one, other))
    return HistoryStep(
        samples=one.samples + other.samples,
        at=at,
        last=last,
        total=_added(one.total, other.total),
        peak=_highest(one.peak, other.peak),
        counts=_added(one.counts, other.counts),
        deaths=_added(one.deaths, other.deaths),
        waits=waits.buckets,
        heals=heals.buckets,
        longest_wait=waits.longest,
        longest_heal=heals.longest,
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
    longest = [
        max(counts.get(name, 0), known.most)
        for name, known in zip(LONGEST, (step.wait_times, step.heal_times), strict=True)
    ]
    raised = _with_longest(raised, *longest)
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

    `repeats` sweeps before it, the last one at `repeated_at`, found what the sample before has, and added none. `blind`
    has the seconds of recent steps that no complete list covers, and `pauses` the recent times in which remediation was
    paused. A sweep without a complete list has nothing else.
    """

    at: float
    gauges: Mapping[str, Gauges]
    counts: Mapping[tuple[str, int], Counted]
    repeats: int = 0
    repeated_at: float = 0.0
    blind: Mapping[int, int] = MappingProxyType({})
    pauses: tuple[PauseSpan, ...] = ()


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

    A runner that its list is the first to lack counts in no state: mostly its job has ended, and the delivery of that
    is on its way. The highest number of suspects of a step would be that of the runners that left before some sweep.

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
        if verdict.state is State.SUSPECT and verdict.since is not None and verdict.since >= at:
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
    begin = max(at - 86_400.0, min(at - LATEST_SECONDS, (at if since is None else since) - SUCCESSOR_SECONDS))
    counts = losses(runners, matcher, begin, at)
    return HistorySample(at, {**gauges, ALL_POOLS: whole}, counts, blind=blind_steps(survey, begin, at))


def blind_steps(survey: Survey, since: float, at: float) -> dict[int, int]:
    """Returns by step the seconds that no complete list covers, of those from the step that contains `since` on."""
    return _by_step(blind_spans(survey, at), since)


def paused_steps(pauses: Iterable[PauseSpan], pool: str, at: float) -> dict[int, int]:
    """Returns by step the seconds until `at` in which a pool was paused, alone or with all pools; of `*`: any pool."""
    spans = sorted(
        (each.begin, min(each.end, at)) for each in pauses if ALL_POOLS in (pool, each.pool) or each.pool == pool
    )
    separate, until = list[tuple[float, float]](), 0.0
    for begin, end in spans:
        separate.append((max(begin, until), end))
        until = max(until, end)
    return _by_step(separate, 0.0)


def _by_step(spans: Iterable[tuple[float, float]], since: float) -> dict[int, int]:
    found: dict[int, float] = defaultdict(float)
    for begin, end in spans:
        for step in range(step_of(max(begin, since)), ceil(end), STEP_SECONDS):
            found[step] += max(0.0, min(end, step + STEP_SECONDS) - max(begin, step))
    return {step: round(seconds) for step, seconds in found.items() if round(seconds)}


def sample_without_list(survey: Survey, at: float) -> HistorySample:
    """Returns what a sweep adds to the history whose list is not complete: the time without one.

    Args:
        survey: after the sweep.
        at: of the sweep.
    """
    return HistorySample(at, {}, {}, blind=blind_steps(survey, at - LATEST_SECONDS, at))


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
            add_count(found[each, step_of(at)], name, number)

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
            add(pool, healed_at, "longest_heal", seconds)
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
