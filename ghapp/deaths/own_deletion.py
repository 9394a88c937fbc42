"""Distinguishes an end before a pod's deletion from one that the deletion caused. Pure."""

from __future__ import annotations

from ghapp.pods.pod import Pod


def ended_before_deletion(pod: Pod) -> bool:
    """True if the runner had ended before its pod's deletion was requested: a death with another cause.

    Both times are the cluster's, in whole seconds.
    """
    finished = None if pod.ended is None or pod.is_running else pod.ended.finished_at
    if finished is None or not finished:  # the end of a container that the kubelet lost is in 1970
        return False
    return pod.deleting_since is None or finished < pod.deleting_since
