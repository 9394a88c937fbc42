"""Counts a pool or an installation for its fuse: lost runners, grants, and their successors.

Pure. Times are epoch seconds; durations count only time that complete lists cover (`evidence.covered_seconds`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from ghapp.remediation.churn import Newcomers, newcomers
from ghapp.remediation.fuse import Fuse, FuseCounts, FuseLimits
from ghapp.remediation.healing import HEALED_WITHIN_SECONDS
from ghapp.remediation.job_proof import KnownJobs, are_lost_by_jobs
from ghapp.runners.evidence import Evidence, Survey, covered_seconds, is_absent, missing_since
from ghapp.runners.verdict import State, is_offline_too_long, may_run_an_unknown_job, needs_no_replacement, runs_a_job

Members = Iterable[tuple[Evidence, State]]
"""The runners of a pool, each with its current state."""

MOOT = {State.HEALTHY, State.STARTING, State.SUSPECT, State.RETIRED}
"""States in which a grant is moot: a fuse that waited for such a grant would wait forever."""


@dataclass(slots=True)
class _Count:
    """Intermediate counts of one pool."""

    lost: int = 0
    present: int = 0
    newcomers: int = 0
    replaced: int = 0
    waiting: int = 0
    granted: int = 0
    in_batch: int = 0
    pending: int = 0
    overdue: int = 0
    accepted: int = 0
    accepted_first: float | None = None
    accepted_last: float | None = None
    found: int = 0
    returned_at: float | None = None
    changed_at: float = 0.0

    def returned(self, at: float) -> None:
        """Counts a lost runner that was registered at that time."""
        self.returned_at = at if self.returned_at is None else max(at, self.returned_at)


def fuse_counts(
    members: Members,
    fuse: Fuse,
    survey: Survey,
    now: float,
    limits: FuseLimits,
    patience: float | None = None,
    jobs: KnownJobs | None = None,
    reaped: int = 0,
    *,
    acting: bool = True,
) -> FuseCounts:
    """Counts a pool's runners for `fuse.next_fuse`.

    Args:
        members: runners of the pool.
        fuse: the recorded fuse; grants count from its `grants_since` and `batch_at`.
        survey: of the installation.
        now: epoch seconds.
        limits: the `[fuse]` table.
        patience: seconds after which an offline runner counts as lost; None: never.
        jobs: that wait for the pool, and that runners took; None: unknown.
        reaped: pods of the pool that the reaper deleted within the window; they count as lost.
        acting: False if nothing is requested. A waiting runner then counts as lost only within the window.
    """
    members = list(members)
    since = fuse.grants_since if fuse.grants_since is not None else now
    batch_at = fuse.batch_at if fuse.batch_at is not None else since
    window_start = max(now - limits.window_seconds, fuse.closed_at or 0.0)
    count = _Count(lost=reaped)
    for evidence, state in members:
        _count_loss(count, evidence, state, survey, now, window_start, patience, acting=acting)
        _count_grant(count, evidence, state, fuse, survey, now, limits, since=since, batch_at=batch_at)
        # One whose absence was never confirmed was not lost: its return shows nothing of those that were.
        if evidence.back_at is not None and evidence.back_at > since and evidence.was_lost:
            count.returned(evidence.back_at)
        if evidence.was_deleted and evidence.confirmed_at is not None and (evidence.removed_at or 0.0) > since:
            count.found += 1
            count.returned(evidence.removed_at or since)
    returned, proving_since = count.returned_at, count.accepted_last
    if proving_since is not None:
        proving_since = max(proving_since, fuse.since or 0.0)
    came = _newcomers(members, count, jobs, survey, now, limits, lost_again=_lost_again(members, since))
    calm_since = max(count.changed_at, returned or 0.0, fuse.stopped_at or 0.0)
    return FuseCounts(
        lost=count.lost,
        expected=max(count.present + count.lost - min(count.replaced, count.newcomers), count.lost),
        waiting=count.waiting,
        granted=count.granted,
        in_batch=count.in_batch,
        pending=count.pending,
        overdue=count.overdue,
        accepted=count.accepted,
        newcomers=came.online,
        successors=came.unexplained,
        proving_seconds=0.0 if proving_since is None else covered_seconds(survey, proving_since, now),
        found=count.found,
        since_return=None if returned is None else covered_seconds(survey, returned, now),
        calm_seconds=covered_seconds(survey, calm_since, now),
        queued=None if jobs is None or jobs.is_behind else len(jobs.queued),
        closed_seconds=None if fuse.closed_at is None else covered_seconds(survey, fuse.closed_at, now),
    )


def _count_loss(
    count: _Count,
    evidence: Evidence,
    state: State,
    survey: Survey,
    now: float,
    window_start: float,
    patience: float | None,
    *,
    acting: bool,
) -> None:
    if evidence.removed_at is not None and evidence.confirmed_at is None:  # for being offline
        count.lost += evidence.removed_at > window_start
        count.replaced += (evidence.replaced_at or 0.0) > window_start
    elif state is State.INVALIDATED:
        is_waiting = evidence.granted_at is None
        count.waiting += is_waiting
        # a waiting runner has not healed when the fuse closed, and is still lost after a long pause
        count.lost += (is_waiting and acting) or (evidence.confirmed_at or 0.0) > window_start
        count.replaced += (evidence.replaced_at or 0.0) > window_start
        count.changed_at = max(count.changed_at, evidence.confirmed_at or 0.0)
    elif state is State.SUSPECT:
        since = missing_since(evidence)
        # A runner with a job is not lost until that job is over. One that may run an unknown job stays suspect for
        # days: it is one loss of the window in which it went missing, and no reason to trip for each loss after that.
        if not runs_a_job(evidence, now) and (not may_run_an_unknown_job(evidence) or since > window_start):
            count.lost += 1
            count.changed_at = max(count.changed_at, since)
    elif state is State.OFFLINE and is_offline_too_long(evidence, patience, survey, now):
        count.waiting += evidence.granted_at is None
        count.lost += 1
    elif state is not State.RETIRED and evidence.registered and not is_absent(evidence):
        count.present += 1
        count.newcomers += evidence.first_seen > window_start


def _count_grant(
    count: _Count,
    evidence: Evidence,
    state: State,
    fuse: Fuse,
    survey: Survey,
    now: float,
    limits: FuseLimits,
    *,
    since: float,
    batch_at: float,
) -> None:
    """Counts grants since the fuse tripped. A requested replacement counts even if its runner has returned since."""
    granted_at, accepted_at = evidence.granted_at, evidence.replaced_at
    if granted_at is None:
        granted_at = accepted_at = evidence.last_replaced_at
    elif accepted_at is None and state in MOOT and (evidence.removed_at is None or needs_no_replacement(evidence)):
        return  # what was accepted counts in any case, also if the same machine registered again by that
    if granted_at is None or granted_at < since:
        return
    count.granted += 1
    if granted_at < batch_at:
        return
    count.in_batch += 1
    if accepted_at is not None:
        count.accepted += 1
        count.accepted_first = min(accepted_at, count.accepted_first or accepted_at)
        count.accepted_last = max(accepted_at, count.accepted_last or accepted_at)
    elif not runs_a_job(evidence, now):
        # A runner held by a job reported after its removal may be held for hours: the batch does not wait for it.
        waits_since = max(granted_at, fuse.held_at or granted_at)
        is_overdue = covered_seconds(survey, waits_since, now) > limits.prove_seconds
        count.overdue += is_overdue
        count.pending += not is_overdue


def _lost_again(members: Members, since: float) -> int:
    """Returns how many runners that came since the fuse tripped are lost: what runners are lost for goes on."""
    return sum(state is State.INVALIDATED and each.registered and each.first_seen > since for each, state in members)


def _newcomers(
    members: Members,
    count: _Count,
    jobs: KnownJobs | None,
    survey: Survey,
    now: float,
    limits: FuseLimits,
    *,
    lost_again: int,
) -> Newcomers:
    """Counts the runners that came since the batch; one that came an hour later is no result of it.

    Where churn may explain them, and jobs show that the losses are real, they are successors all the same.
    """
    first, last = count.accepted_first, count.accepted_last
    if first is None or last is None:
        return Newcomers()
    in_time = [
        (each, state)
        for each, state in members
        if each.first_seen <= last or covered_seconds(survey, last, each.first_seen) <= HEALED_WITHIN_SECONDS
    ]
    came = newcomers(in_time, first, survey, limits)
    online, successors = max(0, came.online - lost_again), max(0, came.unexplained - lost_again)
    likely = min(online, count.accepted)
    if successors < likely and are_lost_by_jobs(members, jobs, survey, now, limits):
        successors = likely
    return Newcomers(online, successors)


def combined(counts: Iterable[FuseCounts]) -> FuseCounts:
    """Adds up the counts of all pools, each counted for the installation's fuse.

    Newcomers and successors count up to the requests of their own pool: others that a pool got, as by scaling up, show
    nothing of the other pools. The shortest durations are kept; if one pool's queue is unknown, the sum is unknown.
    """
    several = [
        replace(each, newcomers=min(each.newcomers, each.accepted), successors=min(each.successors, each.accepted))
        for each in counts
    ]
    if not several:
        return FuseCounts()
    sums = {
        each.name: sum(getattr(one, each.name) for one in several)
        for each in fields(FuseCounts)
        if each.name not in ("proving_seconds", "since_return", "calm_seconds", "queued", "closed_seconds", "is_of_all")
    }
    queued = [each.queued for each in several]
    return FuseCounts(
        **sums,
        proving_seconds=min((each.proving_seconds for each in several if each.accepted), default=0.0),
        since_return=min((each.since_return for each in several if each.since_return is not None), default=None),
        calm_seconds=min(each.calm_seconds for each in several),
        queued=None if None in queued else sum(each for each in queued if each is not None),
        closed_seconds=min((each.closed_seconds for each in several if each.closed_seconds is not None), default=None),
        is_of_all=True,
    )
