"""The pictures in the README: the terminal and the page at work, from one real run. `make picture` makes them."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, async_playwright
from rich.console import Console, Group

from ghapp.incidents.store import Incidents
from ghapp.installations.store import Installations
from ghapp.local.dashboard import frames
from ghapp.local.scenarios import DEFAULT, INCIDENT_RUNNERS, Director
from ghapp.local.up import Site, up
from ghapp.store.connect import connect
from ghapp.web.pages.page_key import PARAMETER
from tests.support.chromium import chromium_path
from tests.support.waiting import wait_for

WIDTH = 118
PATIENCE_SECONDS = 120
CALM_FRAMES = 4
SCREEN = (1200, 700)
SCHEMES = ("light", "dark")
MOST_BYTES = 200_000


def take(site: Site) -> None:
    """Watches until the incident has healed; writes the page amid the incident, and what the terminal showed then."""
    folder = Path(sys.argv[1])
    frame = asyncio.run(asyncio.wait_for(_healed(site, folder), PATIENCE_SECONDS))
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(frame)  # the lines to paste are not of it: they bear a token
    (folder / "terminal.svg").write_text(console.export_svg(title="ghapp up --sandbox"))


async def _healed(site: Site, folder: Path) -> Group:
    redis = connect(site.settings.redis_url or "")
    calm, shots = 0, dict[str, bytes]()
    async with _pages(site) as pages:
        async for now in frames(site, None if site.sandbox is None else Director(site.sandbox, DEFAULT)):
            if len(shots) < len(SCHEMES):
                shots = await _incident(pages)
            for installation in await Installations(redis).all():
                incidents = (await Incidents(redis).all(installation.id)).values()
                calm += any(len(each.losses) == INCIDENT_RUNNERS and not each.is_open for each in incidents)
            if calm == CALM_FRAMES:  # by then the frame shows it, too
                frame = now
                break
    await redis.aclose()
    if len(shots) < len(SCHEMES):
        raise AssertionError("the page never showed the incident")
    for scheme, shot in shots.items():
        if len(shot) > MOST_BYTES:
            raise AssertionError(f"the picture of the page in {scheme} has {len(shot)} bytes")
        (folder / f"page-{scheme}.png").write_bytes(shot)
    return frame


def listens(host: str, port: int) -> bool:
    """Whether the web role accepts connections."""
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0


@asynccontextmanager
async def _pages(site: Site) -> AsyncIterator[Mapping[str, Page]]:
    """Yields a tab of each colour scheme."""
    path = chromium_path()
    if path is None:
        raise SystemExit("there is no Chromium on PATH; install it to draw the page")
    host, port = site.settings.listen
    size = {"width": SCREEN[0], "height": SCREEN[1]}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        pages = {each: await browser.new_page(color_scheme=each, viewport=size) for each in SCHEMES}
        await asyncio.to_thread(wait_for, lambda: listens(host, port))
        for page in pages.values():
            await page.goto(f"http://{host}:{port}/orgs/acme?{PARAMETER}={site.page_key}")
        yield pages
        await browser.close()


async def _incident(pages: Mapping[str, Page]) -> dict[str, bytes]:
    """Returns a picture of each tab if all of them show the incident; else none."""
    for page in pages.values():
        if not await page.locator("[data-live]").count():  # there is no organization before the first discovery
            await page.reload()
        if not await page.get_by_text(re.compile(r"runners of \S+ are lost")).count():
            return {}
    return {scheme: await page.screenshot() for scheme, page in pages.items()}


if __name__ == "__main__":
    up(dict(os.environ), sandbox=True, show=take, report=print)
