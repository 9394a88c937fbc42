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

LEASE_SECONDS = 10.0
"""Shorter than the time to detect that a worker and its job both crashed."""

OUTLIVING_SECONDS = LEASE_SECONDS + 1.0
PAUSE_SECONDS = 0.1

_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Locks:
    """Locks by kind and subject."""

    def __init__(self, redis: Redis, lease_seconds: float = LEASE_SECONDS) -> None:
        self._redis, self._lease = redis, lease_seconds
        self._renew: Any = redis.register_script(_RENEW)
        self._release: Any = redis.register_script(_RELEASE)

    def lasting(self, lease_seconds: float) -> Locks:
        """Returns locks with another lease, for a holder that may be frozen for longer."""
        return Locks(self._redis, lease_seconds)

    @asynccontextmanager
    async def acquire(self, kind: str, of: str | int, patience_seconds: float = 0.0) -> AsyncIterator[bool]:
        """Holds a lock while the block runs; yields False if another process has it.

        Args:
            kind: of the lock.
            of: its subject, for example an installation id.
            patience_seconds: how long to wait for it; `OUTLIVING_SECONDS` outlasts the lease of a crashed holder.

        Raises:
            LockLostError: in the block, when the lease could not be renewed in time.
        """
        key, token = keys.lock(kind, str(of)), secrets.token_hex(8)
        if not await self._take(key, token, patience_seconds):
            yield False
            return
        holder = asyncio.current_task()
        assert holder is not None  # noqa: S101 - this is a coroutine
        is_held = True

        def stop_holder(renewing: asyncio.Task[None]) -> None:
            if is_held and not renewing.cancelled():  # once the block is over, nothing of the holder's may be cancelled
                holder.cancel()

        renewing = asyncio.create_task(self._renew_until_lost(key, token))
        renewing.add_done_callback(stop_holder)
        try:
            yield True
        except asyncio.CancelledError:
            if not renewing.done() or renewing.cancelled():
                raise
            holder.uncancel()
            message = f"the lock {kind} {of} could not be renewed; another process may have it by now"
            raise LockLostError(message) from None
        finally:
            is_held = False
            renewing.cancel()
            with suppress(StoreUnavailableError):  # it expires by itself
                await self._release(keys=[key], args=[token])

    async def _take(self, key: str, token: str, patience: float) -> bool:
        loop = asyncio.get_running_loop()
        ends = loop.time() + patience
        while not await self._redis.set(key, token, nx=True, px=self._milliseconds):
            if loop.time() >= ends:
                return False
            await asyncio.sleep(PAUSE_SECONDS)
        return True

    @property
    def _milliseconds(self) -> int:
        return int(self._lease * 1000)

    async def _renew_until_lost(self, key: str, token: str) -> None:
        """Returns when the lock is lost, or shortly before another process may get it."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while loop.time() - renewed < 0.8 * self._lease:
            await asyncio.sleep(self._lease / 5)
            began = loop.time()
            with suppress(StoreUnavailableError, TimeoutError):
                async with asyncio.timeout(self._lease / 5):
                    if not await self._renew(keys=[key], args=[token, self._milliseconds]):
                        return
                    renewed = began
