"""GitHub's limits of creations, shared by all kinds of check runs."""

from __future__ import annotations

import pytest

from ghapp.report.store import A_MINUTE, AN_HOUR, CheckCreations
from ghapp.store import keys

NOW = 1_790_000_000.0


@pytest.fixture
def creations(redis):
    return CheckCreations(redis)


async def take(creations, count, at=NOW, share=1.0, first=0):
    return [await creations.take(7, f"{first + number}", share, at) for number in range(count)]


async def test_as_many_as_github_permits_in_a_minute_are_created_and_the_next_waits_for_the_first(creations):
    assert await take(creations, A_MINUTE) == [0.0] * A_MINUTE
    assert await take(creations, 1, NOW + 10, first=900) == [50.0]
    assert await take(creations, 1, NOW + 59.5, first=900) == [0.5]
    assert await take(creations, 1, NOW + 60, first=900) == [0.0]
    assert await creations.take(8, "other", 1.0, NOW) == 0.0


async def test_as_many_as_github_permits_in_an_hour(creations):
    for minute in range(8):
        assert await take(creations, AN_HOUR // 8, NOW + 61 * minute, first=1000 * minute) == [0.0] * (AN_HOUR // 8)
    assert await take(creations, 1, NOW + 600, first=9000) == [3000.0]
    assert await take(creations, 1, NOW + 3600, first=9000) == [0.0]


async def test_less_useful_ones_leave_room_for_others(creations):
    few = int(A_MINUTE * 0.6)
    assert await take(creations, few, share=0.6) == [0.0] * few
    assert (await take(creations, 1, share=0.6, first=900)) == [60.0]
    assert (await take(creations, 1, share=1.0, first=900)) == [0.0]


async def test_a_repeated_creation_counts_again_because_github_counts_the_ones_that_it_refused(creations):
    repeated = [await creations.take(7, "the same", 1.0, NOW) for _ in range(A_MINUTE + 1)]
    assert repeated == [0.0] * A_MINUTE + [60.0]


async def test_each_that_waits_has_a_turn_of_its_own(creations):
    few = int(A_MINUTE * 0.8)
    await take(creations, few, share=0.8)
    waits = await take(creations, 3 * few, NOW + 10, share=0.8, first=1000)
    assert waits == [50.0] * few + [110.0] * few + [170.0] * few
    assert await take(creations, 1, NOW + 10, share=0.8, first=1000) == [170.0], "it gave up its turn"
    assert await take(creations, few, NOW + 60, share=0.8, first=1000) == [0.0] * few
    assert await take(creations, 1, NOW + 60, share=0.8, first=9000) == [180.0], "those that still wait come first"
    assert await take(creations, 2 * few, NOW + 600, share=0.8, first=9000) == [0.0] * few + [60.0] * few


async def test_the_turns_of_an_hour_go_on_in_the_next(creations):
    for minute in range(8):
        await take(creations, AN_HOUR // 8, NOW + 61 * minute, first=1000 * minute)
    waits = await take(creations, AN_HOUR + 1, NOW + 600, first=20_000)
    assert (waits[0], waits[AN_HOUR - 1], waits[AN_HOUR]) == (3000.0, 3000.0 + 61 * 7, 6600.0)
    assert waits == sorted(waits)


async def test_a_clock_that_jumped_back_blocks_nothing(creations, redis):
    assert await take(creations, A_MINUTE, NOW + 7200) == [0.0] * A_MINUTE
    assert await take(creations, 1, NOW, first=900) == [0.0]
    assert 0 < await redis.ttl(keys.creations(7)) <= 3600
