"""May what stands in the cluster for a lost runner be deleted now, and if not, why.

Pure. The callers read, in this order, the object and its pod; whatever is ruled holds for these very versions, and
they are deleted on the condition that they are still these. How long something has been there is told by the cluster's
own clock, which wrote since when, and told what time it was when it was read: ours may have jumped, or be off.
"""

from __future__ import annotations

from ghapp.health.pods.blockers import Blocker
from ghapp.health.pods.deletion_decision import BlockedBy, DeletionVerdict, Preconditions
from ghapp.health.pods.pod import ARC_KIND, ORGANIZATION_LABEL, EphemeralRunner, Pod, is_in
from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.remains import RemainsKind
from ghapp.health.runner.verdict import LONGEST_JOB_SECONDS, gone_since, is_absent, may_run_an_unknown_job

REGISTRATION_FINALIZER = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
"""It asks GitHub to remove the registration; up to ARC 0.14.2 it takes a 404 for a failure, and tries for ever."""

TERMINATING_SECONDS = 120.0
"""How long an object may be Terminating before its finalizer is taken for stuck."""

NO_POD_SECONDS = 300.0
"""How long no pod of an object may have been seen before the object is replaced: ARC may be about to make one."""

NO_POD_LOOK_SECONDS = 60.0
"""Between two looks at an object without a pod: where no watch tells, the looks themselves must show no pod."""

CLOCK_SLACK_SECONDS = 5.0
"""Looked at this much later, for the cluster's clock tells whole seconds."""


def may_delete_object(
    evidence: Evidence, found: EphemeralRunner | None, pod: Pod | None, circumstances: Preconditions
) -> tuple[DeletionVerdict, BlockedBy | None]:
    """Whether ARC's object may be deleted. Its pod never is: ARC does that, or would start a spent runner again.

    In this order, and the first that does not hold refuses:

    1. the object is there, is the one that was meant before a crash, and is no successor of its name;
    2. it is this organization's, as far as anybody can know;
    3. it is not Terminating (if it is, for two minutes, its stuck finalizer may be taken away; where that was not our
       doing, only if there is neither a claim nor a job);
    4. it and its container are older than the grace, and nobody has claimed it;
    5. no job: none by deliveries, none by the object's own status, or one that has been over for the grace. What is
       not known of a job is held for the longest job; it does not matter once no pod was seen for `NO_POD_SECONDS`;
    6. its own pod's container runs, or no pod of it was seen for `NO_POD_SECONDS`: ARC heals what ended by itself.
    """
    if found is None:
        is_gone = pod is None or _is_superseded(evidence, "")
        return (DeletionVerdict.NOTHING_LEFT, None) if is_gone else _refusal(Blocker.POD_OUTLIVES_OBJECT)
    if _is_superseded(evidence, found.uid):
        return DeletionVerdict.NOTHING_LEFT, None
    succeeds = _succeeds(evidence, found, circumstances)
    if succeeds:
        return DeletionVerdict.NOTHING_LEFT, None
    if not _is_ours(circumstances, found.org):
        return _refusal(Blocker.OF_ANOTHER_ORG)
    if found.deleting_since is not None:
        return _terminating(evidence, found, pod, circumstances)
    no_pod = _lacks_its_pod(evidence, circumstances.now) if pod is None else None
    has_process = pod is not None or no_pod is not None
    doubt = (
        (BlockedBy(Blocker.CLOCKS_DISAGREE) if succeeds is None else None)
        or _too_young(circumstances, found.age, pod)
        or _claimed(circumstances, evidence.name, found.name)
        or _job(evidence, circumstances, has_job=_names_a_job(found), has_process=has_process)
        or (no_pod if pod is None else _pod_of_object(found, pod))
    )
    return (DeletionVerdict.REFUSE, doubt) if doubt else (DeletionVerdict.DELETE, None)


def may_delete_pod(
    evidence: Evidence, pod: Pod | None, circumstances: Preconditions
) -> tuple[DeletionVerdict, BlockedBy | None]:
    """Whether a pod, and with it the ServiceAccount of its name, may be deleted.

    Without a pod, or with one that is Terminating, the ServiceAccount is what is left to delete: 4 and 6 fall away.

    1. the pod is the one that was meant before a crash, and no successor of its name;
    2. it is this organization's, as far as anybody can know, and none of ARC's;
    3. nobody has claimed it;
    4. it and its container are older than the grace;
    5. no job, or one that has been over for the grace;
    6. its container runs.
    """
    if evidence.deletion is not None and evidence.deletion.accepted_at is not None:
        return DeletionVerdict.NOTHING_LEFT, None
    succeeds = False if pod is None else _is_superseded(evidence, pod.uid) or _succeeds(evidence, pod, circumstances)
    if succeeds:
        return DeletionVerdict.NOTHING_LEFT, None
    if not _is_ours(circumstances, "" if pod is None else pod.labels.get(ORGANIZATION_LABEL, "")):
        return _refusal(Blocker.OF_ANOTHER_ORG)
    if pod is not None and any(owner.kind == ARC_KIND for owner in pod.owners):
        return _refusal(Blocker.POD_OF_ARC)
    doubt = _claimed(circumstances, evidence.name) or (BlockedBy(Blocker.CLOCKS_DISAGREE) if succeeds is None else None)
    if pod is not None and pod.deleting_since is None:
        doubt = doubt or _too_young(circumstances, pod.age, pod)
        doubt = doubt or (None if pod.is_running else BlockedBy(Blocker.NOT_RUNNING))
    doubt = doubt or _job(evidence, circumstances, has_job=False)
    return (DeletionVerdict.REFUSE, doubt) if doubt else (DeletionVerdict.DELETE, None)


def _refusal(because: Blocker) -> tuple[DeletionVerdict, BlockedBy]:
    return DeletionVerdict.REFUSE, BlockedBy(because)


def _is_superseded(evidence: Evidence, uid: str) -> bool:
    """Whether the one that was meant is gone, and this is another of its name, or none."""
    return evidence.deletion is not None and evidence.deletion.uid not in ("", uid)


def _succeeds(evidence: Evidence, found: EphemeralRunner | Pod, circumstances: Preconditions) -> bool | None:
    """Whether it was made long after the registration went: what bore that is gone, and its name is borne anew.

    The registration went by our clock, and this was made by the cluster's. So it is reckoned in two ways, by the time
    that it bears, and by its age; None where they come to different ends.
    """
    if not is_absent(evidence) or (evidence.deletion is not None and evidence.deletion.uid == found.uid):
        return False
    latest = gone_since(evidence) + circumstances.grace_seconds
    by_time = found.created_at > latest
    if found.read_at is None:
        return by_time
    by_age = circumstances.now - (found.read_at - found.created_at) > latest
    return by_time if by_time == by_age else None


def _is_ours(circumstances: Preconditions, org_label: str) -> bool:
    return is_in(circumstances.org, org_label) and not circumstances.known_elsewhere


def _names_a_job(found: EphemeralRunner) -> bool:
    return bool(found.job_id) or found.workflow_run_id is not None


def _terminating(
    evidence: Evidence, found: EphemeralRunner, pod: Pod | None, circumstances: Preconditions
) -> tuple[DeletionVerdict, BlockedBy]:
    """Both clocks must show two minutes: the cluster's since its deletion, and ours.

    Ours counts since we had the deletion accepted, or for as long as the watch has seen it Terminating. A deletion that
    was not ours was not preceded by our guards: a claim or a job refuses. While its finalizer is stuck its pod runs on.
    """
    accepted_at = None if evidence.deletion is None else evidence.deletion.accepted_at
    if accepted_at is None:
        doubt = _claimed(circumstances, evidence.name, found.name)
        doubt = doubt or _job(evidence, circumstances, has_job=_names_a_job(found), has_process=pod is not None)
        if doubt is not None:
            return DeletionVerdict.REFUSE, doubt
    by_ours = _watched_for(evidence, RemainsKind.TERMINATING)
    if accepted_at is not None:
        by_ours = max(by_ours, circumstances.now - accepted_at)
    left = TERMINATING_SECONDS - min(found.terminating_for, by_ours)
    if left > 0:
        return DeletionVerdict.UNDER_WAY, BlockedBy(Blocker.TERMINATING, min(left, TERMINATING_SECONDS))
    is_stuck = REGISTRATION_FINALIZER in found.finalizers
    return (DeletionVerdict.FREE if is_stuck else DeletionVerdict.UNDER_WAY), BlockedBy(Blocker.TERMINATING)


def _watched_for(evidence: Evidence, kind: RemainsKind) -> float:
    """For how many seconds the watch's views have shown this of it, up to the latest of them."""
    remains = evidence.remains
    return 0.0 if remains is None or remains.kind is not kind else remains.seen_at - remains.since


def _lacks_its_pod(evidence: Evidence, now: float) -> BlockedBy | None:
    """Why an object without a pod waits: neither the watch nor our own looks have seen none for long enough."""
    deletion, by_looks = evidence.deletion, 0.0
    if deletion is not None and deletion.waits_for == Blocker.NO_POD and deletion.waiting_since is not None:
        by_looks = now - deletion.waiting_since
    left = NO_POD_SECONDS - max(by_looks, _watched_for(evidence, RemainsKind.NO_POD))
    return BlockedBy(Blocker.NO_POD, min(left, NO_POD_LOOK_SECONDS)) if left > 0 else None


def _too_young(circumstances: Preconditions, age: float, pod: Pod | None) -> BlockedBy | None:
    """A container that was started again may be configuring itself anew this very moment."""
    run = None if pod is None else pod.container_age
    age = age if run is None else min(age, run)
    if age >= circumstances.grace_seconds:
        return None
    return BlockedBy(Blocker.WITHIN_GRACE, circumstances.grace_seconds - age)


def _claimed(circumstances: Preconditions, *names: str) -> BlockedBy | None:
    return BlockedBy(Blocker.POD_CLAIMED) if any(name in circumstances.claimed for name in names) else None


def _job(
    evidence: Evidence, circumstances: Preconditions, *, has_job: bool, has_process: bool = True
) -> BlockedBy | None:
    """What may still run. A job of which nobody told how it ended is over when GitHub says so: the caller asks it.

    Without a process (`has_process`) only a job that is known to be in progress counts.
    """
    now = circumstances.now
    if _runs_a_known_job(evidence, now) or evidence.name in circumstances.at_work:
        return BlockedBy(Blocker.JOB_IN_PROGRESS)
    ended_at = evidence.job_ended_at
    if ended_at is not None and now - ended_at < circumstances.grace_seconds:
        return BlockedBy(Blocker.JOB_JUST_ENDED, circumstances.grace_seconds - (now - ended_at))
    if not has_process or _is_beyond_any_job(evidence, now):
        return None
    if has_job and ended_at is None:
        return BlockedBy(Blocker.JOB_UNKNOWN)
    is_used_up = evidence.ephemeral is True and ended_at is not None  # its one job is over
    return BlockedBy(Blocker.SEEN_BUSY) if may_run_an_unknown_job(evidence) and not is_used_up else None


def _runs_a_known_job(evidence: Evidence, now: float) -> bool:
    started_at = evidence.job_started_at
    is_endless = started_at is not None and now - started_at > LONGEST_JOB_SECONDS
    return evidence.running_job is not None and not is_endless


def _is_beyond_any_job(evidence: Evidence, now: float) -> bool:
    """Whether a job that it had when its registration went must be over: none is longer."""
    return is_absent(evidence) and now - gone_since(evidence) > LONGEST_JOB_SECONDS


def _pod_of_object(found: EphemeralRunner, pod: Pod) -> BlockedBy | None:
    if all(owner.uid != found.uid for owner in pod.owners):
        return BlockedBy(Blocker.POD_OF_ANOTHER)
    if pod.deleting_since is not None:
        return BlockedBy(Blocker.POD_TERMINATING)
    return None if pod.is_running else BlockedBy(Blocker.NOT_RUNNING)
