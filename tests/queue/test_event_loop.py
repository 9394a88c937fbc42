"""Jobs on uvloop, in a real worker of RQ: they end when their time is over, and their errors are their own."""

import asyncio
import time

import pytest
import uvloop
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.queue.worker import worker
from ghapp.store.connect import connect_sync

LONG = 60
"""Seconds; the jobs may take one, and two if they only compute."""


async def sleep():
    await asyncio.sleep(LONG)


async def wait_often():
    for _ in range(LONG * 1000):
        await asyncio.sleep(0.001)


async def wait_often_in_a_group():
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(wait_often())


async def compute():
    ends = time.monotonic() + LONG
    while time.monotonic() < ends:
        pass


async def wait_in_its_cleanup():
    try:
        await asyncio.sleep(LONG)
    finally:
        await asyncio.sleep(LONG)


async def fail():
    raise ZeroDivisionError


async def fail_with_a_runtime_error():
    raise RuntimeError


async def go_on_after_the_error_of_a_callback():
    asyncio.get_running_loop().call_soon(int, "no number")
    await asyncio.sleep(0.01)


async def run_on_uvloop():
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)


@pytest.mark.parametrize(
    ("job", "failures"),
    [
        (sleep, ["JobTimeoutException"]),
        (wait_often, ["JobTimeoutException"]),
        (wait_often_in_a_group, ["JobTimeoutException"]),
        (compute, ["JobTimeoutException"]),
        (wait_in_its_cleanup, ["JobTimeoutException"]),
        (fail, ["ZeroDivisionError"]),
        (fail_with_a_runtime_error, ["RuntimeError"]),
        (go_on_after_the_error_of_a_callback, []),
        (run_on_uvloop, []),
    ],
)
def test_a_job_ends_in_time_and_with_its_own_error(redis, redis_url, job, failures):
    with connect_sync(redis_url) as client:

        def record(failed, kind, _error, _trace):
            failed.connection.rpush("failures", kind.__name__)
            return True

        Queue("sweep", connection=client, serializer=JSONSerializer).enqueue("job", job_timeout=2)
        worker(client, {"job": job}, record).work(burst=True, logging_level="CRITICAL")
        assert client.lrange("failures", 0, -1) in (failures, [each.encode() for each in failures])
