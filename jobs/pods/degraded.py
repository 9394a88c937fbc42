"""What keeps a view from being seen: logged once until it is over, and kept for the report if a person must mend it."""

from __future__ import annotations

from ghapp.cluster.forbidden_grace import ForbiddenGrace
from ghapp.errors import ClusterError, ClusterForbiddenError, ResourceMissingError
from ghapp.log import logger, redact
from ghapp.store.stores import Stores

log = logger(__name__)


class DegradedView:
    """Of one view of a namespace.

    Args:
        namespace: which.
        place: the view's name in the report.
        stores: where that is kept.
    """

    def __init__(self, namespace: str, place: str, stores: Stores) -> None:
        self._namespace, self._place, self._troubles = namespace, place, stores.degraded_sources
        self._why, self._may_be_kept, self._grace = "", True, ForbiddenGrace()

    def log(self, what: str, why: str) -> None:
        """Something is in the way."""
        if self._why != why:
            log.warning(what, namespace=self._namespace, why=why)
        self._why = why

    async def tell(self, error: ClusterError) -> None:
        """The cluster is in the way. Of one that is away for a moment the report says nothing but how old the view is.

        A refusal of RBAC's is told, and logged, only when it lasts: an API server that has just started refuses, too.

        Raises:
            StoreUnavailableError: only the log has it.
        """
        if isinstance(error, ClusterForbiddenError) and not self._grace.lasts(self._place, str(error)):
            return
        self.log("watch failed", str(error))
        if isinstance(error, ClusterForbiddenError | ResourceMissingError):
            self._may_be_kept = True
            await self._troubles.say(self._place, redact(str(error)))

    async def over(self) -> None:
        """Nothing is, any more. Raises: StoreUnavailableError: nobody was told."""
        self._why = ""
        self._grace.over(self._place)
        if self._may_be_kept:  # by whoever led before us, if not by us
            await self._troubles.over(self._place)
            self._may_be_kept = False
