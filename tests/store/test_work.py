"""Work asked for by name, on a real RQ."""

import importlib
import inspect
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from math import ceil

import pytest
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer

from ghapp.store.connect import connect_sync
from ghapp.work import BACKOFF_SECONDS, QUEUE_OF, QUEUES, TIMEOUT_SECONDS, Work, ask, promote_due


@pytest.fixture
def desk(redis, redis_url):
    with connect_sync(redis_url) as client:
        yield client


def queue(desk, name):
    return Queue(name, connection=desk, serializer=JSONSerializer)


def due_at(desk, key, name="urgent"):
    return desk.zscore(ScheduledJobRegistry(queue=queue(desk, name)).key, key)


@pytest.mark.parametrize("work", Work)
def test_every_work_is_a_coroutine_function_somewhere(work):
    module, _, name = work.value.rpartition(".")
    assert inspect.iscoroutinefunction(getattr(importlib.import_module(module), name))


def test_every_work_has_a_queue_that_workers_serve():
    assert set(QUEUE_OF) == set(Work)
    assert set(QUEUE_OF.values()) == set(QUEUES)


def test_work_travels_as_json_with_its_time_out_and_backoff(desk):
    assert ask(desk, Work.REMEDIATE, 7, 1, key="remediate-7-1") is True
    (job,) = queue(desk, "urgent").jobs
    assert json.loads(zlib.decompress(desk.hget(job.key, "data"))) == ["jobs.remediate.remediate", None, [7, 1], {}]
    assert (job.timeout, job.result_ttl, job.retries_left) == (TIMEOUT_SECONDS, 0, len(BACKOFF_SECONDS))
    assert job.retry_intervals == list(BACKOFF_SECONDS)


def test_work_that_somebody_will_ask_for_again_is_tried_at_once_or_not_at_all(desk):
    ask(desk, Work.SWEEP, 7, retry=False)
    (job,) = queue(desk, "sweep").jobs
    assert job.retry_intervals == [0, 0]


def test_work_of_one_key_waits_once_and_other_keys_wait_beside_it(desk):
    assert [ask(desk, Work.SWEEP, 7, key=key) for key in ("sweep-7", "sweep-7", "sweep-8")] == [True, False, True]
    assert queue(desk, "sweep").job_ids == ["sweep-7", "sweep-8"]


def test_work_without_a_key_waits_any_number_of_times(desk):
    assert [ask(desk, Work.INBOX) for _ in range(3)] == [True] * 3
    assert len(queue(desk, "inbox").job_ids) == 3


def test_delayed_work_of_one_key_waits_once_and_keeps_its_first_date(desk):
    assert ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=30) is True
    first = due_at(desk, "confirm-7")
    assert ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=300) is False
    assert ask(desk, Work.CONFIRM, 7, key="confirm-7") is False
    assert due_at(desk, "confirm-7") == first


def test_delayed_work_is_not_asked_for_while_the_same_waits_in_its_queue(desk):
    ask(desk, Work.CONFIRM, 7, key="confirm-7")
    assert ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=30) is False
    assert due_at(desk, "confirm-7") is None


def test_delayed_work_is_promoted_at_its_time_and_once(desk):
    began = time.time()
    ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=30)
    due = due_at(desk, "confirm-7")
    assert began + 30 <= due <= ceil(time.time() + 30)
    assert promote_due(desk, due - 1) == 0
    assert queue(desk, "urgent").job_ids == []
    assert [promote_due(desk, due), promote_due(desk, due)] == [1, 0]
    assert queue(desk, "urgent").job_ids == ["confirm-7"]
    assert due_at(desk, "confirm-7") is None
    (job,) = queue(desk, "urgent").jobs
    assert (job.func_name, job.args, job.get_status()) == ("jobs.confirm.confirm", [7], "queued")


def test_two_clocks_promote_each_once(desk, redis_url):
    for each in range(50):
        ask(desk, Work.CONFIRM, each, key=f"confirm-{each}", after_seconds=1)

    def promote(_):
        with connect_sync(redis_url) as clock:
            return promote_due(clock, time.time() + 60)

    with ThreadPoolExecutor(4) as clocks:
        promoted = sum(clocks.map(promote, range(4)))
    promoted += promote_due(desk, time.time() + 60)
    assert promoted == 50
    assert sorted(queue(desk, "urgent").job_ids) == sorted(f"confirm-{each}" for each in range(50))


def test_a_clock_that_dies_while_it_promotes_leaves_the_work_to_the_next(desk, monkeypatch):
    ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=1)
    later = time.time() + 60

    def dies(*_args, **_options):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "_enqueue_job", dies)
        with pytest.raises(SystemExit):
            promote_due(desk, later)
    assert promote_due(desk, later) == 1
    assert queue(desk, "urgent").job_ids == ["confirm-7"]


def test_delayed_work_whose_job_is_gone_is_struck(desk):
    ask(desk, Work.CONFIRM, 7, key="confirm-7", after_seconds=1)
    desk.delete(Job.key_for("confirm-7"))
    assert promote_due(desk, time.time() + 60) == 0
    assert due_at(desk, "confirm-7") is None


def fails(*_):
    raise ZeroDivisionError


async def succeeds(*_):
    return None


@pytest.mark.parametrize("outcome", [fails, succeeds])
def test_work_that_is_over_does_not_block_its_key(desk, monkeypatch, outcome):
    monkeypatch.setattr("jobs.sweep.sweep", outcome)
    ask(desk, Work.SWEEP, 7, key="sweep-7", retry=False)
    served = queue(desk, "sweep")
    SimpleWorker([served], connection=desk, serializer=JSONSerializer).work(burst=True, logging_level="CRITICAL")
    assert served.failed_job_registry.get_job_ids() == (["sweep-7"] if outcome is fails else [])
    assert ask(desk, Work.SWEEP, 7, key="sweep-7", retry=False) is True
    assert served.job_ids == ["sweep-7"]
    assert served.failed_job_registry.get_job_ids() == []
