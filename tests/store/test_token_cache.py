"""Installation tokens: issued once, shared by all processes, and encrypted."""

import asyncio
from dataclasses import dataclass

import pytest

from ghapp.store import keys
from ghapp.store.github_tokens import MINIMUM_LEFT_SECONDS, SharedToken, SharedTokens
from tests.store.contents import everything

NOW = 1_790_000_000.0
ORG = 7


@dataclass
class Minted:
    secret: str
    expires_at: float


class Mint:
    def __init__(self, secret="ghs_secret", lasts=3600.0, takes=0.0):
        self.count, self._secret, self._lasts, self._takes = 0, secret, lasts, takes

    async def __call__(self):
        self.count += 1
        await asyncio.sleep(self._takes)
        return Minted(f"{self._secret}{self.count}", NOW + self._lasts)


@pytest.mark.parametrize("takes", [0.0, 0.12])
async def test_concurrent_callers_share_one_token(redis, takes):
    mint = Mint(takes=takes)
    got = await asyncio.gather(*(SharedTokens(redis, "key").token(ORG, mint, NOW) for _ in range(10)))
    assert got == [SharedToken("ghs_secret1", NOW)] * 10
    assert mint.count == 1


async def test_a_token_issued_between_the_read_and_the_lock_is_not_issued_again(redis):
    late, mint = SharedTokens(redis, "key"), Mint()
    look, looks = late._kept, 0

    async def slow_look(installation):
        nonlocal looks
        looks += 1
        seen = await look(installation)
        if looks == 1:
            await SharedTokens(redis, "key").token(ORG, mint, NOW)
        return seen

    late._kept = slow_look
    assert (await late.token(ORG, mint, NOW)).secret == "ghs_secret1"
    assert mint.count == 1


async def test_the_token_is_not_in_clear_in_redis(redis):
    secret = (await SharedTokens(redis, "key").token(ORG, Mint(), NOW)).secret
    contents = await everything(redis)
    assert keys.credential(ORG).encode() in contents
    assert secret.encode() not in contents
    assert b"ghs_" not in contents


async def test_with_another_private_key_the_token_is_unreadable_and_a_new_one_is_issued(redis):
    await SharedTokens(redis, "key").token(ORG, Mint("one"), NOW)
    assert (await SharedTokens(redis, "other key").token(ORG, Mint("two"), NOW)).secret == "two1"


async def test_a_token_moved_to_another_installation_cannot_be_read_there(redis):
    credentials = SharedTokens(redis, "key")
    await credentials.token(ORG, Mint("one"), NOW)
    await redis.copy(keys.credential(ORG), keys.credential(8))
    assert (await credentials.token(8, Mint("two"), NOW)).secret == "two1"


async def test_a_shared_token_has_its_time_of_issue(redis):
    await SharedTokens(redis, "key").token(ORG, Mint(), NOW)
    assert await SharedTokens(redis, "key").token(ORG, Mint(), NOW + 60) == SharedToken("ghs_secret1", NOW)


async def test_a_token_is_dropped_five_minutes_before_it_expires(redis):
    await SharedTokens(redis, "key").token(ORG, Mint(lasts=MINIMUM_LEFT_SECONDS + 10), NOW)
    assert 9_000 < await redis.pttl(keys.credential(ORG)) <= 10_000


async def test_a_token_that_expires_too_soon_is_used_once_and_not_shared(redis):
    mint = Mint(lasts=MINIMUM_LEFT_SECONDS)
    credentials = SharedTokens(redis, "key")
    got = [await credentials.token(ORG, mint, NOW) for _ in range(2)]
    assert [each.secret for each in got] == ["ghs_secret1", "ghs_secret2"]


async def test_a_deleted_token_is_issued_again(redis):
    credentials, mint = SharedTokens(redis, "key"), Mint()
    await credentials.token(ORG, mint, NOW)
    await credentials.forget(ORG)
    assert (await credentials.token(ORG, mint, NOW)).secret == "ghs_secret2"


async def test_a_failed_issue_does_not_block_the_next_attempt(redis):
    async def fails():
        raise ZeroDivisionError

    credentials = SharedTokens(redis, "key")
    with pytest.raises(ZeroDivisionError):
        await credentials.token(ORG, fails, NOW)
    assert (await asyncio.wait_for(credentials.token(ORG, Mint(), NOW), 2)).secret == "ghs_secret1"
