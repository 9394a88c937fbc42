"""Tells an end that ghapp brought about itself, by a replacement, from a death. Pure."""

from __future__ import annotations

from ghapp.health.pods.deletion_guards import CLOCK_SLACK_SECONDS
from ghapp.health.pods.pod import Pod
from ghapp.health.runner.deletion_progress import Deletion


def is_own_replacement(pod: Pod, deletion: Deletion | None) -> bool:
    """Whether a runner ended because its pod, or the object that owns the pod, was deleted as its replacement.

    All of these hold:

    1. What was to be deleted is this pod, or its owner, by uid. That is recorded before the DELETE is sent.
    2. The API server accepted our DELETE; or, while no answer is recorded, the pod's deletion was asked for after
       that record. A DELETE that was refused, and one that came after somebody else's, ended nothing.
    3. The runner had not ended before (`ended_before_deletion`).

    Args:
        pod: as last seen.
        deletion: of the runner that bears the pod's name.
    """
    if deletion is None or deletion.found_at is None or not _is_meant(pod, deletion.uid):
        return False
    is_accepted = deletion.accepted_at is not None and not deletion.gone_already
    asked = pod.deleting_since
    if not is_accepted and (asked is None or asked < deletion.found_at - CLOCK_SLACK_SECONDS):
        return False
    return not ended_before_deletion(pod)


def ended_before_deletion(pod: Pod) -> bool:
    """Whether the runner had ended when its pod's deletion was asked for: another cause, and a death of its own.

    Both times are the cluster's, to the second.
    """
    finished = None if pod.ended is None or pod.is_running else pod.ended.finished_at
    if finished is None or not finished:  # a container that the kubelet lost has ended in 1970
        return False
    return pod.deleting_since is None or finished < pod.deleting_since


def _is_meant(pod: Pod, uid: str) -> bool:
    return bool(uid) and (pod.uid == uid or any(owner.uid == uid for owner in pod.owners))
