"""Work that a worker took out of its queue, and was killed before it could say so."""

from __future__ import annotations

import pytest
from rq import Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from ghapp import work
from ghapp.work import FAILURE_TTL_SECONDS, Work
from jobs.forsaken import forsaken, take_up
from jobs.schedule import NEGLECTED_SECONDS, Clock
from jobs.worker import HEARTBEAT_SECONDS, LOCKED_SECONDS, BrieflyLockedQueue
from tests.jobs.test_schedule import clock, desk, settings, the_work, time  # noqa: F401 - fixtures

KEY, QUEUE = "sweep-7", "rq:queue:sweep"


def taken(desk):  # noqa: F811
    """Work that is in no queue any more, and that nobody has noted to be at."""
    assert work.ask_for_sweep(desk, 7)
    assert desk.lpop(QUEUE) == KEY.encode()


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
    the_work(desk, KEY).set_status(JobStatus.STARTED)
    await look(clock, time)
    assert waiting(desk) == 0


async def test_what_is_missed_again_after_it_was_put_back_is_put_back_again(clock, desk, time):  # noqa: F811
    taken(desk)
    for _ in range(2):
        await look(clock, time)
        await look(clock, time)
        assert desk.lrem(QUEUE, 0, KEY) == 1


def test_between_two_looks_it_may_have_begun_or_be_done(desk):  # noqa: F811
    taken(desk)
    assert forsaken(desk) == {KEY}
    the_work(desk, KEY).set_status(JobStatus.STARTED)
    assert not take_up(desk, KEY)
    the_work(desk, KEY).delete()
    assert not take_up(desk, KEY)
    assert waiting(desk) == 0


@pytest.mark.parametrize("after_seconds", [0.0, 60.0], ids=["now", "later"])
def test_what_waits_is_not_forsaken(desk, after_seconds):  # noqa: F811
    work.ask(desk, Work.NOTIFY, "event", key="notify-event", after_seconds=after_seconds)
    work.ask(desk, Work.INSTALLATIONS)
    assert forsaken(desk) == set()


def test_what_failed_is_not_forsaken(desk):  # noqa: F811
    taken(desk)
    queue = Queue("sweep", connection=desk, serializer=JSONSerializer)
    job = Job.fetch(KEY, connection=desk, serializer=JSONSerializer)
    job.set_status(JobStatus.FAILED)
    queue.failed_job_registry.add(job, FAILURE_TTL_SECONDS)
    assert forsaken(desk) == set()


def test_who_dies_while_it_looks_for_dead_workers_holds_the_others_up_for_seconds(desk):  # noqa: F811
    queue = BrieflyLockedQueue("sweep", connection=desk, serializer=JSONSerializer)
    assert queue.acquire_maintenance_lock()
    assert not queue.acquire_maintenance_lock()
    assert 0 < desk.ttl(queue.registry_cleaning_key) <= LOCKED_SECONDS <= HEARTBEAT_SECONDS
