"""Why a queued job waits: the priority of the reasons. Pure.

The reasons in their order; the first that holds is the job's. `JobQueue.reason` decides the first two, `reason_of` the
others:

1. `HostedByGitHub`: no known runner has the job's labels, and they name a GitHub-hosted image that is no label of ours.
2. `UnknownPool`: the job names no labels, but a runner group alone, which GitHub does not report while it is queued.
3. `NoRunnerWithLabels`: no known runner has all of them.
4. `GroupExcludesRepository`: the runner groups of all runners with these labels exclude the repository.
5. `RunnersTooOld`: such runners are online, or end without a job one after the other, and GitHub gives none of their
   versions jobs any more.
6. `NotAssigned`: another such runner has been idle for a minute, and the job has waited for a minute.
7. `AllBusy`: such runners are online, and all that get jobs are busy.
8. `PoolPaused`: none is online, some are lost, and a pause prevents their replacement.
9. `FuseStopped`: the same, and the fuse is stopped.
10. `RunnersLost`: none is online, and some are lost, or missing and not confirmed as lost yet.
11. `RunnersOffline`: none is online; GitHub lists them as offline.

There is no reason in the first minute while a runner is idle: GitHub is about to assign the job. Nor is there one while
the last runner with these labels left a moment ago, at the end of its job: the next one starts (`departures`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS, Capacity
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.labels import labels_text


class QueueReason(StrEnum):
    """Why a queued job waits: constants, never free text."""

    NO_RUNNER_WITH_LABELS = "NoRunnerWithLabels"
    HOSTED_BY_GITHUB = "HostedByGitHub"
    UNKNOWN_POOL = "UnknownPool"
    GROUP_EXCLUDES_REPOSITORY = "GroupExcludesRepository"
    POOL_PAUSED = "PoolPaused"
    FUSE_STOPPED = "FuseStopped"
    RUNNERS_LOST = "RunnersLost"
    RUNNERS_OFFLINE = "RunnersOffline"
    RUNNERS_TOO_OLD = "RunnersTooOld"
    ALL_BUSY = "AllBusy"
    NOT_ASSIGNED = "NotAssigned"


STUCK = frozenset(
    {
        QueueReason.NO_RUNNER_WITH_LABELS,
        QueueReason.GROUP_EXCLUDES_REPOSITORY,
        QueueReason.POOL_PAUSED,
        QueueReason.FUSE_STOPPED,
        QueueReason.RUNNERS_OFFLINE,
        QueueReason.RUNNERS_TOO_OLD,
    }
)
"""The job starts only after a person has changed something."""

UNSERVED = STUCK | {QueueReason.RUNNERS_LOST}
"""No online runner can take the job."""


_WAITED_FOR = {
    QueueReason.NO_RUNNER_WITH_LABELS: "no runner had its labels",
    QueueReason.GROUP_EXCLUDES_REPOSITORY: "the runner group excluded its repository",
    QueueReason.POOL_PAUSED: "its pool's runners were lost, and remediation was paused",
    QueueReason.FUSE_STOPPED: "its pool's runners were lost, and the fuse was stopped",
    QueueReason.RUNNERS_LOST: "its pool's runners were lost",
    QueueReason.RUNNERS_OFFLINE: "its pool's runners were offline",
    QueueReason.RUNNERS_TOO_OLD: "its pool's runners were too old to get jobs",
    QueueReason.ALL_BUSY: "all runners of its pool were busy",
    QueueReason.NOT_ASSIGNED: "runners were idle, and GitHub assigned none",
}


def waited_for_text(reason: str, lacked_labels: Sequence[str] = ()) -> str:
    """Returns what a job waited for that waits no more, as a part of a sentence; empty if that is not known.

    Args:
        reason: the recorded one; another version's is returned as it is.
        lacked_labels: those of the job that no runner had.
    """
    if reason == QueueReason.NO_RUNNER_WITH_LABELS and lacked_labels:
        return f"no runner had the {labels_text(lacked_labels)}"
    return _WAITED_FOR.get(QueueReason(reason), "") if reason in set(QueueReason) else reason


class WaitReason(NamedTuple):
    """Why a queued job waits, as it is recorded: a `QueueReason`, and the labels of the job that no runner has."""

    reason: str
    lacked_labels: tuple[str, ...] = ()


RECORDED_AFTER_SECONDS = NOT_ASSIGNED_SECONDS / 2
"""The wait after which a job's reason is recorded for its story. The queue is looked at every 15 s: of a job that was
taken after a minute, the reason was recorded before."""


class Placement(NamedTuple):
    """Where a job can run.

    Attributes:
        pool: the pool that it waits for; of several, one with an online runner.
        able: runners with all of its labels.
        permitted: of these, the ones whose runner group admits its repository.
        shared_pools: of other scopes, those of permitted runners.
    """

    pool: str
    able: Sequence[Capacity]
    permitted: Sequence[Capacity]
    shared_pools: Sequence[str] = ()

    @property
    def pools(self) -> str:
        """The names of all pools that may take the job, for a sentence."""
        return " and ".join((self.pool, *self.shared_pools))

    def count(self, what: str) -> int:
        """Returns the sum of one of the counts of `Capacity` over the permitted runners."""
        return sum(getattr(each, what) for each in self.permitted)


class Brakes(NamedTuple):
    """What prevents the replacement of a pool's lost runners."""

    paused: bool = False
    stopped: bool = False


def reason_of(job: Job, placement: Placement, brakes: Brakes, now: float) -> QueueReason | None:
    """Returns the reason for which a queued job of ours waits; None if GitHub is about to assign it."""
    if not placement.able:
        return QueueReason.NO_RUNNER_WITH_LABELS
    if not placement.permitted:
        return QueueReason.GROUP_EXCLUDES_REPOSITORY
    online, outdated = placement.count("online"), placement.count("outdated")
    if online == outdated and (outdated or placement.count("looping")):
        return QueueReason.RUNNERS_TOO_OLD
    if online:
        if not placement.count("free"):
            return QueueReason.ALL_BUSY
        is_late = now - job.queued_at >= NOT_ASSIGNED_SECONDS and placement.count("settled")
        return QueueReason.NOT_ASSIGNED if is_late else None
    lost = placement.count("waiting")
    if lost and brakes.paused:
        return QueueReason.POOL_PAUSED
    if lost and brakes.stopped:
        return QueueReason.FUSE_STOPPED
    is_lost = placement.count("lost") or placement.count("missing")
    return QueueReason.RUNNERS_LOST if is_lost else QueueReason.RUNNERS_OFFLINE
