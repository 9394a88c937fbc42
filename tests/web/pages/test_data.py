"""The cache of page data: each value is computed once for all visitors, and again when its inputs were read again."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.web.cache import FRESH_SECONDS
from ghapp.web.prepared import Prepared


def counter(values):
    async def prepare():
        values.append(len(values))
        return values[-1]

    return prepare


async def test_concurrent_requests_prepare_a_value_once():
    values, prepared = [], Prepared()
    assert await asyncio.gather(*(prepared.read(1, counter(values)) for _ in range(5))) == [0] * 5
    assert await prepared.read(1, counter(values)) == 0
    assert await prepared.read(2, counter(values)) == 1


async def test_a_value_is_prepared_again_for_new_inputs_and_not_for_equal_inputs():
    values, prepared, fleet = [], Prepared(), {1: "a"}
    assert await prepared.read(1, counter(values), fleet) == 0
    assert await prepared.read(1, counter(values), fleet) == 0
    assert await prepared.read(1, counter(values), {1: "a"}) == 1


@pytest.mark.parametrize(("more", "value"), [(-0.01, 0), (0.01, 1)])
async def test_a_value_is_prepared_again_when_it_expired(more, value):
    values, prepared = [], Prepared()
    await prepared.read(1, counter(values))
    prepared._last[1] = prepared._last[1]._replace(at=prepared._last[1].at - FRESH_SECONDS - more)
    assert await prepared.read(1, counter(values)) == value


async def test_a_value_prepared_from_older_inputs_is_not_returned_for_newer_ones():
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


async def test_an_error_is_raised_and_not_cached():
    values, prepared = [], Prepared()

    async def fails():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await prepared.read(1, fails)
    assert await prepared.read(1, counter(values)) == 0
