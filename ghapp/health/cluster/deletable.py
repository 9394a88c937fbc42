"""May what stands in the cluster for a lost runner be deleted now, and if not, why.

Pure. The callers read, in this order, the object and its pod; whatever is ruled holds for these very versions, and
they are deleted on the condition that they are still these. How long something has been there is told by the cluster's
own clock, which wrote since when, and told what time it was when it was read: ours may have jumped, or be off.
"""

from __future__ import annotations

from ghapp.health.cluster.finding import Circumstances, Doubt, Ruling
from ghapp.health.cluster.obstacle import Because
from ghapp.health.cluster.pod import ARC_KIND, ORGANIZATION_LABEL, EphemeralRunner, Pod, is_in
from ghapp.health.evidence import Evidence
from ghapp.health.verdict import JOB_LEASE_SECONDS, gone_since, is_absent

REGISTRATION_FINALIZER = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
"""It asks GitHub to remove the registration; up to ARC 0.14.2 it takes a 404 for a failure, and tries for ever."""

TERMINATING_SECONDS = 120.0
"""How long an object may be Terminating before its finalizer is taken for stuck."""

CLOCK_SLACK_SECONDS = 5.0
"""Looked at this much later, for the cluster's clock tells whole seconds."""


def rule_on_object(
    evidence: Evidence, found: EphemeralRunner | None, pod: Pod | None, circumstances: Circumstances
) -> tuple[Ruling, Doubt | None]:
    """Whether ARC's object may be deleted. Its pod never is: ARC does that, or would start a spent runner again.

    In this order, and the first that does not hold refuses:

    1. the object is there, is the one that was meant before a crash, and is no successor of its name;
    2. it is this organization's, as far as anybody can know;
    3. it is not Terminating (if it is, for two minutes, its stuck finalizer may be taken away);
    4. it and its container are older than the grace, and nobody has claimed it;
    5. no job: none by deliveries, none by the object's own status, or one that has been over for the grace;
    6. its own pod's container runs: only a process that runs and is not registered is lost in silence.
    """
    if found is None:
        is_gone = pod is None or _is_superseded(evidence, "")
        return (Ruling.NOTHING_LEFT, None) if is_gone else _refusal(Because.POD_OUTLIVES_OBJECT)
    if _is_superseded(evidence, found.uid):
        return Ruling.NOTHING_LEFT, None
    succeeds = _succeeds(evidence, found, circumstances)
    if succeeds:
        return Ruling.NOTHING_LEFT, None
    if not _is_ours(circumstances, found.org):
        return _refusal(Because.OF_ANOTHER_ORG)
    if found.deleting_since is not None:
        return _terminating(evidence, found, circumstances.now)
    doubt = (
        (Doubt(Because.CLOCKS_DISAGREE) if succeeds is None else None)
        or _too_young(circumstances, found.age, pod)
        or _claimed(circumstances, evidence.name, found.name)
        or _job(evidence, circumstances, has_job=bool(found.job_id) or found.workflow_run_id is not None)
        or _pod_of_object(found, pod)
    )
    return (Ruling.REFUSE, doubt) if doubt else (Ruling.DELETE, None)


def rule_on_pod(evidence: Evidence, pod: Pod | None, circumstances: Circumstances) -> tuple[Ruling, Doubt | None]:
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
        return Ruling.NOTHING_LEFT, None
    succeeds = False if pod is None else _is_superseded(evidence, pod.uid) or _succeeds(evidence, pod, circumstances)
    if succeeds:
        return Ruling.NOTHING_LEFT, None
    if not _is_ours(circumstances, "" if pod is None else pod.labels.get(ORGANIZATION_LABEL, "")):
        return _refusal(Because.OF_ANOTHER_ORG)
    if pod is not None and any(owner.kind == ARC_KIND for owner in pod.owners):
        return _refusal(Because.POD_OF_ARC)
    doubt = _claimed(circumstances, evidence.name) or (Doubt(Because.CLOCKS_DISAGREE) if succeeds is None else None)
    if pod is not None and pod.deleting_since is None:
        doubt = doubt or _too_young(circumstances, pod.age, pod)
        doubt = doubt or (None if pod.is_running else Doubt(Because.NOT_RUNNING))
    doubt = doubt or _job(evidence, circumstances, has_job=False)
    return (Ruling.REFUSE, doubt) if doubt else (Ruling.DELETE, None)


def _refusal(because: Because) -> tuple[Ruling, Doubt]:
    return Ruling.REFUSE, Doubt(because)


def _is_superseded(evidence: Evidence, uid: str) -> bool:
    """Whether the one that was meant is gone, and this is another of its name, or none."""
    return evidence.deletion is not None and evidence.deletion.uid not in ("", uid)


def _succeeds(evidence: Evidence, found: EphemeralRunner | Pod, circumstances: Circumstances) -> bool | None:
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


def _is_ours(circumstances: Circumstances, org_label: str) -> bool:
    return is_in(circumstances.org, org_label) and not circumstances.known_elsewhere


def _terminating(evidence: Evidence, found: EphemeralRunner, now: float) -> tuple[Ruling, Doubt]:
    """Both clocks must say so, each by itself: the cluster's since its deletion, ours since that was accepted."""
    accepted_at = None if evidence.deletion is None else evidence.deletion.accepted_at
    by_ours = 0.0 if accepted_at is None else now - accepted_at
    left = TERMINATING_SECONDS - min(found.terminating_for, by_ours)
    if left > 0:
        return Ruling.UNDER_WAY, Doubt(Because.TERMINATING, min(left, TERMINATING_SECONDS))
    is_stuck = REGISTRATION_FINALIZER in found.finalizers
    return (Ruling.FREE if is_stuck else Ruling.UNDER_WAY), Doubt(Because.TERMINATING)


def _too_young(circumstances: Circumstances, age: float, pod: Pod | None) -> Doubt | None:
    """A container that was started again may be configuring itself anew this very moment."""
    run = None if pod is None else pod.container_age
    age = age if run is None else min(age, run)
    if age >= circumstances.grace_seconds:
        return None
    return Doubt(Because.WITHIN_GRACE, circumstances.grace_seconds - age)


def _claimed(circumstances: Circumstances, *names: str) -> Doubt | None:
    return Doubt(Because.POD_CLAIMED) if any(name in circumstances.claimed for name in names) else None


def _job(evidence: Evidence, circumstances: Circumstances, *, has_job: bool) -> Doubt | None:
    """What may still run. A job that was never told of can be believed to be over only when GitHub gave it up."""
    now = circumstances.now
    if evidence.running_job is not None or evidence.name in circumstances.at_work:
        return Doubt(Because.JOB_IN_PROGRESS)
    ended_at = evidence.job_ended_at
    if ended_at is not None and now - ended_at < circumstances.grace_seconds:
        return Doubt(Because.JOB_JUST_ENDED, circumstances.grace_seconds - (now - ended_at))
    if has_job and ended_at is None:
        return Doubt(Because.JOB_UNKNOWN)
    if evidence.busy:
        left = JOB_LEASE_SECONDS - (now - gone_since(evidence)) if is_absent(evidence) else None
        if left is None or left > 0:
            return Doubt(Because.SEEN_BUSY, left)
    return None


def _pod_of_object(found: EphemeralRunner, pod: Pod | None) -> Doubt | None:
    if pod is None:
        return Doubt(Because.NO_POD)
    if all(owner.uid != found.uid for owner in pod.owners):
        return Doubt(Because.POD_OF_ANOTHER)
    if pod.deleting_since is not None:
        return Doubt(Because.POD_TERMINATING)
    return None if pod.is_running else Doubt(Because.NOT_RUNNING)
