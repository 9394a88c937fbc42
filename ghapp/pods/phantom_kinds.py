"""Phantoms: registrations, pods and objects that count as runners but cannot run jobs. Kinds, reasons and advice.

Demand that ARC counts and that does not exist is one of them, too. A phantom is reported only if repeated checks find
it. The advice includes what must never be done with ARC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from ghapp.pods.pod import EphemeralRunner
from ghapp.untrusted_text import shell_command


class PhantomKind(StrEnum):
    """The kind of mismatch."""

    OBJECT_WITHOUT_POD = "object-without-pod"
    POD_WITHOUT_OBJECT = "pod-without-object"
    FAILED_OBJECT = "failed-object"
    POD_UNKNOWN_TO_GITHUB = "pod-unknown-to-github"
    RUNNER_WITHOUT_POD = "runner-without-pod"
    POD_NOT_STARTED = "pod-not-started"
    DEMAND_INFLATED = "demand-inflated"


class PhantomReason(StrEnum):
    """The cause of the mismatch, as far as it is known."""

    POD_NEVER_MADE = "PodNeverMade"
    POD_LOST = "PodLost"
    OBJECT_GONE = "ObjectGone"
    FAILED_COUNTS_AS_CAPACITY = "FailedCountsAsCapacity"
    NOT_REGISTERED = "NotRegistered"
    HANGS_AFTER_JOB = "HangsAfterJob"
    MACHINE_GONE = "MachineGone"
    MACHINE_GONE_AT_WORK = "MachineGoneAtWork"
    INIT_FAILED = "InitFailed"
    POD_REJECTED = "PodRejected"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    UNSCHEDULABLE = "Unschedulable"
    CONTAINER_NOT_CREATED = "ContainerNotCreated"
    DEMAND_INFLATED = "DemandInflated"


ADVICE: dict[PhantomReason, str] = {
    PhantomReason.POD_NEVER_MADE: (
        "Read in ARC's controller log why it creates no pod (a quota, an admission webhook, a missing "
        "ServiceAccount), and never remove the object's finalizers before it is deleted."
    ),
    PhantomReason.POD_LOST: (
        "Delete the EphemeralRunner so that ARC creates another; never create a pod for it by hand, its "
        "configuration is used up."
    ),
    PhantomReason.OBJECT_GONE: (
        "Find the finalizer that keeps the pod, then delete the pod: safe only because its EphemeralRunner is deleted."
    ),
    PhantomReason.FAILED_COUNTS_AS_CAPACITY: (
        "ARC counts it as a runner, so its scale set has one too few (ARC #3685, #4258): delete the EphemeralRunner so "
        "that ARC creates another; never patch its status."
    ),
    PhantomReason.NOT_REGISTERED: (
        "Have its EphemeralRunner deleted, or its pod if ARC does not own it; never delete a pod of ARC's, "
        "which would restart with a used configuration."
    ),
    PhantomReason.HANGS_AFTER_JOB: (
        "Its job is over and its process hangs: delete its EphemeralRunner, or its pod if ARC does not own it, "
        "and find out what a step left running."
    ),
    PhantomReason.MACHINE_GONE: (
        "Wait until GitHub deletes it (a day, or 14 days if it is not ephemeral), or delete the registration once "
        "no EphemeralRunner of its name exists, never before."
    ),
    PhantomReason.MACHINE_GONE_AT_WORK: (
        "Wait about ten minutes until GitHub gives up its job; a busy registration cannot be deleted, so "
        "never try to force it."
    ),
    PhantomReason.INIT_FAILED: (
        "Read the log of the init container that is named, and correct it in the pod template: the agent starts only "
        "when all of them have completed."
    ),
    PhantomReason.POD_REJECTED: (
        "Its node refused the pod: compare its requests, node selector and affinity with what the node has; a pod that "
        "was refused never starts, so let its controller create another."
    ),
    PhantomReason.IMAGE_NOT_PULLED: (
        "Correct the image's name or tag in the pod template, or the registry's credentials in `imagePullSecrets`."
    ),
    PhantomReason.UNSCHEDULABLE: (
        "No node takes the pod: add nodes, or lower its requests, or correct its node selector, affinity and "
        "tolerations."
    ),
    PhantomReason.CONTAINER_NOT_CREATED: (
        "Read the pod's events (`kubectl describe pod`): mostly a Secret, ConfigMap or volume that it names is missing."
    ),
    PhantomReason.DEMAND_INFLATED: (
        "GitHub counts jobs as assigned that are over, so ARC creates too many runners (ARC #4397): see that the "
        "listener's pod runs, then, while none of its runners has a job, delete the AutoscalingRunnerSet and have Helm "
        "or GitOps create it again; restarting the listener does not help."
    ),
}


class Phantom(NamedTuple):
    """Something that counts as a runner but cannot run jobs.

    Attributes:
        subject: the runner's name, which is also the name of its pod and object; of inflated demand, the scale set's.
        pool: empty if GitHub does not list it.
        scale_set: empty if it is not ARC's.
        detail: the cluster's own words for the reason; empty if it has none. Text of others.
        is_old: False while what is found may be on its way: such a phantom is not reported, but its time counts.
        is_plain_pod: True for a pod that no EphemeralRunner owns: only such a pod may be deleted.
    """

    kind: PhantomKind
    subject: str
    reason: PhantomReason
    advice: str
    pool: str = ""
    scale_set: str = ""
    namespace: str = ""
    detail: str = ""
    is_old: bool = True
    is_plain_pod: bool = False


FoundSince = Mapping[str, float]
"""When each phantom was first found, by `key`."""


def key(phantom: Phantom) -> str:
    """Returns the key that identifies a phantom across checks."""
    return f"{phantom.kind}/{phantom.namespace}/{phantom.subject}"


def subject_of(phantom_key: str) -> str:
    """Returns the name of a phantom by its `key`: no name in a cluster has a slash."""
    return phantom_key.rpartition("/")[2]


def is_of_runner(kind: str, subject: str, runner_name: str) -> bool:
    """True if a phantom is the pod, ARC object or registration of a runner; of inflated demand it is a scale set."""
    return subject == runner_name and kind != PhantomKind.DEMAND_INFLATED


def lasting(
    found: Iterable[Phantom], before: FoundSince, now: float, grace_seconds: float
) -> tuple[list[Phantom], dict[str, float]]:
    """Returns the old phantoms that every check has found for `grace_seconds`, and the state for the next check.

    Transient ones, as a pod that was deleted between two reads, are never reported. The time counts from the first
    check that found one, also while it was young: the age that its kind needs and this time run together. A clock that
    went back restarts the time.
    """
    phantoms = list(found)
    since = {key(each): min(before.get(key(each), now), now) for each in phantoms}
    return [each for each in phantoms if each.is_old and now - since[key(each)] >= grace_seconds], since


KNOWN_SOON = (
    "wait: within two minutes of reading GitHub and the cluster it is known whether this is a phantom, which cannot be "
    "started"
)
"""What to do about runners of `may_be_phantoms`."""


def may_be_phantoms(possible: int, runners: int) -> str:
    """Returns how many of some runners without a working pod may be phantoms; the last check found them so first."""
    which = "it" if runners == 1 else f"{possible:,} of them" if possible < runners else "all of them"
    verb = "has" if possible == 1 else "have"
    return f"{which} {verb} no working pod in the cluster, and may be {'a phantom' if possible == 1 else 'phantoms'}"


def command_of(phantom: Phantom) -> str:
    """Returns the command to copy for a phantom: what its advice begins with; empty if there is nothing to do but wait.

    It deletes only where nothing that works can be hit: an EphemeralRunner, never a pod of one. Where a person has to
    look first, it shows what to look at.
    """
    name = phantom.subject
    words: tuple[str, ...]
    match phantom.reason:
        case PhantomReason.POD_LOST | PhantomReason.FAILED_COUNTS_AS_CAPACITY:
            words = ("delete", "ephemeralrunner", name)
        case PhantomReason.NOT_REGISTERED | PhantomReason.HANGS_AFTER_JOB:
            words = ("delete", "pod" if phantom.is_plain_pod else "ephemeralrunner", name)
        case PhantomReason.POD_NEVER_MADE:
            words = ("describe", "ephemeralrunner", name)
        case PhantomReason.OBJECT_GONE:
            words = ("get", "pod", name, "-o", "jsonpath={.metadata.finalizers}")
        case PhantomReason.INIT_FAILED:
            words = ("logs", name, "--all-containers", "--prefix")
        case PhantomReason.DEMAND_INFLATED:
            words = ("get", "ephemeralrunners", "-l", f"actions.github.com/scale-set-name={name}")
        case PhantomReason.MACHINE_GONE | PhantomReason.MACHINE_GONE_AT_WORK:
            return ""
        case _:
            words = ("describe", "pod", name)
    return shell_command("kubectl", "-n", phantom.namespace, *words)


def is_assigned(found: EphemeralRunner) -> bool:
    """True if this object has a job: it names one, has not succeeded and is not being deleted.

    A failed object that still names a job counts. ARC counts it as a runner and creates none in its place: too few
    (https://github.com/actions/actions-runner-controller/issues/3685, …/4258).
    """
    has_job = bool(found.job_id) or found.workflow_run_id is not None
    return has_job and found.deleting_since is None and found.phase != "Succeeded"
