"""Each transition of a job between RQ's keys: no queue holds an id twice, and what was given up changes nothing."""

from __future__ import annotations

import time

import pytest

from ghapp import work
from ghapp.queue import transitions
from ghapp.queue.transitions import Execution
from ghapp.store.connect import connect_sync
from ghapp.work import FAILURE_TTL_SECONDS, Work
from jobs import lost_jobs

KEY, NAME = "sweep-7", "sweep"
QUEUE = transitions.queue_key(NAME)
FIRST, SECOND = Execution(NAME, KEY, "first"), Execution(NAME, KEY, "second")
TTL = 12


@pytest.fixture
def desk(redis, redis_url):
    with connect_sync(redis_url) as client:
        yield client


def pop(desk):
    assert desk.lpop(QUEUE) == KEY.encode()


def started(desk, execution=FIRST):
    assert work.ask_for_sweep(desk, 7)
    pop(desk)
    assert transitions.begin(desk, execution, TTL, "w")


def given_up(desk):
    """The first execution was given up, since its worker is frozen, and the second one runs."""
    started(desk)
    assert transitions.abandon(desk, FIRST, time.time() + TTL + 1, FAILURE_TTL_SECONDS) == "queued"
    pop(desk)
    assert transitions.begin(desk, SECOND, TTL, "w")


def test_a_job_that_is_done_leaves_nothing(desk):
    started(desk)
    assert transitions.finish(desk, FIRST)
    assert [key for key in desk.keys("*") if KEY.encode() in key] == []
    assert desk.smembers(transitions.KNOWN_JOBS) == set()
    assert work.ask_for_sweep(desk, 7)


def test_an_execution_that_was_given_up_cannot_end_the_job_of_the_next(desk):
    given_up(desk)
    assert not transitions.finish(desk, FIRST)
    assert not work.ask_for_sweep(desk, 7), "the second one is at it"
    assert transitions.finish(desk, SECOND)
    assert work.ask_for_sweep(desk, 7)
    assert desk.llen(QUEUE) == 1


def test_nor_can_it_fail_or_retry_that(desk):
    given_up(desk)
    assert transitions.fail(desk, FIRST, FAILURE_TTL_SECONDS) == ""
    assert transitions.abandon(desk, FIRST, time.time() + 1000, FAILURE_TTL_SECONDS) == ""
    assert desk.llen(QUEUE) == 0


def test_nor_one_that_was_asked_for_since(desk):
    given_up(desk)
    assert transitions.finish(desk, SECOND)
    assert work.ask_for_sweep(desk, 7)
    assert not transitions.finish(desk, FIRST)
    assert transitions.fail(desk, FIRST, FAILURE_TTL_SECONDS) == ""
    assert desk.lrange(QUEUE, 0, -1) == [KEY.encode()]


def test_whoever_requeues_a_job_of_a_killed_worker_the_queue_holds_it_once(desk):
    assert work.ask_for_sweep(desk, 7)
    pop(desk)
    (lost,) = lost_jobs.find(desk)
    assert transitions.begin(desk, FIRST, -1, "w")  # killed at once: its heartbeat is overdue
    for _ in range(2):
        lost_jobs.requeue(desk, lost)
        for each in transitions.abandoned(desk, NAME, time.time()):
            transitions.abandon(desk, each, time.time(), FAILURE_TTL_SECONDS)
        work.ask_for_sweep(desk, 7)
        work.promote_due(desk, time.time() + 1000)
    assert desk.lrange(QUEUE, 0, -1) == [KEY.encode()]


def test_a_worker_that_was_frozen_with_a_popped_job_leaves_it_to_whoever_has_it_now(desk):
    assert work.ask_for_sweep(desk, 7)
    pop(desk)
    (lost,) = lost_jobs.find(desk)
    assert lost_jobs.requeue(desk, lost)
    assert not transitions.begin(desk, FIRST, TTL, "w"), "it waits in its queue again"
    pop(desk)
    assert transitions.begin(desk, SECOND, TTL, "w")
    assert not transitions.begin(desk, FIRST, TTL, "w"), "another has begun"
    assert transitions.finish(desk, SECOND)
    assert not transitions.begin(desk, FIRST, TTL, "w"), "it is done"


def test_a_heartbeat_that_comes_after_all_keeps_a_job(desk):
    started(desk)
    assert transitions.abandoned(desk, NAME, time.time()) == []
    assert transitions.abandon(desk, FIRST, time.time(), FAILURE_TTL_SECONDS) == ""
    assert transitions.finish(desk, FIRST)


def test_a_job_that_kills_every_worker_is_given_up(desk):
    assert work.ask_for_sweep(desk, 7)
    outcomes = []
    for number in range(len(work.AT_ONCE) + 1):
        pop(desk)
        execution = Execution(NAME, KEY, str(number))
        assert transitions.begin(desk, execution, TTL, "w")
        outcomes.append(transitions.abandon(desk, execution, time.time() + TTL + 1, FAILURE_TTL_SECONDS))
    assert outcomes == ["queued"] * len(work.AT_ONCE) + ["failed"]
    assert work.load(desk).failed == 1
    assert work.ask_for_sweep(desk, 7), "and blocks nobody"
    assert work.load(desk).failed == 0


def test_a_job_that_fails_is_retried_after_each_interval_in_turn(desk):
    work.ask(desk, Work.POST_MORTEM, 7, "a", key="pm")
    waits = []
    for number in range(len(work.BACKOFF_SECONDS)):
        assert desk.lpop("rq:queue:report") == b"pm"
        execution = Execution("report", "pm", str(number))
        assert transitions.begin(desk, execution, TTL, "w")
        assert transitions.fail(desk, execution, FAILURE_TTL_SECONDS) == "scheduled"
        due = desk.zscore("rq:scheduled:report", "pm")
        waits.append(due - time.time())
        assert not transitions.promote(desk, "report", "pm", due - 1)
        assert transitions.promote(desk, "report", "pm", due)
        assert not transitions.promote(desk, "report", "pm", due), "once"
    assert waits == pytest.approx(work.BACKOFF_SECONDS, abs=2.0)


def test_an_id_that_stands_in_its_queue_without_its_job_is_not_added_to(desk):
    desk.rpush(QUEUE, KEY)
    assert work.ask_for_sweep(desk, 7)
    assert desk.lrange(QUEUE, 0, -1) == [KEY.encode()]
