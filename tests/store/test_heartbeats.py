"""Heartbeats of processes."""

import pytest

from ghapp.store import keys
from ghapp.store.heartbeats import SILENT_SECONDS, Heartbeats

NOW = 1_790_000_000.0


@pytest.mark.parametrize(("silent", "alive"), [(0.0, ["a"]), (SILENT_SECONDS, ["a"]), (SILENT_SECONDS + 0.1, [])])
async def test_a_process_without_a_recent_heartbeat_is_dead(redis, silent, alive):
    await Heartbeats(redis).beat("clock", "a", NOW)
    assert await Heartbeats(redis).alive("clock", NOW + silent) == alive
    assert await Heartbeats(redis).alive("worker", NOW) == []


async def test_old_heartbeats_are_deleted(redis):
    for number in range(100):
        await Heartbeats(redis).beat("clock", str(number), NOW + number * 60)
    assert await redis.zcard(keys.heartbeats("clock")) <= 6
