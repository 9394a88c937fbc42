"""What a phantom is: something that is counted as a runner and is none. Its kinds, its reasons, and what to do.

A phantom is told only when look after look has found it. What is told says what to do, and what never to do beside ARC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from ghapp.health.pods.pod import EphemeralRunner


class PhantomKind(StrEnum):
    """What does not fit to what."""

    OBJECT_WITHOUT_POD = "object-without-pod"
    POD_WITHOUT_OBJECT = "pod-without-object"
    FAILED_OBJECT = "failed-object"
    POD_UNKNOWN_TO_GITHUB = "pod-unknown-to-github"
    RUNNER_WITHOUT_POD = "runner-without-pod"


class PhantomReason(StrEnum):
    """Why that is so, as far as it can be told."""

    POD_NEVER_MADE = "PodNeverMade"
    POD_LOST = "PodLost"
    OBJECT_GONE = "ObjectGone"
    FAILED_COUNTS_AS_CAPACITY = "FailedCountsAsCapacity"
    NOT_REGISTERED = "NotRegistered"
    HANGS_AFTER_JOB = "HangsAfterJob"
    MACHINE_GONE = "MachineGone"
    MACHINE_GONE_AT_WORK = "MachineGoneAtWork"


ADVICE: dict[PhantomReason, str] = {
    PhantomReason.POD_NEVER_MADE: (
        "Read in ARC's controller log why it makes no pod (a quota, an admission webhook, a missing "
        "ServiceAccount), and never strip the object's finalizers before it is deleted."
    ),
    PhantomReason.POD_LOST: (
        "Delete the EphemeralRunner so that ARC makes another; never make a pod for it by hand, its "
        "configuration is spent."
    ),
    PhantomReason.OBJECT_GONE: (
        "See which finalizer holds the pod, then delete the pod: that is safe only because its EphemeralRunner is gone."
    ),
    PhantomReason.FAILED_COUNTS_AS_CAPACITY: (
        "Delete the EphemeralRunner so that ARC makes another; never patch its status."
    ),
    PhantomReason.NOT_REGISTERED: (
        "Have its EphemeralRunner deleted, or its pod where no ARC owns it; never delete a pod of ARC's, "
        "which would start again with a spent configuration."
    ),
    PhantomReason.HANGS_AFTER_JOB: (
        "Its job is over and its process hangs: delete its EphemeralRunner, or its pod where no ARC owns it, "
        "and look for what a step left running."
    ),
    PhantomReason.MACHINE_GONE: (
        "Let GitHub forget it (a day, or 14 for one that is not ephemeral), or delete the registration once "
        "no EphemeralRunner of its name is left, never before."
    ),
    PhantomReason.MACHINE_GONE_AT_WORK: (
        "Wait until GitHub gives up its job, some ten minutes; a busy registration cannot be deleted, so "
        "never try to force it."
    ),
}


class Phantom(NamedTuple):
    """Something that is counted as a runner and is none.

    Attributes:
        subject: the name of the runner, which is that of its pod and object.
        pool: empty where GitHub does not know it.
        scale_set: empty where ARC has no part in it.
    """

    kind: PhantomKind
    subject: str
    reason: PhantomReason
    advice: str
    pool: str = ""
    scale_set: str = ""
    namespace: str = ""


FoundSince = Mapping[str, float]
"""Since when each finding has stood, by `key`."""


def key(phantom: Phantom) -> str:
    """What makes two looks' findings the same."""
    return f"{phantom.kind}/{phantom.namespace}/{phantom.subject}"


def lasting(
    found: Iterable[Phantom], before: FoundSince, now: float, grace_seconds: float
) -> tuple[list[Phantom], dict[str, float]]:
    """Those that every look has found for `grace_seconds`, and what to remember until the next look.

    What is fleeting, as a pod that went between two reads, is never told. A clock that went back starts anew.
    """
    findings = list(found)
    since = {key(each): min(before.get(key(each), now), now) for each in findings}
    return [each for each in findings if now - since[key(each)] >= grace_seconds], since


def is_assigned(found: EphemeralRunner) -> bool:
    """Whether ARC counts a job for this object: one that names a job, unless it has succeeded or is being deleted.

    A failed object that still names a job counts: so ARC's count comes to be inflated, and it makes too few runners
    (https://github.com/actions/actions-runner-controller/issues/4397).
    """
    has_job = bool(found.job_id) or found.workflow_run_id is not None
    return has_job and found.deleting_since is None and found.phase != "Succeeded"
