"""What came of one attempt to replace a lost runner, as it is counted and logged."""

from __future__ import annotations

from enum import StrEnum


class RemediationOutcome(StrEnum):
    """The outcome of one call of `remediate_runner`."""

    HELD = "held"
    """Another process acts, or an admin, a job, a claim or the fuse prevents it."""
    RETURNED = "returned"
    """The runner, or another one of its name, is registered again."""
    BUSY = "busy"
    """GitHub answers that the runner runs a job."""
    WAITING = "waiting"
    """GitHub or the cluster refused a call, or gave no answer, or the terminating object still exists."""
    STILL_WAITING = "still-waiting"
    """As `WAITING`, for the same reason as before: neither counted nor logged again."""
    REPLACED = "replaced"
    """The replacement was requested now or before; in a cluster, the deletion was accepted, or nothing was there."""
    CALLED_OFF = "called-off"
    """A blocker in the cluster prevents it; the plan considers the runner again later."""
    FREED = "freed"
    """A stuck finalizer was removed."""
    GONE = "gone"
    """The object whose deletion was accepted no longer exists."""
