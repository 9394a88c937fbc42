"""Each transition of a job between RQ's keys: no queue holds an id twice, and what was given up changes nothing."""

from __future__ import annotations

import time

import pytest

from ghapp.queue import jobs, transitions
from ghapp.queue.jobs import FAILURE_TTL_SECONDS, JobName
from ghapp.queue.transitions import Execution
from ghapp.store import keys
from ghapp.store.connect import connect_sync

KEY, NAME = "report-7", "report"
QUEUE = transitions.queue_key(NAME)
FIRST, SECOND = Execution(NAME, KEY, "first"), Execution(NAME, KEY, "second")
TTL = 12


@pytest.fixture
def queue_redis(redis, redis_url):
    with connect_sync(redis_url) as client:
        yield client


def pop(queue_redis):
    assert queue_redis.lpop(QUEUE) == KEY.encode()


def started(queue_redis, execution=FIRST):
    assert jobs.enqueue_report(queue_redis, 7)
    pop(queue_redis)
    assert transitions.begin(queue_redis, execution, TTL, "w")


def given_up(queue_redis):
    """The first execution was given up, since its worker is frozen, and the second one runs."""
    started(queue_redis)
    assert transitions.abandon(queue_redis, FIRST, time.time() + TTL + 1, FAILURE_TTL_SECONDS) == "queued"
    pop(queue_redis)
    assert transitions.begin(queue_redis, SECOND, TTL, "w")


def test_a_job_that_is_done_leaves_nothing(queue_redis):
    started(queue_redis)
    assert transitions.finish(queue_redis, FIRST)
    assert [key for key in queue_redis.keys("*") if KEY.encode() in key] == []
    assert queue_redis.smembers(keys.QUEUE_JOBS) == set()
    assert jobs.enqueue_report(queue_redis, 7)


def test_an_execution_that_was_given_up_cannot_end_the_job_of_the_next(queue_redis):
    given_up(queue_redis)
    assert not transitions.finish(queue_redis, FIRST)
    assert not jobs.enqueue_report(queue_redis, 7), "the second one is at it"
    assert transitions.finish(queue_redis, SECOND)
    assert jobs.enqueue_report(queue_redis, 7)
    assert queue_redis.llen(QUEUE) == 1


def test_nor_can_it_fail_or_retry_that(queue_redis):
    given_up(queue_redis)
    assert transitions.fail(queue_redis, FIRST, FAILURE_TTL_SECONDS) == ""
    assert transitions.abandon(queue_redis, FIRST, time.time() + 1000, FAILURE_TTL_SECONDS) == ""
    assert queue_redis.llen(QUEUE) == 0


def test_nor_one_that_was_asked_for_since(queue_redis):
    given_up(queue_redis)
    assert transitions.finish(queue_redis, SECOND)
    assert jobs.enqueue_report(queue_redis, 7)
    assert not transitions.finish(queue_redis, FIRST)
    assert transitions.fail(queue_redis, FIRST, FAILURE_TTL_SECONDS) == ""
    assert queue_redis.lrange(QUEUE, 0, -1) == [KEY.encode()]


def test_a_requeued_job_of_a_killed_worker_is_in_the_queue_once(queue_redis):
    assert jobs.enqueue_report(queue_redis, 7)
    pop(queue_redis)
    (lost,) = jobs.find_lost(queue_redis)
    assert transitions.begin(queue_redis, FIRST, -1, "w")  # killed at once: its heartbeat is overdue
    for _ in range(2):
        jobs.requeue_lost(queue_redis, lost)
        for each in transitions.abandoned(queue_redis, NAME, time.time()):
            transitions.abandon(queue_redis, each, time.time(), FAILURE_TTL_SECONDS)
        jobs.enqueue_report(queue_redis, 7)
        jobs.promote_due(queue_redis, time.time() + 1000)
    assert queue_redis.lrange(QUEUE, 0, -1) == [KEY.encode()]


def test_a_worker_that_was_frozen_with_a_popped_job_leaves_it_to_the_process_that_has_it_now(queue_redis):
    assert jobs.enqueue_report(queue_redis, 7)
    pop(queue_redis)
    (lost,) = jobs.find_lost(queue_redis)
    assert jobs.requeue_lost(queue_redis, lost)
    assert not transitions.begin(queue_redis, FIRST, TTL, "w"), "it waits in its queue again"
    pop(queue_redis)
    assert transitions.begin(queue_redis, SECOND, TTL, "w")
    assert not transitions.begin(queue_redis, FIRST, TTL, "w"), "another has begun"
    assert transitions.finish(queue_redis, SECOND)
    assert not transitions.begin(queue_redis, FIRST, TTL, "w"), "it is done"


def test_a_heartbeat_that_comes_after_all_keeps_a_job(queue_redis):
    started(queue_redis)
    assert transitions.abandoned(queue_redis, NAME, time.time()) == []
    assert transitions.abandon(queue_redis, FIRST, time.time(), FAILURE_TTL_SECONDS) == ""
    assert transitions.finish(queue_redis, FIRST)


def test_a_job_that_kills_every_worker_is_given_up(queue_redis):
    assert jobs.enqueue_report(queue_redis, 7)
    outcomes = []
    for number in range(len(jobs.AT_ONCE) + 1):
        pop(queue_redis)
        execution = Execution(NAME, KEY, str(number))
        assert transitions.begin(queue_redis, execution, TTL, "w")
        outcomes.append(transitions.abandon(queue_redis, execution, time.time() + TTL + 1, FAILURE_TTL_SECONDS))
    assert outcomes == ["queued"] * len(jobs.AT_ONCE) + ["failed"]
    assert jobs.load(queue_redis).failed == 1
    assert jobs.enqueue_report(queue_redis, 7), "and blocks no other"
    assert jobs.load(queue_redis).failed == 0


def test_a_job_that_fails_is_retried_after_each_interval_in_turn(queue_redis):
    jobs.enqueue(queue_redis, JobName.POST_MORTEM, 7, "a", key="pm")
    waits = []
    for number in range(len(jobs.BACKOFF_SECONDS)):
        assert queue_redis.lpop("rq:queue:report") == b"pm"
        execution = Execution("report", "pm", str(number))
        assert transitions.begin(queue_redis, execution, TTL, "w")
        assert transitions.fail(queue_redis, execution, FAILURE_TTL_SECONDS) == "scheduled"
        due = queue_redis.zscore("rq:scheduled:report", "pm")
        waits.append(due - time.time())
        assert not transitions.promote(queue_redis, "report", "pm", due - 1)
        assert transitions.promote(queue_redis, "report", "pm", due)
        assert not transitions.promote(queue_redis, "report", "pm", due), "once"
    assert waits == pytest.approx(jobs.BACKOFF_SECONDS, abs=2.0)


def test_an_id_that_stands_in_its_queue_without_its_job_is_not_added_to(queue_redis):
    queue_redis.rpush(QUEUE, KEY)
    assert jobs.enqueue_report(queue_redis, 7)
    assert queue_redis.lrange(QUEUE, 0, -1) == [KEY.encode()]
