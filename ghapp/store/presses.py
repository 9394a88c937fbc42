"""Pressed buttons, and requests of commands, whose work a worker does: which wait for an outcome, and each outcome.

A press is in the audit log as `queued` until the work that it asked for ends; then its entry has the outcome, and so
has the page on which the button was pressed. Presses of one topic, such as a sweep of the organization, share one
outcome: a press while the work runs joins it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.errors import StoreRefusedError
from ghapp.log import logger
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, AuditLog
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader

log = logger(__name__)

QUEUED = "queued"
"""The result of a press whose work has not ended."""

SWEEP_TOPIC = "sweep"

FAILED = "failed: "
"""In an outcome, before the reason why the work failed."""

MOST = 400
"""Presses and outcomes that are kept, half of it presses. One beyond has its entry in the audit log, and no outcome."""

KEPT_SECONDS = 3600

_DONE = ":done"


class Press(NamedTuple):
    """A press. Fields are only ever appended.

    Attributes:
        topic: what the work is about, such as `sweep` or `check 42`.
        entry: of the audit log, as it was recorded with the press.
        outcome: of the work; empty until it ended.
    """

    topic: str
    entry: AuditEntry
    outcome: str = ""

    @property
    def has_failed(self) -> bool:
        """True if the work ended with a failure."""
        return FAILED in self.outcome


_presses = Codec("press", Press)


def check_topic(runner_id: int) -> str:
    """Returns the topic of a look at one runner."""
    return f"check {runner_id}"


def rerun_topic(death: str) -> str:
    """Returns the topic of a re-run, by the `store.deaths.identity` of its runner's death."""
    return f"rerun {death}"


class Presses:
    """The presses of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read, self._audit = redis, RecordReader(redis, _presses), AuditLog(redis)

    async def begin(self, installation: int, topic: str, entry: AuditEntry) -> str:
        """Records a press before its work is enqueued, in the audit log, too; returns its id."""
        press_id, queued = secrets.token_hex(8), entry._replace(result=QUEUED)
        await self._audit.record(installation, queued)
        await self.put(installation, press_id, Press(topic, queued))
        return press_id

    async def put(self, installation: int, press_id: str, press: Press) -> None:
        """Stores a press whose work has not ended, unless too many are stored."""
        key = keys.presses(installation)
        if await self._redis.hlen(key) < MOST // 2:
            await self._redis.hset(key, press_id, _presses.encode(press))
        await self._redis.expire(key, KEPT_SECONDS)

    async def get(self, installation: int, press_id: str) -> Press | None:
        """Returns a press, with its outcome if its work ended; None if it is unknown, or older than an hour."""
        key = keys.presses(installation)
        rows: Any = await self._redis.hmget(key, [press_id, press_id + _DONE])
        begun, done = rows
        return await self._read.one(key, done if done is not None else begun)

    async def conclude(self, installation: int, topic: str, outcome_of: Callable[[Press], str]) -> None:
        """Records the outcome of each press of a topic that has none yet; two processes record one of theirs.

        What Redis refuses is logged: a banner must not keep a sweep from its confirmations.
        """
        try:
            await self._conclude(installation, topic, outcome_of)
        except StoreRefusedError as error:
            log.warning("outcome of a press not recorded", installation=installation, topic=topic, why=error.why)

    async def _conclude(self, installation: int, topic: str, outcome_of: Callable[[Press], str]) -> None:
        key = keys.presses(installation)
        rows: Any = await self._redis.hgetall(key)
        names = {(name.decode() if isinstance(name, bytes) else name): row for name, row in rows.items()}
        for name, row in names.items():
            if name.endswith(_DONE) or name + _DONE in names:
                continue
            press = await self._read.one(key, row)
            if press is None or press.topic != topic:
                continue
            done = press._replace(outcome=outcome_of(press))
            if await self._redis.hsetnx(key, name + _DONE, _presses.encode(done)):
                await self._audit.conclude(installation, press.entry, done.outcome)
