"""Progress of deleting a lost runner's object or pod in the cluster; part of the runner's evidence.

A value; each function adds one step and returns the new value. The target is recorded before the request is sent, so
that a retry after a crash knows which object or pod was meant. Times are epoch seconds.
"""

from __future__ import annotations

from typing import NamedTuple

LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 30.0, 600.0
"""Limits of the delay between two checks of a waiting deletion; the delay equals the time waited so far."""


class Deletion(NamedTuple):
    """Fields are only ever appended: stored records are read by position.

    Attributes:
        uid: uid of the object or pod to delete, recorded before the request; empty if there was none.
        found: its description, for people.
        found_at: when it was recorded.
        left_to_arc: ARC's object is deleted, and ARC removes pod, secret and registration itself.
        accepted_at: when the API server accepted the deletion, or nothing existed any more.
        freed_at: when the finalizer that waited for GitHub was removed.
        over_at: when the deletion was complete.
        waits_for: what blocks the deletion (`blockers.Blocker`); empty if nothing does.
        waiting_since: since when it is blocked.
        look_at: no check before this time.
        already_deleted: `accepted_at` records no deletion of ours: the object or pod was already deleted, or another
            client was deleting it.
        words: the API server's message beside `waits_for`, without secrets; empty if there is none.
    """

    uid: str = ""
    found: str = ""
    found_at: float | None = None
    left_to_arc: bool = False
    accepted_at: float | None = None
    freed_at: float | None = None
    over_at: float | None = None
    waits_for: str = ""
    waiting_since: float | None = None
    look_at: float | None = None
    already_deleted: bool = False
    words: str = ""

    @property
    def is_under_way(self) -> bool:
        """True if the deletion was accepted and is not complete: it must be checked again."""
        return self.accepted_at is not None and self.over_at is None


def found(deletion: Deletion | None, at: float, uid: str, description: str, *, left_to_arc: bool) -> Deletion:
    """Records the target before its deletion. What it waited for is cleared only when the deletion is accepted."""
    return (deletion or Deletion())._replace(uid=uid, found=description, found_at=at, left_to_arc=left_to_arc)


def accepted(deletion: Deletion, at: float, look_at: float | None, *, already_deleted: bool = False) -> Deletion:
    """The deletion was accepted. `look_at`: when to check that it is complete; None: nothing is left to check."""
    if deletion.accepted_at is not None:
        return deletion
    over_at = at if look_at is None else None
    done = deletion._replace(
        accepted_at=at, over_at=over_at, waits_for="", waiting_since=None, look_at=look_at, words=""
    )
    return done._replace(already_deleted=already_deleted)


def freed(deletion: Deletion, at: float) -> Deletion:
    """Its finalizer was removed."""
    return deletion if deletion.freed_at is not None else deletion._replace(freed_at=at)


def over(deletion: Deletion, at: float) -> Deletion:
    """The deletion is complete."""
    if deletion.over_at is not None:
        return deletion
    return deletion._replace(over_at=at, waits_for="", waiting_since=None, look_at=None, words="")


def waits(
    deletion: Deletion | None, at: float, because: str, after_seconds: float | None = None, words: str = ""
) -> Deletion:
    """The deletion is blocked; checked again `after_seconds` later, or by default after the time waited so far."""
    known = deletion or Deletion()
    is_new = known.waits_for != because or known.waiting_since is None
    since = at if is_new or known.waiting_since is None else known.waiting_since
    pause = after_seconds if after_seconds is not None else max(LEAST_PAUSE_SECONDS, at - since)
    look_at = at + min(pause, MOST_PAUSE_SECONDS)
    return known._replace(waits_for=because, waiting_since=since, look_at=look_at, words=words)


def is_deferred(deletion: Deletion | None, now: float) -> bool:
    """True if it is too early to check again. A time beyond the longest delay was written by a clock that jumped."""
    if deletion is None or deletion.look_at is None:
        return False
    return 0.0 < deletion.look_at - now <= MOST_PAUSE_SECONDS


def outcome(deletion: Deletion) -> str:
    """Describes what `accepted_at` records. A refused DELETE, as by a 409, is never described as accepted."""
    deleted = "ARC's object" if deletion.left_to_arc else "the pod"
    if not deletion.uid:
        return "nothing was left to delete"
    if not deletion.already_deleted:
        return f"the cluster accepted the deletion of {deleted}"
    if deletion.over_at == deletion.accepted_at:
        return f"{deleted} was already deleted from the cluster"
    return f"{deleted} was already being deleted"
