"""The in-memory copy of an installation's runners equals the stored records, and a refresh reads only changed records."""

from __future__ import annotations

import asyncio
import random

import pytest

from ghapp.runners import store as runners
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.web import fleet_copy
from ghapp.web.fleet_copy import FleetCopies
from tests.web.conftest import NOW, healthy

ORG = 7


def put(runner):
    return {runner.id: lambda _: runner}


def leave(runner_id):
    return {runner_id: lambda _: None}


@pytest.fixture
def store(redis):
    return Runners(redis)


@pytest.fixture
def time():
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def copies(store, time):
    return FleetCopies(store, time)


async def calls(redis, *commands):
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{each}", {"calls": 0})["calls"] for each in commands)


async def test_without_a_change_the_copy_is_the_same_object_and_no_record_is_read(store, copies, redis):
    await store.revise(ORG, put(healthy(1, "a")))
    first, before = await copies.current(ORG), await calls(redis, "hscan", "hmget", "hgetall")
    assert await copies.current(ORG) is first
    assert await calls(redis, "hscan", "hmget", "hgetall") == before


async def test_only_records_that_changed_are_read_again(store, copies, redis):
    await store.revise(ORG, put(healthy(1, "a")) | put(healthy(2, "b")))
    first = await copies.current(ORG)
    changed = healthy(2, "b")._replace(busy=True)
    await store.revise(ORG, put(changed))
    before = await calls(redis, "hscan")
    second = await copies.current(ORG)
    assert (second.runners[2], second.runners[1]) == (changed, first.runners[1])
    assert second.runners[1] is first.runners[1]
    assert await calls(redis, "hscan") == before


async def test_the_name_of_a_deleted_runner_is_removed_unless_a_later_runner_has_it(store, copies):
    await store.revise(ORG, put(healthy(1, "a")) | put(healthy(2, "a")) | put(healthy(3, "b")))
    assert (await copies.current(ORG)).ids == {"a": 2, "b": 3}
    await store.revise(ORG, leave(1) | leave(3))
    fleet = await copies.current(ORG)
    assert (set(fleet.runners), fleet.ids) == ({2}, {"a": 2})


@pytest.mark.parametrize(
    "lost",
    [
        lambda redis: redis.delete(keys.runner_changes(ORG)),
        lambda redis: redis.xtrim(keys.runner_changes(ORG), maxlen=0, approximate=False),
        lambda redis: redis.xadd(keys.runner_changes(ORG), {"i": b"\xff garbage"}),
    ],
    ids=["expired, or lost in a failover", "trimmed", "unreadable"],
)
async def test_a_lost_or_unreadable_change_feed_reloads_all_records(store, copies, redis, lost):
    await store.revise(ORG, put(healthy(1, "a")))
    await copies.current(ORG)
    await store.revise(ORG, put(healthy(2, "b")))
    await asyncio.sleep(0.002)  # positions are milliseconds: a feed that is begun again within one has the same
    await lost(redis)
    assert set((await copies.current(ORG)).runners) == {1, 2}
    await store.revise(ORG, put(healthy(3, "c")))
    assert set((await copies.current(ORG)).runners) == {1, 2, 3}


async def test_a_copy_behind_the_bounded_feed_reloads_all_records(store, copies, monkeypatch):
    await store.revise(ORG, put(healthy(1, "a")))
    await copies.current(ORG)
    for number in range(2 * runners.MOST_CHANGES):
        await store.revise(ORG, put(healthy(1, "a")._replace(observed_at=NOW + number)))
    assert (await copies.current(ORG)).runners[1].observed_at == NOW + 2 * runners.MOST_CHANGES - 1


@pytest.mark.parametrize(("seconds", "seen"), [(fleet_copy.RELOAD_SECONDS - 0.1, False), (60.0, True)])
async def test_a_write_missing_from_the_feed_is_visible_within_a_minute(store, copies, redis, time, seconds, seen):
    await store.revise(ORG, put(healthy(1, "a")) | put(healthy(2, "b")))
    await copies.current(ORG)
    await redis.hdel(keys.runners(ORG), 2)
    time.now += seconds
    assert ((await copies.current(ORG)).ids == {"a": 1}) is seen


async def test_a_reload_of_equal_records_returns_the_same_object(store, copies, time):
    await store.revise(ORG, put(healthy(1, "a")))
    first = await copies.current(ORG)
    time.now += fleet_copy.RELOAD_SECONDS
    assert await copies.current(ORG) is first


async def test_a_fleet_larger_than_one_batch_is_read_completely(store, copies):
    count = 2 * runners.DECODED + 1
    await store.revise(ORG, {each: lambda _, each=each: healthy(each, f"r{each}") for each in range(1, count + 1)})
    fleet = await copies.current(ORG)
    assert (len(fleet.runners), len(fleet.ids)) == (count, count)


async def test_the_least_recently_read_copy_is_evicted(store, redis, time, monkeypatch):
    monkeypatch.setattr(fleet_copy, "MOST_COPIED", 3)
    copies = FleetCopies(store, time)
    for org in (1, 2, 3):
        await store.revise(org, put(healthy(1, "a")) | put(healthy(2, "b")))
    first = await copies.current(1)
    assert await copies.current(1) is first
    await copies.current(2)
    assert await copies.current(1) is not first
    await store.revise(3, put(healthy(3, "c")) | put(healthy(4, "d")))
    assert len((await copies.current(3)).runners) == 4, "a fleet that is too large to be cached is still read"


async def test_after_any_sequence_of_changes_the_copy_equals_the_stored_records(store, copies):
    rng = random.Random(1)
    for _ in range(100):
        for runner_id in rng.sample(range(1, 9), rng.randint(0, 3)):
            name = f"r{rng.randint(1, 4)}"
            await store.revise(ORG, leave(runner_id) if rng.random() < 0.3 else put(healthy(runner_id, name)))
        if rng.random() < 0.5:
            assert (await copies.current(ORG)).runners == await store.all(ORG)
