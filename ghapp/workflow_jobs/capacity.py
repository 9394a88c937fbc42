"""The runners that could take a job, counted by pool, labels and runner group. Pure; times are epoch seconds.

Ten thousand runners have a few dozen distinct combinations of these, so that each job is compared with those alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ghapp.installations.pool_matching import PoolMatcher, PoolRule
from ghapp.remediation.healing import SUCCESSOR_PATIENCE_SECONDS
from ghapp.runners.evidence import Evidence, is_absent, missing_since
from ghapp.runners.outdated import ended_without_job
from ghapp.runners.verdict import is_spent, was_taken_down
from ghapp.workflow_jobs.labels import normalized

NOT_ASSIGNED_SECONDS = 60.0
"""GitHub assigns a job to an idle runner within seconds; a job that none accepts is queued again after a minute."""

LOOPED_LATELY_SECONDS = 600.0
"""How long a runner that ended because it is too old shows that the next one is too old as well."""

LEFT_LATELY_SECONDS = 120.0
"""A pool of ephemeral runners has none for some seconds after each of its last runners ended: the next one starts."""


class AvailableRunner(NamedTuple):
    """A runner that can take a job, now or when it comes back.

    Attributes:
        pool: its pool.
        labels: all its labels, in GitHub's spelling.
        online: False also for a lost runner.
        busy: True if it runs a job.
        lost: True if GitHub's list lacks it, and it is not known to have left on purpose.
        is_confirmed: True if that is confirmed, or ghapp removed it.
        replaced_at: when the request for a lost runner's replacement was accepted.
        away_since: since when it is offline or lost.
        idle_since: since when an idle runner can have taken a job, as far as is known.
        group_id: its runner group.
        too_old: its version, if GitHub gives that no jobs any more; else empty.
        loops: True if the runner was ephemeral, and ended a moment ago without a job, because it is too old.
    """

    pool: str
    labels: tuple[str, ...]
    online: bool
    busy: bool
    lost: bool = False
    replaced_at: float | None = None
    away_since: float | None = None
    idle_since: float = 0.0
    group_id: int | None = None
    is_confirmed: bool = True
    too_old: str = ""
    loops: bool = False


def available_runners(
    evidence: Iterable[Evidence],
    rules: Sequence[PoolRule],
    too_old: Collection[str] = (),
    now: float = 0.0,
) -> list[AvailableRunner]:
    """Returns the runners that can take a job, now or when they or their successors are online.

    With them those that ended a moment before `now` because they are too old: another one of the same version follows.

    Args:
        evidence: of all runners.
        rules: the configured pools.
        too_old: versions that get no jobs any more.
        now: epoch seconds; without it no ended runners are returned.
    """
    found, matcher = [], PoolMatcher(rules)
    for each in evidence:
        lost = is_absent(each)
        if each.registered and not _has_left(each, lost):
            pool = matcher.pool(each)
            found.append(_lost(each, pool) if lost else _present(each, pool, too_old))
        elif lost and each.registered and _loops(each, now):
            found.append(_looping(each, matcher.pool(each)))
    return found


def _loops(evidence: Evidence, now: float) -> bool:
    """True if the runner ended lately because it is too old."""
    return ended_without_job(evidence) and 0.0 <= now - missing_since(evidence) <= LOOPED_LATELY_SECONDS


def _looping(evidence: Evidence, pool: str) -> AvailableRunner:
    return AvailableRunner(
        pool=pool,
        labels=evidence.labels,
        online=False,
        busy=False,
        group_id=evidence.group_id,
        too_old=evidence.version or "unknown",
        loops=True,
    )


def _present(evidence: Evidence, pool: str, too_old: Collection[str]) -> AvailableRunner:
    """Arguments by position: pages make ten thousand of these for each view, and names would take twice the time."""
    # A list that changes nothing of a runner does not record its time: since then the runner was as it is now.
    idle_since = max(evidence.first_seen, evidence.observed_at or 0.0)
    if evidence.job_ended_at is not None:
        idle_since = max(idle_since, evidence.job_ended_at)
    outdated = evidence.version or "" if evidence.version in too_old else ""
    return AvailableRunner(
        pool,
        evidence.labels,
        evidence.online,
        evidence.is_at_work,
        False,
        None,
        evidence.offline_since,
        idle_since,
        evidence.group_id,
        True,
        outdated,
    )


def _lost(evidence: Evidence, pool: str) -> AvailableRunner:
    return AvailableRunner(
        pool=pool,
        labels=evidence.labels,
        online=False,
        busy=False,
        lost=True,
        replaced_at=evidence.replaced_at,
        away_since=missing_since(evidence),
        group_id=evidence.group_id,
        is_confirmed=evidence.confirmed_at is not None or evidence.removed_at is not None,
    )


def departures(evidence: Iterable[Evidence], now: float) -> dict[tuple[str, ...], float]:
    """Returns by labels when the last runner left at the end of its job, within `LEFT_LATELY_SECONDS` (epoch seconds).

    Those are ephemeral runners, and runners that their controllers removed.
    """
    found: dict[tuple[str, ...], float] = {}
    for each in evidence:
        at = each.job_ended_at if each.ephemeral and each.retired_at is None else each.retired_at
        if each.registered and at is not None and 0.0 <= now - at <= LEFT_LATELY_SECONDS:
            found[each.labels] = max(at, found.get(each.labels, at))
    return found


def _has_left(evidence: Evidence, lost: bool) -> bool:
    """True if the runner takes no more jobs, and none is owed in its place."""
    if evidence.retired_at is not None or evidence.reregistered_as is not None or evidence.not_needed_at is not None:
        return True
    if lost and (evidence.successor is not None or evidence.hidden_at is not None):
        return True
    if evidence.ephemeral and evidence.job_ended_at is not None:  # lists still contain it for a while
        return True
    return lost and (is_spent(evidence) or was_taken_down(evidence) or ended_without_job(evidence))


@dataclass(slots=True)
class Capacity:
    """The runners of one pool with the same labels and runner group, counted.

    Attributes:
        pool: its name.
        labels: in lower case.
        group_id: the runner group.
        online: runners that GitHub lists online.
        idle: online runners without a job.
        free: idle runners to which GitHub gives jobs.
        settled: free runners that have been idle for long enough to take a job, as far as is known.
        outdated: online runners, idle or busy, whose version gets no jobs any more.
        looping: runners that ended a moment ago because they are too old.
        offline: registered runners that are not online.
        missing: runners without a registration whose loss is not confirmed yet.
        waiting: lost runners whose replacement was not accepted yet.
        replaced: lost runners whose replacement was accepted.
        away_since: when the last of them went offline or was lost; None if all are online.
        too_old: the versions of the outdated and looping ones.
    """

    pool: str
    labels: frozenset[str]
    group_id: int | None
    online: int = 0
    idle: int = 0
    free: int = 0
    settled: int = 0
    outdated: int = 0
    looping: int = 0
    offline: int = 0
    missing: int = 0
    waiting: int = 0
    replaced: int = 0
    away_since: float | None = None
    too_old: set[str] = field(default_factory=set)

    @property
    def lost(self) -> int:
        """The number of lost runners whose successors are not online."""
        return self.waiting + self.replaced

    def add(self, runner: AvailableRunner, now: float, settled_after_seconds: float) -> None:
        """Counts a runner."""
        if runner.too_old:
            self.too_old.add(runner.too_old)
        if runner.loops:
            self.looping += 1
            return
        if runner.lost:
            self.replaced += runner.replaced_at is not None
            self.waiting += runner.replaced_at is None and runner.is_confirmed
            self.missing += runner.replaced_at is None and not runner.is_confirmed
        elif not runner.online:
            self.offline += 1
        else:
            self.online += 1
            self.idle += not runner.busy
            self.outdated += runner.too_old != ""
            is_free = not runner.busy and not runner.too_old
            self.free += is_free
            self.settled += is_free and now - runner.idle_since >= settled_after_seconds
            return
        since = runner.away_since
        self.away_since = since if self.away_since is None else max(self.away_since, since or 0.0)


def capacities(
    runners: Iterable[AvailableRunner], now: float, settled_after_seconds: float = NOT_ASSIGNED_SECONDS
) -> list[Capacity]:
    """Returns the runners counted by pool, labels and runner group, in the order in which these first occur."""
    runners = (
        each for each in runners if each.replaced_at is None or now - each.replaced_at <= SUCCESSOR_PATIENCE_SECONDS
    )
    spelled: dict[tuple[str, tuple[str, ...], int | None], Capacity] = {}
    found: dict[tuple[str, frozenset[str], int | None], Capacity] = {}
    for runner in runners:
        as_listed = (runner.pool, runner.labels, runner.group_id)
        if (counted := spelled.get(as_listed)) is None:
            key = (runner.pool, normalized(runner.labels), runner.group_id)
            counted = spelled[as_listed] = found.setdefault(key, Capacity(*key))
        counted.add(runner, now, settled_after_seconds)
    return [*found.values()]
