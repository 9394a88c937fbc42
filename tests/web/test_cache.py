"""The cache in front of Redis, with a lifetime of one second."""

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
def clock(monkeypatch):
    """The cache's time, in seconds."""
    times = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: times[0])
    return times


@pytest.fixture
def cache():
    return Cache(10, 10)


async def test_concurrent_misses_of_a_key_query_redis_once(cache, store):
    store.takes = 0.05
    got = await asyncio.gather(*(cache.read("k", store.load) for _ in range(100)))
    assert (got, store.asked) == (["a"] * 100, 1)


async def test_a_fresh_value_is_returned_from_the_cache_and_an_expired_value_is_read_again(cache, store, monkeypatch):
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.1)
    cache = Cache(10, 10)
    await cache.read("k", store.load)
    store.value = "b"
    assert await cache.read("k", store.load) == "a"
    await asyncio.sleep(0.12)
    assert await cache.read("k", store.load) == "b"


RENEWED = module.FRESH_SECONDS - module.RENEWED_SECONDS


async def test_a_value_that_soon_expires_is_loaded_again_while_it_is_returned(cache, store, clock):
    await cache.read("k", store.load)
    store.value, store.takes = "b", 0.01
    clock[0] += RENEWED - 0.001
    assert (cache.fresh("k"), store.asked) == ("a", 1)
    clock[0] += 0.001
    assert [cache.fresh("k") for _ in range(5)] == ["a"] * 5
    await asyncio.sleep(0.05)
    assert (cache.fresh("k"), store.asked) == ("b", 2)
    clock[0] += RENEWED - 0.001
    assert (cache.fresh("k"), store.asked) == ("b", 2)


async def test_an_expired_value_is_not_returned_without_waiting(cache, store, clock):
    await cache.read("k", store.load)
    clock[0] += module.FRESH_SECONDS
    assert cache.fresh("k") is None


async def test_while_redis_is_away_a_value_that_soon_expires_is_loaded_once_before_it_expires(cache, store, clock):
    await cache.read("k", store.load)
    store.away = True
    clock[0] += RENEWED
    for _ in range(3):
        assert cache.fresh("k") == "a"
        await asyncio.sleep(0.01)
    assert store.asked == 2
    clock[0] += module.RENEWED_SECONDS
    assert [await cache.read("k", store.load) for _ in range(3)] == ["a"] * 3
    assert store.asked == 3


async def test_a_renewal_that_began_before_a_write_is_not_kept(cache, store, clock):
    await cache.read("k", store.load)
    store.takes = 0.02
    clock[0] += RENEWED
    assert cache.fresh("k") == "a"
    await asyncio.sleep(0)
    store.value = "b"
    cache.forget("k")
    await asyncio.sleep(0.05)
    assert cache.fresh("k") is None


async def test_a_missing_value_is_cached_as_long_as_others(cache, store):
    store.value = None
    assert [await cache.read("k", store.load) for _ in range(3)] == [None] * 3
    assert store.asked == 1
    assert cache.last("k") is None


async def test_while_redis_is_away_the_last_value_is_returned_and_redis_is_queried_once_a_second(cache, store):
    await cache.read("k", store.load)
    cache.forget("k")
    store.away = True
    assert [await cache.read("k", store.load) for _ in range(5)] == ["a"] * 5
    assert store.asked == 2


async def test_while_redis_is_away_an_uncached_key_raises_the_error(cache, store):
    store.away = True
    with pytest.raises(StoreUnavailableError):
        await cache.read("k", store.load)


async def test_a_cached_value_is_returned_without_waiting_for_a_slow_redis(cache, store):
    await cache.read("k", store.load)
    cache.forget("k")
    store.takes = 3600.0
    assert await asyncio.wait_for(cache.read("k", store.load), 10) == "a"


async def test_a_value_read_during_a_write_is_not_kept(cache, store):
    store.takes = 0.05
    reading = asyncio.create_task(cache.read("k", store.load))
    await asyncio.sleep(0.01)
    store.value = "b"
    cache.forget("k")
    assert await reading == "a"
    store.takes = 0.0
    assert await cache.read("k", store.load) == "b"


async def test_a_cancelled_reader_does_not_cancel_the_shared_read(cache, store):
    store.takes = 0.05
    impatient = asyncio.create_task(cache.read("k", store.load))
    patient = asyncio.create_task(cache.read("k", store.load))
    await asyncio.sleep(0.01)
    impatient.cancel()
    assert await patient == "a"
    assert store.asked == 1
