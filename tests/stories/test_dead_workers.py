"""Workers die in the midst of their work: another takes over in time, and effects happen once.

The workers here are in a hurry; `test_patience` shows that in time is within twenty seconds of those that are not.
"""

from __future__ import annotations

import asyncio

import pytest

from ghapp import work
from ghapp.health.verdict import State
from ghapp.store import keys
from ghapp.work import Work
from jobs.confirm import confirm_installation
from jobs.sweep import sweep_installation
from tests.stories.processes import HURRIED, Role, wait_for
from tests.stories.test_checks import CONFIG, check_runs
from tests.stories.test_main_job import state_of

TAKEN_OVER_SECONDS = 20


async def suspected(it):
    """One runner is lost, and its GET has said so once.

    All that in the minutes before, so that workers, whose clock is the real one, have a token whose 404s count.
    """
    it.clock.pass_(-360)
    await sweep_installation(it.house, it.installation)
    it.clock.pass_(300)
    await sweep_installation(it.house, it.installation)
    (lost,) = it.sandbox.control.lose("acme", count=1)
    await sweep_installation(it.house, it.installation)
    it.clock.pass_(30)
    return lost


async def lost_and_granted(it):
    """The same, confirmed and granted; its remediation is asked for."""
    lost = await suspected(it)
    assert await confirm_installation(it.house, it.installation) == 1
    return lost


def in_the_midst(it, role, claim):
    """The work-horse holds its claim, and waits for GitHub."""
    return role.children and it.house.desk.exists(claim)


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_in_a_sweep_is_replaced(story, tmp_path, rudely):
    async with story() as it:
        it.sandbox.control.latency(seconds=5)
        work.ask_for_sweep(it.house.desk, it.installation)
        with Role("worker", it.environ, tmp_path, HURRIED) as first:
            assert wait_for(lambda: in_the_midst(it, first, keys.claim("sweep", str(it.installation)))), first.log
            rudely(first)
            it.sandbox.control.latency(seconds=0)
            with Role("worker", it.environ, tmp_path, HURRIED):
                swept = lambda: it.house.desk.exists(keys.survey(it.installation))  # noqa: E731
                assert await asyncio.to_thread(wait_for, swept, TAKEN_OVER_SECONDS)
                free = lambda: work.ask_for_sweep(it.house.desk, it.installation)  # noqa: E731
                assert await asyncio.to_thread(wait_for, free), "its key is not blocked"


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_while_it_remediates_is_replaced_and_the_event_is_sent_once(story, tmp_path, rudely):
    async with story() as it:
        lost = await lost_and_granted(it)
        it.sandbox.control.latency(seconds=5)
        with Role("worker", it.environ, tmp_path, HURRIED) as first, Role("clock", it.environ, tmp_path):
            claim = keys.claim("runner", f"{it.installation}:{lost}")
            assert wait_for(lambda: in_the_midst(it, first, claim)), first.log
            rudely(first)
            it.sandbox.control.latency(seconds=0)
            with Role("worker", it.environ, tmp_path, HURRIED) as second:
                sent = await asyncio.to_thread(wait_for, it.sandbox.control.controller_events, TAKEN_OVER_SECONDS + 5)
                assert [event["data"]["runner_id"] for event in sent] == [lost], second.log
        assert it.account()["wrongful_removals"] == []
        assert await state_of(it, lost) is State.INVALIDATED


async def test_a_worker_that_is_asked_to_end_in_a_long_sweep_hands_it_back(story, tmp_path):
    async with story() as it:
        it.sandbox.control.latency(seconds=9)
        work.ask_for_sweep(it.house.desk, it.installation)
        with Role("worker", it.environ, tmp_path, HURRIED) as first:
            assert wait_for(lambda: in_the_midst(it, first, keys.claim("sweep", str(it.installation)))), first.log
            first.process.terminate()
            assert await asyncio.to_thread(first.process.wait, 10) == 0
        it.sandbox.control.latency(seconds=0)
        with Role("worker", it.environ, tmp_path, HURRIED):
            swept = lambda: it.house.desk.exists(keys.survey(it.installation))  # noqa: E731
            assert await asyncio.to_thread(wait_for, swept, TAKEN_OVER_SECONDS)


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_while_it_confirms_is_replaced_and_the_event_is_sent_once(story, tmp_path, rudely):
    async with story() as it:
        lost = await suspected(it)
        it.sandbox.control.latency(seconds=5)
        key = f"confirm-{it.installation}"
        work.ask(it.house.desk, Work.CONFIRM, it.installation, key=key)
        with Role("worker", it.environ, tmp_path, HURRIED) as first, Role("clock", it.environ, tmp_path):
            assert wait_for(lambda: in_the_midst(it, first, keys.claim("confirm", str(it.installation)))), first.log
            rudely(first)
            it.sandbox.control.latency(seconds=0)
            with Role("worker", it.environ, tmp_path, HURRIED) as second:
                sent = await asyncio.to_thread(wait_for, it.sandbox.control.controller_events, TAKEN_OVER_SECONDS + 5)
                assert [event["data"]["runner_id"] for event in sent or []] == [lost], second.log
        assert it.account()["wrongful_removals"] == []


@pytest.mark.parametrize("rudely", [Role.kill_children, Role.kill_all], ids=["its horse", "with its horse"])
async def test_a_worker_that_dies_while_it_reports_is_replaced_and_there_is_one_check_run(story, tmp_path, rudely):
    async with story(config=CONFIG) as it:
        await sweep_installation(it.house, it.installation)
        it.sandbox.control.latency(seconds=5)
        work.ask_for_report(it.house.desk, it.installation)
        with Role("worker", it.environ, tmp_path, HURRIED) as first:
            assert wait_for(lambda: in_the_midst(it, first, keys.claim("report", str(it.installation)))), first.log
            rudely(first)
            it.sandbox.control.latency(seconds=0)
            with Role("worker", it.environ, tmp_path, HURRIED) as second, Role("clock", it.environ, tmp_path):
                assert await asyncio.to_thread(wait_for, lambda: check_runs(it), TAKEN_OVER_SECONDS + 5), second.log
                free = lambda: work.ask_for_report(it.house.desk, it.installation)  # noqa: E731
                assert await asyncio.to_thread(wait_for, free), "its key is not blocked"
                assert len(check_runs(it)) == 1
