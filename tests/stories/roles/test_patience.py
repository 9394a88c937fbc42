"""The waits of a role fit into each other, and into what is promised; stories shorten them, and keep their order."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from ghapp.queue import worker
from ghapp.store.connect import ANSWER_SECONDS, connect_sync
from ghapp.store.locks import Locks
from ghapp.timings import NORMAL
from jobs import scheduler
from jobs.pods import namespace_cache
from tests.stories.fast_timings import FAST

TAKEN_OVER_SECONDS = 20
RECOVERED_SECONDS = 10
ENDED_SECONDS = 10
"""Orchestrators wait for so long, or longer, until they kill."""

BEGUN_SECONDS = 2
"""A generous time for a job to begin when it is in its queue again."""


@pytest.fixture(params=[NORMAL, FAST], ids=["as always", "in a hurry"])
def timings(request):
    return request.param


def looks_every(redis_url, timings):
    """How often a worker looks for dead colleagues, in seconds: between two waits for work, when that is due."""
    with connect_sync(redis_url) as redis:
        idle = worker.worker(redis, {}, print, timings=timings)
        return max(idle.dequeue_timeout, idle.maintenance_interval)


def test_a_job_whose_worker_and_horse_died_is_taken_over_within_twenty_seconds(redis_url, timings):
    assert timings.job_heartbeat_seconds + looks_every(redis_url, timings) + BEGUN_SECONDS <= TAKEN_OVER_SECONDS


def test_a_job_that_lives_is_not_taken_for_dead(timings):
    assert 2 * timings.job_monitoring_seconds < timings.job_heartbeat_seconds


def test_a_successor_finds_the_lock_of_the_dead_expired_or_waits_for_it(redis, timings):
    assert timings.lock_seconds < timings.job_heartbeat_seconds
    assert timings.lock_seconds < Locks(redis, timings.lock_seconds).outliving_seconds


def test_a_worker_that_is_asked_to_end_ends_before_it_is_killed(timings):
    assert timings.finish_seconds + BEGUN_SECONDS < ENDED_SECONDS


def test_a_watch_that_was_killed_is_followed_by_another_one_within_twenty_seconds(timings):
    assert timings.lock_seconds + timings.watch_retry_seconds + BEGUN_SECONDS < TAKEN_OVER_SECONDS


def test_a_watch_that_is_asked_to_end_releases_the_lock_or_gives_up_before_it_is_killed(timings):
    assert timings.lock_seconds / 5 + BEGUN_SECONDS < ENDED_SECONDS


def test_all_roles_reach_a_redis_that_is_back_or_has_moved_within_ten_seconds(redis_url, timings):
    """A lost server may leave connections that are never answered."""
    with connect_sync(redis_url) as redis:
        unanswered = worker.worker(redis, {}, print, timings=timings).connection_timeout
    assert unanswered + worker.LONGEST_REDIS_WAIT_SECONDS + worker.PAUSE_SECONDS <= RECOVERED_SECONDS
    assert ANSWER_SECONDS + scheduler.WAIT_SECONDS <= RECOVERED_SECONDS
    assert ANSWER_SECONDS + timings.watch_retry_seconds <= RECOVERED_SECONDS
    assert ANSWER_SECONDS + namespace_cache.WAIT_SECONDS <= RECOVERED_SECONDS


def test_an_idle_worker_that_is_asked_to_end_while_redis_hangs_ends_before_it_is_killed():
    assert worker.UNREGISTER_SECONDS + BEGUN_SECONDS < ENDED_SECONDS


def test_stories_wait_for_less_and_never_for_more():
    normal, fast = asdict(NORMAL), asdict(FAST)
    assert {name for name in normal if not 0 < fast[name] < normal[name]} == set()
