"""Shows by jobs that the losses of a busy pool are real, where its own churn hides the successors of a batch.

In a busy pool of ephemeral runners, more departures wait for their newcomers at any moment than a first batch has
runners, and a count of newcomers does not distinguish its successors from those. Jobs do: GitHub gives a job to each
idle runner. If the pool's newcomers are given a job within some seconds of coming online, before the batch and since,
and the runners that wait were given none for several times as long, then those are not registered.

GitHub's order among idle runners is unknown. It may prefer new ones, and leave old ones idle for hours: then it is no
sign of a loss that a runner is given no job. So the proof needs a pool in which hardly any runner was idle for longer
than newcomers are, and in which the runners that were idle beside the lost ones have been given jobs since. Pure; times
are epoch seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ghapp.remediation.fuse import FuseLimits
from ghapp.runners.evidence import Evidence, Survey, covered_seconds
from ghapp.runners.outdated import gets_no_jobs
from ghapp.runners.verdict import State, is_absent, missing_since

PEERS_SECONDS = 3600.0
"""Runners that came online for so long before the batch are compared with those that came since."""

SHARES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Of `prove_seconds`: the times that are tried for how soon newcomers are given a job."""

FEWEST_PEERS = 10
"""Fewer newcomers, before the batch or since, show nothing."""

LEAST_SHARE, MOST_SHARE = 0.9, 0.98
"""Of the newcomers, for each time that is tried: fewer with a job show nothing; more count as no more than that."""

YOUNG_SHARE = 0.75
"""Of the runners that were idle at the loss: where more of them had been idle for longer, GitHub prefers new ones."""

DOUBT = 0.001
"""The probability, at most, that registered runners would have been given no job."""

Kind = tuple[frozenset[str], int | None]
"""Labels and group: by these GitHub chooses runners that may take a job."""


@dataclass(slots=True)
class _OfKind:
    """The runners of one kind.

    Attributes:
        before: those that came online within `PEERS_SECONDS` before the batch, without the lost ones.
        since: those that came since.
        idle: those that were present and idle at the batch, and are not lost since.
        waiting: the lost ones without a grant.
    """

    before: list[Evidence] = field(default_factory=list)
    since: list[Evidence] = field(default_factory=list)
    idle: list[Evidence] = field(default_factory=list)
    waiting: list[Evidence] = field(default_factory=list)


def are_lost_by_jobs(
    members: Iterable[tuple[Evidence, State]], accepted_at: float, survey: Survey, now: float, limits: FuseLimits
) -> bool:
    """Returns True if the runners that wait are given no jobs, and newcomers with their labels are.

    Args:
        members: runners of the pool, each with its current state.
        accepted_at: when the last request of the batch was accepted.
        survey: of the installation; time that no complete list covers does not count.
        now: epoch seconds.
        limits: the `[fuse]` table.
    """
    kinds = defaultdict[Kind, _OfKind](_OfKind)
    for evidence, state in members:
        if not evidence.registered or evidence.ephemeral is not True:
            continue
        if _worked_while_missing(evidence) and (evidence.job_started_at or 0.0) > accepted_at - PEERS_SECONDS:
            return False
        of_kind = kinds[_kind(evidence)]
        if state is State.INVALIDATED and evidence.granted_at is None:
            of_kind.waiting.append(evidence)
        if not evidence.was_online or gets_no_jobs(evidence):
            continue
        if evidence.first_seen > accepted_at:
            of_kind.since.append(evidence)
        elif state is not State.INVALIDATED:
            if evidence.first_seen > accepted_at - PEERS_SECONDS:
                of_kind.before.append(evidence)
            if _was_idle(evidence, accepted_at):
                of_kind.idle.append(evidence)
    waiting = [each for each in kinds.values() if each.waiting]
    times = [share * limits.prove_seconds for share in SHARES]
    return any(_doubt(each, within, accepted_at, survey, now) <= DOUBT for each in waiting for within in times)


def _worked_while_missing(evidence: Evidence) -> bool:
    """True if a runner was given a job after GitHub had first reported it missing: that was false."""
    return is_absent(evidence) and (evidence.job_started_at or 0.0) > missing_since(evidence)


def _was_idle(evidence: Evidence, at: float) -> bool:
    """True if the runner was present at that time, and no job of it had begun; it had come before."""
    left_before = is_absent(evidence) and missing_since(evidence) <= at
    return not left_before and (evidence.job_started_at or at + 1) > at


def _kind(evidence: Evidence) -> Kind:
    return frozenset(label.lower() for label in evidence.labels), evidence.group_id


def _doubt(kind: _OfKind, within: float, accepted_at: float, survey: Survey, now: float) -> float:
    """Returns the probability that the waiting runners of a kind are registered, and were given no job by chance.

    Args:
        kind: the runners.
        within: seconds in which newcomers are given a job; each such time without one is a trial of each runner.
        accepted_at: when the last request of the batch was accepted.
        survey: of the installation.
        now: epoch seconds.
    """
    silent = [each for each in kind.waiting if missing_since(each) - each.first_seen <= within]
    young = len(silent) + sum(accepted_at - each.first_seen <= within for each in kind.idle)
    if young < YOUNG_SHARE * (len(kind.waiting) + len(kind.idle)):
        return 1.0
    watched = [covered_seconds(survey, max(accepted_at, missing_since(each)), now) for each in silent]
    trials = sum(max(0.0, seconds // within - 1) for seconds in watched)
    shares = [
        _share_with_a_job(kind.before, within, until=accepted_at),
        _share_with_a_job(kind.since, within, until=now),
        _share_with_a_job(kind.idle, within, since=accepted_at, until=now, fewest=0),
    ]
    share = min(*shares, MOST_SHARE)
    return (1 - share) ** trials if share >= LEAST_SHARE and trials > 0 else 1.0


def _share_with_a_job(
    runners: Iterable[Evidence], within: float, *, since: float = 0.0, until: float, fewest: int = FEWEST_PEERS
) -> float:
    """Returns the share of these runners that were given a job in time after they came; 0 if they are too few.

    Deliveries show the jobs: where some are missing or late, the share is smaller. A runner that came too late does not
    count.

    Args:
        runners: all of one kind.
        within: seconds in which a job is expected.
        since: the time counts from here for those that came before it.
        until: when the time must be over.
        fewest: fewer show nothing.
    """
    begun = [(each, max(each.first_seen, since)) for each in runners]
    in_time = [_was_given_a_job(each, begins, within) for each, begins in begun if begins <= until - within]
    if len(in_time) < fewest:
        return 0.0
    return sum(in_time) / len(in_time) if in_time else 1.0


def _was_given_a_job(evidence: Evidence, begins: float, within: float) -> bool:
    return evidence.job_started_at is not None and evidence.job_started_at - begins <= within
