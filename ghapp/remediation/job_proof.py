"""Shows by jobs that the losses of a busy pool are real, where its own churn hides the successors of a batch.

In a busy pool of ephemeral runners, more departures wait for their newcomers at any moment than a first batch has
runners, and a count of newcomers does not distinguish its successors from those. Jobs do: GitHub gives a job to each
idle runner. If the pool's newcomers are given a job within some seconds of coming online, before the loss, around it
and since, and the runners that wait were given none for several times as long, then those are not registered.

GitHub's order among idle runners is unknown. It may prefer new ones, and leave old ones idle for hours: then it is no
sign of a loss that a runner is given no job. So the proof needs a pool in which hardly any runner was idle for longer
than newcomers are, and in which the runners that were idle beside the lost ones have been given jobs since.

Deliveries show the jobs, of most newcomers at least, also around the loss. Where the starts of just the denied runners'
jobs are missing or late, their jobs seem to wait although later ones were taken: then jobs show nothing. Neither do
they where no runner was idle beside the lost ones, and jobs are fewer than before: a new runner may be given each. What
this cannot see is that such jobs were never reported as queued either, while GitHub's delivery log and the age of the
other deliveries (rule 4) show nothing of it. All runners that wait must be of kinds for which the proof holds. Pure;
times are epoch seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from ghapp.remediation.fuse import FuseLimits
from ghapp.runners.evidence import Evidence, Survey, covered_seconds, is_absent, missing_since
from ghapp.runners.outdated import gets_no_jobs
from ghapp.runners.verdict import State

Member = tuple[Evidence, State]

OVERTAKEN_SECONDS = 30.0
"""A job that was queued so long before one that a runner took is overtaken; GitHub promises no exact order."""

PEERS_SECONDS = 3600.0
"""Runners that came online for so long before the loss are compared with those that came since."""

AROUND_SECONDS = 300.0
"""Those that came for so long before and after are looked at on their own."""

SHARES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Multiples of `prove_seconds`, tried in turn: how soon newcomers are given a job."""

FEWEST_PEERS = 10
"""Fewer newcomers of a span show nothing."""

LEAST_SHARE, MOST_SHARE = 0.9, 0.98
"""Of the newcomers that were given a job in time: a smaller share than the first shows nothing; the second is the most
that is counted, for no share is certainty.
"""

FEWEST_OVERTAKEN = 3
"""Fewer jobs than that may wait for something else, or be over without a delivery."""

STEADY_SHARE = 0.8
"""Of the jobs before the loss: a pool that lost runners may start fewer, and some starts are not delivered yet."""

TOGETHER_SECONDS = 60.0
"""Runners that went missing within so long of those that wait belong to the same loss."""

YOUNG_SHARE = 0.75
"""Of the runners that were idle at the loss: where more of them had been idle for longer, GitHub prefers new ones."""

DOUBT = 0.001
"""The probability, at most, that registered runners would have been given no job."""

Kind = tuple[frozenset[str], int | None]
"""Labels and group: by these GitHub chooses runners that may take a job."""


class KnownJob(NamedTuple):
    """A job as deliveries report it. Times are epoch seconds.

    Attributes:
        labels: in lower case.
        queued_at: since when a runner could take it.
        repository: `owner/name`.
        runner_id: of the runner that took it; None while none did.
        started_at: when that was.
    """

    labels: frozenset[str]
    queued_at: float = 0.0
    repository: str = ""
    runner_id: int | None = None
    started_at: float | None = None


class KnownJobs(NamedTuple):
    """What deliveries report of an installation's jobs.

    Attributes:
        queued: those that wait for a runner.
        taken: those that runners took lately; empty where it does not matter.
        is_behind: True while deliveries are late: a job may wait that is not known yet.
    """

    queued: Sequence[KnownJob] = ()
    taken: Sequence[KnownJob] = ()
    is_behind: bool = False

    def of(self, kind: Kind, members: Iterable[Member]) -> KnownJobs:
        """Returns the queued jobs that runners of this kind could take, and those that its members took."""
        labels, _ = kind
        ids = {each.id for each, _ in members}
        queued = [job for job in self.queued if job.labels <= labels]
        return KnownJobs(queued, [job for job in self.taken if job.runner_id in ids])


def are_lost_by_jobs(
    members: Iterable[Member], jobs: KnownJobs | None, survey: Survey, now: float, limits: FuseLimits
) -> bool:
    """Returns True if the runners that wait are given no jobs, and newcomers with their labels are.

    Args:
        members: runners of the pool, each with its current state.
        jobs: as deliveries report them; None: unknown, and jobs show nothing.
        survey: of the installation; time that no complete list covers does not count.
        now: epoch seconds.
        limits: the `[fuse]` table.
    """
    known = [(each, state) for each, state in members if each.registered and each.first_seen <= now]
    waiting = [each for each, state in known if _waits(each, state)]
    is_unsure = any(each.ephemeral is not True or missing_since(each) > now for each in waiting)
    if jobs is None or not waiting or survey.swept_at is None or is_unsure or _is_contradicted(known, waiting):
        return False
    kinds = defaultdict[Kind, list[Member]](list)
    for evidence, state in known:
        if evidence.ephemeral is True:
            kinds[_kind(evidence)].append((evidence, state))
    times = [share * limits.prove_seconds for share in SHARES]
    for kind in {_kind(each) for each in waiting}:
        jobs_of_kind = jobs.of(kind, kinds[kind])
        if all(_doubt(kinds[kind], jobs_of_kind, within, survey, now) > DOUBT for within in times):
            return False
    return True


def _waits(evidence: Evidence, state: State) -> bool:
    return state is State.INVALIDATED and evidence.granted_at is None and is_absent(evidence)


def _is_contradicted(members: Iterable[Member], waiting: Iterable[Evidence]) -> bool:
    """True if a runner that went missing together with those that wait was given a job after that: the loss is false.

    At other times a list that is a few seconds old, or a clock of GitHub's that is ahead, makes that appear so.
    """
    lost_at = [missing_since(each) for each in waiting]
    first, last = min(lost_at) - TOGETHER_SECONDS, max(lost_at) + TOGETHER_SECONDS
    absent = ((each.job_started_at or 0.0, missing_since(each)) for each, _ in members if is_absent(each))
    return any(started_at > since for started_at, since in absent if first <= since <= last)


def _kind(evidence: Evidence) -> Kind:
    return frozenset(label.lower() for label in evidence.labels), evidence.group_id


def _doubt(members: Sequence[Member], jobs: KnownJobs, within: float, survey: Survey, now: float) -> float:
    """Returns the probability that the waiting runners of a kind are registered, and were given no job by chance.

    Args:
        members: all runners of the kind.
        jobs: that wait for the kind, and that its members took.
        within: seconds in which newcomers are given a job; each such time without one is a trial of each runner.
        survey: of the installation.
        now: epoch seconds.
    """
    waiting = [each for each, state in members if _waits(each, state)]
    peers = [each for each, state in members if each.was_online and not gets_no_jobs(each) and not _waits(each, state)]
    lost_at = min(missing_since(each) for each in waiting)
    last_at = max(missing_since(each) for each in waiting)
    idle = [each for each in peers if _was_idle(each, lost_at)]
    silent = [each for each in waiting if missing_since(each) - each.first_seen <= within and not gets_no_jobs(each)]
    young = len(silent) + sum(lost_at - each.first_seen <= within for each in idle)
    if young < YOUNG_SHARE * (len(waiting) + len(idle)) or _may_have_jobs(silent, jobs, lost_at):
        return 1.0
    if not idle and not _is_demand_steady(jobs, within, lost_at, now):
        return 1.0
    spans = (
        (lost_at - PEERS_SECONDS, lost_at - within),
        (lost_at - AROUND_SECONDS, min(last_at + AROUND_SECONDS, now - within)),
        (lost_at, now - within),
    )
    shares = [_share_with_a_job(_came_between(peers, *span, lost_at), within) for span in spans]
    of_idle = [_was_given_a_job(each, lost_at, within) for each in idle]
    shares.append(sum(of_idle) / len(of_idle) if of_idle else 1.0)
    share = min(*shares, MOST_SHARE)
    trials = sum(max(0.0, covered_seconds(survey, missing_since(each), now) // within - 1) for each in silent)
    return (1 - share) ** trials if share >= LEAST_SHARE and trials > 0 else 1.0


def _may_have_jobs(silent: Sequence[Evidence], jobs: KnownJobs, lost_at: float) -> bool:
    """True if too many jobs seem to be overtaken since the loss: runners that wait may have them."""
    overtaken = len(_overtaken(jobs, lost_at))
    return overtaken >= FEWEST_OVERTAKEN and overtaken > len(silent) - LEAST_SHARE * len(silent)


def _overtaken(jobs: KnownJobs, lost_at: float) -> list[KnownJob]:
    """Returns the queued jobs that were overtaken since the loss: a runner took a later one with the same labels.

    A job that was overtaken before waits for something else, such as another job of its run; and so does one of a
    repository of which these runners took no job, for they may be closed to it.
    """
    repositories = {job.repository for job in jobs.taken}
    later = defaultdict[frozenset[str], list[KnownJob]](list)
    for job in jobs.taken:
        later[job.labels].append(job)
    first_starts = {labels: _first_starts(taken) for labels, taken in later.items()}
    return [
        job
        for job in jobs.queued
        if job.repository in repositories
        and lost_at - TOGETHER_SECONDS < _overtaken_at(job, first_starts.get(job.labels, [])) < inf
    ]


def _first_starts(taken: Iterable[KnownJob]) -> list[tuple[float, float]]:
    """Returns when each of these jobs was queued, latest first, and the first start of it and of later ones."""
    found, first = list[tuple[float, float]](), inf
    for job in sorted(taken, key=lambda job: -job.queued_at):
        first = min(first, job.queued_at if job.started_at is None else job.started_at)
        found.append((job.queued_at, first))
    return found


def _overtaken_at(job: KnownJob, first_starts: Sequence[tuple[float, float]]) -> float:
    """Returns when a runner first took a job that was queued well after this one; infinity if none did."""
    count = bisect_left(first_starts, -(job.queued_at + OVERTAKEN_SECONDS), key=lambda each: -each[0])
    return first_starts[count - 1][1] if count else inf


def _is_demand_steady(jobs: KnownJobs, within: float, lost_at: float, now: float) -> bool:
    """True if jobs start about as often since the loss as before it, or wait although no later one was taken.

    Else that runners are given no job may be because there are few: a new one is given each of them.
    """
    starts = [job.started_at for job in jobs.taken if job.started_at is not None]
    begin = max(lost_at - PEERS_SECONDS, min([*starts, lost_at]))
    before, since = sum(at <= lost_at for at in starts), sum(at > lost_at for at in starts)
    if since * (lost_at - begin) >= STEADY_SHARE * before * (now - lost_at):
        return True
    overtaken = set(_overtaken(jobs, lost_at))
    return any(lost_at < job.queued_at <= now - within and job not in overtaken for job in jobs.queued)


def _was_idle(evidence: Evidence, at: float) -> bool:
    """True if the runner was present at that time, and no job of it had begun."""
    if evidence.first_seen > at or (is_absent(evidence) and missing_since(evidence) <= at):
        return False
    if evidence.job_started_at is None:
        return not (evidence.busy or evidence.was_busy)  # else its job has no date
    return evidence.job_started_at > at


def _came_between(peers: Iterable[Evidence], begin: float, end: float, lost_at: float) -> list[Evidence]:
    """Returns the runners that came in a span; without those that were lost before, whose time was cut short."""
    return [
        each
        for each in peers
        if begin < each.first_seen <= end and not (each.confirmed_at is not None and missing_since(each) <= lost_at)
    ]


def _share_with_a_job(runners: Sequence[Evidence], within: float) -> float:
    """Returns the share of these runners that were given a job in time after they came; 0 if they are too few.

    Where some deliveries are missing or late, the share is smaller.
    """
    in_time = sum(_was_given_a_job(each, each.first_seen, within) for each in runners)
    return in_time / len(runners) if len(runners) >= FEWEST_PEERS else 0.0


def _was_given_a_job(evidence: Evidence, begins: float, within: float) -> bool:
    return evidence.job_started_at is not None and evidence.job_started_at - begins <= within
