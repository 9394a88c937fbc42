"""Limits mass leaks: pods deleted by the reaper count for the fuse, as replacements do. Pure.

Many leaks at once are more likely a wrong judgement than real leaks: a network partition, a controller that lost its
claims, an update of all agents. A wrong judgement may cost at most the first batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ghapp.health.leaks.tick import FuseView, Guard
from ghapp.health.pods.pod import Pod
from ghapp.health.remediation.fuse import threshold

INSTALLATION = "*"
"""Counted besides the pools: all labelled pods of the installation."""


def held_back(leaks: Sequence[Pod], stamped: Sequence[Pod], view: FuseView) -> dict[str, Guard]:
    """Returns the leaks that may not be deleted now, by the pods' uids, each with its guard.

    The leaks of a pool, and of the whole installation, are counted together with the pods reaped there within the
    window. From the fuse's threshold on, at most `first_batch` are reaped within a window.

    Args:
        leaks: all leaks, in the order of deletion.
        stamped: runners' pods with the label that are not being deleted: the expected number.
        view: of the fuses.
    """
    lost, expected, reaped = Counter[str](), Counter[str](), Counter(view.reaped)
    reaped[INSTALLATION] = sum(view.reaped.values())
    for pods, counter in ((leaks, lost), (stamped, expected)):
        for pod in pods:
            counter.update((view.pools.get(pod.uid, ""), INSTALLATION))
    room = {
        scope: max(0, view.limits.first_batch - reaped[scope])
        for scope in lost
        if lost[scope] + reaped[scope] >= threshold(expected[scope], view.limits)
    }
    held: dict[str, Guard] = {}
    for pod in leaks:
        scopes = [scope for scope in (view.pools.get(pod.uid, ""), INSTALLATION) if scope in room]
        if pod.uid in view.not_closed:
            held[pod.uid] = Guard.FUSE_NOT_CLOSED
        elif any(room[scope] <= 0 for scope in scopes):
            held[pod.uid] = Guard.MASS_LEAK
        else:
            for scope in scopes:
                room[scope] -= 1
    return held
