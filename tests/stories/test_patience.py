"""The waits of a role fit into each other, and into what is promised; stories shorten them, and keep their order."""

from __future__ import annotations

from importlib import import_module

import pytest

from ghapp.cluster import transport
from ghapp.queue import worker
from ghapp.store import locks
from ghapp.store.connect import ANSWER_SECONDS, connect_sync
from jobs import scheduler
from jobs.pods import namespace_cache, watch
from tests.stories import fast_timings

TAKEN_OVER_SECONDS = 20
RECOVERED_SECONDS = 10
ENDED_SECONDS = 10
"""Orchestrators wait for so long, or longer, until they kill."""

BEGUN_SECONDS = 2
"""A generous time for a job to begin when it is in its queue again."""


@pytest.fixture(params=["as always", "in a hurry"])
def patience(request, monkeypatch):
    if request.param == "in a hurry":
        for waits in fast_timings.WAITS.values():
            for module, changed in waits.items():
                for name, seconds in changed.items():
                    monkeypatch.setattr(import_module(module), name, seconds)
        assert locks.LEASE_SECONDS == fast_timings.LOCK_SECONDS
        assert transport.CALL_SECONDS == fast_timings.CALL_SECONDS
    return request.param


def looks_every(redis_url):
    """How often a worker looks for dead colleagues, in seconds: between two waits for work, when that is due."""
    with connect_sync(redis_url) as redis:
        idle = worker.worker(redis, {}, print)
        return max(idle.dequeue_timeout, idle.maintenance_interval)


@pytest.mark.usefixtures("patience")
def test_a_job_whose_worker_and_horse_died_is_taken_over_within_twenty_seconds(redis_url):
    assert worker.HEARTBEAT_SECONDS + looks_every(redis_url) + BEGUN_SECONDS <= TAKEN_OVER_SECONDS


@pytest.mark.usefixtures("patience")
def test_a_job_that_lives_is_not_taken_for_dead():
    assert 2 * worker.MONITORING_SECONDS < worker.HEARTBEAT_SECONDS


@pytest.mark.usefixtures("patience")
def test_a_successor_finds_the_lock_of_the_dead_expired_or_waits_for_it():
    assert locks.LEASE_SECONDS < worker.HEARTBEAT_SECONDS
    assert locks.LEASE_SECONDS < locks.OUTLIVING_SECONDS


@pytest.mark.usefixtures("patience")
def test_a_worker_that_is_asked_to_end_ends_before_it_is_killed():
    assert worker.FINISH_SECONDS + BEGUN_SECONDS < ENDED_SECONDS


@pytest.mark.usefixtures("patience")
def test_a_watch_that_was_killed_is_followed_by_another_one_within_twenty_seconds():
    assert watch.LOCK_SECONDS + watch.RETRY_SECONDS + BEGUN_SECONDS < TAKEN_OVER_SECONDS


@pytest.mark.usefixtures("patience")
def test_a_watch_that_is_asked_to_end_releases_the_lock_or_gives_up_before_it_is_killed():
    assert watch.LOCK_SECONDS / 5 + BEGUN_SECONDS < ENDED_SECONDS


@pytest.mark.usefixtures("patience")
def test_all_roles_reach_a_redis_that_is_back_or_has_moved_within_ten_seconds(redis_url):
    """A lost server may leave connections that are never answered."""
    with connect_sync(redis_url) as redis:
        unanswered = worker.worker(redis, {}, print).connection_timeout
    assert unanswered + worker.LONGEST_REDIS_WAIT_SECONDS + worker.PAUSE_SECONDS <= RECOVERED_SECONDS
    assert ANSWER_SECONDS + scheduler.WAIT_SECONDS <= RECOVERED_SECONDS
    assert ANSWER_SECONDS + watch.RETRY_SECONDS <= RECOVERED_SECONDS
    assert ANSWER_SECONDS + namespace_cache.WAIT_SECONDS <= RECOVERED_SECONDS


@pytest.mark.usefixtures("patience")
def test_an_idle_worker_that_is_asked_to_end_while_redis_hangs_ends_before_it_is_killed():
    assert worker.UNREGISTER_SECONDS + BEGUN_SECONDS < ENDED_SECONDS


def test_stories_wait_for_less_and_never_for_more():
    real = {
        (module, name): getattr(import_module(module), name)
        for waits in fast_timings.WAITS.values()
        for module, changed in waits.items()
        for name in changed
    }
    short = {(m, name): each for w in fast_timings.WAITS.values() for m, c in w.items() for name, each in c.items()}
    assert {where: each for where, each in short.items() if not 0 < each < real[where]} == {}


@pytest.mark.parametrize("role", fast_timings.DEFAULTS)
def test_a_class_takes_one_wait_when_it_is_not_given_and_that_is_what_is_shortened(role):
    module, name, seconds = fast_timings.DEFAULTS[role]
    taken = getattr(import_module(module), name).__init__.__defaults__
    assert taken in ((locks.LEASE_SECONDS,), (transport.CALL_SECONDS,))
    assert seconds < taken[0]
