"""One bucket for all processes: a burst, then a number per hour."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.store import keys
from ghapp.store.budget import BucketSize, SharedRateLimits
from ghapp.store.connect import connect

SIZE = BucketSize(at_once=3, an_hour=600)
NOW = 1_800_000_000.0


async def granted(limits, count, now, installation=7):
    return sum([await limits.grant_look(installation, SIZE, now) for _ in range(count)])


async def test_a_bucket_is_full_at_first_and_gets_one_in_each_interval(redis):
    limits = SharedRateLimits(redis)
    assert await granted(limits, 10, NOW) == 3
    assert await granted(limits, 10, NOW + 5.99) == 0
    assert await granted(limits, 10, NOW + 6) == 1
    assert await granted(limits, 10, NOW + 18) == 2
    assert await granted(limits, 10, NOW + 1000) == 3, "no more than a full bucket"


async def test_all_processes_share_a_bucket_and_installations_do_not(redis, redis_url):
    several = [SharedRateLimits(redis), *(SharedRateLimits(connect(redis_url)) for _ in range(3))]
    assert sum(await asyncio.gather(*(granted(each, 10, NOW) for each in several))) == 3
    assert await granted(several[0], 10, NOW, installation=8) == 3


@pytest.mark.parametrize("back", [1.0, 1e6])
async def test_a_clock_that_jumped_back_empties_no_bucket_for_longer_than_it_takes_to_fill(redis, back):
    limits = SharedRateLimits(redis)
    await granted(limits, 10, NOW)
    assert await granted(limits, 10, NOW - back) == 0
    assert await granted(limits, 10, NOW - back + 18) >= 2


async def test_in_an_hour_of_a_flood_the_rate_is_kept_and_the_bucket_expires(redis):
    limits = SharedRateLimits(redis)
    assert sum([await granted(limits, 3, NOW + second) for second in range(0, 3600, 3)]) == 3 + 599
    assert 0 < await redis.pttl(keys.alive_looks(7)) <= 4 * 6000
