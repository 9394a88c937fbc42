"""Locks in Redis: the exclusive right to act on one thing, while its holder lives.

A lock is a lease of some seconds that is renewed while the block runs: a crashed holder loses it soon. A holder that
cannot renew its lock (Redis is unavailable, or the process was frozen) is stopped before another process gets the lock.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio import Redis

from ghapp.errors import LockLostError, StoreUnavailableError
from ghapp.store import keys
from ghapp.timings import NORMAL

OUTLIVES_BY_SECONDS = 1.0
PAUSE_SECONDS = 0.1
VALID_PART = 0.8
"""The part of the lease after which its holder gives up. The rest is for stopping what it does."""

ROLE = "role"
"""The kind of the locks of roles; the subject is the role of which one process acts."""

_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class HeldLock:
    """A lock that this process has."""

    def __init__(self, valid_seconds: float, asked_at: float) -> None:
        """`asked_at` is the time of the event loop before the lock was requested: the lease begins later than that."""
        self._valid_seconds = valid_seconds
        self.valid_until = asked_at + valid_seconds

    @property
    def is_valid(self) -> bool:
        """True if no other process can have it. Check it before each action of a long block; do not store it."""
        return self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the lock is given up, unless it is renewed."""
        return self.valid_until - asyncio.get_running_loop().time()

    def renewed(self, asked_at: float) -> None:
        """Records a renewal that was requested then."""
        self.valid_until = asked_at + self._valid_seconds


class Locks:
    """Locks by kind and subject.

    Attributes:
        outliving_seconds: how long to wait for a lock whose holder may have crashed.
    """

    def __init__(self, redis: Redis, lease_seconds: float = NORMAL.lock_seconds) -> None:
        self._redis, self._lease = redis, lease_seconds
        self.outliving_seconds = lease_seconds + OUTLIVES_BY_SECONDS
        self._renew: Any = redis.register_script(_RENEW)
        self._release: Any = redis.register_script(_RELEASE)

    def lasting(self, lease_seconds: float) -> Locks:
        """Returns locks with another lease, for a holder that may be frozen for longer."""
        return Locks(self._redis, lease_seconds)

    @asynccontextmanager
    async def acquire(self, kind: str, of: str | int, patience_seconds: float = 0.0) -> AsyncIterator[bool]:
        """Holds a lock while the block runs; yields False if another process has it. Arguments and errors as `hold`."""
        async with self.hold(kind, of, patience_seconds) as lock:
            yield lock is not None

    @asynccontextmanager
    async def hold(
        self, kind: str, of: str | int, patience_seconds: float = 0.0, holder: str = ""
    ) -> AsyncIterator[HeldLock | None]:
        """Holds a lock while the block runs; yields None if another process has it.

        Args:
            kind: of the lock.
            of: its subject, for example an installation id.
            patience_seconds: how long to wait for it; `outliving_seconds` outlasts the lease of a crashed holder.
            holder: what `holder` returns, unique to this process; by default random.

        Raises:
            LockLostError: in the block, if the lease could not be renewed in time.
            StoreUnavailableError: the lock could not be requested.
        """
        key, token = keys.lock(kind, str(of)), holder or secrets.token_hex(8)
        lock = await self._take(key, token, patience_seconds)
        if lock is None:
            yield None
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        is_held, is_lost, cancelled_before = True, False, task.cancelling()

        def stop_holder(renewing: asyncio.Task[None]) -> None:
            nonlocal is_lost
            if is_held and not renewing.cancelled():  # once the block is over, nothing of the holder's may be cancelled
                is_lost = task.cancel()

        renewing = asyncio.create_task(self._renew_until_lost(lock, key, token))
        renewing.add_done_callback(stop_holder)
        try:
            yield lock
        except asyncio.CancelledError:
            if not is_lost or task.uncancel() > cancelled_before:  # cancelled from outside, perhaps as well
                raise
            message = f"the lock {kind} {of} could not be renewed; another process may have it by now"
            raise LockLostError(message) from None
        finally:
            is_held = False
            renewing.cancel()
            with suppress(StoreUnavailableError, TimeoutError):  # it expires by itself
                async with asyncio.timeout(self._lease / 5):
                    await self._release(keys=[key], args=[token])

    async def holder(self, kind: str, of: str | int) -> str:
        """Returns the holder of a lock; empty if it is free."""
        found: Any = await self._redis.get(keys.lock(kind, str(of)))
        return "" if found is None else found.decode(errors="replace")

    async def _take(self, key: str, token: str, patience: float) -> HeldLock | None:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        ends = asked_at + patience
        while not await self._redis.set(key, token, nx=True, px=self._milliseconds):
            if loop.time() >= ends:
                return None
            await asyncio.sleep(PAUSE_SECONDS)
            asked_at = loop.time()
        return HeldLock(VALID_PART * self._lease, asked_at)

    @property
    def _milliseconds(self) -> int:
        return int(self._lease * 1000)

    async def _renew_until_lost(self, lock: HeldLock, key: str, token: str) -> None:
        """Returns when the lock is lost, or shortly before another process may get it."""
        loop = asyncio.get_running_loop()
        while lock.is_valid:
            await asyncio.sleep(min(self._lease / 5, lock.seconds_left))
            asked_at = loop.time()
            with suppress(StoreUnavailableError, TimeoutError):
                async with asyncio.timeout(min(self._lease / 5, max(lock.seconds_left, 0.0))):
                    if not await self._renew(keys=[key], args=[token, self._milliseconds]):
                        return
                    lock.renewed(asked_at)
