"""What the terminal shows while `ghapp up` runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ghapp.health.installation import Installation
from ghapp.screen import frames
from ghapp.settings import Settings
from ghapp.store.installations import Installations


class Tended:
    """A site without roles, that counts how often it was looked after."""

    sandbox = None

    def __init__(self, url):
        self.tended = 0
        self.settings = Settings.read({"GHAPP_REDIS_URL": url})

    def tend(self):
        self.tended += 1


def drawn(frame, width):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(frame)
    return out.getvalue()


async def test_a_redis_that_does_not_answer_is_said_and_waited_for():
    site = Tended("redis://127.0.0.1:1/0")
    shown = frames(site)
    for turn in (1, 2):
        assert "Redis does not answer; it is asked again" in drawn(await anext(shown), 80)
        assert site.tended == turn, "the roles are looked after meanwhile"
    await shown.aclose()


@pytest.mark.parametrize("width", [80, 120])
async def test_its_table_is_whole_on_every_terminal(redis, redis_url, width):
    await Installations(redis).put(Installation(7, "acme", 70))
    shown = frames(Tended(redis_url))
    lines = drawn(await anext(shown), width).splitlines()
    await shown.aclose()
    assert "acme: 0 runners registered" in lines[0]
    assert lines[1].split()[1:3] == ["pool", "healthy"]
    assert lines[1].split()[-2] == "fuse"
    assert "…" not in "".join(lines)
    assert {len(line) for line in lines[: lines.index(next(each for each in lines if each.startswith("╰"))) + 1]} == {
        width
    }
