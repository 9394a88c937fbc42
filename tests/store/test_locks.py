"""The exclusive, expiring right to act."""

import asyncio

import pytest

from ghapp.errors import LockLostError, StoreUnavailableError
from ghapp.store import keys
from ghapp.store.locks import Locks


async def test_a_claim_is_one_holder_s_alone_until_it_lets_go(redis):
    locks, rival = Locks(redis), Locks(redis)
    async with locks.acquire("remediate", 1) as mine, rival.acquire("remediate", 1) as also_mine:
        assert (mine, also_mine) == (True, False)
    async with rival.acquire("remediate", 1) as mine:
        assert mine is True


async def test_of_many_at_once_one_gets_it(redis):
    async def attempt():
        async with Locks(redis).acquire("remediate", 1) as mine:
            await asyncio.sleep(0.1)
            return mine

    assert sum(await asyncio.gather(*(attempt() for _ in range(20)))) == 1


async def test_a_process_that_did_not_get_it_does_not_release_it(redis):
    async with Locks(redis).acquire("remediate", 1):
        async with Locks(redis).acquire("remediate", 1):
            pass
        assert await redis.exists(keys.lock("remediate", "1")) == 1


async def test_another_kind_and_another_thing_are_other_claims(redis):
    locks = Locks(redis)
    async with (
        locks.acquire("remediate", 1) as one,
        locks.acquire("remediate", 2) as two,
        locks.acquire("mint", 1) as three,
    ):
        assert (one, two, three) == (True, True, True)


async def test_a_claim_outlives_its_lease_while_its_holder_lives(redis):
    async with Locks(redis, lease_seconds=0.2).acquire("remediate", 1):
        await asyncio.sleep(0.5)
        async with Locks(redis).acquire("remediate", 1) as also_mine:
            assert also_mine is False


async def test_a_claim_expires_with_its_dead_holder(redis):
    dead = asyncio.create_task(hold_for_ever(Locks(redis, lease_seconds=1.5)))
    await asyncio.sleep(0.05)
    assert 1000 < await redis.pttl(keys.lock("remediate", "1")) <= 1500
    dead.cancel()


async def hold_for_ever(locks):
    async with locks.acquire("remediate", 1):
        await asyncio.Event().wait()


async def test_a_waiting_process_gets_it_when_the_dead_holder_s_lease_is_over(redis):
    await redis.set(keys.lock("remediate", "1"), "dead", px=200)
    async with Locks(redis).acquire("remediate", 1, patience_seconds=5) as mine:
        assert mine is True


async def test_patience_ends(redis):
    async with Locks(redis).acquire("remediate", 1), Locks(redis).acquire("remediate", 1, patience_seconds=0.2) as mine:
        assert mine is False


async def test_a_holder_that_lost_it_is_stopped_and_does_not_release_its_successor_s(redis):
    holder = asyncio.create_task(hold_for_ever(Locks(redis, lease_seconds=0.2)))
    await asyncio.sleep(0.05)
    await redis.set(keys.lock("remediate", "1"), "successor")
    with pytest.raises(LockLostError):
        await asyncio.wait_for(holder, 5)
    assert await redis.get(keys.lock("remediate", "1")) == b"successor"


async def test_a_holder_that_cannot_renew_it_is_stopped_before_another_process_can_get_it(redis):
    locks = Locks(redis, lease_seconds=0.5)

    async def away(**_):
        raise StoreUnavailableError("away")

    left = []

    async def hold():
        async with locks.acquire("remediate", 1):
            try:
                await asyncio.Event().wait()
            finally:
                left.append(await redis.pttl(keys.lock("remediate", "1")))

    locks._renew = away
    with pytest.raises(LockLostError):
        await asyncio.wait_for(hold(), 5)
    assert left[0] > 0


async def test_a_holder_that_is_cancelled_from_outside_is_cancelled_and_lets_go(redis):
    holder = asyncio.create_task(hold_for_ever(Locks(redis)))
    await asyncio.sleep(0.05)
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder
    assert await redis.keys() == []


async def test_a_block_that_fails_lets_go(redis):
    with pytest.raises(ZeroDivisionError):
        async with Locks(redis).acquire("remediate", 1):
            raise ZeroDivisionError
    assert await redis.keys() == []


async def test_a_renewal_that_gives_up_as_the_block_ends_cancels_nothing(redis):
    locks, given_up = Locks(redis), asyncio.Event()

    async def give_up(*_):
        await given_up.wait()

    locks._renew_until_lost = give_up
    async with locks.acquire("remediate", 1):
        given_up.set()
        await asyncio.sleep(0)  # the renewal ends, and its callback runs when the block is over
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0
    assert await redis.keys() == []


async def test_the_holder_of_a_lock_can_be_read(redis):
    locks = Locks(redis)
    assert await locks.holder("role", "watch") == ""
    async with locks.hold("role", "watch", holder="watch-0") as lock, locks.hold("role", "watch", holder="b") as other:
        assert (lock.is_valid, other, await locks.holder("role", "watch")) == (True, None, "watch-0")
    assert await locks.holder("role", "watch") == ""


async def test_a_lock_is_given_up_in_time_though_each_renewal_takes_long_to_fail(redis):
    locks = Locks(redis, lease_seconds=1.0)
    loop, tried = asyncio.get_running_loop(), []

    async def hang(**_):
        tried.append(loop.time())
        await asyncio.sleep(0.19)  # just less than what one attempt may take
        raise StoreUnavailableError("Redis is away")

    left = []

    async def hold():
        async with locks.hold("remediate", 1) as lock:
            try:
                await asyncio.Event().wait()
            finally:
                left.append((lock.is_valid, await redis.exists(keys.lock("remediate", "1"))))

    locks._renew = hang
    with pytest.raises(LockLostError):
        await asyncio.wait_for(hold(), 5)
    assert left == [(False, 1)], "no other process can have it yet"
    assert len(tried) >= 2


async def test_a_holder_that_was_frozen_sees_that_its_lock_is_no_longer_valid(redis):
    async with Locks(redis, lease_seconds=10.0).hold("remediate", 1) as lock:
        assert lock.is_valid
        lock.renewed(asyncio.get_running_loop().time() - 8.0)  # the last renewal was that long ago
        assert not lock.is_valid
