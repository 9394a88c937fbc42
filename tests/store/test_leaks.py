"""What the reaper remembers: its last tick, and the deletions that it began."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.health.leaks.leak import Memory
from ghapp.health.leaks.orphan import Orphan
from ghapp.store import keys
from ghapp.store import leaks as module
from ghapp.store.leaks import KEPT_SECONDS, Leaks, Tick

ORG = 7
NOW = 1_790_000_000.25


def orphan(name="a", **changes):
    evidence = ((NOW - 900, "pod", "created"), (NOW - 300, "claim", "unclaimed"))
    worst = Orphan("runners", name, f"uid-{name}", name, "linux", "node-1", NOW, NOW - 300, evidence)
    return worst._replace(**changes)


async def test_before_the_first_tick_there_is_an_empty_one(redis):
    assert await Leaks(redis).last(ORG) == Tick()


async def test_a_tick_comes_back_as_it_was_and_the_last_one_holds(redis):
    leaks = Leaks(redis)
    memory = Memory({"uid-a": NOW - 60.125}, 3, 2, NOW, {"uid-a": "linux-1"})
    await leaks.remember(ORG, Tick(memory, NOW, "away", NOW - 60, 3, 1, 2, 0, 1))
    assert await leaks.last(ORG) == Tick(memory, NOW, "away", NOW - 60, 3, 1, 2, 0, 1)
    await leaks.remember(ORG, Tick(at=NOW + 60))
    assert await leaks.last(ORG) == Tick(at=NOW + 60)
    assert await leaks.last(ORG + 1) == Tick()


async def test_what_was_begun_comes_back_oldest_first_until_it_is_done(redis):
    leaks = Leaks(redis)
    late, early = orphan("a", found_at=NOW + 60), orphan("b")
    assert [await leaks.begin(ORG, each) for each in (late, early, early)] == [True, True, True]
    assert await leaks.begun(ORG) == [early, late]
    assert await leaks.begun(ORG + 1) == []
    for _ in range(2):
        await leaks.done(ORG, early)
    assert await leaks.begun(ORG) == [late]


async def test_two_pods_of_one_name_are_two(redis):
    leaks = Leaks(redis)
    before, after = orphan(), orphan(uid="another")
    await leaks.begin(ORG, before)
    await leaks.begin(ORG, after)
    await leaks.done(ORG, before)
    assert await leaks.begun(ORG) == [after]


async def test_where_too_many_are_unfinished_no_other_is_begun_and_those_can_be_again(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_BEGUN", 2)
    leaks = Leaks(redis)
    begun = await asyncio.gather(*(leaks.begin(ORG, orphan(name)) for name in "abcde"))
    assert sum(begun) == 2
    kept = await leaks.begun(ORG)
    assert [await leaks.begin(ORG, each) for each in kept] == [True, True]
    await leaks.done(ORG, kept[0])
    assert await leaks.begin(ORG, orphan("f"))
    assert await leaks.begin(ORG + 1, orphan("g"))


@pytest.mark.parametrize("key", [keys.leaks, keys.orphans])
async def test_both_go_by_themselves_after_a_day(redis, key):
    leaks = Leaks(redis)
    await leaks.remember(ORG, Tick())
    await leaks.begin(ORG, orphan())
    assert KEPT_SECONDS - 5 < await redis.ttl(key(ORG)) <= KEPT_SECONDS
