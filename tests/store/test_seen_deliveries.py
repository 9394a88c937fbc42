"""Deliveries that have taken effect are known for three days, in few bytes each."""

from __future__ import annotations

import random
import uuid

import pytest

from ghapp.store import keys
from ghapp.store.inbox import Inbox
from ghapp.store.seen_deliveries import HOUR, SEEN_SECONDS, WINDOW_SECONDS, SeenDeliveries

WINDOW = 40_000
BEGIN = float(WINDOW * WINDOW_SECONDS)
END = BEGIN + WINDOW_SECONDS - 1
MOST_BYTES_EACH = 20


def guids(count):
    chosen = random.Random(1)
    return [str(uuid.UUID(int=chosen.getrandbits(128), version=4)) for _ in range(count)]


async def mark(redis, seen, names, now):
    async with redis.pipeline(transaction=True) as pipe:
        seen.add(pipe, names, now)
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
    ids=["at once", "after three days", "of the end of a window", "while its window is known", "half a day later"],
)
async def test_a_delivery_is_seen_for_three_days(redis, marked, asked, is_seen):
    seen = SeenDeliveries(redis)
    await mark(redis, seen, ["a"], marked)
    assert (await seen.among(["a"], asked) == {"a"}) is is_seen
    (key,) = await redis.keys()
    lasts = BEGIN + WINDOW_SECONDS + SEEN_SECONDS - marked
    assert lasts - 60 < await redis.ttl(key) <= lasts, "until three days after its window"


async def test_ten_thousand_deliveries_take_few_bytes_each(redis):
    await mark(redis, SeenDeliveries(redis), guids(10_000), BEGIN)
    found = await redis.keys()
    assert len(found) == 256
    size = sum([await redis.memory_usage(key, samples=0) for key in found])
    assert size / 10_000 < MOST_BYTES_EACH
    assert {await redis.object("encoding", key) for key in found} == {b"intset"}


@pytest.mark.parametrize(("hours", "is_seen"), [(0, True), (72, True), (73, False)])
async def test_deliveries_that_the_previous_version_marked_are_seen(redis, hours, is_seen):
    await redis.sadd(keys.seen_guids(int(BEGIN // HOUR) - hours), "a")
    inbox = Inbox(redis)
    await inbox.keep("a", "workflow_job", b"{}")
    assert (await inbox.without_effect(await inbox.take(10), BEGIN) == []) is is_seen
