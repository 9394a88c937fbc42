"""Pressed buttons, and requests of commands, whose work a worker does: which wait for an outcome, and each outcome.

A press is in the audit log as `queued` until the work that it asked for ends; then its entry has the outcome, and so
has the page on which the button was pressed. Meanwhile both say what the work waits for, if that is known. Presses of
one topic, such as a sweep of the organization, share one outcome: a press while the work runs joins it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.errors import StoreRefusedError
from ghapp.log import logger
from ghapp.report.remaining_losses import RemainingLosses
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, AuditLog, Trail
from ghapp.store.codec import Codec
from ghapp.store.quarantine import RecordReader
from ghapp.wording import clock_time

log = logger(__name__)

QUEUED = "queued"
"""The result of a press whose work has not ended."""

WAITS = "waits: "
"""The beginning of the result of a press while its work is not done, before the reason."""

SWEEP_TOPIC = "sweep"

FAILED = "failed: "
"""The beginning of an outcome, before the reason why the work failed."""

JOINED = "already running: "
"""Before the outcome of a press that came while the work ran."""

ALREADY_REQUESTED = "already requested"
"""The result of a press that joined an earlier one, before who began that."""

MOST = 400
"""Presses and outcomes that are kept, half of it presses. One beyond has its entry in the audit log, and no outcome."""

KEPT_SECONDS = 8 * 3600
"""After the last change of any press: longer than a re-run is tried."""

SHOWN_SECONDS = 3600
"""An outcome is kept for this long where others need its place."""

_DONE = ":done"


class Press(NamedTuple):
    """A press. Fields are only ever appended.

    Attributes:
        topic: what the work is about, such as `sweep` or `check 42`.
        entry: of the audit log, as it was recorded with the press.
        outcome: of the work; empty until it ended.
        waits_for: why the work is not done yet; empty if nothing is known of that.
        next_at: when it is tried again (epoch seconds).
        ends_at: when it is tried for the last time.
        losses: the runners that remain lost after a sweep; None while it is not over, and of other work.
    """

    topic: str
    entry: AuditEntry
    outcome: str = ""
    waits_for: str = ""
    next_at: float | None = None
    ends_at: float | None = None
    losses: RemainingLosses | None = None

    @property
    def has_effect(self) -> bool:
        """True if it has had its effect, and the work only follows: the work's outcome is not its result."""
        return self.entry.result != QUEUED and not self.entry.result.startswith(WAITS)

    @property
    def has_failed(self) -> bool:
        """True if the work ended with a failure."""
        return self.outcome.removeprefix(JOINED).startswith(FAILED)


def _concluded(press: Press) -> AuditEntry:
    """Returns the entry with the outcome of the work: as its result, or behind that of a change that it followed."""
    entry = press.entry
    if not press.has_effect:
        return entry._replace(result=press.outcome)
    return entry._replace(detail="; ".join(filter(None, (entry.detail, f"{press.topic}: {press.outcome}"))))


_presses = Codec("press", Press)


def check_topic(runner_id: int) -> str:
    """Returns the topic of a look at one runner."""
    return f"check {runner_id}"


def rerun_topic(death: str) -> str:
    """Returns the topic of a re-run, by the `deaths.store.identity` of its runner's death."""
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

    async def follow(self, installation: int, topic: str, entry: AuditEntry) -> str:
        """Records a press that has had its effect, such as a resume, and is followed by work; returns its id.

        Args:
            installation: of the press.
            topic: of the work, whose outcome is added to the entry.
            entry: as the audit log has it.
        """
        press_id = secrets.token_hex(8)
        await self.put(installation, press_id, Press(topic, entry))
        return press_id

    async def begin_or_join(self, installation: int, topic: str, entry: AuditEntry) -> tuple[str, str]:
        """Records a press, as `begin`; while an earlier press of its topic waits, it shares that one's outcome.

        Returns:
            The id of the press that gets the outcome, and who began it.
        """
        waiting = await self._open(keys.presses(installation), topic)
        if not waiting:
            return await self.begin(installation, topic, entry), entry.who
        press_id, press = min(waiting, key=lambda each: each[1].entry.at)
        result = f"{ALREADY_REQUESTED} by {press.entry.who}"
        await self._audit.record(installation, entry._replace(result=result), Trail.ATTEMPTS)
        return press_id, press.entry.who

    async def put(self, installation: int, press_id: str, press: Press) -> None:
        """Stores a press whose work has not ended, unless too many are stored."""
        key = keys.presses(installation)
        if await self._redis.hlen(key) >= MOST // 2:
            await self._delete_old(key, press.entry.at)
        if await self._redis.hlen(key) < MOST // 2:
            await self._redis.hset(key, press_id, _presses.encode(press))
        await self._redis.expire(key, KEPT_SECONDS)

    async def get(self, installation: int, press_id: str) -> Press | None:
        """Returns a press, with its outcome if its work ended; None if it is unknown, or too old."""
        key = keys.presses(installation)
        rows: Any = await self._redis.hmget(key, [press_id, press_id + _DONE])
        begun, done = rows
        return await self._read.one(key, done if done is not None else begun)

    async def wait(
        self, installation: int, topic: str, waits_for: str, next_at: float, ends_at: float | None = None
    ) -> None:
        """Records what the work of a topic waits for, with each press that has no outcome, and in the audit log.

        Args:
            installation: of the presses.
            topic: of the work.
            waits_for: the reason, a part of a sentence.
            next_at: when it is tried again (epoch seconds).
            ends_at: when it is tried for the last time.
        """
        try:
            await self._wait(installation, topic, waits_for, next_at, ends_at)
        except StoreRefusedError as error:
            log.warning("wait of a press not recorded", installation=installation, topic=topic, why=error.why)

    async def _wait(self, installation: int, topic: str, waits_for: str, next_at: float, ends_at: float | None) -> None:
        key = keys.presses(installation)
        for press_id, press in await self._open(key, topic):
            waiting = press._replace(waits_for=waits_for, next_at=next_at, ends_at=ends_at)
            result = f"{WAITS}{waits_for}; next try at {clock_time(next_at)}"
            result += "" if ends_at is None else f", for the last time at {clock_time(ends_at)}"
            if not press.has_effect:
                waiting = waiting._replace(entry=press.entry._replace(result=result))
                await self._audit.conclude(installation, press.entry, waiting.entry)
            await self._redis.hset(key, press_id, _presses.encode(waiting))
        await self._redis.expire(key, KEPT_SECONDS)

    async def is_awaited(self, installation: int, topic: str) -> bool:
        """True if a press of this topic has no outcome yet."""
        return bool(await self._open(keys.presses(installation), topic))

    async def conclude(
        self,
        installation: int,
        topic: str,
        outcome_of: Callable[[Press], str],
        losses: RemainingLosses | None = None,
        now: float | None = None,
    ) -> None:
        """Records the outcome of each press of a topic that has none yet; two processes record one of theirs.

        Args:
            installation: of the presses.
            topic: of the work.
            outcome_of: returns the outcome of a press.
            losses: the runners that remain lost after a sweep.
            now: when the work ended (epoch seconds), for the check run, which shows the outcome for a time; None: the
                work is of no button of that check run.

        What Redis refuses is logged: a banner must not keep a sweep from its confirmations.
        """
        try:
            await self._conclude(installation, topic, outcome_of, losses, now)
        except StoreRefusedError as error:
            log.warning("outcome of a press not recorded", installation=installation, topic=topic, why=error.why)

    async def _conclude(
        self,
        installation: int,
        topic: str,
        outcome_of: Callable[[Press], str],
        losses: RemainingLosses | None,
        now: float | None,
    ) -> None:
        key = keys.presses(installation)
        for press_id, press in await self._open(key, topic):
            done = press._replace(outcome=outcome_of(press), losses=losses)
            if await self._redis.hsetnx(key, press_id + _DONE, _presses.encode(done)):
                await self._audit.conclude(installation, press.entry, _concluded(done)._replace(ended_at=now))

    async def _open(self, key: str, topic: str) -> list[tuple[str, Press]]:
        """Returns the presses of a topic that have no outcome, by their ids."""
        rows = await self._rows(key)
        found = []
        for name, row in rows.items():
            if not name.endswith(_DONE) and name + _DONE not in rows:
                press = await self._read.one(key, row)
                if press is not None and press.topic == topic:
                    found.append((name, press))
        return found

    async def _delete_old(self, key: str, now: float) -> None:
        """Makes room: an outcome is shown for an hour, and what has none after `KEPT_SECONDS` never gets one."""
        rows = await self._rows(key)
        for name in [each for each in rows if not each.endswith(_DONE)]:
            done = rows.get(name + _DONE)
            press = await self._read.one(key, rows[name] if done is None else done)
            kept = KEPT_SECONDS if done is None else SHOWN_SECONDS
            if press is None or press.entry.at < now - kept:
                await self._redis.hdel(key, name, name + _DONE)

    async def _rows(self, key: str) -> dict[str, bytes]:
        rows: Any = await self._redis.hgetall(key)
        return {(name.decode() if isinstance(name, bytes) else name): row for name, row in rows.items()}
