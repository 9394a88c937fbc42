"""Locks: exclusive, and expiring."""

import asyncio

import pytest

from ghapp.errors import LockLostError, StoreUnavailableError
from ghapp.store import keys
from ghapp.store.locks import Locks


async def test_a_lock_has_one_holder_until_it_is_released(redis):
    locks, rival = Locks(redis), Locks(redis)
    async with locks.acquire("remediate", 1) as mine, rival.acquire("remediate", 1) as also_mine:
        assert (mine, also_mine) == (True, False)
    async with rival.acquire("remediate", 1) as mine:
        assert mine is True


async def test_one_of_many_concurrent_processes_acquires_the_lock(redis):
    async def attempt():
        async with Locks(redis).acquire("remediate", 1) as mine:
            await asyncio.sleep(0.1)
            return mine

    assert sum(await asyncio.gather(*(attempt() for _ in range(20)))) == 1


async def test_a_process_without_the_lock_does_not_release_it(redis):
    async with Locks(redis).acquire("remediate", 1):
        async with Locks(redis).acquire("remediate", 1):
            pass
        assert await redis.exists(keys.lock("remediate", "1")) == 1


async def test_locks_of_another_kind_or_another_id_are_independent(redis):
    locks = Locks(redis)
    async with (
        locks.acquire("remediate", 1) as one,
        locks.acquire("remediate", 2) as two,
        locks.acquire("mint", 1) as three,
    ):
        assert (one, two, three) == (True, True, True)


async def test_a_lock_is_renewed_while_its_holder_is_alive(redis):
    async with Locks(redis, lease_seconds=0.2).acquire("remediate", 1):
        await asyncio.sleep(0.5)
        async with Locks(redis).acquire("remediate", 1) as also_mine:
            assert also_mine is False


async def test_the_lock_of_a_dead_holder_expires(redis):
    dead = asyncio.create_task(hold_forever(Locks(redis, lease_seconds=1.5)))
    await asyncio.sleep(0.05)
    assert 1000 < await redis.pttl(keys.lock("remediate", "1")) <= 1500
    dead.cancel()


async def hold_forever(locks):
    async with locks.acquire("remediate", 1):
        await asyncio.Event().wait()


async def test_a_waiting_process_acquires_the_lock_when_the_dead_holders_lease_expires(redis):
    await redis.set(keys.lock("remediate", "1"), "dead", px=200)
    async with Locks(redis).acquire("remediate", 1, patience_seconds=5) as mine:
        assert mine is True


async def test_an_attempt_to_acquire_times_out(redis):
    async with Locks(redis).acquire("remediate", 1), Locks(redis).acquire("remediate", 1, patience_seconds=0.2) as mine:
        assert mine is False


async def test_a_holder_that_lost_the_lock_is_cancelled_and_keeps_its_successors_lock(redis):
    holder = asyncio.create_task(hold_forever(Locks(redis, lease_seconds=0.2)))
    await asyncio.sleep(0.05)
    await redis.set(keys.lock("remediate", "1"), "successor")
    with pytest.raises(LockLostError):
        await asyncio.wait_for(holder, 5)
    assert await redis.get(keys.lock("remediate", "1")) == b"successor"


async def test_a_holder_that_cannot_renew_is_cancelled_before_another_process_can_acquire(redis):
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


async def test_a_holder_that_is_cancelled_from_outside_releases_the_lock(redis):
    holder = asyncio.create_task(hold_forever(Locks(redis)))
    await asyncio.sleep(0.05)
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder
    assert await redis.keys() == []


@pytest.mark.parametrize("passes", range(4))
async def test_a_holder_that_is_cancelled_from_outside_as_its_lock_is_lost_is_cancelled(redis, passes):
    """Before the loss, with it, and after it: the error of a lost lock alone would be caught, and the holder go on."""
    locks, held, lost = Locks(redis), asyncio.Event(), asyncio.Event()

    async def lose(*_):
        await lost.wait()

    async def hold():
        async with locks.acquire("remediate", 1):
            try:
                held.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)  # cleans up

    locks._renew_until_lost = lose
    holder = asyncio.create_task(hold())
    await held.wait()
    lost.set()
    for _ in range(passes):
        await asyncio.sleep(0)
    assert not holder.done()
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder
    assert await redis.keys() == []


async def test_a_block_that_raises_releases_the_lock(redis):
    with pytest.raises(ZeroDivisionError):
        async with Locks(redis).acquire("remediate", 1):
            raise ZeroDivisionError
    assert await redis.keys() == []


async def test_a_failed_renewal_at_the_end_of_the_block_cancels_nothing(redis):
    locks, given_up = Locks(redis), asyncio.Event()

    async def give_up(*_):
        await given_up.wait()

    locks._renew_until_lost = give_up
    async with locks.acquire("remediate", 1):
        given_up.set()
        await asyncio.sleep(0)  # the renewal ends, and its callback runs after the block
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0
    assert await redis.keys() == []


async def test_the_holder_of_a_lock_can_be_read(redis):
    locks = Locks(redis)
    assert await locks.holder("role", "watch") == ""
    async with locks.hold("role", "watch", holder="watch-0") as lock, locks.hold("role", "watch", holder="b") as other:
        assert (lock.is_valid, other, await locks.holder("role", "watch")) == (True, None, "watch-0")
    assert await locks.holder("role", "watch") == ""


async def test_a_lock_is_released_before_its_expiry_even_if_renewals_fail_slowly(redis):
    locks = Locks(redis, lease_seconds=1.0)
    loop, tried = asyncio.get_running_loop(), []

    async def hang(**_):
        tried.append(loop.time())
        await asyncio.sleep(0.19)  # slightly less than the timeout of one attempt
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
    assert left == [(False, 1)], "no other process can hold the lock yet"
    assert len(tried) >= 2


async def test_a_frozen_holder_detects_that_its_lock_expired(redis):
    async with Locks(redis, lease_seconds=10.0).hold("remediate", 1) as lock:
        assert lock.is_valid
        lock.renewed(asyncio.get_running_loop().time() - 8.0)  # the last renewal was this long ago
        assert not lock.is_valid
