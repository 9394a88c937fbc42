"""GitHub's answers about installations, cached for some seconds for all processes.

Each confirmation must know that the installation is still the same account, not suspended, and permitted. Without the
cache each confirmation would cost a call of the App's own hourly limit, which all installations share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.installations.installation import Installation
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

MEMORY_SECONDS = 10.0
"""How long an answer is cached; and how long nothing is cached after a contradiction."""

CONTRADICTED = b"contradicted"


class InstallationState(NamedTuple):
    """GitHub's answer about one installation. Fields are only ever appended.

    Attributes:
        installation: as GitHub describes it.
        asked_at: when the request was sent (epoch seconds, our clock); the answer is not older.
    """

    installation: Installation
    asked_at: float


_states = Codec("installation-state", InstallationState)


class InstallationStates:
    """The cached answers about all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = RecordReader(redis, _states)

    async def last(self, installation: int) -> InstallationState | None:
        """Returns the answer of the last `MEMORY_SECONDS`; None without one, or after a contradiction."""
        key = keys.installation_state(installation)
        row: Any = await self._redis.get(key)
        return None if row == CONTRADICTED else await self._read.one(key, row)

    async def remember(self, state: InstallationState) -> None:
        """Caches an answer, unless one is cached, or a contradiction came within the last `MEMORY_SECONDS`.

        An answer that was in flight when a delivery contradicted it is therefore not cached.
        """
        key = keys.installation_state(state.installation.id)
        await self._redis.set(key, _states.encode(state), nx=True, px=int(MEMORY_SECONDS * 1000))

    async def contradict(self, installation: int) -> None:
        """Discards the cached state after a delivery, or another answer of GitHub, indicates a change.

        For `MEMORY_SECONDS` nothing is cached, and each confirmation asks GitHub.
        """
        await self._redis.set(keys.installation_state(installation), CONTRADICTED, px=int(MEMORY_SECONDS * 1000))
