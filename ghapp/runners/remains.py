"""What the cluster still shows of a runner whose registration is missing. Pure; times are epoch seconds, our clock.

A missing registration does not prove that the runner's process has ended; a watched cluster shows it. A process that
runs on after its job is a zombie, an object that cannot be deleted occupies the place of another runner, and a runner
without object and pod was removed by its controller or with its machine.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RemainsKind(StrEnum):
    """Kind of the remains."""

    NOTHING = "nothing"
    """Neither an object nor a pod."""
    RUNNING = "running"
    """A pod whose runner's container runs."""
    ENDED = "ended"
    """A pod whose runner's container ended or never started."""
    NO_POD = "no-pod"
    """ARC's object, and no pod."""
    TERMINATING = "terminating"
    """ARC's object is being deleted and still exists; without an object, the pod."""


PROCESS_ENDED = frozenset({RemainsKind.NOTHING, RemainsKind.ENDED, RemainsKind.NO_POD})
"""Kinds that exclude a running process of the runner."""


class Remains(NamedTuple):
    """Fields are only ever appended: stored records are read by position.

    Attributes:
        kind: their kind.
        since: the first of the uninterrupted views that showed this kind.
        seen_at: the latest view that showed it.
    """

    kind: RemainsKind
    since: float
    seen_at: float


def remains_seen(before: Remains | None, kind: RemainsKind, at: float) -> Remains:
    """Adds the view of `at`. An older view changes nothing; another kind restarts `since`."""
    if before is not None and at < before.seen_at:
        return before
    since = before.since if before is not None and before.kind is kind else at
    return Remains(kind, since, at)
