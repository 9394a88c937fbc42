"""Only one of several watches records; it stops if it loses its lock or Redis."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from ghapp.cluster.watch import cancel_tasks
from ghapp.local.local_redis import EmbeddedRedis
from ghapp.store import keys
from ghapp.store.connect import connect
from ghapp.store.locks import ROLE, Locks
from jobs.pods.watch import lead

LOCK = keys.lock(ROLE, "watch")


class Watch:
    """A watch that shows whether it records."""

    def __init__(self, redis, name, fails=False):
        self.redis, self.name, self.fails, self.records, self.terms, self.valid = (
            redis,
            name,
            fails,
            False,
            0,
            lambda: True,
        )

    async def run(self):
        await lead(Locks(self.redis, 1.0), self.name, lambda lock: [self.view(lock)], 0.05)

    async def view(self, lock):
        self.records, self.valid = True, lambda: lock.is_valid
        self.terms += 1
        try:
            if self.fails:
                raise ZeroDivisionError
            await asyncio.Event().wait()
        finally:
            self.records = False


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - Redis sends no notice
            await asyncio.sleep(0.01)


@pytest.fixture
async def start():
    tasks = []

    def begin(found):
        tasks.append(asyncio.create_task(found.run()))
        return tasks[-1]

    yield begin
    await cancel_tasks(tasks)


async def test_one_of_two_watches_records_and_the_other_takes_over_at_its_end(redis, start):
    first, second = Watch(redis, "first"), Watch(redis, "second")
    task = start(first)
    await until(lambda: first.records)
    start(second)
    await asyncio.sleep(1.5)  # longer than the lock's lease
    assert (first.records, second.records, await Locks(redis).holder(ROLE, "watch")) == (True, False, "first")
    task.cancel()
    await until(lambda: second.records)
    assert (first.records, await Locks(redis).holder(ROLE, "watch")) == (False, "second")


async def test_a_watch_that_loses_the_lock_stops_recording_before_it_retries(redis, start):
    first = Watch(redis, "first")
    start(first)
    await until(lambda: first.records)
    await redis.set(LOCK, "second", px=2000)
    await until(lambda: not first.records)
    assert await redis.get(LOCK) == b"second"
    await until(lambda: first.records)
    assert first.terms == 2


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGTERM], ids=["hangs", "is stopped"])
async def test_a_watch_stops_recording_during_a_redis_outage_and_resumes_afterwards(tmp_path, start, how):
    server = EmbeddedRedis(tmp_path / "redis", durable=True)
    server.start()
    redis = connect(server.url)
    try:
        first = Watch(redis, "first")
        start(first)
        await until(lambda: first.records)
        pid = (await redis.info("server"))["process_id"]
        os.kill(pid, how)
        valid = first.valid
        await until(lambda: not first.records)
        assert not valid()
        if how is signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
        else:
            await until(lambda: server.supervise() or first.records)
        await until(lambda: first.records)
        assert first.terms == 2
    finally:
        await redis.aclose()
        server.end()


async def test_an_unexpected_error_of_a_view_ends_the_watch_and_releases_the_lock(redis, start):
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(start(Watch(redis, "first", fails=True)), 20)
    assert await redis.exists(LOCK) == 0
