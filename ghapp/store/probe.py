"""Tries to write to Redis: a replica, and one whose memory or disk is full, still answer reads."""

from __future__ import annotations

from redis.asyncio import Redis

from ghapp.store import keys

PROBE_MILLISECONDS = 1000


async def probe_write(redis: Redis) -> None:
    """Writes a key that expires at once.

    Raises:
        StoreRefusedError: Redis answers, and refuses writes.
        StoreUnavailableError: it does not answer.
    """
    await redis.set(keys.PROBE, b"", px=PROBE_MILLISECONDS)
