"""Distinguishes an end caused by ghapp's own replacement from a death. Pure."""

from __future__ import annotations

from ghapp.health.pods.deletion_guards import CLOCK_SLACK_SECONDS
from ghapp.health.pods.pod import Pod
from ghapp.health.runner.deletion_progress import Deletion


def is_own_replacement(pod: Pod, deletion: Deletion | None) -> bool:
    """True if a runner ended because its pod, or the pod's owner, was deleted for its replacement.

    All of these are required:

    1. The deletion's target is this pod or its owner, by uid. The target is recorded before the DELETE is sent.
    2. The API server accepted our DELETE; or no answer is recorded, and the pod's deletion was requested after that
       record. A DELETE that was refused, or that followed another client's, ended nothing.
    3. The runner had not ended before (`ended_before_deletion`).

    Args:
        pod: as last seen.
        deletion: of the runner with the pod's name.
    """
    if deletion is None or deletion.found_at is None or not _is_meant(pod, deletion.uid):
        return False
    is_accepted = deletion.accepted_at is not None and not deletion.already_deleted
    requested = pod.deleting_since
    if not is_accepted and (requested is None or requested < deletion.found_at - CLOCK_SLACK_SECONDS):
        return False
    return not ended_before_deletion(pod)


def ended_before_deletion(pod: Pod) -> bool:
    """True if the runner had ended before its pod's deletion was requested: a death with another cause.

    Both times are the cluster's, in whole seconds.
    """
    finished = None if pod.ended is None or pod.is_running else pod.ended.finished_at
    if finished is None or not finished:  # the end of a container that the kubelet lost is in 1970
        return False
    return pod.deleting_since is None or finished < pod.deleting_since


def _is_meant(pod: Pod, uid: str) -> bool:
    return bool(uid) and (pod.uid == uid or any(owner.uid == uid for owner in pod.owners))
