"""A week of ten thousand ephemeral runners in virtual time: how many bytes Redis needs, and whether they grow.

In this process: the inbox, the drain, sweeps, confirmations and remediations as the jobs run them, with a real Redis and
a simulated GitHub. Each runner is registered, listed, takes one job and disappears. Redis' clock is the real one, so
that each step takes its length off all keys that expire. Without a cluster: no pods, and no deaths of pods.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec

from ghapp.errors import ReplacerUnavailableError, StoreRefusedError, StoreUnavailableError
from ghapp.github.deliveries import encode, parse
from ghapp.incidents.history import HistorySample, sample
from ghapp.settings import Settings
from jobs.context import JobContext, open_context
from jobs.deliveries.inbox import drain_inbox
from jobs.installations.discover import discover_installations
from jobs.remediation.remediate import remediate_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.bench.figure import Figure
from tests.bench.fleet.github import FIRST_INSTALLATION, IDS_PER_INSTALLATION, POOL, Config, Report
from tests.bench.fleet.place import environ_of, serving
from tests.support.event_delivery import deliver_event
from tests.support.local_redis import embedded_redis

RUNNERS, JOBS_A_DAY = 10_000, 1.0
"""Runners at any time, and jobs of each place among them: so many runners are new each day."""

DAYS, SETTLED_DAYS = 7, 4
"""Runners that left are known for a day, deliveries for up to three and a quarter: after four days nothing may grow but
the history, which is complete after a week."""

DAY_SECONDS, STEP_SECONDS, STEPS_A_SWEEP = 86_400, 900, 12
"""Deliveries come each quarter of an hour; a sweep comes each three hours, because one takes seconds of real time."""

CONFIRM_SECONDS, HISTORY_SECONDS = 30, 300
LOST = 2
"""Runners that are lost before each sweep, confirmed, removed and replaced."""

MOST_BYTES, MOST_GROWTH = 300.0, 1.05
UNLIMITED = 10**9
FIRST_NEW = 100_000
"""The id of the first runner that comes. All ids after the first day take as many bytes in a record."""

FIRST_SUCCESSOR = IDS_PER_INSTALLATION + 1
"""The ids of the runners that the simulated controller registers in place of lost ones."""

CLIENTS_SECONDS = 1.5
FAMILIES = 10
"""Kinds of keys that are named in the note."""

ORG = "org-0"
POLICY = f"""
[evidence]
confirm_seconds = {CONFIRM_SECONDS}
startup_seconds = 1
"""
AGE = """
local cursor, step = '0', tonumber(ARGV[1])
repeat
    local found = redis.call('SCAN', cursor, 'COUNT', 1000)
    cursor = found[1]
    for _, key in ipairs(found[2]) do
        local left = redis.call('PTTL', key)
        if left > step then redis.call('PEXPIRE', key, left - step) elseif left >= 0 then redis.call('DEL', key) end
    end
until cursor == '0'
"""
"""Lets the time of all keys pass. Keys that this moves may be seen twice only while Redis resizes: not in a script."""


def measure(folder: Path) -> list[Figure]:
    """The figures, all of one run."""
    config = Config(1, RUNNERS, points_a_minute=0, hourly=UNLIMITED)
    with embedded_redis(folder / "redis", durable=False) as url, serving("github", folder, config) as (github, _):
        settings = Settings.read(environ_of(folder, url, github, config, POLICY))
        return asyncio.run(_measure(settings, github))


async def _measure(settings: Settings, github: str) -> list[Figure]:
    began = time.monotonic()
    clock = _Clock()
    async with open_context(settings, clock) as context, httpx.AsyncClient(base_url=github, timeout=60) as client:
        await _without_own_statistics(context)
        empty = await _used_bytes(context)
        await discover_installations(context)
        fleet = _Fleet(context, clock, client)
        bytes_by_day = []
        for _ in range(DAYS):
            await fleet.live_a_day()
            bytes_by_day.append(await _used_bytes(context) - empty)
        await fleet.require_replaced()
        known, families = len(await context.runners.all(FIRST_INSTALLATION)), await _families(context)
        server: Any = await context.redis.info()
    growth = bytes_by_day[-1] / bytes_by_day[SETTLED_DAYS - 1]
    families["outside of keys"] = bytes_by_day[-1] - sum(families.values())
    each = ", ".join(f"{name} {size / known:.1f}" for name, size in families.most_common(FAMILIES))
    return [
        Figure(
            f"Redis, everything, for each known runner of a fleet of {RUNNERS:,} ephemeral ones",
            f"{bytes_by_day[-1] / known:.0f} bytes",
            bytes_by_day[-1] / known,
            most=MOST_BYTES,
            unit=" bytes",
            note=f"{known:,} known: live, or left within a day; of these bytes: {each}; "
            f"Redis {server['redis_version']} with {server['mem_allocator']}",
        ),
        Figure(
            f"the end of day {DAYS} against that of day {SETTLED_DAYS}",
            f"{bytes_by_day[-1] / 1e6:.1f} MB",
            growth,
            against=f"{bytes_by_day[SETTLED_DAYS - 1] / 1e6:.1f} MB",
            most=MOST_GROWTH,
            note=f"{fleet.jobs:,} runners with one job each, {fleet.lost} lost and replaced; MB by day: "
            f"{', '.join(f'{size / 1e6:.1f}' for size in bytes_by_day)}; {time.monotonic() - began:.0f} s",
        ),
    ]


class _Clock:
    """Epoch seconds that only the bench moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class _Fleet:
    """The runners, oldest first, and what happens to them."""

    def __init__(self, context: JobContext, clock: _Clock, github: httpx.AsyncClient) -> None:
        self._context, self._clock, self._github = context, clock, github
        self._live = deque(range(1, RUNNERS + 1))
        self._next, self._listed_before, self._random = FIRST_NEW, 0, Random(1)
        self._sample: HistorySample | None = None
        self._due, self._next_successor = 0.0, FIRST_SUCCESSOR
        self._last_lost: list[int] = []
        self.jobs = self.lost = 0

    async def live_a_day(self) -> None:
        """A day: deliveries in each step, a sweep after some of them."""
        for step in range(DAY_SECONDS // STEP_SECONDS):
            await self._pass(STEP_SECONDS)
            self._due += RUNNERS * JOBS_A_DAY * STEP_SECONDS / DAY_SECONDS
            await self._run_jobs(int(self._due))
            self._due -= int(self._due)
            if (step + 1) % STEPS_A_SWEEP == 0:
                await self._sweep()

    async def require_replaced(self) -> None:
        """Raises RuntimeError, with what is known of the lost runners of the last sweep, if one was not replaced."""
        report = await self._report()
        if len(report.events) != self.lost or report.unknown:
            survey = await self._context.runners.survey(FIRST_INSTALLATION)
            last = await self._context.runners.some(FIRST_INSTALLATION, self._last_lost)
            raise RuntimeError(
                f"{len(report.events)} of {self.lost} lost runners replaced; unknown: {report.unknown}; "
                f"{survey}; {[*last.values()]}; unsent: {await self._context.events.unsent()}"
            )

    async def _pass(self, seconds: int) -> None:
        """Time passes here and in Redis; sweeps, left out here, would record the history."""
        for _ in range(seconds // HISTORY_SECONDS):
            self._clock.now += HISTORY_SECONDS
            if self._sample is not None:
                now = self._clock.now
                await self._context.history.record(FIRST_INSTALLATION, self._sample._replace(at=now, counts={}), now)
        self._clock.now += seconds % HISTORY_SECONDS
        await self._context.redis.eval(AGE, 0, str(seconds * 1000))

    async def _run_jobs(self, count: int) -> None:
        """The oldest runners take a job each and leave; others come in their place."""
        ending = [self._live.popleft() for _ in range(count)]
        await self._replace(ending)
        for status in ("queued", "in_progress", "completed"):
            kept = [self._delivered(runner_id, status) for runner_id in ending]
            await asyncio.gather(*(self._context.inbox.keep(*each) for each in kept))
            while await drain_inbox(self._context):
                pass
        self.jobs += count

    async def _replace(self, leaving: Sequence[int]) -> None:
        new = range(self._next, self._next + len(leaving))
        self._next += len(leaving)
        self._live.extend(new)
        (await self._github.post("/_lose", json={ORG: list(leaving)})).raise_for_status()
        (await self._github.post("/_register", json={ORG: list(new)})).raise_for_status()

    def _delivered(self, runner_id: int, status: str) -> tuple[str, str, bytes]:
        """Returns GUID, event and facts of a delivery."""
        guid = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        body = msgspec.json.encode(_delivery(runner_id, status, self._clock.now))
        return guid, "workflow_job", encode(parse("workflow_job", body, "application/json"))

    async def _sweep(self) -> None:
        """A sweep finds some runners lost; they are confirmed, removed and replaced."""
        known = [each for each in self._live if each < self._listed_before]
        lost = known[-LOST:]
        for each in lost:
            self._live.remove(each)
        self.lost, self._last_lost = self.lost + len(lost), lost
        self._listed_before = self._next
        (await self._github.post("/_lose", json={ORG: lost})).raise_for_status()
        await sweep_installation(self._context, FIRST_INSTALLATION)
        await self._pass(CONFIRM_SECONDS)
        await confirm_installation(self._context, FIRST_INSTALLATION)
        await self._work_off()
        await self._take_sample()

    async def _work_off(self) -> None:
        """Does what the jobs of a worker do, in place of one; their entries in the queue are deleted."""
        context = self._context
        for each in (await context.runners.all(FIRST_INSTALLATION)).values():
            if each.granted_at is not None and each.replaced_at is None:
                await remediate_runner(context, FIRST_INSTALLATION, each.id)
        for event_id in await context.events.unsent():
            with suppress(ReplacerUnavailableError):
                await deliver_event(context, event_id)
        replaced = FIRST_SUCCESSOR + len((await self._report()).events)
        self._live.extend(range(self._next_successor, replaced))
        self._next_successor = replaced
        async for key in context.redis.scan_iter(match="rq:*", count=1000):
            await context.redis.delete(key)

    async def _report(self) -> Report:
        return msgspec.json.decode((await self._github.get("/_report")).content, type=Report)

    async def _take_sample(self) -> None:
        settings = self._context.settings
        self._sample = sample(
            (await self._context.runners.all(FIRST_INSTALLATION)).values(),
            (),
            await self._context.runners.survey(FIRST_INSTALLATION),
            settings.of(ORG).evidence,
            settings.pools_of(ORG),
            self._clock.now,
        )


def _delivery(runner_id: int, status: str, now: float) -> dict[str, Any]:
    """Returns the parts of GitHub's payload that are read."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    taken = {"runner_id": runner_id, "runner_name": f"{POOL}-{runner_id}", "runner_group_name": "Default"}
    return {
        "action": status,
        "installation": {"id": FIRST_INSTALLATION},
        "repository": {"full_name": f"{ORG}/service-{runner_id % 200}", "private": True},
        "workflow_job": {
            "id": 40_000_000_000 + runner_id,
            "run_id": 10_000_000_000 + runner_id // 4,
            "run_attempt": 1,
            "workflow_name": "Build and test",
            "name": f"test ({runner_id % 4}, linux)",
            "head_sha": f"{runner_id:040x}",
            "html_url": f"https://github.com/{ORG}/service/actions/runs/{runner_id // 4}/job/{runner_id}",
            "status": status,
            "conclusion": "success" if status == "completed" else None,
            "created_at": at,
            "started_at": at,
            "completed_at": at if status == "completed" else None,
            "labels": ["self-hosted", POOL],
            **(taken if status != "queued" else {}),
        },
    }


async def _without_own_statistics(context: JobContext) -> None:
    """Turns off what Redis keeps about itself: a log, and from version 7 on 40 KB for each command that was ever used.

    That is a megabyte, however many runners there are.
    """
    await context.redis.config_set("slowlog-max-len", 0)
    with suppress(StoreRefusedError, StoreUnavailableError):
        await context.redis.config_set("latency-tracking", "no")


async def _used_bytes(context: JobContext) -> int:
    """Returns what Redis uses, without the buffers of its clients, which it measures once a second."""
    await asyncio.sleep(CLIENTS_SECONDS)
    info: Any = await context.redis.info("memory")
    return int(info["used_memory"]) - int(info["mem_clients_normal"])


async def _families(context: JobContext) -> Counter[str]:
    """Returns the bytes of all keys by their kind: a key without its numbers and ids."""
    found = Counter[str]()
    async for key in context.redis.scan_iter(count=1000):
        kind = re.sub(r"(?<=names:)..|[0-9a-f-]{32,}|\d+", "N", key.decode()).replace(f":{POOL}", ":POOL")
        found[kind] += int(await context.redis.memory_usage(key, samples=0) or 0)
    return found
