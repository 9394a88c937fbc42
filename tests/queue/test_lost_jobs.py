"""Jobs lost by a worker that was killed between popping and registering them."""

from __future__ import annotations

import pytest
from rq.job import Job

from ghapp.queue import jobs, transitions
from ghapp.queue.jobs import FAILURE_TTL_SECONDS, JobName
from ghapp.queue.transitions import Execution
from ghapp.timings import NORMAL
from jobs.scheduler import Scheduler
from tests.stories.roles.test_scheduler import clock, queue_redis, settings, the_work, time  # noqa: F401 - fixtures

KEY, QUEUE = "report-7", "rq:queue:report"


def taken(queue_redis):  # noqa: F811
    """A job that is in no queue any more, and that no worker has registered."""
    assert jobs.enqueue_report(queue_redis, 7)
    assert queue_redis.lrem(QUEUE, 0, KEY) == 1


def waiting(queue_redis):  # noqa: F811
    """How often it stands in its queue."""
    return queue_redis.lrange(QUEUE, 0, -1).count(KEY.encode())


async def look(clock, time):  # noqa: F811
    time.pass_(NORMAL.beat_seconds)
    await clock.tick()


async def test_a_lost_job_is_requeued_when_it_is_missed_for_the_second_time(clock, queue_redis, time):  # noqa: F811
    taken(queue_redis)
    await clock.tick()
    assert waiting(queue_redis) == 0, "somebody may just take it"
    assert not jobs.enqueue_report(queue_redis, 7), "it keeps its key"
    await look(clock, time)
    assert waiting(queue_redis) == 1


async def test_two_clocks_put_it_back_once(clock, settings, queue_redis, time):  # noqa: F811
    other = Scheduler(settings)
    taken(queue_redis)
    for _ in range(3):
        await look(clock, time)
        await look(other, time)
    await other.close()
    assert waiting(queue_redis) == 1


async def test_what_was_begun_meanwhile_is_left_alone(clock, queue_redis, time):  # noqa: F811
    taken(queue_redis)
    await clock.tick()
    assert transitions.begin(queue_redis, Execution("report", KEY, "one"), 60, "w")
    await look(clock, time)
    assert waiting(queue_redis) == 0


async def test_what_is_missed_again_after_it_was_put_back_is_put_back_again(clock, queue_redis, time):  # noqa: F811
    taken(queue_redis)
    for _ in range(2):
        await look(clock, time)
        await look(clock, time)
        assert queue_redis.lrem(QUEUE, 0, KEY) == 1


async def test_two_runs_of_one_key_that_are_each_on_their_way_are_not_one_lost_job(clock, queue_redis, time):  # noqa: F811
    taken(queue_redis)
    await clock.tick()
    execution = Execution("report", KEY, "one")
    assert transitions.begin(queue_redis, execution, 60, "w")
    assert transitions.finish(queue_redis, execution)
    taken(queue_redis)
    await look(clock, time)
    assert waiting(queue_redis) == 0, "the second was popped a moment ago"


@pytest.mark.parametrize("step", ["started", "finished", "failed"])
def test_between_two_looks_it_may_have_begun_or_be_done(queue_redis, step):  # noqa: F811
    taken(queue_redis)
    (lost,) = jobs.find_lost(queue_redis)
    execution = Execution("report", KEY, "one")
    assert transitions.begin(queue_redis, execution, 60, "w")
    if step == "finished":
        transitions.finish(queue_redis, execution)
    if step == "failed":
        queue_redis.hset(Job.key_for(KEY), "retries_left", 0)
        assert transitions.fail(queue_redis, execution, FAILURE_TTL_SECONDS) == "failed"
    assert not jobs.requeue_lost(queue_redis, lost)
    assert waiting(queue_redis) == 0


@pytest.mark.parametrize("after_seconds", [0.0, 60.0], ids=["now", "later"])
def test_what_waits_is_not_lost(queue_redis, after_seconds):  # noqa: F811
    jobs.enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=after_seconds)
    jobs.enqueue(queue_redis, JobName.INSTALLATIONS)
    assert jobs.find_lost(queue_redis) == set()


@pytest.mark.parametrize("ttl_seconds", [60, -60], ids=["alive", "overdue"])
def test_what_is_registered_as_started_is_not_lost_though_its_heartbeat_be_overdue(queue_redis, ttl_seconds):  # noqa: F811
    taken(queue_redis)
    transitions.begin(queue_redis, Execution("report", KEY, "one"), ttl_seconds, "w")
    assert jobs.find_lost(queue_redis) == set()


def test_what_is_missing_from_the_known_jobs_is_found_once_it_is_asked_for_again(queue_redis):  # noqa: F811
    taken(queue_redis)
    queue_redis.delete(transitions.KNOWN_JOBS)
    assert jobs.find_lost(queue_redis) == set()
    assert not jobs.enqueue_report(queue_redis, 7)
    (lost,) = jobs.find_lost(queue_redis)
    assert jobs.requeue_lost(queue_redis, lost)


def test_the_remains_of_a_job_free_its_key(queue_redis):  # noqa: F811
    taken(queue_redis)
    queue_redis.delete(Job.key_for(KEY))
    queue_redis.hset(Job.key_for(KEY), "last_heartbeat", "2026-11-22T00:00:00Z")
    assert not jobs.enqueue_report(queue_redis, 7)
    (lost,) = jobs.find_lost(queue_redis)
    assert not jobs.requeue_lost(queue_redis, lost)
    assert jobs.enqueue_report(queue_redis, 7)


def test_looking_costs_no_look_at_other_keys(queue_redis):  # noqa: F811
    for each in range(100):
        queue_redis.set(f"ghapp:other:{each}", "x")
    taken(queue_redis)
    before = queue_redis.info("commandstats")
    jobs.find_lost(queue_redis)
    after = queue_redis.info("commandstats")
    assert "cmdstat_scan" not in after or after["cmdstat_scan"] == before["cmdstat_scan"]
