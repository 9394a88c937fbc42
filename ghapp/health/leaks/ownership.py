"""Whose is a pod, where several organizations have their pods in one namespace. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def is_ours(names: Collection[str], here: Collection[str], others: Sequence[Collection[str]]) -> bool:
    """Whether this organization may judge a pod: never two may, and where in doubt nobody does.

    Args:
        names: what the pod and its runner are called.
        here: the names of runners and pods that this organization knows, or has claims on.
        others: the same of each other organization with pods in that namespace; empty where it is ours alone.
    """
    if not others:
        return True
    return any(name in here for name in names) and not any(name in there for there in others for name in names)
