"""Reports about shards, including concurrent reports."""

import asyncio

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.gate.active_shard import ANSWER_SECONDS, MOST_DEPLOYS, ActiveShardAnswer, Deploy, Role
from ghapp.gate.store import Shards
from ghapp.store import keys

ORG, NOW = 7, 1_790_000_000.25


def deploy(shard, role=Role.ACTIVE, at=NOW, ref=""):
    return Deploy(shard, role, at, NOW, ref, "token ci")


async def test_a_deploy_is_read_as_it_was_reported_by_pool_and_org(redis):
    shards = Shards(redis)
    found = await shards.record(ORG, "linux", lambda _: deploy("pink", ref="v42"))
    assert found == deploy("pink", ref="v42")
    assert await shards.deploys(ORG, "linux") == (found,)
    assert await shards.deploys(ORG, "mac") == ()
    assert await shards.deploys(ORG + 1, "linux") == ()


async def test_a_report_extends_the_shards_record_and_moves_it_to_the_end(redis):
    shards = Shards(redis)
    await shards.record(ORG, "linux", lambda _: deploy("pink", Role.INACTIVE, ref="v42"))
    await shards.record(ORG, "linux", lambda _: deploy("purple"))
    await shards.record(ORG, "linux", lambda last: last._replace(role=Role.ACTIVE) if last else deploy("pink"))
    assert await shards.deploys(ORG, "linux") == (deploy("purple"), deploy("pink", ref="v42"))


async def test_concurrent_reports_are_all_kept(redis):
    names = [f"s{number}" for number in range(MOST_DEPLOYS)]
    await asyncio.gather(*(Shards(redis).record(ORG, "linux", lambda _, name=name: deploy(name)) for name in names))
    assert sorted(each.shard for each in await Shards(redis).deploys(ORG, "linux")) == names


async def test_the_number_of_shards_is_bounded(redis):
    for number in range(MOST_DEPLOYS + 3):
        await Shards(redis).record(ORG, "linux", lambda _, number=number: deploy(f"s{number}"))
    kept = await Shards(redis).deploys(ORG, "linux")
    assert [each.shard for each in kept] == [f"s{number}" for number in range(3, MOST_DEPLOYS + 3)]
    assert await redis.hlen(keys.deploys(ORG)) == 1


async def test_a_record_that_changes_on_each_attempt_is_given_up_and_not_overwritten(redis):
    shards, other = Shards(redis), Shards(redis)
    seen = iter(range(1000))

    async def replace(**asked):
        number = next(seen)
        await other.record(ORG, "linux", lambda _: deploy("other", at=NOW + number))
        return await shards_replace(**asked)

    shards_replace, shards._deploys._script = shards._deploys._script, replace
    with pytest.raises(StoreUnavailableError, match="changed concurrently 20 times"):
        await shards.record(ORG, "linux", lambda _: deploy("pink"))
    assert "pink" not in {each.shard for each in await shards.deploys(ORG, "linux")}


@pytest.mark.parametrize("answer", [ActiveShardAnswer("pink", "", NOW), ActiveShardAnswer("", "it ended with 1", NOW)])
async def test_an_answer_is_kept_for_five_minutes(redis, answer):
    await Shards(redis).answered(ORG, "linux", answer)
    assert await Shards(redis).answer(ORG, "linux") == answer
    assert await Shards(redis).answer(ORG, "mac") is None
    assert 0 < await redis.ttl(f"{keys.active(ORG)}:linux") <= ANSWER_SECONDS
