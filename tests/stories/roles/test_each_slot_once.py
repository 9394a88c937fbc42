"""After any kill -9 each slot is swept once, forever, and no queue ever holds an id twice."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import datetime

import pytest

from ghapp.queue.jobs import QUEUES, JobName
from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.store import keys
from ghapp.store.connect import connect_sync
from tests.stories import killed_worker
from tests.stories.processes import FAST_TIMINGS, Role, environment, installed_a_minute_ago
from tests.support.waiting import wait_for

INTERVAL_SECONDS = 2
SWEEP_SECONDS = 1.0
KILLS = 3
WATCHED_SECONDS = 10
STEPS = list(killed_worker.STEPS)
DYING = (killed_worker.__file__, JobName.SWEEP.value)
POLICY = f"""
[sweep]
interval_seconds = {INTERVAL_SECONDS}
"""


@contextmanager
def watched_queues(redis_url):
    """The ids that were seen twice in one queue, while the block runs."""
    twice, done = [], threading.Event()

    def watch():
        with connect_sync(redis_url) as redis:
            while not done.wait(0.01):
                for name in QUEUES:
                    ids = redis.lrange(f"rq:queue:{name}", 0, -1)
                    twice.extend(each for each in set(ids) if ids.count(each) > 1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield twice
    finally:
        done.set()
        watcher.join()


def begins(roles):
    """When complete sweeps began."""
    rows = [
        json.loads(line)
        for role in roles
        for line in role.log.splitlines()
        if '"event": "swept"' in line and line.endswith("}")
    ]
    return sorted(datetime.fromisoformat(row["timestamp"]).timestamp() - row["milliseconds"] / 1000 for row in rows)


@pytest.fixture
def roles(redis_url, redis, tmp_path):
    """What roles are started with, and the sandbox whose sweeps take a second."""
    org = OrgConfig(pools=(PoolConfig(name="linux", size=10),))
    with SandboxServer(SandboxConfig(orgs=(org,), quiet=True)) as sandbox:
        policy = tmp_path / "ghapp.toml"
        policy.write_text(POLICY)
        environ = environment(sandbox, redis_url, policy)
        asyncio.run(installed_a_minute_ago(environ))
        sandbox.control.latency(seconds=SWEEP_SECONDS)
        yield environ, sandbox


def watch_slots(workers):
    """No slot is swept twice from now on, and none is left out."""
    time.sleep(INTERVAL_SECONDS)
    after = time.time()
    time.sleep(WATCHED_SECONDS)
    times = [at for at in begins(workers) if at >= after]
    apart = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(apart) > INTERVAL_SECONDS / 2
    assert WATCHED_SECONDS / INTERVAL_SECONDS / 2 <= len(times) <= WATCHED_SECONDS / INTERVAL_SECONDS + 1


@pytest.mark.xdist_group("each-slot")
def test_workers_that_are_killed_in_a_sweep_leave_each_slot_to_one_sweep(roles, redis_url, tmp_path):
    environ, sandbox = roles
    with ExitStack() as stack:
        twice = stack.enter_context(watched_queues(redis_url))
        queue_redis = stack.enter_context(connect_sync(redis_url))
        stack.enter_context(Role("clock", environ, tmp_path))
        workers = [stack.enter_context(Role("worker", environ, tmp_path, FAST_TIMINGS)) for _ in range(3)]
        claim = keys.lock("sweep", str(sandbox.installation_id()))
        for _ in range(KILLS):
            at_work = wait_for(lambda: queue_redis.exists(claim) and [each for each in workers if each.children])
            assert at_work
            for worker in at_work:
                worker.kill_all()
                workers.append(stack.enter_context(Role("worker", environ, tmp_path, FAST_TIMINGS)))
            swept = len(begins(workers))
            assert wait_for(lambda swept=swept: len(begins(workers)) > swept), "another takes over"
        watch_slots(workers)
    assert twice == []


@pytest.mark.xdist_group("each-slot")
@pytest.mark.parametrize("steps", [STEPS[:6], STEPS[6:]], ids=lambda steps: f"from {steps[0]}")
def test_a_worker_that_is_killed_at_any_step_of_a_sweep_leaves_each_slot_to_one_sweep(
    roles, redis_url, tmp_path, steps
):
    """The steps are those of RQ's taking, running and ending of a job."""
    environ, sandbox = roles
    with ExitStack() as stack:
        twice = stack.enter_context(watched_queues(redis_url))
        stack.enter_context(Role("clock", environ, tmp_path, FAST_TIMINGS))
        workers = []
        for step in steps:
            dying = stack.enter_context(Role(step, environ, tmp_path, DYING))
            assert wait_for(lambda dying=dying: dying.process.poll() is not None), (step, dying.log)
            assert dying.process.returncode == -signal.SIGKILL, (step, dying.log)
            with Role("worker", environ, tmp_path, FAST_TIMINGS) as next_worker:
                assert wait_for(lambda worker=next_worker: begins([worker])), (step, next_worker.log)
        sandbox.control.latency(seconds=SWEEP_SECONDS)
        workers = [stack.enter_context(Role("worker", environ, tmp_path, FAST_TIMINGS)) for _ in range(2)]
        watch_slots(workers)
    assert twice == []
