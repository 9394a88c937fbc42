"""Values of a deletion in the cluster: what was found for a lost runner, its preconditions, and the decision."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from ghapp.pods.blockers import Blocker
from ghapp.pods.pod import EphemeralRunner, Pod


class DeletionVerdict(StrEnum):
    """The decision."""

    DELETE = "delete"
    NOTHING_LEFT = "nothing-left"
    """It is already deleted."""
    UNDER_WAY = "under-way"
    """Another client requested its deletion, which is not complete yet."""
    FREE = "free"
    """Like `UNDER_WAY`, and its finalizer is stuck."""
    REFUSE = "refuse"


class Preconditions(NamedTuple):
    """The other inputs of the decision.

    Attributes:
        now: epoch seconds.
        grace_seconds: minimum age of an object, a pod and a container, and minimum time since a job's end.
        org: the runner's org.
        claimed: names of pods and runners with a live pod claim.
        at_work: names of runners with a job in progress, according to deliveries.
        known_elsewhere: True if another organization with pods in that namespace has a runner of the same name.
        object_names: names of ARC objects that run this runner under another object name, by a view younger than the
            loss; None: unknown.
    """

    now: float
    grace_seconds: float
    org: str
    claimed: Collection[str] = ()
    at_work: Collection[str] = ()
    known_elsewhere: bool = False
    object_names: Collection[str] | None = None


class DeletionDecision(NamedTuple):
    """What was found in the cluster for a runner, and what may be done about it.

    Attributes:
        namespace: its namespace.
        name: of the runner.
        verdict: the decision.
        blocker: the reason; None if there is none.
        after_seconds: seconds until that may have changed; None: unknown.
        uid: of the object or, without ARC, of the pod; empty if there is none.
        text: what was found, for people.
        object: ARC's object, as last read.
        pod: as last read.
    """

    namespace: str
    name: str
    verdict: DeletionVerdict
    blocker: Blocker | None = None
    after_seconds: float | None = None
    uid: str = ""
    text: str = ""
    object: EphemeralRunner | None = None
    pod: Pod | None = None

    @property
    def sends_delete(self) -> bool:
        """True if a DELETE is to be requested: there is an object or, without ARC, a pod that is not Terminating."""
        target = self.object or self.pod
        return self.verdict is DeletionVerdict.DELETE and target is not None and target.deleting_since is None

    @property
    def is_bare(self) -> bool:
        """True if neither an object nor a pod of its name exists."""
        return self.object is None and self.pod is None


class BlockedBy(NamedTuple):
    """A blocker, and the seconds until it may have cleared."""

    blocker: Blocker
    after_seconds: float | None = None
