"""Leader election among replicas by a Lease, as in client-go.

The clocks of two machines are never compared. The leader renews the lease every two seconds; another replica takes
over after it has seen no renewal for the lease's duration *on its own clock*. The leader measures from before it sent
its last renewal, and gives up a third earlier, so that it has stopped before another replica can take over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from ghapp.cluster.api import Cluster
from ghapp.cluster.forbidden_grace import ForbiddenGrace
from ghapp.cluster.request import LEASES, ClusterRequest, Verb
from ghapp.cluster.task_cancel import cancel_tasks
from ghapp.cluster.wire.leases import Lease, changed_lease, lease, micro_time, new_lease
from ghapp.errors import ClusterError, ClusterForbiddenError, ClusterUnavailableError, ConflictError, GhappError
from ghapp.log import logger

LEASE_SECONDS = 15
RENEW_WITHIN_SECONDS = 10.0
TURN_SECONDS = 2.0
ANSWER_SECONDS = 5.0
"""Half of the leader's renewal period, so that one renewal may fail."""

LONGEST_SECONDS = 300
"""Limit for the duration in another holder's lease."""

RELEASED_SECONDS = 1

log = logger(__name__)


class Leadership:
    """One candidate for one lease.

    Attributes:
        holder: the holder of the lease, as last seen; empty if it has none.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        identity: str,
        namespace: str | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates a candidate.

        Args:
            cluster: the cluster with the lease.
            name: of the lease.
            identity: unique for this process: a pod's name and a random part.
            namespace: of the lease; None for our own.
            clock: epoch seconds, for the times in the lease, which are informative only.
            monotonic: seconds, for all decisions.
        """
        self._transport, self._namespace, self._name = cluster.transport, namespace or cluster.namespace, name
        self._identity, self._clock, self._monotonic = identity, clock, monotonic
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._last_written = 0.0
        self.holder = ""

    @property
    def is_ours(self) -> bool:
        """True if this process leads now. Check it before each action; do not store it."""
        return self._renewed_at is not None and self._monotonic() - self._renewed_at < RENEW_WITHIN_SECONDS

    async def turn(self) -> bool:
        """Takes the lease if it is free, renews it if we hold it, else reads its holder. Call every `TURN_SECONDS`.

        Returns:
            True if this process leads.

        Raises:
            ClusterError: no answer; a leader continues to lead until its time is over.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._turn()
        except ConflictError:
            pass  # another replica wrote first; the next turn reads which
        except TimeoutError:
            raise ClusterUnavailableError(f"lease {self._name}: no answer in time") from None
        return self.is_ours

    async def release(self) -> None:
        """Releases the lease, so that another replica can lead at once. If this fails, the lease expires."""
        was_ours, self._renewed_at = self._renewed_at is not None, None
        if not was_ours:
            return
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._free()

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Leadership]:
        """Takes turns while the block runs, and releases the lease at its end; check `is_ours` before each action."""
        turns = asyncio.create_task(self._take_turns())
        try:
            yield self
        finally:
            await cancel_tasks([turns])
            await self.release()

    async def _take_turns(self) -> None:
        led, trouble, grace = False, "", ForbiddenGrace()
        while True:
            try:
                leads = await self.turn()
                trouble = ""
                grace.over(self._name)
            except GhappError as error:
                leads = self.is_ours
                is_early = isinstance(error, ClusterForbiddenError) and not grace.lasts(self._name, str(error))
                if not is_early and str(error) != trouble:
                    trouble = str(error)
                    log.warning("lease renewal failed", lease=self._name, why=trouble)
            if leads != led:
                log.info("leadership gained" if leads else "leadership lost", lease=self._name, holder=self.holder)
            led = leads
            await asyncio.sleep(TURN_SECONDS)

    async def _turn(self) -> None:
        body = await self._transport.send(self._call("get"))
        began = self._monotonic()
        now = self._new_time()
        if body is None:
            ours = Lease(self._identity, LEASE_SECONDS, now, now, 0)
            made = new_lease(self._namespace, self._name, ours)
            await self._transport.send(self._call("create"), json=made)
            return self._won(ours, began)
        found = lease(body)
        if found != self._seen:
            self._seen, self._seen_at, self.holder = found, began, found.holder
        if found.holder == self._identity:
            ours = found._replace(seconds=LEASE_SECONDS, renewed=now)
        else:
            self._renewed_at = None
            if found.holder and began - self._seen_at < _seconds(found):
                return None
            ours = Lease(self._identity, LEASE_SECONDS, now, now, found.transitions + 1)
        if await self._transport.send(self._call("update"), json=changed_lease(body, ours)) is not None:
            self._won(ours, began)
        return None

    async def _free(self) -> None:
        body = await self._transport.send(self._call("get"))
        if body is None or (found := lease(body)).holder != self._identity:
            return
        now = self._new_time()
        freed = Lease("", RELEASED_SECONDS, now, now, found.transitions)
        await self._transport.send(self._call("update"), json=changed_lease(body, freed))

    def _new_time(self) -> str:
        """Returns the time, later than any written before even if the clock jumped back: a change is a renewal."""
        self._last_written = max(self._clock(), self._last_written + 0.001)
        return micro_time(self._last_written)

    def _won(self, ours: Lease, began: float) -> None:
        self._seen, self._seen_at, self._renewed_at, self.holder = ours, began, began, ours.holder

    def _call(self, verb: Verb) -> ClusterRequest:
        return ClusterRequest(verb, LEASES, self._namespace, "" if verb == "create" else self._name)


def _seconds(found: Lease) -> float:
    return min(max(found.seconds or LEASE_SECONDS, 1), LONGEST_SECONDS)
