"""Decides which organization a pod belongs to, if several have pods in one namespace. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def is_ours(names: Collection[str], here: Collection[str], others: Sequence[Collection[str]]) -> bool:
    """True if this organization may judge a pod. At most one organization may; in doubt, none does.

    Args:
        names: names of the pod and its runner.
        here: names of runners and pods that this organization knows or has claims on.
        others: the same for each other organization with pods in that namespace; empty if there is none.
    """
    if not others:
        return True
    return any(name in here for name in names) and not any(name in other for other in others for name in names)
