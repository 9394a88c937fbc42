"""A memory of some seconds of what GitHub answered about an installation, shared by all processes.

Each confirmation needs to know that the installation is the same account, not suspended, and permitted. Without a
memory each confirmation spends a call of the App's own hourly limit, which all installations share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.health.installation import Installation
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

MEMORY_SECONDS = 10.0
"""How long an answer is kept; and how long none is kept after something contradicted it."""

CONTRADICTED = b"contradicted"


class InstallationState(NamedTuple):
    """GitHub's answer about one installation. Fields are only ever appended.

    Attributes:
        installation: as GitHub described it.
        asked_at: when the question was sent (epoch seconds, our clock): the answer is no older.
    """

    installation: Installation
    asked_at: float


_states = Codec("installation-state", InstallationState)


class InstallationStates:
    """The last answers about all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = RecordReader(redis, _states)

    async def last(self, installation: int) -> InstallationState | None:
        """The answer of the last `MEMORY_SECONDS`; None where there is none, or something contradicted it since."""
        key = keys.installation_state(installation)
        row: Any = await self._redis.get(key)
        return None if row == CONTRADICTED else await self._read.one(key, row)

    async def remember(self, state: InstallationState) -> None:
        """Keep an answer, unless there is one, or something contradicted the installation's state moments ago.

        An answer that was under way while a delivery said otherwise is therefore not kept.
        """
        key = keys.installation_state(state.installation.id)
        await self._redis.set(key, _states.encode(state), nx=True, px=int(MEMORY_SECONDS * 1000))

    async def contradict(self, installation: int) -> None:
        """A delivery, or GitHub's answer to another call, says that the state may have changed: forget it.

        For `MEMORY_SECONDS` from now nothing is remembered, and GitHub is asked each time.
        """
        await self._redis.set(keys.installation_state(installation), CONTRADICTED, px=int(MEMORY_SECONDS * 1000))
