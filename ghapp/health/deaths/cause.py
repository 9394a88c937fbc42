"""Why runners die, and what is said of each cause: to the platform team what to change, to the developer what happened.

Some causes can be the job's own doing: too much memory, a step that kills the agent. Those sentences say so.
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why a runner died: the ten of the contract."""

    CLEAN_EXIT = "clean-exit"
    HOST_OOM = "host-oom"
    GUEST_OOM_OR_KILL = "guest-oom-or-kill"
    TERMINATED = "terminated"
    EXTERNAL_TEARDOWN = "external-teardown"
    CRASH = "crash"
    VERSION_DEPRECATED = "version-deprecated"
    DELETED_REGISTRATION = "deleted-registration"
    VANISHED = "vanished"
    UNKNOWN = "unknown"


class OwnReason(StrEnum):
    """Reasons of ours, where the kubelet has no word, or one that misleads."""

    SILENT = "CompletedSilently"
    JOB_UNFINISHED = "JobUnfinished"
    DELETED = "Deleted"
    POD_GONE = "PodGone"
    NOT_SEEN = "EndNotSeen"


_MIRROR = "set `ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT=1` in the runner's container, and have its log kept."

_BY_CAUSE = {
    Cause.CLEAN_EXIT: "Nothing needs to change: the runner finished what it had to do, and ended.",
    Cause.HOST_OOM: "The kernel killed the container for its memory: raise `resources.limits.memory`, and set"
    " `resources.requests.memory` to the same value, so that the node really has that much.",
    Cause.GUEST_OOM_OR_KILL: "Something sent SIGKILL inside the machine, mostly its kernel, out of memory, sometimes a"
    " failed livenessProbe: raise `resources.limits.memory`, and with kata `default_memory` of the RuntimeClass's"
    " configuration.",
    Cause.TERMINATED: "Somebody asked it to stop, by a deletion, a drain or a scale-down: give"
    " `terminationGracePeriodSeconds` the length of the longest job, with a preStop hook that waits for the job, and"
    " keep busy runners from being drained by a PodDisruptionBudget.",
    Cause.EXTERNAL_TEARDOWN: "The machine was torn down from outside: read kata, qemu and containerd in the node's"
    " journal of that minute, and raise `overhead.podFixed.memory` of the RuntimeClass, so that the host does not kill"
    " the hypervisor.",
    Cause.CRASH: "The agent or its entrypoint failed by itself: read its last lines, and where there are none "
    + _MIRROR,
    Cause.VERSION_DEPRECATED: "GitHub refuses this version of the runner: update the runner's image, and keep"
    " `ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1` set, so that it is seen by its exit code.",
    Cause.DELETED_REGISTRATION: "Its registration was gone at GitHub, so it could never take a job again: find what"
    " deletes registrations of living runners, and with ARC delete its EphemeralRunner, never its pod.",
    Cause.VANISHED: "Its pod went before anybody saw it end, mostly because the node or the machine was killed hard:"
    " read the node's journal and the cloud's events of that minute, and keep runners off spot nodes.",
    Cause.UNKNOWN: "Nothing is known of its end: let `ghapp watch` run without a break, let it get, list and watch"
    " pods, and " + _MIRROR,
}

_DRAINED = (
    "Its node was drained: protect busy runners by a PodDisruptionBudget and the annotation"
    ' `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`, and give `terminationGracePeriodSeconds` the length of'
    " the longest job."
)
_PREEMPTED = (
    "A pod of higher priority took its place: give runners a PriorityClass of at least that value, or nodes of their"
    " own by a taint."
)
_SHUT_DOWN = (
    "Its node was shut down: drain nodes before that, give the kubelet's `shutdownGracePeriod` the length of the"
    " longest job, and keep runners off spot nodes."
)
_NODE_GONE = (
    "Its node was lost with it: read the node's journal and the cloud's events of that minute, and keep runners off"
    " spot nodes."
)
_CONFLICT = (
    "Two processes used one registration: give each runner a registration of its own, and set `restartPolicy: Never`,"
    " so that no pod starts again with a spent JIT configuration."
)
_BY_REASON: dict[str, str] = {
    OwnReason.SILENT: "It exited with 0 and said nothing of a job, so it is taken for clean and may not have been: "
    + _MIRROR,
    OwnReason.JOB_UNFINISHED: "It exited with 0 while a job was running, for the listener ended before the job did: "
    + _MIRROR,
    OwnReason.DELETED: "Its pod was deleted before anybody saw the runner end: find who deleted it, give"
    " `terminationGracePeriodSeconds` the length of the longest job, and never force a deletion.",
    "SessionConflict": _CONFLICT,
    "EvictionByEvictionAPI": _DRAINED,
    "DeletionByTaintManager": "Its node got a `NoExecute` taint, mostly for being unreachable or reclaimed: set"
    " `tolerationSeconds` of `node.kubernetes.io/not-ready` and `unreachable` in the runner's pod, and keep runners off"
    " spot nodes.",
    "PreemptionByScheduler": _PREEMPTED,
    "Preempting": _PREEMPTED,
    "Preempted": _PREEMPTED,
    "TerminationByKubelet": _SHUT_DOWN,
    "Terminated": _SHUT_DOWN,
    "Shutdown": _SHUT_DOWN,
    "NodeShutdown": _SHUT_DOWN,
    "NodeLost": _NODE_GONE,
    "DeletionByPodGC": _NODE_GONE,
    "DeadlineExceeded": "The pod outlived its `activeDeadlineSeconds`: raise it above the longest job, or drop it.",
}
_BY_SHORTAGE = {
    "storage": "The node ran out of disk, or the pod used more than it may: set `resources.requests.ephemeral-storage`"
    " and its limit to what jobs write, or give the work directory a volume of its own.",
    "memory": "The node ran out of memory, and the kubelet chose this pod: set `resources.requests.memory` equal to"
    " `resources.limits.memory`, and give runners a PriorityClass.",
    "pids": "The node ran out of process ids: raise the kubelet's `podPidsLimit` and the node's, or put fewer runners"
    " on a node.",
    "": "The kubelet evicted it to relieve its node: set requests equal to limits for memory and ephemeral-storage, and"
    " give runners a PriorityClass.",
}
GRACE_TOO_SHORT = (
    "Its pod was deleted, and the runner was killed when its time to stop was over: give"
    " `terminationGracePeriodSeconds` the length of the longest job, and a preStop hook that waits for the job."
)


def advice_for(cause: Cause, reason: str = "", message: str = "") -> str:
    """What the platform team should change: one sentence, for a post-mortem has three.

    Args:
        cause: why it died.
        reason: the kubelet's word for it, or ours.
        message: the pod's own; of an eviction it names what the node was short of.
    """
    if reason == "Evicted":
        said = message.lower()
        return next(text for shortage, text in _BY_SHORTAGE.items() if shortage in said)
    return _BY_REASON.get(reason, _BY_CAUSE[cause])


HAPPENED = {
    Cause.CLEAN_EXIT: "The runner ended as it should",
    Cause.HOST_OOM: "The runner was killed because its container reached its memory limit",
    Cause.GUEST_OOM_OR_KILL: "The runner was killed from inside its machine, most likely because memory ran out",
    Cause.TERMINATED: "The runner was stopped from outside",
    Cause.EXTERNAL_TEARDOWN: "The machine that the runner was in was torn down from outside",
    Cause.CRASH: "The runner crashed",
    Cause.VERSION_DEPRECATED: "GitHub refused the runner because its version is too old",
    Cause.DELETED_REGISTRATION: "The runner's registration at GitHub was deleted while it was alive",
    Cause.VANISHED: "The runner disappeared together with its pod, before anybody saw it end",
    Cause.UNKNOWN: "The runner ended, and nobody saw how",
}

NOT_YOURS = {
    Cause.CLEAN_EXIT: "Whatever the job's result is, the runner has no part in it.",
    Cause.HOST_OOM: "No line of your code failed, but the job and the runner together needed more memory than they"
    " were given.",
    Cause.GUEST_OOM_OR_KILL: "No line of your code is known to have failed; if it was memory, the job used more than"
    " its machine has.",
    Cause.TERMINATED: "It was not your code: the job was interrupted, and can be run again as it is.",
    Cause.EXTERNAL_TEARDOWN: "It was not your code: the job was interrupted, and can be run again as it is.",
    Cause.CRASH: "It is most likely not your code, unless a step of the job stopped the runner or used up its machine.",
    Cause.VERSION_DEPRECATED: "It was not your code: no job can run there until the runner is updated.",
    Cause.DELETED_REGISTRATION: "It was not your code: the job was interrupted, and can be run again as it is.",
    Cause.VANISHED: "It was most likely not your code: the job was interrupted, and can be run again as it is.",
    Cause.UNKNOWN: "Whether your code has a part in it cannot be told.",
}
