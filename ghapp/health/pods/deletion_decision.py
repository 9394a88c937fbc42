"""What is found in the cluster of a lost runner, what else must be known, and what may be done about it. Values."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from ghapp.health.pods.blockers import Blocker
from ghapp.health.pods.pod import EphemeralRunner, Pod


class DeletionVerdict(StrEnum):
    """What may be done."""

    DELETE = "delete"
    NOTHING_LEFT = "nothing-left"
    """It is gone already."""
    UNDER_WAY = "under-way"
    """Somebody has had it deleted, and it is not gone yet."""
    FREE = "free"
    """The same, and its finalizer is stuck."""
    REFUSE = "refuse"


class Preconditions(NamedTuple):
    """What else must be known.

    Attributes:
        now: epoch seconds.
        grace_seconds: how old an object, a pod and a container must be, and how long a job must have been over.
        org: whose runner it is.
        claimed: names of pods and runners that a controller has claimed.
        at_work: names of runners under which, by deliveries, a job is in progress.
        known_elsewhere: whether another organization with pods in that namespace knows its name, too.
        borne_by: names of ARC's objects that bear its runner and are called otherwise, by a view that is younger than
            its loss; None: nobody knows.
    """

    now: float
    grace_seconds: float
    org: str
    claimed: Collection[str] = ()
    at_work: Collection[str] = ()
    known_elsewhere: bool = False
    borne_by: Collection[str] | None = None


class DeletionDecision(NamedTuple):
    """What stands in the cluster for a runner, and what may be done about it.

    Attributes:
        namespace: where it stands, or would.
        name: of the runner.
        ruling: what may be done.
        because: why not; None where nothing is in the way.
        after_seconds: in how many seconds that may have changed; None: nobody knows.
        uid: of the object, or, where ARC is not asked, of the pod; empty when there is none.
        said: what was found, for people.
        object: what ARC keeps for it, as read last.
        pod: as read last.
    """

    namespace: str
    name: str
    ruling: DeletionVerdict
    because: Blocker | None = None
    after_seconds: float | None = None
    uid: str = ""
    said: str = ""
    object: EphemeralRunner | None = None
    pod: Pod | None = None

    @property
    def is_bare(self) -> bool:
        """Whether nothing of its name is there: neither an object nor a pod."""
        return self.object is None and self.pod is None


class BlockedBy(NamedTuple):
    """What is in the way, and in how many seconds that may have changed."""

    because: Blocker
    after_seconds: float | None = None
