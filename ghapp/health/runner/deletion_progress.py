"""What came of having a lost runner's object or pod deleted in the cluster: a part of its evidence.

A value; each function adds one step and returns the new one. Nothing is forgotten between two tries: what was
found is recorded before anything is asked for, so that whoever comes after a crash knows which one was meant.
Times are epoch seconds.
"""

from __future__ import annotations

from typing import NamedTuple

LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 30.0, 600.0
"""Between two looks at one that waits: as long as it has waited, within these."""


class Deletion(NamedTuple):
    """Fields are only ever appended: stored records are read by position.

    Attributes:
        uid: of the object or pod that is to be deleted, recorded before it is; empty when there was none.
        found: what it was like, for people.
        found_at: when that was recorded.
        left_to_arc: ARC's object is deleted, and ARC removes pod, secret and registration itself.
        accepted_at: the API server accepted its deletion, or nothing was there any more.
        freed_at: the finalizer that waited for GitHub was taken away.
        over_at: it is gone, and nothing is left to do.
        waits_for: why it is not deleted, or not gone, yet (`obstacle.Because`); empty while nothing is in the way.
        waiting_since: since when that is so.
        look_at: not looked at again before.
        gone_already: when it was accepted, no deletion of ours had been: it was gone by then, or somebody else's
            deletion was under way.
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
    gone_already: bool = False

    @property
    def is_under_way(self) -> bool:
        """Accepted, and not gone yet: it must be looked at again."""
        return self.accepted_at is not None and self.over_at is None


def found(deletion: Deletion | None, at: float, uid: str, said: str, *, left_to_arc: bool) -> Deletion:
    """This one is about to be deleted. What it waited for is forgotten only when that is accepted."""
    return (deletion or Deletion())._replace(uid=uid, found=said, found_at=at, left_to_arc=left_to_arc)


def accepted(deletion: Deletion, at: float, look_at: float | None, *, gone_already: bool = False) -> Deletion:
    """Its deletion was accepted. `look_at`: when to see whether it is gone; None: nothing is left to see."""
    if deletion.accepted_at is not None:
        return deletion
    over_at = at if look_at is None else None
    done = deletion._replace(accepted_at=at, over_at=over_at, waits_for="", waiting_since=None, look_at=look_at)
    return done._replace(gone_already=gone_already)


def freed(deletion: Deletion, at: float) -> Deletion:
    """Its finalizer was taken away."""
    return deletion if deletion.freed_at is not None else deletion._replace(freed_at=at)


def over(deletion: Deletion, at: float) -> Deletion:
    """It is gone."""
    if deletion.over_at is not None:
        return deletion
    return deletion._replace(over_at=at, waits_for="", waiting_since=None, look_at=None)


def waits(deletion: Deletion | None, at: float, because: str, after_seconds: float | None = None) -> Deletion:
    """Something is in the way; looked at again `after_seconds` later, or else after as long as it has waited."""
    known = deletion or Deletion()
    is_new = known.waits_for != because or known.waiting_since is None
    since = at if is_new or known.waiting_since is None else known.waiting_since
    pause = after_seconds if after_seconds is not None else max(LEAST_PAUSE_SECONDS, at - since)
    return known._replace(waits_for=because, waiting_since=since, look_at=at + min(pause, MOST_PAUSE_SECONDS))


def is_deferred(deletion: Deletion | None, now: float) -> bool:
    """Whether it is too early to look again. A time further off than any pause was written by a clock that jumped."""
    if deletion is None or deletion.look_at is None:
        return False
    return 0.0 < deletion.look_at - now <= MOST_PAUSE_SECONDS


def outcome(deletion: Deletion) -> str:
    """What `accepted_at` records, for people. A DELETE that was refused, as by a 409, is never called accepted."""
    whose = "ARC's object" if deletion.left_to_arc else "the pod"
    if not deletion.uid:
        return "nothing was left to delete"
    if not deletion.gone_already:
        return f"the cluster accepted the deletion of {whose}"
    if deletion.over_at == deletion.accepted_at:
        return f"{whose} was already gone from the cluster"
    return f"{whose} was already being deleted"
