"""Pod claims: the last claim applies until it is released or expires."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.errors import PodClaimsFullError
from ghapp.pods import claim_store as module
from ghapp.pods.claim_store import LEEWAY_SECONDS, LONGEST_SECONDS, MOST, PodClaims
from ghapp.pods.pod_claim import PodClaim
from ghapp.store import keys

ORG = 7
NOW = 1_790_000_000.25


@pytest.fixture
def times():
    return [NOW]


@pytest.fixture
def claims(redis, times):
    return PodClaims(redis, lambda: times[0])


async def sizes(redis):
    return await redis.hlen(keys.pod_claims(ORG)), await redis.zcard(keys.pod_claim_expiries(ORG))


async def test_a_claim_is_read_back_unchanged(claims):
    assert await claims.claim(ORG, "a", "linux-1", 42, NOW + 60)
    await claims.claim(ORG, "b", "b", None, NOW + 1)
    everyone = sorted(await claims.all(ORG, NOW))
    assert everyone == [PodClaim("a", "linux-1", 42, NOW + 60, NOW), PodClaim("b", "b", None, NOW + 1, NOW)]
    assert sorted(await claims.stored(ORG)) == everyone
    assert await claims.all(ORG + 1, NOW) == []


async def test_a_repeated_claim_replaces_the_previous_one(redis, claims, times):
    assert await claims.claim(ORG, "a", "linux-1", 42, NOW + 60)
    times[0] = NOW + 1
    assert not await claims.claim(ORG, "a", "linux-2", None, NOW + 10), "it is no new one"
    assert await claims.all(ORG, NOW + 1) == [PodClaim("a", "linux-2", None, NOW + 10, NOW + 1)]
    assert await claims.all(ORG, NOW + 10) == []
    assert await sizes(redis) == (1, 1)


@pytest.mark.parametrize(("after", "holds"), [(59.999, True), (60.0, False), (60.001, False)])
async def test_a_claim_applies_until_it_expires(claims, after, holds):
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    assert bool(await claims.all(ORG, NOW + after)) is holds


@pytest.mark.parametrize(("after", "kept"), [(60 + LEEWAY_SECONDS - 0.001, 2), (60 + LEEWAY_SECONDS, 1)])
async def test_an_expired_claim_is_deleted_an_hour_later(redis, claims, times, after, kept):
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    times[0] = NOW + after
    await claims.claim(ORG, "b", "b", None, times[0] + 60)
    assert await sizes(redis) == (kept, kept)


async def test_a_reader_and_a_claimer_whose_clocks_jumped_delete_no_other_claim(claims, times):
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    assert await claims.all(ORG, NOW + 365 * 86_400) == []
    times[0] = NOW + 3_000
    await claims.claim(ORG, "b", "b", None, times[0] + 60)
    assert {each.pod for each in await claims.all(ORG, NOW)} == {"a", "b"}


async def test_an_expired_claim_is_kept_until_a_read_with_the_present_time(redis, claims):
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    (kept,) = await claims.stored(ORG)
    assert (kept.is_live(NOW + 59.999), kept.is_live(NOW + 60)) == (True, False)


async def test_a_released_claim_expires_at_that_moment_and_a_second_release_changes_nothing(claims, times):
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    await claims.claim(ORG, "b", "b", None, NOW + 60)
    times[0] = NOW + 10
    assert [await claims.release(ORG, "a") for _ in range(2)] == [True, False]
    assert [each.pod for each in await claims.all(ORG, NOW + 10)] == ["b"]
    assert {each.pod: each.expires_at for each in await claims.stored(ORG)} == {"a": NOW + 10, "b": NOW + 60}
    assert await claims.claim(ORG, "a", "a", None, NOW + 90)
    assert {each.pod: each.expires_at for each in await claims.stored(ORG)} == {"a": NOW + 90, "b": NOW + 60}


async def test_an_expired_claim_cannot_be_released(claims, times):
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    times[0] = NOW + 60
    assert not await claims.release(ORG, "a")


async def test_a_claim_lasts_a_day_at_most(claims):
    await claims.claim(ORG, "a", "a", None, NOW + LONGEST_SECONDS)
    await claims.claim(ORG, "b", "b", None, NOW + LONGEST_SECONDS + 1)
    assert {each.expires_at for each in await claims.all(ORG, NOW)} == {NOW + LONGEST_SECONDS}


async def test_beyond_the_limit_a_new_claim_is_refused_and_the_others_stay(redis, claims, times, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    await claims.claim(ORG, "a", "a", None, NOW + 60)
    await claims.claim(ORG, "b", "b", None, NOW + 10)
    with pytest.raises(PodClaimsFullError, match="release claims"):
        await claims.claim(ORG, "c", "c", None, NOW + 60)
    await claims.claim(ORG, "a", "a", 42, NOW + 60)
    assert {each.pod for each in await claims.all(ORG, NOW)} == {"a", "b"}
    times[0] = NOW + 10
    await claims.claim(ORG, "c", "c", None, NOW + 60)
    assert {each.pod for each in await claims.all(ORG, NOW + 10)} == {"a", "c"}
    await claims.claim(ORG + 1, "d", "d", None, NOW + 60)


async def test_one_of_two_concurrent_claims_for_the_last_place_is_accepted(redis, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1)
    claims = PodClaims(redis, lambda: NOW)
    found = await asyncio.gather(
        *(claims.claim(ORG, pod, pod, None, NOW + 60) for pod in "abcde"), return_exceptions=True
    )
    assert sum(isinstance(each, PodClaimsFullError) for each in found) == 4
    assert await sizes(redis) == (1, 1)


async def test_ten_thousand_claims_that_expire_together_are_deleted(redis, claims, times):
    for start in range(0, MOST, 100):
        names = [f"p{start + each}" for each in range(100)]
        await asyncio.gather(*(claims.claim(ORG, name, name, None, NOW + 60) for name in names))
    assert len(await claims.all(ORG, NOW)) == MOST
    times[0] = NOW + 60
    await claims.claim(ORG, "a", "a", None, NOW + 120)
    assert await sizes(redis) == (1, 1)


async def test_without_new_claims_the_keys_expire(redis, claims):
    await claims.claim(ORG, "a", "a", None, NOW + LONGEST_SECONDS)
    for key in (keys.pod_claims(ORG), keys.pod_claim_expiries(ORG)):
        assert LONGEST_SECONDS <= await redis.ttl(key) <= LONGEST_SECONDS + 60
