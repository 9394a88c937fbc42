"""Work asked for by name, on a real RQ."""

import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from rq import Queue
from rq.job import Job
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer

from ghapp.queue.jobs import (
    ASKED_AGAIN,
    BACKOFF_SECONDS,
    MOST_INSTALLATIONS,
    QUEUE_OF,
    QUEUES,
    SWEEP_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS,
    JobName,
    enqueue,
    enqueue_for_each,
    enqueue_report,
    first_waiting,
    next_order,
    promote_due,
)
from ghapp.queue.worker import worker
from ghapp.runners.observations import OVERTAKING_SECONDS
from ghapp.store.connect import connect_sync
from jobs.worker import FUNCTIONS, _log_failure


@pytest.fixture
def queue_redis(redis, redis_url):
    with connect_sync(redis_url) as client:
        yield client


def queue(queue_redis, name):
    return Queue(name, connection=queue_redis, serializer=JSONSerializer)


def due_at(queue_redis, key, name="urgent"):
    return queue_redis.zscore(ScheduledJobRegistry(queue=queue(queue_redis, name)).key, key)


def test_a_job_that_no_version_registers_fails_and_imports_nothing(queue_redis):
    served = queue(queue_redis, "sweep")
    served.enqueue("os.getpid", job_id="foreign")
    work_off(queue_redis)
    assert served.failed_job_registry.get_job_ids() == ["foreign"]


def test_every_work_has_a_queue_that_workers_serve():
    assert set(QUEUE_OF) == set(JobName)
    assert set(QUEUE_OF.values()) == set(QUEUES)


@pytest.mark.parametrize(
    ("count", "jobs"),
    [(0, []), (1, [1]), (MOST_INSTALLATIONS, [50]), (MOST_INSTALLATIONS + 1, [50, 1]), (1001, [50] * 20 + [1])],
)
def test_periodic_work_for_many_installations_is_a_few_jobs(queue_redis, count, jobs):
    ids = range(1, count + 1)
    for _ in range(2):  # the second time they wait already
        enqueue_for_each(queue_redis, JobName.REPORT, ids)
    waiting = queue(queue_redis, "report").jobs
    assert [len(job.args) for job in waiting] == jobs
    assert [each for job in waiting for each in job.args] == [*ids]


def test_a_job_for_one_installation_and_a_periodic_one_do_not_block_each_other_unless_they_do_the_same(queue_redis):
    assert enqueue_report(queue_redis, 1)
    enqueue_for_each(queue_redis, JobName.REPORT, [1])
    assert [job.args for job in queue(queue_redis, "report").jobs] == [[1]]
    enqueue_for_each(queue_redis, JobName.REPORT, [1, 2])
    assert [job.args for job in queue(queue_redis, "report").jobs] == [[1], [1, 2]]


def test_work_travels_as_json_with_its_time_out_and_backoff(queue_redis):
    assert enqueue(queue_redis, JobName.POST_MORTEM, 7, "a", key="post-mortem-a") is True
    (job,) = queue(queue_redis, "report").jobs
    called = ["jobs.postmortem.post_mortem", None, [7, "a"], {}]
    assert json.loads(zlib.decompress(queue_redis.hget(job.key, "data"))) == called
    assert (job.timeout, job.result_ttl, job.retries_left) == (TIMEOUT_SECONDS, 0, len(BACKOFF_SECONDS))
    assert job.retry_intervals == list(BACKOFF_SECONDS)


@pytest.mark.parametrize("seconds", [TIMEOUT_SECONDS, SWEEP_TIMEOUT_SECONDS])
def test_no_job_outlives_the_time_in_which_a_newer_observation_overrules_its_own(seconds):
    assert seconds < OVERTAKING_SECONDS


@pytest.mark.parametrize("work", sorted(ASKED_AGAIN))
def test_work_that_sweeps_ask_for_again_is_given_up_within_seconds(queue_redis, work):
    enqueue(queue_redis, work, 7, 1, key="some-key")
    (job,) = queue(queue_redis, QUEUE_OF[work]).jobs
    assert sum(job.retry_intervals) <= 10


def test_a_remediation_that_fails_frees_its_key_within_seconds(queue_redis):
    enqueue(queue_redis, JobName.REMEDIATE, 7, 1, key="remediate-7-1")
    served, waited = queue(queue_redis, "urgent"), 0.0
    while not enqueue(queue_redis, JobName.REMEDIATE, 7, 1, key="remediate-7-1"):
        due = due_at(queue_redis, "remediate-7-1")
        if due is not None:
            waited += max(0.0, due - time.time())
            queue_redis.zadd(ScheduledJobRegistry(queue=served).key, {"remediate-7-1": time.time()})
            promote_due(queue_redis, time.time())
        work_off(queue_redis, {JobName.REMEDIATE: fails})
    assert waited <= 10


def test_work_that_is_requested_again_is_tried_at_once_or_not_at_all(queue_redis):
    enqueue(queue_redis, JobName.SWEEP, 7, retry=False)
    (job,) = queue(queue_redis, "sweep").jobs
    assert job.retry_intervals == [0, 0]


def test_work_of_one_key_waits_once_and_other_keys_wait_beside_it(queue_redis):
    assert [enqueue(queue_redis, JobName.SWEEP, 7, key=key) for key in ("sweep-7", "sweep-7", "sweep-8")] == [
        True,
        False,
        True,
    ]
    assert queue(queue_redis, "sweep").job_ids == ["sweep-7", "sweep-8"]


def test_work_without_a_key_waits_any_number_of_times(queue_redis):
    assert [enqueue(queue_redis, JobName.INSTALLATIONS) for _ in range(3)] == [True] * 3
    assert len(queue(queue_redis, "sweep").job_ids) == 3


def test_one_drain_waits_at_a_time_however_many_are_requested(queue_redis):
    assert [enqueue(queue_redis, JobName.INBOX) for _ in range(3)] == [True, False, False]
    assert queue(queue_redis, "inbox").job_ids == ["inbox"]


def test_delayed_work_of_one_key_waits_once_and_keeps_its_first_date(queue_redis):
    assert enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=30) is True
    first = due_at(queue_redis, "confirm-7")
    assert enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=300) is False
    assert enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7") is False
    assert due_at(queue_redis, "confirm-7") == first


def test_delayed_work_is_not_asked_for_while_the_same_waits_in_its_queue(queue_redis):
    enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7")
    assert enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=30) is False
    assert due_at(queue_redis, "confirm-7") is None


def test_delayed_work_is_promoted_at_its_time_and_once(queue_redis):
    began = time.time()
    enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=30)
    due = due_at(queue_redis, "confirm-7")
    assert began + 30 <= due <= time.time() + 30
    assert promote_due(queue_redis, due - 0.01) == 0
    assert queue(queue_redis, "urgent").job_ids == []
    assert [promote_due(queue_redis, due), promote_due(queue_redis, due)] == [1, 0]
    assert queue(queue_redis, "urgent").job_ids == ["confirm-7"]
    assert due_at(queue_redis, "confirm-7") is None
    (job,) = queue(queue_redis, "urgent").jobs
    assert (job.func_name, job.args, job.get_status()) == ("jobs.confirm.confirm", [7], "queued")


def test_two_clocks_promote_each_once(queue_redis, redis_url):
    for each in range(50):
        enqueue(queue_redis, JobName.CONFIRM, each, key=f"confirm-{each}", after_seconds=1)

    def promote(_):
        with connect_sync(redis_url) as clock:
            return promote_due(clock, time.time() + 60)

    with ThreadPoolExecutor(4) as clocks:
        promoted = sum(clocks.map(promote, range(4)))
    promoted += promote_due(queue_redis, time.time() + 60)
    assert promoted == 50
    assert sorted(queue(queue_redis, "urgent").job_ids) == sorted(f"confirm-{each}" for each in range(50))


def test_a_delayed_job_that_was_deleted_is_removed_from_the_schedule(queue_redis):
    enqueue(queue_redis, JobName.CONFIRM, 7, key="confirm-7", after_seconds=1)
    queue_redis.delete(Job.key_for("confirm-7"))
    assert promote_due(queue_redis, time.time() + 60) == 0
    assert due_at(queue_redis, "confirm-7") is None


def fails(*_):
    raise ZeroDivisionError


async def succeeds(*_):
    return None


def work_off(queue_redis, functions=FUNCTIONS):
    """Our worker runs what is in the queues now."""
    worker(queue_redis, functions, _log_failure).work(burst=True, logging_level="CRITICAL")


@pytest.mark.parametrize("outcome", [fails, succeeds])
def test_work_that_is_over_does_not_block_its_key(queue_redis, outcome):
    enqueue(queue_redis, JobName.SWEEP, 7, key="sweep-7", retry=False)
    served = queue(queue_redis, "sweep")
    work_off(queue_redis, {JobName.SWEEP: outcome})
    assert served.failed_job_registry.get_job_ids() == (["sweep-7"] if outcome is fails else [])
    assert enqueue(queue_redis, JobName.SWEEP, 7, key="sweep-7", retry=False) is True
    assert served.job_ids == ["sweep-7"]
    assert served.failed_job_registry.get_job_ids() == []


@pytest.mark.parametrize("busy", QUEUES)
def test_a_queue_that_never_empties_leaves_every_other_its_turn(busy):
    """Each of the others gets a job in between; `busy` is served whenever it is looked at first."""
    for other in set(QUEUES) - {busy}:
        order, served = list(QUEUES), []
        for _ in range(12):
            served.append(next(name for name in order if name in (busy, other)))
            order = next_order(order, served[-1])
        assert served.count(other) >= 3, (busy, other)


def test_when_all_queues_are_full_urgent_work_has_every_second_turn_and_the_others_take_turns():
    order, served = list(QUEUES), []
    for _ in range(12):
        served.append(order[0])
        order = next_order(order, order[0])
    assert served == ["urgent", "inbox", "urgent", "sweep", "urgent", "report"] * 2


def test_what_heals_goes_first_after_any_other_work():
    for served in set(QUEUES) - {"urgent"}:
        assert next_order(QUEUES, served)[0] == "urgent"


def test_the_first_of_several_jobs_that_waits_and_when_it_is_due(queue_redis):
    def first():
        return first_waiting(queue_redis, JobName.RERUN, ["a", "b", "c"])

    assert first() is None
    enqueue(queue_redis, JobName.RERUN, 1, key="c", after_seconds=600)
    key, seconds = first()
    assert key == "c"
    assert 590 < seconds <= 600
    enqueue(queue_redis, JobName.RERUN, 1, key="b")
    assert first() == ("b", 0.0)
    queue_redis.hset("rq:job:b", "status", "started")
    queue_redis.hset("rq:job:c", "status", "failed")
    assert first() is None, "a job that runs or failed does not wait"
