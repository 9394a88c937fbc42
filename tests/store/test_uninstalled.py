"""Data of an uninstalled installation expires 30 days later, of every kind; a re-installation restores each expiry."""

from __future__ import annotations

import time

import pytest

from ghapp.installations import store as uninstalled
from ghapp.installations.store import KEPT_SECONDS, UninstalledData
from ghapp.store import keys
from tests.store.rows.samples import ORG
from tests.store.test_garbage import write

OTHER = ORG * 10 + 1
"""Its prefix begins with the digits of the other's."""

MILLISECOND = 0.001


async def expiries(redis, installation=ORG):
    """The expiry of each key of an installation in epoch seconds, None for none; by the clock of this machine."""
    found = {}
    for key in await redis.keys(f"ghapp:{installation}:*"):
        left = await redis.pttl(key)
        found[key.decode()] = None if left == -1 else time.time() + left / 1000
    found.pop(keys.former_expiries(installation), None)
    return found


def same(one, other):
    """True if two moments are the same but for the time between two reads of the clock."""
    return one == other or (one is not None and other is not None and abs(one - other) < 5)


@pytest.fixture
async def written(redis):
    """Every kind of key that the stores write, the expiries of those of one installation, and a moment."""
    await write(redis)
    await redis.set(f"ghapp:{OTHER}:survey", b"x")
    return await expiries(redis), time.time()


async def test_each_kind_of_key_expires_30_days_after_the_uninstallation_or_earlier(redis, written):
    before, now = written
    assert len(before) > 20
    assert None in before.values()
    data = UninstalledData(redis)
    await data.removed([ORG], now)
    await data.expire(now)
    after = await expiries(redis)
    assert after.keys() == before.keys()
    end = now + KEPT_SECONDS
    for key, at in before.items():
        expected = end if at is None or at > end + 1 else at
        assert same(after[key], expected), key
    assert await redis.pttl(keys.former_expiries(ORG)) > 0
    assert await expiries(redis, OTHER) == {f"ghapp:{OTHER}:survey": None}


async def test_a_repeated_pass_changes_nothing_and_includes_keys_that_were_written_since(redis, written):
    _, now = written
    data = UninstalledData(redis)
    await data.removed([ORG], now)
    await data.expire(now)
    first = await expiries(redis)
    await redis.set(keys.survey(ORG), b"late")
    await data.removed([ORG], now + 3600)
    await data.expire(now + 3600)
    second = await expiries(redis)
    assert all(same(second[key], at) for key, at in first.items()), "the first time of the uninstallation counts"


async def test_installed_again_each_key_has_its_former_expiry(redis, written):
    before, now = written
    data = UninstalledData(redis)
    await data.removed([ORG], now)
    await data.expire(now)
    await data.returned([ORG])
    after = await expiries(redis)
    assert after.keys() == before.keys()
    assert [key for key, at in before.items() if not same(after[key], at)] == []
    assert await redis.exists(keys.UNINSTALLED, keys.former_expiries(ORG)) == 0
    await data.expire(now + 60)
    assert [key for key, at in (await expiries(redis)).items() if not same(before[key], at)] == []


async def test_a_restore_that_crashed_is_completed_by_the_next_one(redis, written):
    before, now = written
    data = UninstalledData(redis)
    await data.removed([ORG], now)
    await data.expire(now)
    uninstalled_at = await redis.hget(keys.UNINSTALLED, str(ORG))
    half = dict(list((await redis.hgetall(keys.former_expiries(ORG))).items())[::2])
    await data.returned([ORG])
    # As after a crash half-way: some keys are restored, the others and the record are not.
    await redis.hset(keys.UNINSTALLED, str(ORG), uninstalled_at)
    for key, former in half.items():
        await redis.hset(keys.former_expiries(ORG), key, former)
        await redis.pexpireat(key, int(float(uninstalled_at) + KEPT_SECONDS * 1000))
    await data.returned([ORG])
    after = await expiries(redis)
    assert [key for key, at in before.items() if not same(after[key], at)] == []


async def test_a_key_that_got_an_expiry_of_its_own_since_keeps_it_when_the_app_is_installed_again(redis, written):
    _, now = written
    data = UninstalledData(redis)
    await data.removed([ORG], now)
    await data.expire(now)
    await redis.set(keys.survey(ORG), b"x", ex=100)
    await data.returned([ORG])
    assert 0 < await redis.ttl(keys.survey(ORG)) <= 100


async def test_one_call_searches_a_bounded_number_of_keys_and_the_next_continues(redis, monkeypatch):
    monkeypatch.setattr(uninstalled, "MOST_SCANS", 1)
    monkeypatch.setattr(uninstalled, "SCAN_COUNT", 10)
    for number in range(200):
        await redis.set(f"ghapp:{ORG}:over:{number}", b"x")
    data, now = UninstalledData(redis), time.time()
    await data.removed([ORG], now)
    await data.expire(now)
    assert 0 < sum(at is not None for at in (await expiries(redis)).values()) < 200
    for _ in range(60):
        await data.expire(now)
    assert None not in (await expiries(redis)).values()


@pytest.mark.parametrize(("after", "kept"), [(KEPT_SECONDS, 1), (KEPT_SECONDS + MILLISECOND * 10, 0)])
async def test_the_installation_itself_is_forgotten_when_its_data_has_expired(redis, after, kept):
    data, now = UninstalledData(redis), 1_790_000_000.0
    await data.removed([ORG], now)
    await data.expire(now + after)
    assert await redis.hlen(keys.UNINSTALLED) == kept


async def test_an_installation_that_was_never_uninstalled_is_left_alone(redis, written):
    before, now = written
    data = UninstalledData(redis)
    await data.expire(now)
    await data.returned([ORG])
    after = await expiries(redis)
    assert all(same(after[key], at) for key, at in before.items())
