"""A mass leak: what the reaper deletes counts for a fuse, as replacements do. Pure.

Many leaks at once are more likely a mistake about what is alive than many leaks: a network partition, a controller that
lost its claims, an update of all agents. A mistake may cost at most the first batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ghapp.health.leaks.tick import FuseView, Guard
from ghapp.health.pods.pod import Pod
from ghapp.health.remediation.fuse import threshold

INSTALLATION = "*"
"""Counted beside the pools: all stamped pods of the installation together."""


def held_back(leaks: Sequence[Pod], stamped: Sequence[Pod], view: FuseView) -> dict[str, Guard]:
    """Which leaks may not be deleted now, by the pods' uids, each with its guard.

    A pool's leaks, and those of the whole installation, are counted together with what was reaped there within the
    window. From the fuse's threshold on, no more than `first_batch` are reaped within a window.

    Args:
        leaks: all that were found, those that are to go first first.
        stamped: the runners' pods that bear the label and are not being deleted: how many are expected.
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
