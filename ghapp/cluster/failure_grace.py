"""Reports failures of the cluster only if they persist.

For some seconds after its start an API server answers 403 to requests that RBAC permits, until its caches are filled;
while it restarts, it does not answer at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ghapp.errors import ClusterError, ClusterForbiddenError, ResourceMissingError

FORBIDDEN_SECONDS = 15.0
"""A 403 that persists for so long does not come from a starting API server."""

OUTAGE_SECONDS = 60.0
"""A failure of any other kind that persists for so long does not come from a restart."""


class FailureGrace:
    """Tracks since when each place fails, within one process: refusals apart from outages, which may precede them.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: dict[str, dict[type[ClusterError], tuple[float, ClusterError]]] = {}

    def lasts(self, place: str, error: ClusterError) -> bool:
        """Records that a place fails; returns True if that has lasted long enough to be reported."""
        now = self._clock()
        since, _ = self._failing.setdefault(place, {}).setdefault(type(error), (now, error))
        return now - since >= _grace_for(error)

    def refusal(self, place: str) -> ClusterForbiddenError | None:
        """Returns the first 403 for a place that is forbidden; None if it is not."""
        found = self._failing.get(place, {}).get(ClusterForbiddenError)
        return found[1] if found is not None and isinstance(found[1], ClusterForbiddenError) else None

    def forget_refusal(self, place: str) -> bool:
        """Records that a place is not forbidden; returns True unless it fails for another reason."""
        failing = self._failing.get(place, {})
        failing.pop(ClusterForbiddenError, None)
        return not failing

    def over(self, place: str) -> None:
        """Records that a place works again."""
        self._failing.pop(place, None)


def _grace_for(error: ClusterError) -> float:
    match error:
        case ResourceMissingError():
            return 0.0
        case ClusterForbiddenError():
            return FORBIDDEN_SECONDS
    return OUTAGE_SECONDS
