"""Deletions of our own: by uid, bounded by number and by time."""

from __future__ import annotations

import pytest

from ghapp.pods import end_store as own_deletions
from ghapp.pods.end_store import DELETIONS_KEPT_SECONDS, OwnDeletions
from ghapp.store import keys

NOW = 1_790_000_000.0


@pytest.fixture
def own(redis):
    return OwnDeletions(redis)


async def test_a_deletion_is_known_by_its_uid_and_of_its_installation_until_it_is_withdrawn(own):
    await own.record(7, "pod-1", NOW)
    assert await own.has_any(7, ["other", "pod-1"])
    assert not await own.has_any(7, ["other", ""])
    assert not await own.has_any(7, [])
    assert not await own.has_any(8, ["pod-1"])
    await own.withdraw(7, "pod-1")
    assert not await own.has_any(7, ["pod-1"])


@pytest.mark.parametrize(("age", "is_known"), [(DELETIONS_KEPT_SECONDS - 1, True), (DELETIONS_KEPT_SECONDS, False)])
async def test_a_deletion_is_known_for_a_week(own, redis, age, is_known):
    await own.record(7, "old", NOW - age)
    await own.record(7, "new", NOW)
    assert await own.has_any(7, ["old"]) is is_known
    assert await redis.ttl(keys.own_deletions(7)) == DELETIONS_KEPT_SECONDS


async def test_of_too_many_deletions_the_latest_are_known(own, monkeypatch):
    monkeypatch.setattr(own_deletions, "MOST_DELETIONS", 2)
    for number in range(3):
        await own.record(7, str(number), NOW + number)
    assert [await own.has_any(7, [str(number)]) for number in range(3)] == [False, True, True]
