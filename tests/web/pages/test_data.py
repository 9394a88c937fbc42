"""What takes long to prepare: given at once while it is young, prepared once for all, and never kept after a write."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.web.pages.data import LONGEST_OLD_SECONDS, Prepared


def counter(values):
    async def prepare():
        values.append(len(values))
        return values[-1]

    return prepare


async def test_a_value_is_prepared_once_for_all_who_ask_at_the_same_time():
    values, prepared = [], Prepared()
    assert await asyncio.gather(*(prepared.read(1, counter(values)) for _ in range(5))) == [0] * 5
    assert await prepared.read(1, counter(values)) == 0
    assert await prepared.read(2, counter(values)) == 1


async def test_an_older_value_is_given_at_once_and_the_next_one_is_prepared():
    values, prepared, loop = [], Prepared(), asyncio.get_running_loop()
    await prepared.read(1, counter(values))
    prepared._last[1] = loop.time() - 1.5, 0
    assert await prepared.read(1, counter(values)) == 0
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await prepared.read(1, counter(values)) == 1


async def test_a_value_of_more_than_three_seconds_is_not_given():
    values, prepared, loop = [], Prepared(), asyncio.get_running_loop()
    await prepared.read(1, counter(values))
    prepared._last[1] = loop.time() - LONGEST_OLD_SECONDS - 0.001, 0
    assert await prepared.read(1, counter(values)) == 1


async def test_what_was_being_prepared_before_a_write_is_not_kept():
    values, prepared, may_end = [], Prepared(), asyncio.Event()

    async def slow():
        await may_end.wait()
        return "old"

    before = asyncio.create_task(prepared.read(1, slow))
    await asyncio.sleep(0)
    prepared.forget(1)
    may_end.set()
    assert await before == "old"
    assert await prepared.read(1, counter(values)) == 0


async def test_an_error_is_raised_and_not_kept():
    values, prepared = [], Prepared()

    async def fails():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await prepared.read(1, fails)
    assert await prepared.read(1, counter(values)) == 0
