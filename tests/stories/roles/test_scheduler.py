"""The scheduler: each periodic task at its interval, each due sweep enqueued by one of two schedulers, and Redis outages."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

import jobs as package
from ghapp import redis_clock
from ghapp.deliveries.store import Inbox
from ghapp.errors import StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.connect import StorePipeline, connect, connect_sync
from ghapp.store.heartbeats import SILENT_SECONDS, Heartbeats
from ghapp.store.schedule import Schedule
from ghapp.workflow_jobs.job import Job as QueuedJob
from ghapp.workflow_jobs.queue_check import QueueCheck
from ghapp.workflow_jobs.store import Demand, QueueChecks
from jobs import scheduler
from jobs.deliveries.redeliver import REDELIVERY_BATCH_SECONDS
from jobs.installations.discover import REDISCOVER_SECONDS
from jobs.periodic_task import AT_ONCE, TICK_SECONDS, PeriodicTask
from jobs.reports.queue_report import EXPLAIN_QUEUE
from jobs.runners.due_sweeps import ADDED_JOB_SECONDS, LATE_SWEEP_SECONDS, MOST_SWEEP_JOBS, SWEEP_JOB_SECONDS
from jobs.scheduler import PERIODIC_TASKS, WAIT_SECONDS, Scheduler
from tests.support.local_redis import embedded_redis

ACME = Installation(7, "acme", 70, {"organization_self_hosted_runners": "write"})
POLICY = '[deliveries]\nredeliver_seconds = 45\n[report]\nrepository = "acme/.github"\n'
NOW = 1_790_000_000.0


@dataclass
class Time:
    """Replaces `time` in the scheduler: a wall clock and a monotonic clock, which only a test advances."""

    wall: float = NOW
    since_boot: float = 1000.0

    def time(self):
        return self.wall

    def monotonic(self):
        return self.since_boot

    def pass_(self, seconds):
        self.wall += seconds
        self.since_boot += seconds


@pytest.fixture
def time(monkeypatch):
    """The clock of `jobs.scheduler` alone."""
    clock_time = Time()

    async def redis_time(_redis):
        return clock_time.time()

    for module in (scheduler, redis_clock):
        monkeypatch.setattr(module, "time", clock_time)
    monkeypatch.setattr(redis_clock, "redis_time", redis_time)
    monkeypatch.setattr(jobs, "redis_time_sync", lambda _redis: clock_time.time())
    return clock_time


@pytest.fixture
def settings(redis_url, tmp_path):
    policy = tmp_path / "ghapp.toml"
    policy.write_text(POLICY)
    return Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_REDIS_URL": redis_url})


@pytest.fixture
async def clock(settings, redis, time):
    clock = Scheduler(settings)
    yield clock
    await clock.close()


@pytest.fixture
def queue_redis(redis_url, redis):
    with connect_sync(redis_url) as queue_redis:
        yield queue_redis


def the_work(queue_redis, key):
    return Job.fetch(key, connection=queue_redis, serializer=JSONSerializer)


def was_enqueued(queue_redis, key):
    """Whether a job with that key exists; the job is removed, as a worker would."""
    if not Job.exists(key, connection=queue_redis):
        return False
    the_work(queue_redis, key).delete()
    return True


TASKS = [
    ("sweep", 0.25),
    ("promote", 0.25),
    ("measure_clock", 10.0),
    ("beat", 5.0),
    ("drain", 1.0),
    ("requeue_lost", 5.0),
    ("report", 10.0),
    ("ask_shards", 30.0),
    ("explain_queue", 15.0),
    ("report_gates", 10.0),
    ("redeliver", 45.0),
    ("redeliver_rest", 6.0),
    ("discover", 300.0),
    ("rediscover", 30.0),
    ("notify", 15.0),
    ("reap", 60.0),
]
ON_DEMAND = {"report_gates", "notify", "reap"}
"""Wanted only by a configuration that has a use for them; what each needs, its own test shows."""

OWN = {"promote", "measure_clock", "beat", "requeue_lost"}
"""Those of the scheduler itself, of no subject."""


def test_the_periodic_tasks_are_these(settings):
    assert [(task.name, task.interval(settings)) for task in PERIODIC_TASKS] == TASKS
    assert {task.name for task in PERIODIC_TASKS if not task.is_wanted(settings)} == ON_DEMAND


def test_each_declared_periodic_task_is_in_the_list():
    declared = set()
    for module in walk_packages(package.__path__, "jobs."):
        values = vars(import_module(module.name)).values()
        declared |= {value for value in values if isinstance(value, PeriodicTask)}
    assert {task.name for task in declared} == {name for name, _ in TASKS} - OWN
    assert declared <= set(PERIODIC_TASKS)


@pytest.mark.parametrize(
    ("key", "every"),
    [("inbox", 1), ("report-7", 10), ("redeliver", 45), ("installations", 300)],
)
async def test_a_periodic_task_is_enqueued_at_once_and_then_at_its_interval(
    clock, redis, queue_redis, time, key, every
):
    await Installations(redis).put(ACME)
    await Schedule(redis).discover_at(NOW + 300)
    await Inbox(redis).keep("a-guid", "ping", b"{}")
    assert await clock.tick() == TICK_SECONDS
    assert was_enqueued(queue_redis, key)
    time.pass_(every - TICK_SECONDS)
    await clock.tick()
    assert not was_enqueued(queue_redis, key)
    time.pass_(TICK_SECONDS)
    await clock.tick()
    assert was_enqueued(queue_redis, key)


async def test_while_redeliveries_are_planned_a_batch_is_enqueued_every_few_seconds(clock, redis, queue_redis, time):
    await clock.tick()
    assert was_enqueued(queue_redis, "redeliver")
    await Inbox(redis).plan_redeliveries([1, 2])
    time.pass_(REDELIVERY_BATCH_SECONDS)
    await clock.tick()
    assert was_enqueued(queue_redis, "redeliver")
    await Inbox(redis).plan_redeliveries([])
    time.pass_(REDELIVERY_BATCH_SECONDS)
    await clock.tick()
    assert not was_enqueued(queue_redis, "redeliver"), "not before the next scan of the delivery log is due"


def with_pods(redis_url, tmp_path, more=""):
    """Settings in which acme's pods are in a cluster."""
    policy = tmp_path / "pods.toml"
    policy.write_text(f'{more}\n[[pools]]\norg = "Acme"\nname = "linux"\nlabels = ["linux"]\nnamespace = "runners"\n')
    return Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_REDIS_URL": redis_url})


async def test_the_reaper_is_enqueued_once_a_minute_for_an_org_with_pods(redis_url, redis, queue_redis, time, tmp_path):
    for each in (ACME, Installation(8, "globex", 80), Installation(9, "ACME", 90, suspended=True)):
        await Installations(redis).put(each)
    clock = Scheduler(with_pods(redis_url, tmp_path))
    asked = []
    for seconds in (0, 60 - TICK_SECONDS, TICK_SECONDS):
        time.pass_(seconds)
        await clock.tick()
        asked.append([key for key in ("reap-7", "reap-8", "reap-9") if was_enqueued(queue_redis, key)])
    await clock.close()
    assert asked == [["reap-7"], [], ["reap-7"]]


async def test_the_reaper_is_not_enqueued_if_it_is_switched_off(redis_url, redis, queue_redis, time, tmp_path):
    await Installations(redis).put(ACME)
    clock = Scheduler(with_pods(redis_url, tmp_path, '[leaks]\nmode = "off"'))
    await clock.tick()
    await clock.close()
    assert not was_enqueued(queue_redis, "reap-7")


def queued(waited, **changes):
    return QueuedJob(1, "queued", ("linux",), "acme/api", NOW - waited)._replace(**changes)


@pytest.mark.parametrize(
    ("jobs", "is_explained"),
    [
        ([], False),
        ([queued(30.0)], True),
        ([queued(29.9)], False),
        ([queued(9000.0, status="running", started_at=NOW)], False),
        ([queued(9000.0, waiting=True)], False),
    ],
    ids=["none", "half a minute", "less", "running", "not approved"],
)
async def test_the_queue_is_explained_while_a_job_has_waited_for_half_a_minute(
    clock, redis, queue_redis, jobs, is_explained
):
    await Installations(redis).put(ACME)
    await Demand(redis).record(ACME.id, jobs)
    await clock.tick()
    assert was_enqueued(queue_redis, "queue-7") is is_explained


async def test_the_queue_is_explained_every_quarter_of_a_minute_while_a_check_is_known(clock, redis, queue_redis, time):
    for each in (ACME, Installation(8, "globex", 80, suspended=True)):
        await Installations(redis).put(each)
        await QueueChecks(redis).keep(each.id, "acme/api@f", QueueCheck("acme/api", "f"))
    asked = []
    for seconds in (0, 15 - TICK_SECONDS, TICK_SECONDS):
        time.pass_(seconds)
        await clock.tick()
        asked.append([key for key in ("queue-7", "queue-8") if was_enqueued(queue_redis, key)])
    assert asked == [["queue-7"], [], ["queue-7"]]


async def test_three_hundred_and_one_installations_are_asked_together_for_jobs_that_wait(
    clock, redis, queue_redis, time, monkeypatch
):
    """One by one they would hold up the sweeps that are due, and the confirmations."""
    ids = range(1, 302)
    for each in ids:
        await Installations(redis).put(Installation(each, f"org-{each}", 1000 + each))
    for each in (1, 100, 101, 301):
        await Demand(redis).record(each, [queued(60.0)])
    pipelines, execute = [], StorePipeline.execute

    async def counted(self, *args, **kwargs):
        pipelines.append(self)
        return await execute(self, *args, **kwargs)

    monkeypatch.setattr(StorePipeline, "execute", counted)
    await EXPLAIN_QUEUE.run(clock.context)
    assert [*the_work(queue_redis, "queues-1").args] == [1, 100, 101, 301]
    assert len(pipelines) <= 4 * (1 + len(ids) // AT_ONCE)


async def test_installations_are_discovered_soon_after_redis_has_lost_its_data(clock, redis, queue_redis, time):
    await clock.tick()
    await Schedule(redis).discover_at(NOW + 300)
    assert was_enqueued(queue_redis, "installations")
    time.pass_(REDISCOVER_SECONDS)
    await clock.tick()
    assert not was_enqueued(queue_redis, "installations")
    await redis.flushdb()
    time.pass_(REDISCOVER_SECONDS)
    await clock.tick()
    assert was_enqueued(queue_redis, "installations")


async def test_unneeded_jobs_are_not_enqueued(clock, queue_redis):
    await clock.tick()
    assert [key for key in ("inbox", "report-7", "sweep-due-0", "reap-7") if was_enqueued(queue_redis, key)] == []


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0], ids=["back", "ahead"])
async def test_a_jump_of_the_wall_clock_stops_no_periodic_task(clock, queue_redis, time, jump):
    await clock.tick()
    assert was_enqueued(queue_redis, "redeliver")
    time.wall += jump
    await clock.tick()
    assert not was_enqueued(queue_redis, "redeliver"), "a jump enqueues no task early"
    time.pass_(45)
    await clock.tick()
    assert was_enqueued(queue_redis, "redeliver")


async def test_a_sweep_is_enqueued_when_it_is_due_and_not_before(clock, redis, queue_redis, time):
    await Schedule(redis).add(ACME.id, NOW + TICK_SECONDS)
    await clock.tick()
    assert not was_enqueued(queue_redis, "sweep-due-0")
    time.pass_(TICK_SECONDS)
    await clock.tick()
    assert was_enqueued(queue_redis, "sweep-due-0")


async def test_many_due_sweeps_are_one_job_every_five_seconds(clock, redis, queue_redis, time):
    for number in range(1_001):
        await Schedule(redis).add(number + 1, NOW)
    given = []
    for _ in range(2 * round(SWEEP_JOB_SECONDS / TICK_SECONDS)):
        await clock.tick()
        given.append(was_enqueued(queue_redis, "sweep-due-0"))
        time.pass_(TICK_SECONDS)
    assert [place for place, enqueued in enumerate(given) if enqueued] == [0, round(SWEEP_JOB_SECONDS / TICK_SECONDS)]


async def test_at_short_intervals_a_job_is_enqueued_each_tenth_of_the_interval(
    redis_url, redis, queue_redis, time, tmp_path
):
    (tmp_path / "ghapp.toml").write_text("[orgs.acme.sweep]\ninterval_seconds = 5\n")
    clock = Scheduler(Settings.read({"GHAPP_REDIS_URL": redis_url, "GHAPP_CONFIG": str(tmp_path / "ghapp.toml")}))
    await Schedule(redis).add(ACME.id, NOW)
    given = []
    for _ in range(4):
        await clock.tick()
        given.append(was_enqueued(queue_redis, "sweep-due-0"))
        time.pass_(TICK_SECONDS)
    await clock.close()
    assert given == [True, False, True, False]


ALL_ADDED_SECONDS = LATE_SWEEP_SECONDS + (MOST_SWEEP_JOBS - 2) * ADDED_JOB_SECONDS


@pytest.mark.parametrize(
    ("seconds", "jobs"),
    [
        (LATE_SWEEP_SECONDS - TICK_SECONDS, 1),
        (LATE_SWEEP_SECONDS, 2),
        (LATE_SWEEP_SECONDS + ADDED_JOB_SECONDS, 3),
        (ALL_ADDED_SECONDS - TICK_SECONDS, MOST_SWEEP_JOBS - 1),
        (ALL_ADDED_SECONDS, MOST_SWEEP_JOBS),
        (ALL_ADDED_SECONDS + 60, MOST_SWEEP_JOBS),
    ],
)
async def test_sweeps_that_stay_due_are_spread_over_more_jobs(clock, redis, queue_redis, time, seconds, jobs):
    await Schedule(redis).add(ACME.id, NOW)
    await clock.tick()
    for _ in range(round(seconds / TICK_SECONDS)):
        time.pass_(TICK_SECONDS)
        await clock.tick()
    found = [was_enqueued(queue_redis, f"sweep-due-{number}") for number in range(MOST_SWEEP_JOBS + 1)]
    assert sum(found) == jobs


async def test_two_schedulers_enqueue_a_due_sweep_once(clock, settings, redis, queue_redis):
    await Schedule(redis).add(ACME.id, NOW)
    other = Scheduler(settings)
    for each in (clock, other):
        await each.tick()
    await other.close()
    assert [was_enqueued(queue_redis, f"sweep-due-{number}") for number in range(2)] == [True, False]


async def test_a_delayed_job_is_queued_at_its_time(clock, queue_redis, time):
    jobs.enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=30)
    time.pass_(29)
    await clock.tick()
    assert the_work(queue_redis, "confirm-7").get_status() == "scheduled"
    time.pass_(1)
    await clock.tick()
    assert the_work(queue_redis, "confirm-7").get_status() == "queued"


async def test_the_scheduler_sends_a_heartbeat_every_few_seconds(clock, redis, time):
    heartbeats = Heartbeats(redis)
    for _ in range(3):
        await clock.tick()
        assert len(await heartbeats.alive("clock", time.time() + SILENT_SECONDS)) == 1, "the heartbeat is recent"
        time.pass_(5)


async def test_after_a_redis_outage_no_periodic_task_is_missed(tmp_path, time):
    folder = tmp_path / "redis"
    with ExitStack() as running:
        url = running.enter_context(embedded_redis(folder, durable=False))
        clock = Scheduler(Settings.read({"GHAPP_REDIS_URL": url}))
        await clock.check_redis()
        running.close()
        assert await clock.tick() == WAIT_SECONDS
        running.enter_context(embedded_redis(folder, durable=False))
        redis, queue_redis = connect(url), connect_sync(url)
        await Schedule(redis).add(ACME.id, NOW)
        assert await clock.tick() == TICK_SECONDS
        due = ("sweep-due-0", "redeliver", "installations")
        assert tuple(key for key in due if was_enqueued(queue_redis, key)) == due
        await clock.close()
        await redis.aclose()
        queue_redis.close()


async def test_without_redis_the_scheduler_does_not_start(tmp_path):
    clock = Scheduler(Settings.read({"GHAPP_REDIS_URL": f"unix://{tmp_path}/none.sock"}))
    with pytest.raises(StoreUnavailableError):
        await clock.check_redis()
    await clock.close()


async def refused(redis, monkeypatch):
    """The command of one task is refused: its key has another type."""
    await redis.set(keys.INBOX, "a string")


async def broken(redis, monkeypatch):
    """One task fails by an error of ghapp itself."""

    async def fail(self):
        raise KeyError("odd")

    monkeypatch.setattr(Inbox, "lag", fail)


@pytest.mark.parametrize("fails", [refused, broken])
async def test_a_failing_task_stops_no_other_task_and_is_logged_once(
    clock, redis, queue_redis, time, monkeypatch, fails
):
    await Installations(redis).put(ACME)
    await Schedule(redis).discover_at(NOW + 300)
    await fails(redis, monkeypatch)
    with capture_logs() as logs:
        for _ in range(3):
            assert await clock.tick() == TICK_SECONDS
            time.pass_(WAIT_SECONDS)
    assert all(was_enqueued(queue_redis, key) for key in ("report-7", "redeliver", "installations"))
    (line,) = [each for each in logs if each["event"] == "periodic task failed"]
    assert line["task"] == "drain"
    assert await Heartbeats(redis).alive("clock", NOW)


async def test_a_task_that_fails_waits_for_its_turn_and_is_logged_again_after_it_worked(
    clock, redis, queue_redis, time
):
    with capture_logs() as logs:
        for value in ("a string", None, "a string"):
            await redis.delete(keys.INBOX)
            if value is not None:
                await redis.set(keys.INBOX, value)
            await clock.tick()
            await clock.tick()
            time.pass_(WAIT_SECONDS)
    assert [each["task"] for each in logs if each["event"] == "periodic task failed"] == ["drain", "drain"]
