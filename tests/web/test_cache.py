"""A second of memory in front of Redis."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.web import cache as module
from ghapp.web.cache import Cache


class Store:
    """Answers as configured, with the configured delay, and counts."""

    def __init__(self, value="a"):
        self.value, self.asked, self.takes, self.away = value, 0, 0.0, False

    async def load(self):
        self.asked += 1
        value = self.value
        await asyncio.sleep(self.takes)
        if self.away:
            raise StoreUnavailableError("away")
        return value


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def cache():
    return Cache(10, 10)


async def test_a_hundred_who_miss_at_once_ask_once(cache, store):
    store.takes = 0.05
    got = await asyncio.gather(*(cache.read("k", store.load) for _ in range(100)))
    assert (got, store.asked) == (["a"] * 100, 1)


async def test_what_is_fresh_is_not_asked_for_and_what_is_older_than_a_second_is(cache, store, monkeypatch):
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.1)
    cache = Cache(10, 10)
    await cache.read("k", store.load)
    store.value = "b"
    assert await cache.read("k", store.load) == "a"
    await asyncio.sleep(0.12)
    assert await cache.read("k", store.load) == "b"


async def test_what_is_not_there_is_remembered_as_long_and_no_longer(cache, store):
    store.value = None
    assert [await cache.read("k", store.load) for _ in range(3)] == [None] * 3
    assert store.asked == 1
    assert cache.last("k") is None


async def test_while_redis_is_away_the_last_answer_is_returned_and_it_is_queried_once_a_second(cache, store):
    await cache.read("k", store.load)
    cache.forget("k")
    store.away = True
    assert [await cache.read("k", store.load) for _ in range(5)] == ["a"] * 5
    assert store.asked == 2


async def test_while_redis_is_away_and_nothing_is_known_that_is_the_answer(cache, store):
    store.away = True
    with pytest.raises(StoreUnavailableError):
        await cache.read("k", store.load)


async def test_a_slow_redis_is_not_waited_for_where_something_is_known(cache, store):
    await cache.read("k", store.load)
    cache.forget("k")
    store.takes = 3600.0
    assert await asyncio.wait_for(cache.read("k", store.load), 10) == "a"


async def test_what_was_being_read_while_it_was_written_is_not_kept(cache, store):
    store.takes = 0.05
    reading = asyncio.create_task(cache.read("k", store.load))
    await asyncio.sleep(0.01)
    store.value = "b"
    cache.forget("k")
    assert await reading == "a"
    store.takes = 0.0
    assert await cache.read("k", store.load) == "b"


async def test_who_gives_up_waiting_takes_nothing_from_the_others(cache, store):
    store.takes = 0.05
    impatient = asyncio.create_task(cache.read("k", store.load))
    patient = asyncio.create_task(cache.read("k", store.load))
    await asyncio.sleep(0.01)
    impatient.cancel()
    assert await patient == "a"
    assert store.asked == 1
