"""Work on many pods at the same time, on each of them in order."""

from __future__ import annotations

import asyncio

import pytest

from jobs.pods.ordered_tasks import OrderedTasks


class BrokenError(Exception):
    pass


async def never():
    await asyncio.Event().wait()


async def broken():
    raise BrokenError


async def test_tasks_of_several_names_overlap():
    tasks, both = OrderedTasks(2), asyncio.Barrier(2)
    async with asyncio.timeout(5):
        await tasks.begin("a", both.wait)
        await tasks.begin("b", both.wait)
        await asyncio.wait(tasks._running)
    assert both.n_waiting == 0


async def test_tasks_of_one_name_run_in_order():
    tasks, first_may_end, seen = OrderedTasks(2), asyncio.Event(), []

    async def first():
        await first_may_end.wait()
        seen.append("first")

    async def second():
        seen.append("second")

    await tasks.begin("a", first)
    await tasks.begin("a", second)
    await asyncio.sleep(0)
    first_may_end.set()
    async with asyncio.timeout(5):
        await asyncio.wait(tasks._running)
    assert seen == ["first", "second"]


async def test_a_task_more_than_allowed_waits_for_another_to_end():
    tasks, may_end = OrderedTasks(1), asyncio.Event()
    await tasks.begin("a", may_end.wait)
    waiting = asyncio.create_task(tasks.begin("b", asyncio.Event().wait))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    async with asyncio.timeout(5):
        await waiting


async def test_a_failure_ends_the_coroutine_that_begins_tasks_and_those_that_run():
    tasks, ended = OrderedTasks(3), []

    async def until_cancelled():
        try:
            await never()
        finally:
            ended.append("task")

    async def beginning():
        await tasks.begin("a", until_cancelled)
        await asyncio.sleep(0)
        await tasks.begin("b", broken)
        await never()

    with pytest.raises(BrokenError):
        await asyncio.wait_for(tasks.run(beginning()), 5)
    assert ended == ["task"]


async def test_after_a_failure_the_next_task_of_that_name_does_not_run():
    tasks, ran = OrderedTasks(2), []

    async def later():
        ran.append("later")

    async def beginning():
        await tasks.begin("a", broken)
        await tasks.begin("a", later)
        await asyncio.wait(tasks._running)

    with pytest.raises(BrokenError):
        await asyncio.wait_for(tasks.run(beginning()), 5)
    assert ran == []


async def test_the_end_of_the_coroutine_cancels_what_still_runs():
    tasks, ended = OrderedTasks(2), []

    async def until_cancelled():
        try:
            await never()
        finally:
            ended.append("task")

    async def beginning():
        await tasks.begin("a", until_cancelled)
        await asyncio.sleep(0)

    await asyncio.wait_for(tasks.run(beginning()), 5)
    assert ended == ["task"]
