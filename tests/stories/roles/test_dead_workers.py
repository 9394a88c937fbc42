"""Workers die in the midst of their work: another takes over in time, and effects happen once.

The workers here are in a hurry; `test_patience` shows that in time is within twenty seconds of those that are not.
"""

from __future__ import annotations

import asyncio

import pytest

from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.runners.verdict import State
from ghapp.store import keys
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.processes import FAST_TIMINGS, Role
from tests.stories.report.test_checks import CONFIG, check_runs
from tests.stories.runners.test_main_job import state_of
from tests.support.waiting import wait_for

TAKEN_OVER_SECONDS = 20


async def suspected(app):
    """One runner is lost, and its GET answered 404 once.

    All that in the minutes before, so that workers, whose clock is the real one, have a token whose 404s count.
    """
    app.clock.pass_(-360)
    await sweep_installation(app.context, app.installation)
    app.clock.pass_(300)
    await sweep_installation(app.context, app.installation)
    (lost,) = app.sandbox.control.lose("acme", count=1)
    await sweep_installation(app.context, app.installation)
    app.clock.pass_(30)
    return lost


async def lost_and_granted(app):
    """The same, confirmed and granted; its remediation is asked for."""
    lost = await suspected(app)
    assert await confirm_installation(app.context, app.installation) == 1
    return lost


def in_the_midst(app, role, claim):
    """The work-horse holds its claim, and waits for GitHub."""
    return role.children and app.context.queue_redis.exists(claim)


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_in_a_sweep_is_replaced(story, tmp_path, rudely):
    async with story() as app:
        app.sandbox.control.latency(seconds=5)
        jobs.enqueue_due_sweeps(app.context.queue_redis)
        with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as first:
            assert wait_for(lambda: in_the_midst(app, first, keys.lock("sweep", str(app.installation)))), first.log
            rudely(first)
            app.sandbox.control.latency(seconds=0)
            with Role("worker", app.environ, tmp_path, FAST_TIMINGS), Role("clock", app.environ, tmp_path):
                swept = lambda: app.context.queue_redis.exists(keys.survey(app.installation))  # noqa: E731
                assert await asyncio.to_thread(wait_for, swept, TAKEN_OVER_SECONDS)
                free = lambda: jobs.enqueue_due_sweeps(app.context.queue_redis)  # noqa: E731
                assert await asyncio.to_thread(wait_for, free), "its key is not blocked"


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_while_it_remediates_is_replaced_and_the_event_is_sent_once(story, tmp_path, rudely):
    async with story() as app:
        lost = await lost_and_granted(app)
        app.sandbox.control.latency(seconds=5)
        with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as first, Role("clock", app.environ, tmp_path):
            claim = keys.lock("runner", f"{app.installation}:{lost}")
            assert wait_for(lambda: in_the_midst(app, first, claim)), first.log
            rudely(first)
            app.sandbox.control.latency(seconds=0)
            with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as second:
                sent = await asyncio.to_thread(wait_for, app.sandbox.control.controller_events, TAKEN_OVER_SECONDS + 5)
                assert [event["data"]["runner_id"] for event in sent] == [lost], second.log
        assert app.account()["wrongful_removals"] == []
        assert await state_of(app, lost) is State.INVALIDATED


async def test_a_worker_that_is_asked_to_end_in_a_long_sweep_hands_it_back(story, tmp_path):
    async with story() as app:
        app.sandbox.control.latency(seconds=9)
        jobs.enqueue_due_sweeps(app.context.queue_redis)
        with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as first:
            assert wait_for(lambda: in_the_midst(app, first, keys.lock("sweep", str(app.installation)))), first.log
            first.process.terminate()
            assert await asyncio.to_thread(first.process.wait, 10) == 0
        app.sandbox.control.latency(seconds=0)
        with Role("worker", app.environ, tmp_path, FAST_TIMINGS), Role("clock", app.environ, tmp_path):
            swept = lambda: app.context.queue_redis.exists(keys.survey(app.installation))  # noqa: E731
            assert await asyncio.to_thread(wait_for, swept, TAKEN_OVER_SECONDS)


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_while_it_confirms_is_replaced_and_the_event_is_sent_once(story, tmp_path, rudely):
    async with story() as app:
        lost = await suspected(app)
        app.sandbox.control.latency(seconds=5)
        key = f"confirm-{app.installation}"
        jobs.enqueue(app.context.queue_redis, JobName.CONFIRM, app.installation, key=key)
        with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as first, Role("clock", app.environ, tmp_path):
            assert wait_for(lambda: in_the_midst(app, first, keys.lock("confirm", str(app.installation)))), first.log
            rudely(first)
            app.sandbox.control.latency(seconds=0)
            with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as second:
                sent = await asyncio.to_thread(wait_for, app.sandbox.control.controller_events, TAKEN_OVER_SECONDS + 5)
                assert [event["data"]["runner_id"] for event in sent or []] == [lost], second.log
        assert app.account()["wrongful_removals"] == []


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_while_it_reports_is_replaced_and_there_is_one_check_run(story, tmp_path, rudely):
    async with story(config=CONFIG) as app:
        await sweep_installation(app.context, app.installation)
        app.sandbox.control.latency(seconds=5)
        jobs.enqueue_report(app.context.queue_redis, app.installation)
        with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as first:
            assert wait_for(lambda: in_the_midst(app, first, keys.lock("report", str(app.installation)))), first.log
            rudely(first)
            app.sandbox.control.latency(seconds=0)
            with Role("worker", app.environ, tmp_path, FAST_TIMINGS) as second, Role("clock", app.environ, tmp_path):
                assert await asyncio.to_thread(wait_for, lambda: check_runs(app), TAKEN_OVER_SECONDS + 5), second.log
                free = lambda: jobs.enqueue_report(app.context.queue_redis, app.installation)  # noqa: E731
                assert await asyncio.to_thread(wait_for, free), "its key is not blocked"
                assert len(check_runs(app)) == 1
