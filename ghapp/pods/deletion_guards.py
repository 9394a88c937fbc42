"""Guards: whether a lost runner's object or pod may be deleted now, and if not, why.

Pure. The callers read first the object and then its pod; a decision is valid for these versions only, and the DELETE
has them as preconditions. Ages are measured by the cluster's clock alone, from its timestamps and its time at the read:
our clock may have jumped or be off.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from ghapp.pods.blockers import Blocker
from ghapp.pods.pod import ARC_KIND, EphemeralRunner, Pod, is_in, registered_at
from ghapp.runners.evidence import Evidence, is_absent, missing_since
from ghapp.runners.remains import RemainsKind
from ghapp.runners.verdict import LONGEST_JOB_SECONDS, may_run_an_unknown_job, unknown_job_seconds


class DeletionVerdict(StrEnum):
    """The decision."""

    DELETE = "delete"
    NOTHING_LEFT = "nothing-left"
    """It is already deleted."""
    UNDER_WAY = "under-way"
    """Another client requested its deletion, which is not complete yet."""
    FREE = "free"
    """Like `UNDER_WAY`, and its finalizer is stuck."""
    REFUSE = "refuse"


class Preconditions(NamedTuple):
    """The other inputs of the decision.

    Attributes:
        now: epoch seconds.
        grace_seconds: minimum age of an object, a pod and a container, and minimum time since a job's end.
        org: the runner's org.
        claimed: names of pods and runners with a live pod claim.
        at_work: names of runners with a job in progress, according to deliveries.
        known_elsewhere: True if another organization with pods in that namespace has a runner of the same name.
        object_names: names of ARC objects that run this runner under another object name, by a view younger than the
            loss; None: unknown.
    """

    now: float
    grace_seconds: float
    org: str
    claimed: Collection[str] = ()
    at_work: Collection[str] = ()
    known_elsewhere: bool = False
    object_names: Collection[str] | None = None


class DeletionDecision(NamedTuple):
    """What was found in the cluster for a runner, and what may be done about it.

    Attributes:
        namespace: its namespace.
        name: of the runner.
        verdict: the decision.
        blocker: the reason; None if there is none.
        after_seconds: seconds until that may have changed; None: unknown.
        uid: of the object or, without ARC, of the pod; empty if there is none.
        text: what was found, for people.
        object: ARC's object, as last read.
        pod: as last read.
    """

    namespace: str
    name: str
    verdict: DeletionVerdict
    blocker: Blocker | None = None
    after_seconds: float | None = None
    uid: str = ""
    text: str = ""
    object: EphemeralRunner | None = None
    pod: Pod | None = None

    @property
    def sends_delete(self) -> bool:
        """True if a DELETE is to be requested: there is an object or, without ARC, a pod that is not Terminating."""
        target = self.object or self.pod
        return self.verdict is DeletionVerdict.DELETE and target is not None and target.deleting_since is None

    @property
    def is_bare(self) -> bool:
        """True if neither an object nor a pod of its name exists."""
        return self.object is None and self.pod is None


class BlockedBy(NamedTuple):
    """A blocker, and the seconds until it may have cleared."""

    blocker: Blocker
    after_seconds: float | None = None


REGISTRATION_FINALIZER = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
"""Asks GitHub to remove the registration; up to ARC 0.14.2 it treats a 404 as a failure and retries forever."""

TERMINATING_SECONDS = 120.0
"""How long an object may be Terminating before its finalizer counts as stuck."""

NO_POD_SECONDS = 300.0
"""How long an object must have had no pod before it is replaced: ARC may be about to create a pod."""

NO_POD_LOOK_SECONDS = 60.0
"""Delay between two checks of an object without a pod: without a watch, these checks must show the missing pod."""

CLOCK_SLACK_SECONDS = 5.0
"""Checks are delayed by this much, because the cluster's clock has whole seconds."""


def may_delete_object(
    evidence: Evidence, found: EphemeralRunner | None, pod: Pod | None, preconditions: Preconditions
) -> tuple[DeletionVerdict, BlockedBy | None]:
    """Decides whether ARC's object may be deleted. Its pod is never deleted: ARC would restart a used runner.

    The guards in order; the first one that fails refuses:

    1. The object exists, is the recorded target, and is not a successor of the same name.
    2. It belongs to this organization, as far as known.
    3. It is not Terminating. (After two minutes, its stuck finalizer may be removed; if the deletion was not ours, only
       without a claim and a job.)
    4. The object and its container are older than the grace, and there is no claim.
    5. There is no job, neither from deliveries nor in the object's status, or it has been over for the grace. An
       unknown job blocks for the longest job duration, but not once no pod was seen for `NO_POD_SECONDS`.
    6. Its own pod's container runs, or no pod was seen for `NO_POD_SECONDS`: ARC heals a pod that ended by itself.
    """
    if found is None:
        is_deleted = pod is None or _is_superseded(evidence, "")
        return (DeletionVerdict.NOTHING_LEFT, None) if is_deleted else _refusal(Blocker.POD_OUTLIVES_OBJECT)
    if _is_superseded(evidence, found.uid):
        return DeletionVerdict.NOTHING_LEFT, None
    succeeds = _succeeds(evidence, found, preconditions)
    if succeeds:
        return DeletionVerdict.NOTHING_LEFT, None
    if not _is_ours(preconditions, found.org):
        return _refusal(Blocker.OF_ANOTHER_ORG)
    if found.deleting_since is not None:
        return _terminating(evidence, found, pod, preconditions)
    no_pod = _lacks_its_pod(evidence, preconditions.now) if pod is None else None
    has_process = pod is not None or no_pod is not None
    doubt = (
        (BlockedBy(Blocker.CLOCKS_DISAGREE) if succeeds is None else None)
        or _too_young(preconditions, found.age, pod)
        or _claimed(preconditions, evidence.name, found.name)
        or _job(evidence, preconditions, has_job=_names_a_job(found), has_process=has_process)
        or (no_pod if pod is None else _pod_of_object(found, pod))
    )
    return (DeletionVerdict.REFUSE, doubt) if doubt else (DeletionVerdict.DELETE, None)


def may_delete_pod(
    evidence: Evidence, pod: Pod | None, preconditions: Preconditions
) -> tuple[DeletionVerdict, BlockedBy | None]:
    """Decides whether a pod, and the ServiceAccount of its name, may be deleted.

    Without a pod, or if the pod is Terminating, only the ServiceAccount is left to delete: 4 and 6 do not apply.

    1. The pod is the recorded target, and is not a successor of the same name.
    2. It belongs to this organization, as far as known, and is not ARC's.
    3. There is no claim.
    4. The pod and its container are older than the grace.
    5. There is no job, or it has been over for the grace.
    6. Its container runs.
    """
    if evidence.deletion is not None and evidence.deletion.accepted_at is not None:
        return DeletionVerdict.NOTHING_LEFT, None
    succeeds = False if pod is None else _is_superseded(evidence, pod.uid) or _succeeds(evidence, pod, preconditions)
    if succeeds:
        return DeletionVerdict.NOTHING_LEFT, None
    if not _is_ours(preconditions, "" if pod is None else registered_at(pod.labels)):
        return _refusal(Blocker.OF_ANOTHER_ORG)
    if pod is not None and any(owner.kind == ARC_KIND for owner in pod.owners):
        return _refusal(Blocker.POD_OF_ARC)
    doubt = _claimed(preconditions, evidence.name) or (BlockedBy(Blocker.CLOCKS_DISAGREE) if succeeds is None else None)
    if pod is not None and pod.deleting_since is None:
        doubt = doubt or _too_young(preconditions, pod.age, pod)
        doubt = doubt or (None if pod.is_running else BlockedBy(Blocker.NOT_RUNNING))
    doubt = doubt or _job(evidence, preconditions, has_job=False)
    return (DeletionVerdict.REFUSE, doubt) if doubt else (DeletionVerdict.DELETE, None)


def _refusal(blocker: Blocker) -> tuple[DeletionVerdict, BlockedBy]:
    return DeletionVerdict.REFUSE, BlockedBy(blocker)


def _is_superseded(evidence: Evidence, uid: str) -> bool:
    """True if the recorded target is deleted: this is another object of its name, or there is none."""
    return evidence.deletion is not None and evidence.deletion.uid not in ("", uid)


def _succeeds(evidence: Evidence, found: EphemeralRunner | Pod, preconditions: Preconditions) -> bool | None:
    """True if the object or pod was created long after the registration went missing: it is a successor.

    The loss is dated by our clock, the creation by the cluster's. So it is computed in two ways, from the creation time
    and from the age; None if the results differ.
    """
    if not is_absent(evidence) or (evidence.deletion is not None and evidence.deletion.uid == found.uid):
        return False
    latest = missing_since(evidence) + preconditions.grace_seconds
    by_time = found.created_at > latest
    if found.read_at is None:
        return by_time
    by_age = preconditions.now - (found.read_at - found.created_at) > latest
    return by_time if by_time == by_age else None


def _is_ours(preconditions: Preconditions, org_label: str) -> bool:
    return is_in(preconditions.org, org_label) and not preconditions.known_elsewhere


def _names_a_job(found: EphemeralRunner) -> bool:
    return bool(found.job_id) or found.workflow_run_id is not None


def _terminating(
    evidence: Evidence, found: EphemeralRunner, pod: Pod | None, preconditions: Preconditions
) -> tuple[DeletionVerdict, BlockedBy]:
    """Requires two minutes by both clocks: the cluster's since the deletion, and ours.

    Ours counts since our DELETE was accepted, or as long as the watch has seen it Terminating. If the deletion was not
    ours, our guards did not check it: a claim or a job refuses. While the finalizer is stuck, the pod keeps running.
    """
    accepted_at = None if evidence.deletion is None else evidence.deletion.accepted_at
    if accepted_at is None:
        doubt = _claimed(preconditions, evidence.name, found.name)
        doubt = doubt or _job(evidence, preconditions, has_job=_names_a_job(found), has_process=pod is not None)
        if doubt is not None:
            return DeletionVerdict.REFUSE, doubt
    by_ours = _watched_for(evidence, RemainsKind.TERMINATING)
    if accepted_at is not None:
        by_ours = max(by_ours, preconditions.now - accepted_at)
    left = TERMINATING_SECONDS - min(found.terminating_for, by_ours)
    if left > 0:
        return DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, min(left, TERMINATING_SECONDS))
    is_stuck = REGISTRATION_FINALIZER in found.finalizers
    return (DeletionVerdict.FREE if is_stuck else DeletionVerdict.UNDER_WAY), BlockedBy(Blocker.TERMINATING)


def _watched_for(evidence: Evidence, kind: RemainsKind) -> float:
    """Returns for how many seconds the watch's views have shown this kind, up to the latest view."""
    remains = evidence.remains
    return 0.0 if remains is None or remains.kind is not kind else remains.seen_at - remains.since


def _lacks_its_pod(evidence: Evidence, now: float) -> BlockedBy | None:
    """Returns the blocker of an object without a pod until the watch or our checks saw no pod for long enough."""
    deletion, by_checks = evidence.deletion, 0.0
    if deletion is not None and deletion.waits_for == Blocker.NO_POD and deletion.waiting_since is not None:
        by_checks = now - deletion.waiting_since
    left = NO_POD_SECONDS - max(by_checks, _watched_for(evidence, RemainsKind.NO_POD))
    return BlockedBy(Blocker.NO_POD, min(left, NO_POD_LOOK_SECONDS)) if left > 0 else None


def _too_young(preconditions: Preconditions, age: float, pod: Pod | None) -> BlockedBy | None:
    """Blocks young objects. A restarted container may be registering again at this moment."""
    run = None if pod is None else pod.container_age
    age = age if run is None else min(age, run)
    if age >= preconditions.grace_seconds:
        return None
    return BlockedBy(Blocker.WITHIN_GRACE, preconditions.grace_seconds - age)


def _claimed(preconditions: Preconditions, *names: str) -> BlockedBy | None:
    return BlockedBy(Blocker.POD_CLAIMED) if any(name in preconditions.claimed for name in names) else None


def _job(
    evidence: Evidence, preconditions: Preconditions, *, has_job: bool, has_process: bool = True
) -> BlockedBy | None:
    """Returns the blocker of a job that may still run. For a job with an unknown end the caller asks GitHub.

    Without a process (`has_process`) only a job that is known to be in progress counts.
    """
    now = preconditions.now
    if _runs_a_known_job(evidence, now) or evidence.name in preconditions.at_work:
        return BlockedBy(Blocker.JOB_IN_PROGRESS)
    ended_at = evidence.job_ended_at
    if ended_at is not None and now - ended_at < preconditions.grace_seconds:
        return BlockedBy(Blocker.JOB_JUST_ENDED, preconditions.grace_seconds - (now - ended_at))
    if not has_process or _is_beyond_any_job(evidence, now):
        return None
    if has_job and ended_at is None:
        return BlockedBy(Blocker.JOB_UNKNOWN)
    is_used_up = evidence.ephemeral is True and ended_at is not None  # its only job is over
    return BlockedBy(Blocker.SEEN_BUSY) if may_run_an_unknown_job(evidence) and not is_used_up else None


def _runs_a_known_job(evidence: Evidence, now: float) -> bool:
    started_at = evidence.job_started_at
    is_endless = started_at is not None and now - started_at > LONGEST_JOB_SECONDS
    return evidence.running_job is not None and not is_endless


def _is_beyond_any_job(evidence: Evidence, now: float) -> bool:
    """True if a job that it had when its registration went missing must be over, because no job runs longer."""
    lasts = unknown_job_seconds(evidence) or LONGEST_JOB_SECONDS
    return is_absent(evidence) and now - missing_since(evidence) > lasts


def _pod_of_object(found: EphemeralRunner, pod: Pod) -> BlockedBy | None:
    if all(owner.uid != found.uid for owner in pod.owners):
        return BlockedBy(Blocker.POD_OF_ANOTHER)
    if pod.deleting_since is not None:
        return BlockedBy(Blocker.POD_TERMINATING)
    return None if pod.is_running else BlockedBy(Blocker.NOT_RUNNING)
