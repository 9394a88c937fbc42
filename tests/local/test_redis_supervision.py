"""`ghapp up` tends its roles until it is interrupted, once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from ghapp.local.up import Site


class Started:
    """A role that counts how often it was looked after."""

    def __init__(self):
        self.tended = 0

    def restart_if_exited(self):
        self.tended += 1


def site_of(role, tmp_path):
    return Site({"GHAPP_STATE_DIR": str(tmp_path)}, None, lambda _name, _environ: role)


async def test_an_interruption_that_a_library_has_swallowed_ends_it_at_the_next_turn(tmp_path):
    role = Started()
    site = site_of(role, tmp_path)

    async def draw():
        for _ in range(3):
            site.supervise()
            with suppress(asyncio.CancelledError):  # as Redis' client does, on Python 3.11
                await asyncio.sleep(0)

    task = asyncio.create_task(draw())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert role.tended == 1


async def test_a_command_that_is_not_interrupted_continues(tmp_path):
    role = Started()
    site = site_of(role, tmp_path)
    await asyncio.gather(*(asyncio.to_thread(site.supervise), asyncio.sleep(0)))
    site.supervise()
    assert role.tended == 2


def test_it_can_be_tended_without_a_loop(tmp_path):
    role = Started()
    site_of(role, tmp_path).supervise()
    assert role.tended == 1
