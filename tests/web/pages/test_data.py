"""What takes long to prepare: prepared once for all visitors, and again when what it is made from was read again."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.web.cache import FRESH_SECONDS
from ghapp.web.pages.data import Prepared


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


async def test_a_value_is_prepared_again_when_its_inputs_were_read_anew_and_not_for_equal_ones():
    values, prepared, fleet = [], Prepared(), {1: "a"}
    assert await prepared.read(1, counter(values), fleet) == 0
    assert await prepared.read(1, counter(values), fleet) == 0
    assert await prepared.read(1, counter(values), {1: "a"}) == 1


@pytest.mark.parametrize(("more", "value"), [(-0.01, 0), (0.01, 1)])
async def test_a_value_is_prepared_again_when_it_is_no_longer_fresh(more, value):
    values, prepared = [], Prepared()
    await prepared.read(1, counter(values))
    prepared._last[1] = prepared._last[1]._replace(at=prepared._last[1].at - FRESH_SECONDS - more)
    assert await prepared.read(1, counter(values)) == value


async def test_what_is_prepared_from_older_inputs_is_not_given_for_newer_ones():
    prepared, may_end = Prepared(), asyncio.Event()

    async def slow():
        await may_end.wait()
        return "old"

    async def fast():
        return "new"

    before = asyncio.create_task(prepared.read(1, slow, "older"))
    await asyncio.sleep(0)
    assert await prepared.read(1, fast, "newer") == "new"
    may_end.set()
    assert await before == "old"
    assert await prepared.read(1, slow, "newer") == "new"


async def test_an_error_is_raised_and_not_kept():
    values, prepared = [], Prepared()

    async def fails():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await prepared.read(1, fails)
    assert await prepared.read(1, counter(values)) == 0
