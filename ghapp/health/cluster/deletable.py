"""May what stands in the cluster for a lost runner be deleted now, and if not, why.

Pure. The callers read, in this order, the object and its pod; whatever is ruled holds for these very versions, and
they are deleted on the condition that they are still these.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from ghapp.health.cluster.obstacle import Because
from ghapp.health.cluster.pod import ARC_KIND, ORGANIZATION_LABEL, EphemeralRunner, Pod, is_in
from ghapp.health.evidence import Evidence
from ghapp.health.verdict import JOB_LEASE_SECONDS, gone_since, is_absent

REGISTRATION_FINALIZER = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
"""It asks GitHub to remove the registration; up to ARC 0.14.2 it takes a 404 for a failure, and tries for ever."""

TERMINATING_SECONDS = 120.0
"""How long an object may be Terminating before its finalizer is taken for stuck."""

CLOCK_SLACK_SECONDS = 5.0
"""Looked at this much later, for the cluster's clock is not ours, and it tells whole seconds."""


class Ruling(StrEnum):
    """What may be done."""

    DELETE = "delete"
    NOTHING_LEFT = "nothing-left"
    """It is gone already."""
    UNDER_WAY = "under-way"
    """Somebody has had it deleted, and it is not gone yet."""
    FREE = "free"
    """The same, and its finalizer is stuck."""
    REFUSE = "refuse"


class Circumstances(NamedTuple):
    """What else must be known.

    Attributes:
        now: epoch seconds.
        grace_seconds: how old an object, a pod and a container must be, and how long a job must have been over.
        org: whose runner it is.
        claimed: names of pods and runners that a controller has claimed.
        at_work: names of runners under which, by deliveries, a job is in progress.
        known_elsewhere: whether another organization with pods in that namespace knows its name, too.
    """

    now: float
    grace_seconds: float
    org: str
    claimed: Collection[str] = ()
    at_work: Collection[str] = ()
    known_elsewhere: bool = False


class Finding(NamedTuple):
    """What stands in the cluster for a runner, and what may be done about it.

    Attributes:
        namespace: where it stands, or would.
        name: of the runner.
        ruling: what may be done.
        because: why not; None where nothing is in the way.
        after_seconds: in how many seconds that may have changed; None: nobody knows.
        uid: of the object, or, where ARC is not asked, of the pod; empty when there is none.
        said: what was found, for people.
        object: what ARC keeps for it, as read last.
        pod: as read last.
    """

    namespace: str
    name: str
    ruling: Ruling
    because: Because | None = None
    after_seconds: float | None = None
    uid: str = ""
    said: str = ""
    object: EphemeralRunner | None = None
    pod: Pod | None = None

    @property
    def is_bare(self) -> bool:
        """Whether nothing of its name is there: neither an object nor a pod."""
        return self.object is None and self.pod is None


class Doubt(NamedTuple):
    """What is in the way, and in how many seconds that may have changed."""

    because: Because
    after_seconds: float | None = None


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
    if _is_superseded(evidence, found.uid) or _is_successor(evidence, found.uid, found.created_at, circumstances):
        return Ruling.NOTHING_LEFT, None
    if not _is_ours(circumstances, found.org):
        return _refusal(Because.OF_ANOTHER_ORG)
    if found.deleting_since is not None:
        return _terminating(evidence, found, circumstances.now)
    doubt = (
        _too_young(circumstances, found.created_at, pod)
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
    if pod is not None and (
        _is_superseded(evidence, pod.uid) or _is_successor(evidence, pod.uid, pod.created_at, circumstances)
    ):
        return Ruling.NOTHING_LEFT, None
    if not _is_ours(circumstances, "" if pod is None else pod.labels.get(ORGANIZATION_LABEL, "")):
        return _refusal(Because.OF_ANOTHER_ORG)
    if pod is not None and any(owner.kind == ARC_KIND for owner in pod.owners):
        return _refusal(Because.POD_OF_ARC)
    doubt = _claimed(circumstances, evidence.name)
    if pod is not None and pod.deleting_since is None:
        doubt = doubt or _too_young(circumstances, pod.created_at, pod)
        doubt = doubt or (None if pod.is_running else Doubt(Because.NOT_RUNNING))
    doubt = doubt or _job(evidence, circumstances, has_job=False)
    return (Ruling.REFUSE, doubt) if doubt else (Ruling.DELETE, None)


def _refusal(because: Because) -> tuple[Ruling, Doubt]:
    return Ruling.REFUSE, Doubt(because)


def _is_superseded(evidence: Evidence, uid: str) -> bool:
    """Whether the one that was meant is gone, and this is another of its name, or none."""
    return evidence.deletion is not None and evidence.deletion.uid not in ("", uid)


def _is_successor(evidence: Evidence, uid: str, created_at: float, circumstances: Circumstances) -> bool:
    """Whether it was made long after the registration went: what bore that is gone, and its name is borne anew.

    Its age alone would not do: a clock of ours that jumped ahead makes everything old. The grace is for the cluster's.
    """
    is_meant = evidence.deletion is not None and evidence.deletion.uid == uid
    return is_absent(evidence) and not is_meant and created_at - gone_since(evidence) > circumstances.grace_seconds


def _is_ours(circumstances: Circumstances, org_label: str) -> bool:
    return is_in(circumstances.org, org_label) and not circumstances.known_elsewhere


def _terminating(evidence: Evidence, found: EphemeralRunner, now: float) -> tuple[Ruling, Doubt]:
    """Both clocks must say so, the cluster's and ours: one of them may have jumped."""
    accepted_at = None if evidence.deletion is None else evidence.deletion.accepted_at
    since = max(found.deleting_since or now, now if accepted_at is None else accepted_at)
    left = TERMINATING_SECONDS - (now - since)
    if left > 0:
        return Ruling.UNDER_WAY, Doubt(Because.TERMINATING, min(left, TERMINATING_SECONDS))
    is_stuck = REGISTRATION_FINALIZER in found.finalizers
    return (Ruling.FREE if is_stuck else Ruling.UNDER_WAY), Doubt(Because.TERMINATING)


def _too_young(circumstances: Circumstances, created_at: float, pod: Pod | None) -> Doubt | None:
    """A container that was started again may be configuring itself anew this very moment."""
    started_at = None if pod is None or pod.runner is None else pod.runner.running_since
    age = circumstances.now - max(created_at, created_at if started_at is None else started_at)
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
