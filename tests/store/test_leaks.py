"""The stored state of the reaper: its last tick, its unfinished deletions, and the recently reaped pods."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.leaks import store as module
from ghapp.leaks.guards import TickMemory
from ghapp.leaks.leak_fuse import ReapedPod
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.store import KEPT_SECONDS, Leaks, Tick
from ghapp.store import keys

ORG = 7
NOW = 1_790_000_000.25
MICROSECOND = 1e-6


def orphan(name="a", **changes):
    evidence = ((NOW - 900, "pod", "created"), (NOW - 300, "claim", "unclaimed"))
    worst = Orphan("runners", name, f"uid-{name}", name, "linux", "node-1", NOW, NOW - 300, evidence)
    return worst._replace(**changes)


async def test_before_the_first_tick_the_last_tick_is_empty(redis):
    assert await Leaks(redis).last(ORG) == Tick()


async def test_a_tick_is_read_back_unchanged_and_the_last_tick_is_kept(redis):
    leaks = Leaks(redis)
    memory = TickMemory({"uid-a": NOW - 60.125}, 3, 2, NOW, {"uid-a": "linux-1"})
    await leaks.remember(ORG, Tick(memory, NOW, "away", NOW - 60, 3, 1, 2, 0, 1))
    assert await leaks.last(ORG) == Tick(memory, NOW, "away", NOW - 60, 3, 1, 2, 0, 1)
    await leaks.remember(ORG, Tick(at=NOW + 60))
    assert await leaks.last(ORG) == Tick(at=NOW + 60)
    assert await leaks.last(ORG + 1) == Tick()


async def test_unfinished_deletions_are_listed_oldest_first_until_finished(redis):
    leaks = Leaks(redis)
    late, early = orphan("a", found_at=NOW + 60), orphan("b")
    assert [await leaks.begin(ORG, each) for each in (late, early, early)] == [True, True, True]
    assert await leaks.unfinished(ORG) == [early, late]
    assert await leaks.unfinished(ORG + 1) == []
    for _ in range(2):
        await leaks.done(ORG, early)
    assert await leaks.unfinished(ORG) == [late]


async def test_two_pods_with_one_name_are_distinct(redis):
    leaks = Leaks(redis)
    before, after = orphan(), orphan(uid="another")
    await leaks.begin(ORG, before)
    await leaks.begin(ORG, after)
    await leaks.done(ORG, before)
    assert await leaks.unfinished(ORG) == [after]


async def test_beyond_the_limit_of_unfinished_deletions_only_those_can_be_begun_again(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_BEGUN", 2)
    leaks = Leaks(redis)
    begun = await asyncio.gather(*(leaks.begin(ORG, orphan(name)) for name in "abcde"))
    assert sum(begun) == 2
    kept = await leaks.unfinished(ORG)
    assert [await leaks.begin(ORG, each) for each in kept] == [True, True]
    await leaks.done(ORG, kept[0])
    assert await leaks.begin(ORG, orphan("f"))
    assert await leaks.begin(ORG + 1, orphan("g"))


async def test_a_pod_is_counted_as_reaped_once_at_the_first_time(redis):
    leaks = Leaks(redis)
    for name, at in [("a", NOW), ("b", NOW + 10), ("a", NOW + 20)]:
        await leaks.reaped(ORG, orphan(name), at)
    since = [NOW - MICROSECOND, NOW, NOW + 10 - MICROSECOND, NOW + 10]
    assert [await leaks.reaped_since(ORG, each) for each in since] == [2, 1, 1, 0]
    assert await leaks.reaped_since(ORG + 1, 0.0) == 0


async def test_reaped_pods_are_deleted_after_a_day_and_beyond_a_limit(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_REAPED", 3)
    leaks = Leaks(redis)
    for number, name in enumerate("abcde"):
        await leaks.reaped(ORG, orphan(name), NOW + number)
    assert [await leaks.reaped_since(ORG, NOW + number) for number in (-1, 1, 2, 3)] == [3, 3, 2, 1]
    await leaks.reaped(ORG, orphan("f"), NOW + 3 + KEPT_SECONDS)
    assert await leaks.reaped_since(ORG, NOW) == 2


@pytest.mark.parametrize("key", [keys.leaks, keys.orphans, keys.reaped])
async def test_all_keys_expire_after_a_day(redis, key):
    leaks = Leaks(redis)
    await leaks.remember(ORG, Tick())
    await leaks.begin(ORG, orphan())
    await leaks.reaped(ORG, orphan(), NOW)
    assert KEPT_SECONDS - 5 < await redis.ttl(key(ORG)) <= KEPT_SECONDS


async def test_reaped_pods_are_counted_by_pool_since_a_time(redis):
    leaks = Leaks(redis)
    reaped = [("a", "linux", NOW), ("b", "linux", NOW + 5), ("c", "of two words", NOW + 5), ("d", "", NOW + 5)]
    for name, pool, at in [*reaped, ("b", "linux", NOW + 9)]:
        await leaks.reaped(ORG, orphan(name, pool=pool), at)
    assert await leaks.reaped_by_pool(ORG, NOW - 1) == {"linux": 2, "of two words": 1, "": 1}
    assert await leaks.reaped_by_pool(ORG, NOW) == {"linux": 1, "of two words": 1, "": 1}
    assert await leaks.reaped_by_pool(ORG, NOW + 5) == {}
    assert await leaks.reaped_by_pool(ORG + 1, 0.0) == {}
    assert await leaks.reaped_since(ORG, NOW) == 3


async def test_reaped_pods_are_read_whole_and_oldest_first(redis):
    leaks = Leaks(redis)
    orphans = [orphan("b", pool="of two words", runner_name="jit 7", was_registered=True), orphan("a")]
    for number, each in enumerate(orphans):
        await leaks.reaped(ORG, each, NOW + number)
    why = "no claim and no job for 300 s"
    assert await leaks.reaped_after(ORG, NOW - 1) == [
        ReapedPod(
            each.uid, each.pool, each.namespace, each.pod, each.runner_name, each.was_registered, NOW + number, why
        )
        for number, each in enumerate(orphans)
    ]
    assert [each.pod for each in await leaks.reaped_after(ORG, NOW)] == ["a"]
    assert [await leaks.was_reaped(ORG, each.uid) for each in orphans] == [True, True]


async def test_a_tick_has_the_reasons_why_pods_were_kept(redis):
    memory = TickMemory(named={"uid-a": NOW})
    tick = Tick(memory, held=3, kept={"Unnamed": 2}, examples={"Unnamed": (("runners/a", NOW),)})
    await Leaks(redis).remember(ORG, tick)
    assert await Leaks(redis).last(ORG) == tick
