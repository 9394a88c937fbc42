"""What could not be read of the answers and deliveries of others: counted, and the last of each kind kept.

Records of our own that cannot be read are in the quarantine.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.decoding import LeftOutRows
from ghapp.errors import StoreRefusedError
from ghapp.log import logger
from ghapp.metric import Counter
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.metric_counters import MetricCounters
from ghapp.store.quarantine import RecordReader

log = logger(__name__)

ROWS_LEFT_OUT = Counter(
    "ghapp_rows_left_out_total",
    "Rows, and fields of rows, of GitHub, the cluster and the log store that could not be read and were left out, by "
    "kind.",
    ("kind",),
)

KEPT_SECONDS = 7 * 86_400
"""After something was last left out."""


class LastLeftOut(NamedTuple):
    """The last row, or field of one, of a kind that was left out. Fields are only ever appended.

    Attributes:
        kind: the kind of row.
        field: the path to what is odd; empty for the answer itself.
        why: what is odd about it.
        at: when it was recorded (epoch seconds).
        is_row: True if the whole row was left out.
    """

    kind: str
    field: str
    why: str
    at: float
    is_row: bool = False


_records = Codec("left-out", LastLeftOut)


class LeftOutRecords:
    """What was left out, of all installations and clusters."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._counters = redis, MetricCounters(redis)
        self._read = RecordReader(redis, _records)

    async def record(self, rows: LeftOutRows, now: float) -> None:
        """Counts what was left out since the last call, and keeps the last of each kind. Sends nothing without any.

        If Redis refuses the write, because it is full or a replica, that is lost: the rows are read again.
        """
        taken = rows.take()
        if not taken:
            return
        last: dict[Any, Any] = {
            kind: _records.encode(LastLeftOut(kind, odd.field, odd.why, now, odd.is_row))
            for kind, (_, odd) in taken.items()
        }
        counters = self._counters.batch()
        for kind, (count, odd) in taken.items():
            log.info("rows left out", kind=kind, count=count, field=odd.field, why=odd.why)
            counters.add(ROWS_LEFT_OUT, count, kind=kind)
        with suppress(StoreRefusedError):
            await counters.send()
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.hset(keys.LEFT_OUT, mapping=last)
                pipe.expire(keys.LEFT_OUT, KEPT_SECONDS)
                await pipe.execute()

    async def last(self) -> list[LastLeftOut]:
        """Returns the last of each kind, the latest first."""
        rows: Any = await self._redis.hgetall(keys.LEFT_OUT)
        records = await self._read.many(keys.LEFT_OUT, rows)
        return sorted(records.values(), key=lambda each: (-each.at, each.kind))
