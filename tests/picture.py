"""The picture in the README: the terminal at work, drawn from a real run. `make picture` makes it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from rich.console import Console, Group

from ghapp.local.dashboard import INCIDENT_RUNNERS, frames
from ghapp.local.up import Site, up
from ghapp.store.connect import connect
from ghapp.store.installations import Installations
from ghapp.store.runners import Runners

WIDTH = 118
PATIENCE_SECONDS = 120
CALM_FRAMES = 20


def take(site: Site) -> None:
    """Watch until the incident has healed, and write what the terminal showed then."""
    frame = asyncio.run(asyncio.wait_for(_healed(site), PATIENCE_SECONDS))
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(frame)  # the lines to paste are not of it: they bear a token
    Path(sys.argv[1]).write_text(console.export_svg(title="ghapp up --sandbox"))


async def _healed(site: Site) -> Group:
    redis = connect(site.settings.redis_url or "")
    calm = 0
    async for frame in frames(site):
        for installation in await Installations(redis).all():
            runners = (await Runners(redis).all(installation.id)).values()
            calm += sum(each.replaced_at is not None for each in runners) == INCIDENT_RUNNERS
        if calm == CALM_FRAMES:  # by then the replacements are online
            return frame
    raise AssertionError("frames never end")


if __name__ == "__main__":
    up(dict(os.environ), sandbox=True, show=take)
