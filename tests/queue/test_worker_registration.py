"""A worker is registered once, whatever Redis loses."""

from __future__ import annotations

import pytest
from rq import Worker
from rq.serializers import JSONSerializer

from ghapp.queue.jobs import load
from ghapp.queue.worker import worker
from ghapp.store.connect import connect_sync


@pytest.fixture
def registered(redis, redis_url):
    """A registered worker, and a client."""
    with connect_sync(redis_url) as queue_redis:
        found = worker(queue_redis, {}, print)
        found.register_birth()
        yield found, queue_redis


def lose_all(worker, queue_redis):
    """As by a restart with another copy of the data."""
    queue_redis.flushdb()


def expire(worker, queue_redis):
    """As while Redis was hung for minutes."""
    queue_redis.delete(worker.key)


def lose_membership(worker, queue_redis):
    """As by a colleague that found the expired record."""
    queue_redis.srem("rq:workers", worker.key)


@pytest.mark.parametrize("loses", [lose_all, expire, lose_membership])
def test_a_worker_that_redis_lost_registers_again_at_its_next_maintenance(registered, loses):
    alive, queue_redis = registered
    loses(alive, queue_redis)
    alive.heartbeat()
    alive.clean_registries()
    assert Worker.count(connection=queue_redis) == 1
    (known,) = Worker.all(connection=queue_redis, serializer=JSONSerializer)
    assert known.birth_date is not None
    assert 0 < queue_redis.ttl(alive.key) <= 100


def test_a_worker_that_begins_again_in_its_process_is_counted_once(registered):
    alive, queue_redis = registered
    worker(queue_redis, {}, print, alive.name).register_birth()
    assert Worker.count(connection=queue_redis) == 1


@pytest.mark.parametrize("timeout", [None, 12, 65], ids=["idle", "as a job begins", "while a job runs"])
@pytest.mark.parametrize(("silent_for", "is_alive"), [(0, True), (19, True), (20, False), (79, False)])
def test_a_worker_without_a_heartbeat_for_twenty_seconds_is_silent(registered, timeout, silent_for, is_alive):
    """As `kill -STOP` leaves it: its record is there for another minute. RQ asks for another time in each state."""
    alive, queue_redis = registered
    alive.heartbeat(timeout)
    queue_redis.expire(alive.key, queue_redis.ttl(alive.key) - silent_for)
    assert (load(queue_redis).workers, load(queue_redis).silent) == ((1, 0) if is_alive else (0, 1))


def test_a_worker_whose_record_has_expired_is_silent_until_another_one_forgets_it(registered):
    alive, queue_redis = registered
    expire(alive, queue_redis)
    assert (load(queue_redis).workers, load(queue_redis).silent) == (0, 1)


def test_a_work_horse_that_has_ended_is_not_killed(registered, monkeypatch):
    """RQ then has process id 0, which stands for the group of this process."""
    alive, _ = registered
    killed = []
    monkeypatch.setattr(alive, "kill_horse", lambda: killed.append(alive.horse_pid))
    for alive._horse_pid in (0, 4711):
        alive._kill_running_horse()
    assert killed == [4711]
