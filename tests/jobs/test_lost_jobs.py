"""Jobs lost by a worker that was killed between popping and registering them."""

from __future__ import annotations

import pytest
from rq.job import Job

from ghapp import work
from ghapp.queue import transitions
from ghapp.queue.transitions import Execution
from ghapp.work import FAILURE_TTL_SECONDS, Work
from jobs import lost_jobs
from jobs.schedule import NEGLECTED_SECONDS, Clock
from tests.jobs.test_schedule import clock, desk, settings, the_work, time  # noqa: F401 - fixtures

KEY, QUEUE = "sweep-7", "rq:queue:sweep"


def taken(desk):  # noqa: F811
    """Work that is in no queue any more, and that nobody has noted to be at."""
    assert work.ask_for_sweep(desk, 7)
    assert desk.lrem(QUEUE, 0, KEY) == 1


def waiting(desk):  # noqa: F811
    """How often it stands in its queue."""
    return desk.lrange(QUEUE, 0, -1).count(KEY.encode())


async def look(clock, time):  # noqa: F811
    time.pass_(NEGLECTED_SECONDS)
    await clock.tick()


async def test_what_nobody_has_is_put_back_when_it_is_missed_for_the_second_time(clock, desk, time):  # noqa: F811
    taken(desk)
    await clock.tick()
    assert waiting(desk) == 0, "somebody may just take it"
    assert not work.ask_for_sweep(desk, 7), "it keeps its key"
    await look(clock, time)
    assert waiting(desk) == 1


async def test_two_clocks_put_it_back_once(clock, settings, desk, time):  # noqa: F811
    other = Clock(settings)
    taken(desk)
    for _ in range(3):
        await look(clock, time)
        await look(other, time)
    await other.close()
    assert waiting(desk) == 1


async def test_what_was_begun_meanwhile_is_left_alone(clock, desk, time):  # noqa: F811
    taken(desk)
    await clock.tick()
    assert transitions.begin(desk, Execution("sweep", KEY, "one"), 60, "w")
    await look(clock, time)
    assert waiting(desk) == 0


async def test_what_is_missed_again_after_it_was_put_back_is_put_back_again(clock, desk, time):  # noqa: F811
    taken(desk)
    for _ in range(2):
        await look(clock, time)
        await look(clock, time)
        assert desk.lrem(QUEUE, 0, KEY) == 1


async def test_two_runs_of_one_key_that_are_each_on_their_way_are_not_one_lost_job(clock, desk, time):  # noqa: F811
    taken(desk)
    await clock.tick()
    execution = Execution("sweep", KEY, "one")
    assert transitions.begin(desk, execution, 60, "w")
    assert transitions.finish(desk, execution)
    taken(desk)
    await look(clock, time)
    assert waiting(desk) == 0, "the second was popped a moment ago"


@pytest.mark.parametrize("step", ["started", "finished", "failed"])
def test_between_two_looks_it_may_have_begun_or_be_done(desk, step):  # noqa: F811
    taken(desk)
    (lost,) = lost_jobs.find(desk)
    execution = Execution("sweep", KEY, "one")
    assert transitions.begin(desk, execution, 60, "w")
    if step == "finished":
        transitions.finish(desk, execution)
    if step == "failed":
        desk.hset(Job.key_for(KEY), "retries_left", 0)
        assert transitions.fail(desk, execution, FAILURE_TTL_SECONDS) == "failed"
    assert not lost_jobs.requeue(desk, lost)
    assert waiting(desk) == 0


@pytest.mark.parametrize("after_seconds", [0.0, 60.0], ids=["now", "later"])
def test_what_waits_is_not_lost(desk, after_seconds):  # noqa: F811
    work.ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=after_seconds)
    work.ask(desk, Work.INSTALLATIONS)
    assert lost_jobs.find(desk) == set()


@pytest.mark.parametrize("ttl_seconds", [60, -60], ids=["alive", "overdue"])
def test_what_is_registered_as_started_is_not_lost_though_its_heartbeat_be_overdue(desk, ttl_seconds):  # noqa: F811
    taken(desk)
    transitions.begin(desk, Execution("sweep", KEY, "one"), ttl_seconds, "w")
    assert lost_jobs.find(desk) == set()


def test_what_was_enqueued_by_a_process_of_another_version_is_found_once_it_is_asked_for_again(desk):  # noqa: F811
    taken(desk)
    desk.delete(transitions.KNOWN_JOBS)  # which the previous version does not keep
    assert lost_jobs.find(desk) == set()
    assert not work.ask_for_sweep(desk, 7)
    (lost,) = lost_jobs.find(desk)
    assert lost_jobs.requeue(desk, lost)


def test_the_remains_of_a_job_free_its_key(desk):  # noqa: F811
    taken(desk)
    desk.delete(Job.key_for(KEY))
    desk.hset(Job.key_for(KEY), "last_heartbeat", "2026-11-22T00:00:00Z")
    assert not work.ask_for_sweep(desk, 7)
    (lost,) = lost_jobs.find(desk)
    assert not lost_jobs.requeue(desk, lost)
    assert work.ask_for_sweep(desk, 7)


def test_looking_costs_no_look_at_other_keys(desk):  # noqa: F811
    for each in range(100):
        desk.set(f"ghapp:other:{each}", "x")
    taken(desk)
    before = desk.info("commandstats")
    lost_jobs.find(desk)
    after = desk.info("commandstats")
    assert "cmdstat_scan" not in after or after["cmdstat_scan"] == before["cmdstat_scan"]
