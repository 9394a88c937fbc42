"""A settled sweep is forgotten by each write of a runner or a job, also by one while the sweep judges."""

from __future__ import annotations

import pytest

from ghapp.incidents.settled import Settled
from ghapp.incidents.store import SettledSweeps
from ghapp.runners.evidence import Evidence
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.store.quarantine import Quarantine
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand

ORG, OTHER = 7, 8
NOW = 1_790_000_000.0
SETTLED = Settled(NOW, b"\x00digest\xff", at_rest=True)
RUNNER = Evidence(1, "linux-1", NOW)


async def a_runner_comes(redis):
    await Runners(redis).revise(ORG, {2: lambda _: Evidence(2, "linux-2", NOW)})


async def a_runner_changes(redis):
    await Runners(redis).revise(ORG, {1: lambda _: RUNNER._replace(online=True)})


async def a_runner_is_forgotten(redis):
    await Runners(redis).revise(ORG, {1: lambda _: None})


async def a_job_is_queued(redis):
    await Demand(redis).record(ORG, [Job(5, "queued", ("linux",), "acme/api", NOW)])


async def a_job_ends(redis):
    await Demand(redis).record(ORG, [Job(5, "over", ("linux",), "acme/api", NOW)])


WRITES = [a_runner_comes, a_runner_changes, a_runner_is_forgotten, a_job_is_queued, a_job_ends]


@pytest.fixture
async def settled(redis):
    await Runners(redis).revise(ORG, {1: lambda _: RUNNER})
    await SettledSweeps(redis).begin(ORG)
    return SettledSweeps(redis)


async def test_a_settled_sweep_is_known_until_the_next_step_of_the_history(redis, settled):
    assert await settled.of(ORG) is None, "a sweep that has only begun"
    await settled.keep(ORG, SETTLED)
    assert await settled.of(ORG) == SETTLED
    assert 0 < await redis.ttl(keys.settled(ORG)) <= 300


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_forgets_it(redis, settled, write):
    await settled.keep(ORG, SETTLED)
    await write(redis)
    assert await settled.of(ORG) is None


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_while_the_sweep_judges_prevents_it(redis, settled, write):
    await write(redis)
    await settled.keep(ORG, SETTLED)
    assert await settled.of(ORG) is None


async def test_a_fold_that_changes_nothing_and_another_organization_do_not_forget_it(redis, settled):
    await settled.keep(ORG, SETTLED)
    await Runners(redis).revise(ORG, {1: lambda known: known})
    await Runners(redis).revise(OTHER, {1: lambda _: RUNNER})
    await Demand(redis).record(OTHER, [Job(5, "queued", ("linux",), "acme/api", NOW)])
    assert await settled.of(ORG) == SETTLED


async def test_an_unreadable_one_is_unknown_and_prevents_no_write(redis, settled):
    await redis.set(keys.settled(ORG), b"\xc1 garbage")
    assert await settled.of(ORG) is None
    assert [each.kind for each in await Quarantine(redis).all()] == ["settled"]
    await a_runner_changes(redis)
    assert not await redis.exists(keys.settled(ORG))
