"""Reports outages of the cluster only if they persist, and refusals at once.

While an API server restarts, it does not answer. A 403 is an answer: what it forbids is not seen, be it for the seconds
after a start in which an API server refuses what RBAC permits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ghapp.errors import ClusterError, ClusterForbiddenError, ResourceMissingError

OUTAGE_SECONDS = 60.0
"""A failure that persists for so long does not come from a restart, nor is it that of one pod."""

AT_ONCE = (ClusterForbiddenError, ResourceMissingError)
"""These are answers about the whole source."""


class FailureGrace:
    """Tracks since when each place fails, within one process: refusals apart from outages, which may precede them.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: dict[str, dict[type[ClusterError], tuple[float, ClusterError]]] = {}

    def lasts(self, place: str, error: ClusterError) -> bool:
        """Records that a place fails; returns True if that is to be reported: a refusal, or an outage that lasts."""
        now = self._clock()
        since, _ = self._failing.setdefault(place, {}).setdefault(type(error), (now, error))
        return isinstance(error, AT_ONCE) or now - since >= OUTAGE_SECONDS

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
