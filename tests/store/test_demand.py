"""A job is known while it waits or runs, and for an hour after."""

import pytest

from ghapp.health.gate.shard_status import TakenJob
from ghapp.health.job import Job
from ghapp.store import keys
from ghapp.store.demand import Demand

NOW = 1_790_000_000.0


def job(status):
    return Job(42, status, ("linux",), "acme/api", NOW, runner_id=1, runner_name="linux-1")


@pytest.mark.parametrize("statuses", [["queued"], ["queued", "running"], ["running"], ["running", "over"], ["over"]])
async def test_a_job_is_known_by_its_id_as_it_was_told_last(redis, statuses):
    demand = Demand(redis)
    for status in statuses:
        await demand.record(7, [job(status)])
    assert await demand.one(7, 42) == job(statuses[-1])
    assert [await demand.one(7, 43), await demand.one(8, 42)] == [None, None]


async def test_a_job_that_is_over_is_remembered_for_an_hour_and_does_not_begin_again(redis):
    demand = Demand(redis)
    await demand.record(7, [job("running"), job("over"), job("running")])
    assert await demand.all(7) == []
    assert await demand.one(7, 42) == job("over")
    assert await redis.ttl(f"{keys.over(7)}:42") == 3600


async def test_a_job_that_was_marked_as_over_before_records_were_kept_is_not_known(redis):
    await redis.set(f"{keys.over(7)}:42", b"1")
    assert await Demand(redis).one(7, 42) is None


async def test_every_job_that_a_runner_took_is_remembered_for_an_hour_and_no_longer(redis):
    demand = Demand(redis)
    took = [Job(each, "running", (), "acme/api", 0.0, 5, "a", 1000.0 + each) for each in range(3)]
    await demand.record(7, took)
    await demand.record(7, [each._replace(status="over", started_at=None) for each in took])
    await demand.record(7, took)  # told again
    assert await demand.taken(7, 1001.0) == [TakenJob(1, 5, 1001.0), TakenJob(2, 5, 1002.0)]
    await demand.record(7, [Job(9, "running", (), "acme/api", 0.0, 5, "a", 1001.0 + 3600)])
    assert [each.job_id for each in await demand.taken(7, 0.0)] == [2, 9]


async def test_a_job_that_no_runner_took_is_none_that_was_taken(redis):
    await Demand(redis).record(7, [Job(1, "queued", (), "acme/api", 1000.0)])
    assert await Demand(redis).taken(7, 0.0) == []
