"""Records what prevents a view of a namespace: logged once until it is over, and reported if a person must fix it."""

from __future__ import annotations

from ghapp.cluster.forbidden_grace import ForbiddenGrace
from ghapp.errors import ClusterError, ClusterForbiddenError, ResourceMissingError
from ghapp.log import logger, redact
from ghapp.store.stores import Stores

log = logger(__name__)


class DegradedView:
    """The failures of one view of a namespace.

    Args:
        namespace: the namespace.
        place: the view's name in the report.
        stores: where failures are recorded.
    """

    def __init__(self, namespace: str, place: str, stores: Stores) -> None:
        self._namespace, self._place, self._sources = namespace, place, stores.degraded_sources
        self._logged_why, self._may_be_recorded, self._grace = "", True, ForbiddenGrace()

    def log(self, what: str, why: str) -> None:
        """Logs a failure, unless it is the same as before."""
        if self._logged_why != why:
            log.warning(what, namespace=self._namespace, why=why)
        self._logged_why = why

    async def record(self, error: ClusterError) -> None:
        """Logs a failure of the cluster, and records it for the report if a person must fix it.

        For a short outage the report shows only the age of the view. A refusal by RBAC is recorded and logged only when
        it
        lasts: an API server that has just started refuses, too.

        Raises:
            StoreUnavailableError: the failure is only logged.
        """
        if isinstance(error, ClusterForbiddenError) and not self._grace.lasts(self._place, str(error)):
            return
        self.log("watch failed", str(error))
        if isinstance(error, ClusterForbiddenError | ResourceMissingError):
            self._may_be_recorded = True
            await self._sources.say(self._place, redact(str(error)))

    async def over(self) -> None:
        """Records that the view has no failure any more.

        Raises:
            StoreUnavailableError: the report still shows the failure.
        """
        self._logged_why = ""
        self._grace.over(self._place)
        if self._may_be_recorded:  # by the process that led before, or by this one
            await self._sources.over(self._place)
            self._may_be_recorded = False
