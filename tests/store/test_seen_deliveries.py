"""Deliveries that have taken effect are known for three days, in few bytes each."""

from __future__ import annotations

import random
import uuid

import pytest

from ghapp.deliveries.log_store import FULL, SEEN_SECONDS, WINDOW_SECONDS, SeenDeliveries

WINDOW = 40_000
BEGIN = float(WINDOW * WINDOW_SECONDS)
END = BEGIN + WINDOW_SECONDS - 1
BATCH = 800
MOST_BYTES_EACH = 15


def guids(count):
    chosen = random.Random(1)
    return [str(uuid.UUID(int=chosen.getrandbits(128), version=4)) for _ in range(count)]


async def mark(redis, seen, names, now):
    async with redis.pipeline(transaction=True) as pipe:
        await seen.add(pipe, names, now)
        await pipe.execute()


async def test_only_marked_deliveries_are_seen(redis):
    seen, names = SeenDeliveries(redis), guids(1_000)
    await mark(redis, seen, names[:500], BEGIN)
    assert await seen.among(names, BEGIN) == set(names[:500])


async def test_an_empty_question_asks_nothing(redis):
    assert await SeenDeliveries(redis).among([], BEGIN) == set()


@pytest.mark.parametrize(
    ("marked", "asked", "is_seen"),
    [
        (BEGIN, BEGIN, True),
        (BEGIN, BEGIN + SEEN_SECONDS, True),
        (END, END + SEEN_SECONDS, True),
        (BEGIN, BEGIN + SEEN_SECONDS + WINDOW_SECONDS - 1, True),
        (BEGIN, BEGIN + SEEN_SECONDS + WINDOW_SECONDS, False),
    ],
    ids=["at once", "after three days", "of the end of a window", "while its window is known", "a window later"],
)
async def test_a_delivery_is_seen_for_three_days(redis, marked, asked, is_seen):
    seen = SeenDeliveries(redis)
    await mark(redis, seen, ["a"], marked)
    assert (await seen.among(["a"], asked) == {"a"}) is is_seen
    lasts = BEGIN + WINDOW_SECONDS + SEEN_SECONDS - marked
    for key in await redis.keys():
        assert lasts - 60 < await redis.ttl(key) <= lasts, "until three days after its window"


@pytest.mark.parametrize("count", [5_000, FULL, FULL + BATCH, 3 * FULL])
async def test_any_number_of_deliveries_takes_few_bytes_each(redis, count):
    seen, names = SeenDeliveries(redis), guids(count)
    for at in range(0, count, BATCH):
        await mark(redis, seen, names[at : at + BATCH], BEGIN)
    sets = await redis.keys("ghapp:seen:*:*:*")
    assert {await redis.object("encoding", key) for key in sets} == {b"intset"}
    assert sum([await redis.memory_usage(key, samples=0) for key in sets]) / count < MOST_BYTES_EACH
    assert await seen.among({*names[:: count // 100], names[-1], "other"}, BEGIN) == {
        *names[:: count // 100],
        names[-1],
    }
