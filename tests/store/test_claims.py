"""The exclusive, expiring right to act."""

import asyncio

import pytest

from ghapp.store import keys
from ghapp.store.claims import Claims


async def test_a_claim_is_one_holder_s_alone_until_it_lets_go(redis):
    claims, rival = Claims(redis), Claims(redis)
    async with claims.hold("remediate", 1, 60) as mine, rival.hold("remediate", 1, 60) as also_mine:
        assert (mine, also_mine) == (True, False)
    async with rival.hold("remediate", 1, 60) as mine:
        assert mine is True


async def test_of_many_at_once_one_gets_it(redis):
    async def attempt():
        async with Claims(redis).hold("remediate", 1, 60) as mine:
            await asyncio.sleep(0.1)
            return mine

    assert sum(await asyncio.gather(*(attempt() for _ in range(20)))) == 1


async def test_whoever_did_not_get_it_does_not_release_it(redis):
    async with Claims(redis).hold("remediate", 1, 60):
        async with Claims(redis).hold("remediate", 1, 60):
            pass
        assert await redis.exists(keys.claim("remediate", "1")) == 1


async def test_another_kind_and_another_thing_are_other_claims(redis):
    claims = Claims(redis)
    async with (
        claims.hold("remediate", 1, 60) as one,
        claims.hold("remediate", 2, 60) as two,
        claims.hold("mint", 1, 60) as three,
    ):
        assert (one, two, three) == (True, True, True)


async def test_a_claim_expires_with_its_dead_holder(redis):
    async with Claims(redis).hold("remediate", 1, 1.5):
        assert 1000 < await redis.pttl(keys.claim("remediate", "1")) <= 1500


async def test_whoever_held_it_too_long_does_not_release_his_successor_s(redis):
    claims = Claims(redis)
    async with claims.hold("remediate", 1, 0.02):
        await asyncio.sleep(0.05)
        successor = Claims(redis).hold("remediate", 1, 60)
        assert await successor.__aenter__() is True
    assert await redis.exists(keys.claim("remediate", "1")) == 1
    await successor.__aexit__(None, None, None)
    assert await redis.keys() == []


async def test_a_block_that_fails_lets_go(redis):
    with pytest.raises(ZeroDivisionError):
        async with Claims(redis).hold("remediate", 1, 60):
            raise ZeroDivisionError
    assert await redis.keys() == []
