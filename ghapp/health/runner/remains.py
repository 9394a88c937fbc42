"""What the cluster still shows of a runner whose registration is gone. Pure; times are epoch seconds, by our clock.

A registration that is gone says nothing of the process behind it. Where the cluster is watched, its view does: a
process that runs on after its job is a zombie, an object that cannot be deleted takes the place of another runner, and
a runner of which nothing stands was taken away by its controller, or with its machine.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RemainsKind(StrEnum):
    """What stands there."""

    NOTHING = "nothing"
    """Neither an object nor a pod."""
    RUNNING = "running"
    """A pod whose runner's container runs."""
    ENDED = "ended"
    """A pod whose runner's container ended or never started."""
    NO_POD = "no-pod"
    """ARC's object, and no pod."""
    TERMINATING = "terminating"
    """ARC's object is being deleted and is not gone; where no object of ARC's is there, the pod is."""


PROCESS_ENDED = frozenset({RemainsKind.NOTHING, RemainsKind.ENDED, RemainsKind.NO_POD})
"""No process of the runner can be running."""


class Remains(NamedTuple):
    """Fields are only ever appended: stored records are read by position.

    Attributes:
        kind: what stands there.
        since: the first view that showed this, without another between.
        seen_at: the latest view that showed it.
    """

    kind: RemainsKind
    since: float
    seen_at: float


def remains_seen(before: Remains | None, kind: RemainsKind, at: float) -> Remains:
    """One more view, of `at`. An older one changes nothing; another kind starts anew."""
    if before is not None and at < before.seen_at:
        return before
    since = before.since if before is not None and before.kind is kind else at
    return Remains(kind, since, at)
