"""Why a runner's pod never started its agent, in the cluster's own words. Pure.

Sources: kubelet 1.36, `pkg/kubelet/images` and `pkg/kubelet/kuberuntime` (reasons of waiting containers) and
`pkg/kubelet/lifecycle` (rejections by the admission of a node); kube-scheduler's condition `PodScheduled`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ghapp.pods.phantom_kinds import PhantomReason
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.untrusted_text import one_line

IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
INITIALIZING = "PodInitializing"
"""Of a container that waits for the init containers, which show the reason."""

LONGEST_TEXT = 300

_NODES = re.compile(r"\b[0-9]+(?:/[0-9]+)? (?:nodes are available: )?")
_PREEMPTION = re.compile(r"\.? *(?:no new claims|preemption):.*", re.DOTALL)


class NotStarted(NamedTuple):
    """Why the agent of a pod never started, and the cluster's words for it, at most `LONGEST_TEXT` characters."""

    reason: PhantomReason
    text: str


def why_not_started(pod: Pod) -> NotStarted | None:
    """Returns why a pod never started its agent; None if it did, is on its way, or is over without a reason."""
    if any(each.has_started for each in pod.agents):
        return None
    why = _failed(pod) if pod.phase == "Failed" else _pending(pod) if pod.phase != "Succeeded" else None
    return None if why is None else why._replace(text=one_line(why.text, LONGEST_TEXT))


def _failed(pod: Pod) -> NotStarted | None:
    for each in pod.init:
        if each.ended is not None:
            return _init_failed(each, each.ended)
    return NotStarted(PhantomReason.POD_REJECTED, _joined(pod.reason, pod.message)) if pod.reason else None


def _pending(pod: Pod) -> NotStarted | None:
    if pod.unschedulable and not pod.node:
        return NotStarted(PhantomReason.UNSCHEDULABLE, _without_counts(pod.unschedulable))
    if any(each.running_since is not None for each in pod.init):
        return None
    for each in (*pod.init, *pod.agents):
        if each.waiting in IMAGE_REASONS:
            # "Back-off pulling image" quotes the error, which is shown by turns with it.
            text = each.waiting_message.rpartition("ErrImagePull: ")[2] or each.waiting
            return NotStarted(PhantomReason.IMAGE_NOT_PULLED, text)
        if (ended := each.ended or each.last_ended) is not None and ended.exit_code:
            return _init_failed(each, ended)
        if each.waiting and each.waiting != INITIALIZING:
            return NotStarted(PhantomReason.CONTAINER_NOT_CREATED, _joined(each.waiting, each.waiting_message))
    return None


def _init_failed(container: Container, ended: Ended) -> NotStarted:
    words = _joined(f"init container {container.name} ended with exit code {ended.exit_code}", ended.message)
    return NotStarted(PhantomReason.INIT_FAILED, words)


def _joined(first: str, rest: str) -> str:
    return f"{first}: {rest}" if rest else first


def _without_counts(message: str) -> str:
    """Returns the scheduler's reasons without numbers of nodes, which change with each node that comes or goes."""
    return _NODES.sub("", _PREEMPTION.sub("", message)).rstrip(". ") or "Unschedulable"
