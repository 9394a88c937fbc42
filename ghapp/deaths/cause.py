"""Causes of death and their texts: what happened, for the developer, and advice for the platform team.

Some causes may be the job's own fault: too much memory, a step that kills the agent. Their texts say so.

What a pod was evicted for is read from the kubelet's sentence, which is matched whole, because names of volumes and
containers are part of it: a volume may be called `memory-cache`. Source: kubelet 1.36, `pkg/kubelet/eviction`.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Shortage(StrEnum):
    """What ran short. `OWN_STORAGE`: the pod's own limit; the others: the node's."""

    OWN_STORAGE = "own-storage"
    STORAGE = "storage"
    MEMORY = "memory"
    PIDS = "pids"
    UNKNOWN = ""


_OWN_STORAGE = re.compile(
    r'Usage of EmptyDir volume ".+" exceeds the limit ".+"\..*'
    r"|Pod ephemeral local storage usage exceeds the total limit of containers .+"
    r'|Container .+ exceeded its local ephemeral storage limit ".+"\..*',
    re.DOTALL,
)
_NODE = re.compile(r"The node was low on resource: ([\w-]+)\..*|The node had condition: \[(\w+)\].*", re.DOTALL)
_OF_NODE = {
    "memory": Shortage.MEMORY,
    "MemoryPressure": Shortage.MEMORY,
    "ephemeral-storage": Shortage.STORAGE,
    "inodes": Shortage.STORAGE,
    "DiskPressure": Shortage.STORAGE,
    "pids": Shortage.PIDS,
    "PIDPressure": Shortage.PIDS,
}


def shortage(message: str) -> Shortage:
    """Returns what ran short, by the message of an evicted pod."""
    text = message.strip()
    if _OWN_STORAGE.fullmatch(text):
        return Shortage.OWN_STORAGE
    node = _NODE.fullmatch(text)
    return _OF_NODE.get(node[1] or node[2], Shortage.UNKNOWN) if node else Shortage.UNKNOWN


class Cause(StrEnum):
    """Cause of a runner's death."""

    CLEAN_EXIT = "clean-exit"
    HOST_OOM = "host-oom"
    GUEST_OOM_OR_KILL = "guest-oom-or-kill"
    TERMINATED = "terminated"
    EXTERNAL_TEARDOWN = "external-teardown"
    CRASH = "crash"
    VERSION_DEPRECATED = "version-deprecated"
    DELETED_REGISTRATION = "deleted-registration"
    VANISHED = "vanished"
    LOST_COMMUNICATION = "lost-communication"
    UNKNOWN = "unknown"


class OwnReason(StrEnum):
    """Reasons of our own, used if the kubelet has no reason or a misleading one."""

    SILENT = "CompletedSilently"
    JOB_UNFINISHED = "JobUnfinished"
    DELETED = "Deleted"
    POD_GONE = "PodGone"
    NOT_SEEN = "EndNotSeen"
    SHUTDOWN_SIGNAL = "ShutdownSignal"
    LOST_COMMUNICATION = "LostCommunication"
    STEP_LEFT_OPEN = "StepLeftOpen"
    WENT_OFFLINE = "OfflineDuringJob"
    REGISTRATION_LOST = "RegistrationLost"
    REMOVED = "RemovedDuringJob"
    STORAGE_LIMIT = "StorageLimitExceeded"


JOB_REASONS = frozenset(
    {
        OwnReason.SHUTDOWN_SIGNAL,
        OwnReason.LOST_COMMUNICATION,
        OwnReason.STEP_LEFT_OPEN,
        OwnReason.WENT_OFFLINE,
        OwnReason.REGISTRATION_LOST,
        OwnReason.REMOVED,
    }
)
"""Reasons that the runner's job shows."""

DEADLINE_EXCEEDED = "DeadlineExceeded"

USED_UP = frozenset({OwnReason.STORAGE_LIMIT, DEADLINE_EXCEEDED})
"""The job used up what its pod may have: unless something changes, its next attempt ends in the same way."""


_MIRROR = "set `ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT=1` in the runner's container, and keep its log."

_BY_CAUSE = {
    Cause.CLEAN_EXIT: "Nothing needs to change: the runner finished its work and exited.",
    Cause.HOST_OOM: "The kernel killed the container at its memory limit: raise `resources.limits.memory`, and set"
    " `resources.requests.memory` to the same value, so that the node really has that much.",
    Cause.GUEST_OOM_OR_KILL: "A process inside the machine sent SIGKILL, mostly the kernel out of memory,"
    " sometimes a failed livenessProbe: raise `resources.limits.memory`, and with kata `default_memory` of the"
    " RuntimeClass's configuration.",
    Cause.TERMINATED: "The runner was asked to stop, by a deletion, a drain or a scale-down: set"
    " `terminationGracePeriodSeconds` to the length of the longest job, add a preStop hook that waits for the job, and"
    " protect busy runners from drains with a PodDisruptionBudget.",
    Cause.EXTERNAL_TEARDOWN: "The machine was torn down from outside: read kata, qemu and containerd in the node's"
    " journal of that minute, and raise `overhead.podFixed.memory` of the RuntimeClass, so that the host does not kill"
    " the hypervisor.",
    Cause.CRASH: "The agent or its entrypoint failed by itself: read its last log lines; if there are none, " + _MIRROR,
    Cause.VERSION_DEPRECATED: "GitHub refuses this version of the runner: update the image in the spec of its scale set"
    " or pod template, because ARC 0.14 or later marks the whole scale set `Outdated` by that exit code (7) and creates"
    " no runner until its spec changes, and keep `ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1` set, so that"
    " the exit code shows the cause.",
    Cause.DELETED_REGISTRATION: "Its registration at GitHub was deleted, so it could not take a job again: find out"
    " what deletes registrations of running runners, and with ARC delete its EphemeralRunner, never its pod.",
    Cause.VANISHED: "Its pod disappeared before its end was observed: if other pods of its node went on, somebody"
    " deleted it by force, and the cluster's audit log has who; else the node or the machine was killed: read the"
    " node's journal and the cloud's events of that minute, and keep runners off spot nodes.",
    Cause.LOST_COMMUNICATION: "The runner stopped reporting to GitHub: read the machine's system log and the cloud's"
    " events of that time for an interruption, an out-of-memory kill or a lost network, keep runners off spot machines,"
    " and alert on memory and disk.",
    Cause.UNKNOWN: "Its end left no evidence: keep `ghapp watch` running without a gap, allow it to get, list and watch"
    " pods, and " + _MIRROR,
}

_DRAINED = (
    "Its node was drained: protect busy runners with a PodDisruptionBudget and the annotation"
    ' `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`, and set `terminationGracePeriodSeconds` to the length'
    " of the longest job."
)
_PREEMPTED = (
    "A pod of higher priority preempted it: give runners a PriorityClass of at least that value, or dedicated nodes"
    " with a taint."
)
_SHUT_DOWN = (
    "Its node was shut down: drain nodes before a shutdown, set the kubelet's `shutdownGracePeriod` to the length of"
    " the longest job, and keep runners off spot nodes."
)
_NODE_GONE = (
    "Its node was lost with it: read the node's journal and the cloud's events of that minute, and keep runners off"
    " spot nodes."
)
_CONFLICT = (
    "Two processes used one registration: give each runner its own registration, and set `restartPolicy: Never`,"
    " so that no pod restarts with a used JIT configuration."
)
_BY_REASON: dict[str, str] = {
    OwnReason.SILENT: "It exited with code 0 and logged nothing about a job, so a clean exit is only assumed: "
    + _MIRROR,
    OwnReason.JOB_UNFINISHED: "It exited with code 0 while a job was running: the listener ended before the job did: "
    + _MIRROR,
    OwnReason.DELETED: "Its pod was deleted before the runner's end was observed: find out what deleted it, set"
    " `terminationGracePeriodSeconds` to the length of the longest job, and never force a deletion.",
    OwnReason.SHUTDOWN_SIGNAL: "The runner's process received SIGTERM while its job ran: find out what stopped the"
    " service or the machine (a scale-down, an interruption notice, an update), and have it wait for running jobs.",
    OwnReason.REGISTRATION_LOST: "Its registration at GitHub disappeared while its job ran: find out what deletes"
    " registrations, and exclude busy runners; GitHub answers 422 when a busy runner is to be deleted.",
    OwnReason.REMOVED: "A controller reported that it removed this runner while its job ran: have it check `busy`"
    " before a scale-down, and wait for the job.",
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
    DEADLINE_EXCEEDED: "The pod exceeded its `activeDeadlineSeconds`: raise it above the longest job, or remove it.",
    OwnReason.STORAGE_LIMIT: "More was written than the pod may hold: raise `sizeLimit` of the emptyDir or"
    " `resources.limits.ephemeral-storage`, or give the work directory a volume of its own.",
}
_BY_SHORTAGE = {
    Shortage.STORAGE: "The node ran out of disk: set `resources.requests.ephemeral-storage` and its limit to what jobs"
    " write, or give the work directory a volume of its own.",
    Shortage.MEMORY: "The node ran out of memory, and the kubelet chose this pod: set `resources.requests.memory` equal"
    " to `resources.limits.memory`, and give runners a PriorityClass.",
    Shortage.PIDS: "The node ran out of process ids: raise the kubelet's `podPidsLimit` and the node's, or put fewer"
    " runners on a node.",
    Shortage.UNKNOWN: "The kubelet evicted it to relieve its node: set requests equal to limits for memory and"
    " ephemeral-storage, and give runners a PriorityClass.",
}
GRACE_TOO_SHORT = (
    "Its pod was deleted, and the runner was killed at the end of its grace period: set"
    " `terminationGracePeriodSeconds` to the length of the longest job, and add a preStop hook that waits for the job."
)


def advice_for(cause: Cause, reason: str = "", message: str = "") -> str:
    """Returns advice for the platform team: one sentence, the third of a post-mortem.

    Args:
        cause: the cause of death.
        reason: the kubelet's reason, or ours.
        message: the pod's message; for an eviction it names the resource that the node was short of.
    """
    if reason == "Evicted":
        short = shortage(message)
        return _BY_REASON[OwnReason.STORAGE_LIMIT] if short is Shortage.OWN_STORAGE else _BY_SHORTAGE[short]
    return _BY_REASON.get(reason, _BY_CAUSE[cause])


_SPEAKS_OF_JOBS = re.compile(r"\b(?:the|its|longest) jobs?\b|\bbusy runners\b", re.IGNORECASE)


def fitting_advice(advice: str, *, has_job: bool) -> str:
    """Returns the advice for what is known of the job by now: without a job, what protects jobs is left out."""
    if has_job or not _SPEAKS_OF_JOBS.search(advice):
        return advice
    return f"{advice.partition(':')[0]}, while no job is known to have run: if that was meant, nothing needs to change."


HAPPENED = {
    Cause.CLEAN_EXIT: "The runner exited normally",
    Cause.HOST_OOM: "The runner was killed because its container reached its memory limit",
    Cause.GUEST_OOM_OR_KILL: "The runner was killed from inside its machine, most likely because memory ran out",
    Cause.TERMINATED: "The runner was stopped from outside",
    Cause.EXTERNAL_TEARDOWN: "The runner's machine was torn down from outside",
    Cause.CRASH: "The runner crashed",
    Cause.VERSION_DEPRECATED: "GitHub refused the runner because its version is too old",
    Cause.DELETED_REGISTRATION: "The runner's registration at GitHub was deleted while the runner was running",
    Cause.VANISHED: "The runner disappeared together with its pod before its end was observed",
    Cause.LOST_COMMUNICATION: "The runner lost communication with GitHub while the job ran",
    Cause.UNKNOWN: "The runner ended, and its end left no evidence",
}

_AS_IT_IS = " and can be re-run unchanged."
_NOT_YOURS = {
    Cause.CLEAN_EXIT: "The runner did not affect the job's result.",
    Cause.HOST_OOM: "No line of your code failed, but the job and the runner together needed more memory than their"
    " limit.",
    Cause.GUEST_OOM_OR_KILL: "No line of your code is known to have failed; if memory ran out, the job used more than"
    " its machine has.",
    Cause.TERMINATED: "It was not your code: the job was interrupted" + _AS_IT_IS,
    Cause.EXTERNAL_TEARDOWN: "It was not your code: the job was interrupted" + _AS_IT_IS,
    Cause.CRASH: "It is most likely not your code, unless a step of the job stopped the runner or used up its machine.",
    Cause.VERSION_DEPRECATED: "It was not your code: no job can run there until the runner is updated.",
    Cause.DELETED_REGISTRATION: "It was not your code: the job was interrupted" + _AS_IT_IS,
    Cause.VANISHED: "It was most likely not your code: the job was interrupted" + _AS_IT_IS,
    Cause.LOST_COMMUNICATION: "It is most likely not your code, unless a step of the job used up the machine's memory"
    " or disk.",
    Cause.UNKNOWN: "It is unknown whether your code contributed.",
}

_USED_UP = {
    OwnReason.STORAGE_LIMIT: "The job wrote more than its pod may hold: run again unchanged, it ends in the same way.",
    DEADLINE_EXCEEDED: "The job ran longer than its pod may: run again unchanged, it ends in the same way.",
}


LESS_MEMORY = "change the job so that it needs less memory, or runs in a pool with more"
_BEFORE_A_RERUN = {
    Cause.HOST_OOM: LESS_MEMORY,
    Cause.GUEST_OOM_OR_KILL: LESS_MEMORY,
    Cause.VERSION_DEPRECATED: "have the platform team update the runner",
    OwnReason.STORAGE_LIMIT: "change the job so that it writes less, or runs in a pool with more storage",
    DEADLINE_EXCEEDED: "change the job so that it takes less time, or runs in a pool that permits more",
}
"""What a person changes before the job is run again: unchanged, it may end in the same way."""


def needed_change(cause: Cause, reason: str) -> str:
    """Returns what a person has to change before a re-run; empty if this need not end the next attempt, too."""
    return _BEFORE_A_RERUN.get(reason) or _BEFORE_A_RERUN.get(cause, "")


def rerun_label(cause: Cause, reason: str) -> str:
    """Returns the text of the button that runs the job again: at most 20 characters, as GitHub permits."""
    return "Re-run anyway" if needed_change(cause, reason) else "Re-run this job"


NO_JOB = "No job is known to have been interrupted."


def not_yours(cause: Cause, reason: str, *, has_job: bool = True, is_run_again: bool = False) -> str:
    """Returns whether the job's code caused the death, for its developer: one sentence, after what happened.

    Without a known job there is no code: the runner was idle, or no delivery has shown its job. That a job can be
    re-run is left out if it was run again.
    """
    text = _USED_UP.get(reason, _NOT_YOURS[cause]) if has_job else NO_JOB
    return f"{text.removesuffix(_AS_IT_IS)}." if is_run_again and text.endswith(_AS_IT_IS) else text
