"""Which cause a container's end bears the marks of. The order of the rules is the order of how sure each mark is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ghapp.health.deaths.cause import GRACE_TOO_SHORT, Cause, OwnReason, advice_for
from ghapp.health.deaths.runner_log import INTERRUPTED, RUNNING, ListenerExit, RunnerError, RunnerLog, read_runner_log
from ghapp.health.pods.pod import Ended, Pod

SIGKILL, SIGTERM = 9, 15
SIGNALS = range(1, 65)
BY_SIGNAL = 128
"""A container that a signal ended exits with this and the signal's number."""

EXTERNAL_TEARDOWN_CODE = 9
VERSION_DEPRECATED_CODE = 7

NODE_GONE = frozenset({"NodeLost", "DeletionByPodGC"})
"""The node is lost: it says nothing of how the runner ended, if its end was seen after all."""

POD_REASONS = frozenset(
    {
        "Evicted",
        "Preempting",
        "Preempted",
        "Terminated",
        "Shutdown",
        "NodeShutdown",
        "DeadlineExceeded",
        *NODE_GONE,
    }
)
"""A pod's own reasons that say that it was ended from outside."""

DISRUPTIONS = frozenset(
    {"PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "TerminationByKubelet"}
)
OUTSIDE = POD_REASONS | DISRUPTIONS
"""Reasons that no job and no person who cancels one brings about."""

OURS = frozenset({*OwnReason, *RunnerError, *ListenerExit} - {""})
"""Reasons that stand in for the kubelet's."""

UNSEEN = frozenset({("ContainerStatusUnknown", 137), ("Unknown", 255)})
"""Codes that the kubelet and containerd make up for a container that they lost, as by a node's restart."""


class Classification(NamedTuple):
    """What an end means.

    Attributes:
        reason: the kubelet's word; the pod's own where that ended it; one of ours where the kubelet's misleads.
        exit_code: None when the end was not seen.
        signal: as told, or by the convention of 128 and more; None for none.
    """

    cause: Cause
    reason: str
    advice: str
    exit_code: int | None = None
    signal: int | None = None


def classify(pod: Pod, log: Sequence[str] = ()) -> Classification:
    """Why the runner of a pod ended, from how its container ended and what it said last.

    In this order: an end nobody saw; the kernel's word; the runner's own words; a clean end that is proven; what was
    done to the pod from outside; signals; the other codes.

    Args:
        pod: as last read.
        log: the runner's last lines, oldest first; fewer are fine, none too.
    """
    ended = pod.ended
    if ended is None or (ended.reason, ended.exit_code) in UNSEEN:
        return _unseen(pod)
    words, outside = read_runner_log(log), disruption(pod)
    code, signal = ended.exit_code, signal_of(ended)

    def found(cause: Cause, reason: str = "", advice: str = "") -> Classification:
        why = reason or ended.reason
        return Classification(cause, why, advice or advice_for(cause, reason, pod.message), code, signal)

    if ended.reason == "OOMKilled" and not (code == 0 and words.job.startswith("Succeeded")):
        return found(Cause.HOST_OOM)
    if code == VERSION_DEPRECATED_CODE or words.trouble is RunnerError.DEPRECATED:
        return found(Cause.VERSION_DEPRECATED)
    if words.trouble is RunnerError.DELETED:
        return found(Cause.DELETED_REGISTRATION)
    told_to_stop = _told_to_stop(pod, ended)
    if code == 0 and _is_clean(words, interrupted=bool(outside) or told_to_stop):
        return found(Cause.CLEAN_EXIT)
    if outside:
        return found(Cause.TERMINATED, outside)
    if signal == SIGTERM:
        return found(Cause.TERMINATED)
    if code == EXTERNAL_TEARDOWN_CODE and ended.signal is None and ended.reason == "Error":
        return found(Cause.EXTERNAL_TEARDOWN)
    if told_to_stop:
        return found(Cause.TERMINATED, advice=GRACE_TOO_SHORT if signal == SIGKILL else "")
    if signal == SIGKILL:
        return found(Cause.GUEST_OOM_OR_KILL)
    reason = _told_reason(words)
    if code == 0 and not reason:
        return found(Cause.CLEAN_EXIT, OwnReason.SILENT)
    return found(Cause.CRASH, reason)


def signal_of(ended: Ended) -> int | None:
    """The signal that ended a container: told, or by convention; None for none."""
    if ended.signal:
        return ended.signal
    number = ended.exit_code - BY_SIGNAL
    return number if number in SIGNALS else None


def disruption(pod: Pod) -> str:
    """What ended a pod from outside, in the cluster's own word; empty for nothing that is known."""
    reason = pod.reason if pod.reason in POD_REASONS else pod.disruption
    return "" if reason in NODE_GONE else reason


def _unseen(pod: Pod) -> Classification:
    """Of an end that nobody saw, the pod's own reason is all there is."""
    outside = disruption(pod)
    if outside:
        return Classification(Cause.TERMINATED, outside, advice_for(Cause.TERMINATED, outside, pod.message))
    gone = next((each for each in (pod.reason, pod.disruption) if each in NODE_GONE), "")
    made_up = pod.ended.reason if pod.ended else ""
    if gone or made_up:
        return Classification(Cause.VANISHED, gone or made_up, advice_for(Cause.VANISHED, gone))
    return Classification(Cause.UNKNOWN, pod.reason or OwnReason.NOT_SEEN, advice_for(Cause.UNKNOWN))


def _told_to_stop(pod: Pod, ended: Ended) -> bool:
    """Whether its pod's deletion had been asked for when its runner ended. One that came after explains nothing."""
    asked, finished = pod.deleting_since, ended.finished_at or 0.0  # a lost container has ended in 1970
    return asked is not None and asked < finished


def _is_clean(words: RunnerLog, *, interrupted: bool) -> bool:
    """Whether the runner's own words prove that it ended well.

    A job that was cancelled is a person's wish, unless the runner was being taken away just then.
    """
    if words.trouble or words.closing not in {ListenerExit.NONE, ListenerExit.SUCCESS} or words.job == RUNNING:
        return False
    if words.job in INTERRUPTED:
        return not interrupted
    return words.finished_a_job or words.closing is ListenerExit.SUCCESS


def _told_reason(words: RunnerLog) -> str:
    """Why it failed, in its own words; empty when it said nothing of that."""
    if RunnerError.CONFLICT in {words.trouble.value, words.closing.value}:
        return RunnerError.CONFLICT.value
    if words.closing not in {ListenerExit.NONE, ListenerExit.SUCCESS}:
        return words.closing.value
    return OwnReason.JOB_UNFINISHED.value if words.job == RUNNING else ""
