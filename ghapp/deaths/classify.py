"""Classifies a container's end by its cause. The rules are ordered by certainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ghapp.deaths.cause import DEADLINE_EXCEEDED, GRACE_TOO_SHORT, Cause, OwnReason, Shortage, advice_for, shortage
from ghapp.deaths.runner_log import INTERRUPTED, RUNNING, ListenerExit, RunnerError, RunnerLog, read_runner_log
from ghapp.pods.pod import Ended, Pod

SIGKILL, SIGTERM = 9, 15
SIGNALS = range(1, 65)
BY_SIGNAL = 128
"""A container ended by a signal exits with this code plus the signal's number."""

EXTERNAL_TEARDOWN_CODE = 9
VERSION_DEPRECATED_CODE = 7

NODE_GONE = frozenset({"NodeLost", "DeletionByPodGC"})
"""The node was lost: this does not explain how the runner ended if its end was observed."""

POD_REASONS = frozenset(
    {
        "Evicted",
        "Preempting",
        "Preempted",
        "Terminated",
        "Shutdown",
        "NodeShutdown",
        DEADLINE_EXCEEDED,
        *NODE_GONE,
    }
)
"""A pod's own reasons for an end from outside."""

DISRUPTIONS = frozenset(
    {"PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "TerminationByKubelet"}
)
OUTSIDE = (POD_REASONS | DISRUPTIONS) - {DEADLINE_EXCEEDED}
"""Reasons that neither a job nor a person who cancels a job causes."""

OURS = frozenset({*OwnReason, *RunnerError, *ListenerExit} - {""})
"""Reasons that replace the kubelet's."""

UNSEEN = frozenset({("ContainerStatusUnknown", 137), ("Unknown", 255)})
"""Codes that the kubelet and containerd invent for a container that they lost, as after a restart of the node."""


class Classification(NamedTuple):
    """The classified end of a container.

    Attributes:
        reason: the kubelet's reason; the pod's own if that ended it; one of ours if the kubelet's misleads.
        exit_code: None if the end was not observed.
        signal: as reported, or derived from an exit code above 128; None if there was none.
    """

    cause: Cause
    reason: str
    advice: str
    exit_code: int | None = None
    signal: int | None = None


def classify(pod: Pod, log: Sequence[str] = ()) -> Classification:
    """Classifies the end of a pod's runner from its container's end and its last log lines.

    The order of the rules: an unobserved end; the kernel's reason; the runner's log; a proven clean end; what ended
    the pod from outside; signals; other exit codes.

    Args:
        pod: as last read.
        log: the runner's last lines, oldest first; may be incomplete or empty.
    """
    ended = pod.ended
    if ended is None or (ended.reason, ended.exit_code) in UNSEEN:
        return _unseen(pod)
    runner_log, outside = read_runner_log(log), disruption(pod)
    code, signal = ended.exit_code, signal_of(ended)

    def found(cause: Cause, reason: str = "", advice: str = "") -> Classification:
        why = reason or ended.reason
        return Classification(cause, why, advice or advice_for(cause, reason, pod.message), code, signal)

    if ended.reason == "OOMKilled" and not (code == 0 and runner_log.job.startswith("Succeeded")):
        return found(Cause.HOST_OOM)
    if code == VERSION_DEPRECATED_CODE or runner_log.trouble is RunnerError.DEPRECATED:
        return found(Cause.VERSION_DEPRECATED)
    if runner_log.trouble is RunnerError.DELETED:
        return found(Cause.DELETED_REGISTRATION)
    was_asked_to_stop = _was_asked_to_stop(pod, ended)
    if code == 0 and _is_clean(runner_log, interrupted=bool(outside) or was_asked_to_stop):
        return found(Cause.CLEAN_EXIT)
    if outside:
        return found(Cause.TERMINATED, outside)
    if signal == SIGTERM:
        return found(Cause.TERMINATED)
    if code == EXTERNAL_TEARDOWN_CODE and ended.signal is None and ended.reason == "Error":
        return found(Cause.EXTERNAL_TEARDOWN)
    if was_asked_to_stop:
        return found(Cause.TERMINATED, advice=GRACE_TOO_SHORT if signal == SIGKILL else "")
    if signal == SIGKILL:
        return found(Cause.GUEST_OOM_OR_KILL)
    reason = _logged_reason(runner_log)
    if code == 0 and not reason:
        return found(Cause.CLEAN_EXIT, OwnReason.SILENT)
    return found(Cause.CRASH, reason)


def signal_of(ended: Ended) -> int | None:
    """Returns the signal that ended a container, as reported or derived from the exit code; None if there was none."""
    if ended.signal:
        return ended.signal
    number = ended.exit_code - BY_SIGNAL
    return number if number in SIGNALS else None


def disruption(pod: Pod) -> str:
    """Returns the cluster's reason for ending a pod; empty if none is known. The pod's own limits have own reasons."""
    reason = pod.reason if pod.reason in POD_REASONS else pod.disruption
    if reason == "Evicted" and shortage(pod.message) is Shortage.OWN_STORAGE:
        return OwnReason.STORAGE_LIMIT.value
    return "" if reason in NODE_GONE else reason


def _unseen(pod: Pod) -> Classification:
    """Classifies an unobserved end by the pod's own reason, the only evidence."""
    outside = disruption(pod)
    if outside:
        return Classification(Cause.TERMINATED, outside, advice_for(Cause.TERMINATED, outside, pod.message))
    node_lost = next((each for each in (pod.reason, pod.disruption) if each in NODE_GONE), "")
    invented = pod.ended.reason if pod.ended else ""
    if node_lost or invented:
        return Classification(Cause.VANISHED, node_lost or invented, advice_for(Cause.VANISHED, node_lost))
    return Classification(Cause.UNKNOWN, pod.reason or OwnReason.NOT_SEEN, advice_for(Cause.UNKNOWN))


def _was_asked_to_stop(pod: Pod, ended: Ended) -> bool:
    """True if the pod's deletion was requested before its runner ended. A later deletion explains nothing."""
    requested, finished = pod.deleting_since, ended.finished_at or 0.0  # the end of a lost container is in 1970
    return requested is not None and requested < finished


def _is_clean(runner_log: RunnerLog, *, interrupted: bool) -> bool:
    """True if the runner's log proves a clean end.

    A cancelled job counts as a person's request, unless the runner was being removed at that time.
    """
    is_closed_well = runner_log.closing in {ListenerExit.NONE, ListenerExit.SUCCESS}
    if runner_log.trouble or not is_closed_well or runner_log.job == RUNNING:
        return False
    if runner_log.job in INTERRUPTED:
        return not interrupted
    return runner_log.finished_a_job or runner_log.closing is ListenerExit.SUCCESS


def _logged_reason(runner_log: RunnerLog) -> str:
    """Returns the reason of the failure from the runner's log; empty if the log has none."""
    if RunnerError.CONFLICT in {runner_log.trouble.value, runner_log.closing.value}:
        return RunnerError.CONFLICT.value
    if runner_log.closing not in {ListenerExit.NONE, ListenerExit.SUCCESS}:
        return runner_log.closing.value
    return OwnReason.JOB_UNFINISHED.value if runner_log.job == RUNNING else ""
