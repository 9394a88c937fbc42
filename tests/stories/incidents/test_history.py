"""A loss, its healing, a death and a job are in the history once, whatever happens to the process that records them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from ghapp.github.deliveries import encode, parse
from ghapp.incidents.history import HOUR_SECONDS, STEP_SECONDS, HistoryStep, folded
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.pause import Pause
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, Channel
from jobs.deliveries.inbox import drain_inbox
from jobs.runners.sweep import sweep_installation
from tests.manifests.rendered import ROOT
from tests.stories.conftest import POOL
from tests.stories.deaths.death_story import a_job_runs, its_runner_dies
from tests.stories.incidents import killed_history

DAY = 86_400


async def total(app, pool=POOL, width=STEP_SECONDS):
    """All steps of the story as one."""
    now = app.clock()
    steps = await app.context.history.steps(app.installation, pool, now - DAY, now + DAY, width)
    return folded(steps, 100 * DAY).popitem()[1] if steps else HistoryStep()


async def killed(app, method, when, work):
    """Another process does the work, and is killed there."""
    ahead = app.clock() - time.time()
    words = [sys.executable, killed_history.__file__, method, when, work, str(app.installation), str(ahead)]
    environ = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **app.environ}
    done = await asyncio.to_thread(subprocess.run, words, env=environ, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


async def until(work):
    """Repeats work until the lock of the killed process has expired."""
    for _ in range(50):
        if done := await work():
            return done
        await asyncio.sleep(0.1)
    raise AssertionError("the lock was not given back")


async def test_a_loss_and_its_healing_are_counted_once_however_many_sweeps_follow(story):
    async with story() as app:
        await app.live_through_an_interval()
        await app.pass_(300)
        app.sandbox.control.lose("acme", count=1)
        for _ in range(8):
            await app.live_through_an_interval()
        for pool in (POOL, ALL_POOLS):
            for width in (STEP_SECONDS, HOUR_SECONDS):
                step = await total(app, pool, width)
                assert (step.count("lost"), step.count("healed")) == (1, 1)
                assert 30 <= step.count("heal_seconds") <= 300
                assert step.highest("healthy") == 12
        assert (await total(app, ALL_POOLS)).count("calls") > 0


@pytest.mark.parametrize(
    ("method", "when"),
    [
        ("HistoryStore.record", "before"),
        ("HistoryStore._rows", "before"),
        ("HistoryStore._rows", "after"),
        ("HistoryStore.record", "after"),
        ("Schedule.due_at", "before"),
        ("Schedule.due_at", "after"),
    ],
)
async def test_a_loss_and_a_job_are_counted_once_though_a_sweep_is_killed(story, method, when):
    async with story() as app:
        await app.live_through_an_interval()
        await app.pass_(300)
        await a_job_runs(app)
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        assert await app.replacements() == [lost]
        await killed(app, method, when, "sweep")
        await until(lambda: sweep_installation(app.context, app.installation))
        for _ in range(2):
            await app.live_through_an_interval()
        for pool in (POOL, ALL_POOLS):
            step = await total(app, pool)
            assert (step.count("lost"), step.count("healed"), step.count("jobs")) == (1, 1, 1)


@pytest.mark.parametrize(
    ("method", "when"), [("Demand.record", "before"), ("Demand.record", "after"), ("Inbox.done", "before")]
)
async def test_a_job_is_counted_once_though_the_drain_of_its_deliveries_is_killed(story, method, when):
    async with story() as app:
        await app.live_through_an_interval()
        app.listen()
        app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        for each in app.hook.wait(2):
            facts = encode(parse(each.event, each.body, each.headers["content-type"]))
            await app.context.inbox.keep(each.headers["x-github-delivery"], each.event, facts)
        await killed(app, method, when, "drain")
        await until(lambda: drain_inbox(app.context))
        await app.live_through_an_interval()
        assert (await total(app)).count("jobs") == 1


async def test_a_death_is_counted_once_though_two_watches_record_it(story):
    async with story() as app:
        await app.live_through_an_interval()
        job = await a_job_runs(app)
        for _ in range(2):
            await its_runner_dies(app, job, pool=POOL)
        await app.live_through_an_interval()
        await app.live_through_an_interval()
        assert (await total(app)).died_of("host-oom") == 1


async def test_a_time_in_which_sweeps_fail_is_a_gap_and_jobs_of_it_are_counted(story):
    async with story() as app:
        await app.live_through_an_interval()
        app.sandbox.control.fault(match=".*", status=502)
        await app.pass_(600)
        await sweep_installation(app.context, app.installation)
        before = app.clock()
        await a_job_runs(app)
        await sweep_installation(app.context, app.installation)
        steps = await app.context.history.steps(app.installation, POOL, before - 590, before + 600, STEP_SECONDS)
        assert [step.samples for step in steps.values() if step.count("jobs")] == [0]
        assert sum(step.samples for step in steps.values()) == 0


async def test_a_step_has_the_time_within_it_in_which_sweeps_failed_also_while_they_fail(story):
    async with story() as app:
        await app.live_through_an_interval()
        since = app.clock()
        app.sandbox.control.fault(match=".*", status=502)
        blind = []
        for _ in range(2):
            await app.live_through_an_interval()
            blind.append((await total(app)).count("blind_seconds"))
        app.sandbox.control.no_faults()
        for _ in range(2):
            await app.live_through_an_interval()
        steps = (await total(app)), (await total(app, ALL_POOLS, HOUR_SECONDS))
        assert 0 < blind[0] < blind[1] < steps[0].count("blind_seconds") <= app.clock() - since
        assert steps[0].count("blind_seconds") == steps[1].count("blind_seconds")


async def test_a_step_has_the_time_within_it_in_which_remediation_was_paused_also_after_a_resume(story):
    async with story() as app:
        await app.live_through_an_interval()
        since, paused = app.clock(), []
        asked = AuditEntry(since, "mona", Channel.PAGE, "pause", POOL, "maintenance", "paused")
        await app.context.fuses.pause(app.installation, POOL, Pause("mona", "maintenance", since))
        await app.context.audit.record(app.installation, asked)
        for _ in range(2):
            await app.live_through_an_interval()
            paused.append((await total(app)).count("paused_seconds"))
            await app.pass_(300)
        await app.context.fuses.unpause(app.installation, POOL)
        await app.context.audit.record(app.installation, asked._replace(at=since + 500, action="resume", why=""))
        await app.live_through_an_interval()
        steps = [(await total(app, pool)).count("paused_seconds") for pool in (POOL, ALL_POOLS)]
        assert (*paused, *steps) == (60, 450, 500, 500)


@pytest.mark.parametrize("key", [keys.history_counts, keys.history_pools])
async def test_a_history_that_redis_refuses_to_change_delays_no_replacement(story, key):
    async with story() as app:
        await app.live_through_an_interval()
        await app.pass_(300)
        await app.context.redis.delete(key(app.installation))
        await app.context.redis.set(key(app.installation), "of another type")
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        assert await app.replacements() == [lost]
