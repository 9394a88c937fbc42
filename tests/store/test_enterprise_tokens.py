"""Which of an enterprise's tokens is used: the first that GitHub did not refuse lately."""

import pytest

from ghapp.errors import UnauthorizedError
from ghapp.store.github_tokens import REFUSED_SECONDS, EnterpriseTokens
from tests.store.contents import everything

CORP = -(1 << 52) - 7
OTHER = CORP - 1


async def used(redis, *tokens, enterprise=CORP):
    return (await EnterpriseTokens(redis, tokens).token(enterprise)).secret


async def refuse(redis, *tokens, enterprise=CORP):
    """GitHub refuses the token that is used, in another process."""
    enterprise_tokens = EnterpriseTokens(redis, tokens)
    await enterprise_tokens.token(enterprise)
    await enterprise_tokens.forget(enterprise)


async def test_the_first_token_is_used_until_github_refuses_it_and_then_the_next_by_all_processes(redis):
    assert await used(redis, "ghp_new", "ghp_old") == "ghp_new"
    await refuse(redis, "ghp_new", "ghp_old")
    assert await used(redis, "ghp_new", "ghp_old") == "ghp_old"
    assert await used(redis, "ghp_old", "ghp_new") == "ghp_old"
    assert await used(redis, "ghp_new", "ghp_old", enterprise=OTHER) == "ghp_new"


async def test_where_all_are_refused_they_take_turns(redis):
    seen = []
    for _ in range(4):
        seen.append(await used(redis, "ghp_new", "ghp_old"))
        await refuse(redis, "ghp_new", "ghp_old")
        await redis.pexpire((await redis.keys("ghapp:*refused*"))[0], REFUSED_SECONDS * 1000 - 5, lt=True)
    assert seen[:2] == ["ghp_new", "ghp_old"]
    assert set(seen) == {"ghp_new", "ghp_old"}


async def test_a_refused_token_is_tried_again_after_some_minutes(redis):
    await refuse(redis, "ghp_only")
    assert await used(redis, "ghp_only") == "ghp_only", "there is no other"
    (key,) = await redis.keys("ghapp:*")
    assert 0 < await redis.ttl(key) <= REFUSED_SECONDS


async def test_without_a_token_there_is_no_call(redis):
    with pytest.raises(UnauthorizedError, match="GHAPP_ENTERPRISE_TOKEN: not set"):
        await used(redis)


async def test_redis_has_no_part_of_a_token(redis):
    await refuse(redis, "ghp_hunter2hunter2")
    assert b"hunter2" not in await everything(redis)
