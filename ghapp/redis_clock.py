"""One clock for all processes: Redis' own.

What one process records is compared with the time by another one, whose machine may have another time. So each process
measures Redis' TIME and counts on from there by its monotonic clock, which does not jump.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis

from ghapp.redis_errors import redis_errors

if TYPE_CHECKING:
    from redis import Redis as SyncRedis

MEASURE_SECONDS = 10.0
"""Seconds between two measurements of a long-running process: Redis may fail over to a machine with another time."""

TOLERATED_SECONDS = 5.0
"""A machine whose own time differs from Redis' by more is reported by `ghapp doctor`."""


class SharedClock:
    """Epoch seconds by Redis' TIME; until the first measurement, by this machine's time."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Returns the time."""
        return time.monotonic() + self._offset

    @property
    def ahead(self) -> float:
        """By how many seconds this machine's own time is ahead of the shared clock."""
        return time.time() - self()

    async def measure(self, redis: Redis) -> None:
        """Sets the clock by Redis' TIME, to half of the round trip.

        Raises:
            StoreUnavailableError: Redis does not answer; the clock is as it was.
        """
        sent_at = time.monotonic()
        at = await redis_time(redis)
        self._offset = at - (sent_at + time.monotonic()) / 2


async def redis_time(redis: Redis) -> float:
    """Returns Redis' TIME in epoch seconds.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    answer: Any = await redis.time()
    return _seconds(answer)


@redis_errors()
def redis_time_sync(redis: SyncRedis) -> float:
    """As `redis_time`, by a client that blocks."""
    answer: Any = redis.time()
    return _seconds(answer)


def _seconds(answer: tuple[int, int]) -> float:
    seconds, microseconds = answer
    return seconds + microseconds / 1e6
