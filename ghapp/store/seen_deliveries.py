"""Which deliveries have taken effect, by a hash of their GUID, for three days; and, likewise, which jobs have ended.

Redis keeps a set of integers in 8 bytes each while the set is small, and a set of GUIDs in some 80 each. A fleet of
10,000 ephemeral runners with a job a day has 90,000 deliveries in three days: more bytes than its records had. So each
quarter of a day has 32 small sets, and 32 more whenever those are full. A delivery is 69 bits of its GUID's hash, set
and integer together: of ten million marked deliveries, one new delivery in 10^13 would be mistaken for one of them. The
GUID's own bits are not spread evenly: it begins with a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from math import ceil
from typing import Any

from redis.asyncio import Redis

from ghapp.store import keys
from ghapp.store.quarantine import PlainReader

HOUR = 3600
SEEN_SECONDS = 3 * 24 * HOUR
"""GitHub keeps deliveries for three days; an older one cannot be sent again."""

WINDOW_SECONDS = 6 * HOUR
"""A window expires as a whole, three days after its end."""

PARTS = 32
FULL = 400 * PARTS
"""Deliveries in the sets of a level. Redis keeps at most 512 integers in 8 bytes each; more deliveries are in the sets
of the next level."""

_BACK = -(-SEEN_SECONDS // WINDOW_SECONDS)


class SeenDeliveries:
    """The GUIDs of deliveries whose effects are stored. Only one process at a time may add."""

    def __init__(self, redis: Redis, kind: str = "") -> None:
        """`kind` is of what is marked, if not deliveries by their GUIDs."""
        self._redis, self._kind, self._read_count = redis, kind, PlainReader(redis, "seen-count", int)

    async def add(self, pipe: Any, guids: Collection[str], now: float) -> None:
        """Adds to a pipeline what marks these GUIDs as seen at `now` (epoch seconds)."""
        window = int(now // WINDOW_SECONDS)
        lasts = ceil((window + 1) * WINDOW_SECONDS + SEEN_SECONDS - now)
        (count,) = (await self._counts([window])).values()
        for part, numbers in _by_part(guids).items():
            key = keys.seen(self._kind, window, count // FULL, part)
            pipe.sadd(key, *numbers)
            pipe.expire(key, lasts)
        pipe.set(keys.seen_count(self._kind, window), count + len(guids), ex=lasts)

    async def among(self, guids: Collection[str], now: float) -> set[str]:
        """Returns those of the GUIDs that are marked as seen, in three round trips."""
        if not guids:
            return set()
        window, parts = int(now // WINDOW_SECONDS), _by_part(guids)
        counts = await self._counts([window - back for back in range(_BACK + 1)])
        levels = [(each, level) for each, count in counts.items() if count for level in range(count // FULL + 1)]
        async with self._redis.pipeline(transaction=False) as pipe:
            for part, numbers in parts.items():
                for each, level in levels:
                    pipe.smismember(keys.seen(self._kind, each, level, part), [*numbers])
            answers = iter(await pipe.execute())
        found = set[str]()
        for numbers in parts.values():
            for _ in levels:
                members = zip(numbers.values(), next(answers), strict=True)
                found.update(guid for guid, is_member in members if is_member)
        return found

    async def _counts(self, windows: Sequence[int]) -> dict[int, int]:
        """Returns how many deliveries were marked in each of these windows."""
        rows: Any = await self._redis.mget([keys.seen_count(self._kind, each) for each in windows])
        by_key = zip(windows, rows, strict=True)
        return {each: await self._read_count.one(keys.seen_count(self._kind, each), row) or 0 for each, row in by_key}


def _by_part(guids: Iterable[str]) -> dict[int, dict[int, str]]:
    """Returns the GUIDs by the set that has them, and by the integer that stands for them there."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for guid in guids:
        digest = blake2b(guid.encode(), digest_size=9).digest()
        found[digest[0] % PARTS][int.from_bytes(digest[1:], signed=True)] = guid
    return found
