"""What commands share: what they run with, what they open, how they print."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from ghapp import log
from ghapp.errors import ConfigurationError, GhappError
from ghapp.health.installation import Installation
from ghapp.settings import Settings

T = TypeVar("T")

FAILED, MISUSED = 1, 2
PIPED_WIDTH = 250


class UnknownOrgError(GhappError):
    """The command line names an organization where the App is not installed."""


class UnknownPoolError(GhappError):
    """The command line names a pool that the organization does not have."""


def settings_here() -> Settings:
    """What a command runs with: where `ghapp up` keeps a Redis on this machine, that one will do."""
    settings = Settings.read(os.environ)
    log.configure(settings.log_format, quiet=True)
    path = settings.state_dir / "redis" / "redis.sock"
    if settings.redis_url is None and _answers(path):
        return replace(settings, redis_url=f"unix://{path}")
    return settings


def require_redis(settings: Settings) -> None:
    """At the start of a role, a Redis that is not there is a mistake, and said at once.

    Raises:
        RedisError: it does not answer.
    """
    from ghapp.store.connect import connect_sync

    if settings.redis_url is not None:
        with connect_sync(settings.redis_url) as redis:
            redis.ping()


async def chosen(installations: Any, org: str | None) -> list[Installation]:
    """The installation of an org, or without one all of them.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    known: list[Installation] = await installations.all()
    found = [each for each in known if org is None or each.answers_to(org)]
    if org is not None and not found:
        names = ", ".join(each.org for each in known) or "none"
        raise UnknownOrgError(f"{org}: the App is not installed there; installed are: {names}")
    return found


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Any]:
    """Redis, while the block runs."""
    from ghapp.store.connect import connect

    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set, and no `ghapp up` runs on this machine")
    redis = connect(settings.redis_url)
    try:
        yield redis
    finally:
        await redis.aclose()


def _answers(path: Path) -> bool:
    """Whether somebody listens: a Redis that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(str(path))
        except OSError:
            return False
    return True


def run(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns."""
    return asyncio.run(work)


def show(renderable: Any) -> None:
    """Print a table, as wide as it needs to be where nobody looks; no colours there, and no blanks at a line's end."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(renderable, crop=False)  # the terminal may wrap a line, but nothing of it is lost
        return
    console = Console(width=PIPED_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(renderable, crop=False)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
