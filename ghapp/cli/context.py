"""Shared by all commands: settings, connections, the choice of installations, and output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import quote

import click

from ghapp import log
from ghapp.errors import ConfigurationError, GhappError
from ghapp.installations.installation import Installation
from ghapp.installations.scope import absence
from ghapp.settings import Settings
from ghapp.settings.settings import OF_CLIENTS, VARIABLES
from ghapp.untrusted_text import one_line
from ghapp.wording import DOCS, meant

if TYPE_CHECKING:
    from ghapp.store.stores import Stores

T = TypeVar("T")

PIPED_WIDTH = 250

NO_ORGANIZATION = (
    "no organization is known yet: the App is installed on none, or was not set up; `ghapp doctor` says which"
)


class UnknownOrgError(GhappError):
    """The command line names an organization where the App is not installed."""


class UnknownPoolError(GhappError):
    """The command line names a pool that the organization does not have."""


class UnknownRunnerError(GhappError):
    """The command line names a runner that is not known."""


class UnknownWorkflowJobError(GhappError):
    """The command line names a workflow job, or a run, that is not known."""


def settings_here(*, over_http: bool = False) -> Settings:
    """Reads the settings; without GHAPP_REDIS_URL, uses the local Redis of a running `ghapp up`.

    Args:
        over_http: True for a command that asks the server at GHAPP_URL if there is one; the other settings are then not
            read, so that their mistakes do not matter.
    """
    from ghapp.local.local_redis import is_listening

    ignored = set(VARIABLES) - set(OF_CLIENTS) if over_http and os.environ.get("GHAPP_URL") else ()
    settings = Settings.read({name: value for name, value in os.environ.items() if name not in ignored})
    log.configure(settings.log_format or "console", quiet=True)
    path = settings.state_dir / "redis" / "redis.sock"
    if settings.redis_url is None and is_listening(path):
        return replace(settings, redis_url=f"unix://{quote(str(path))}")
    return settings


def require_redis(settings: Settings) -> None:
    """Checks at the start of a role that Redis answers.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    from ghapp.store.connect import require

    if settings.redis_url is not None:
        require(settings.redis_url)


def no_such_org(org: str, known: Iterable[str]) -> str:
    """Returns the message for a scope that is not known, or that the token may not read."""
    names = [*known]
    return f"{org}: {absence(org)}; {meant(org, names, 'known are') if names else NO_ORGANIZATION}"


def no_such_pool(org: str | None, pool: str, known: Iterable[str]) -> str:
    """Returns the message for a pool that an organization (None: each of them) does not have."""
    has = f"{org} has no such pool" if org else "no organization has such a pool"
    return f"--pool {pool}: {has}; {meant(pool, known, 'known are')}"


async def chosen(installations: Any, org: str | None) -> list[Installation]:
    """Returns the installation of an org; all installations if `org` is None.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    known: list[Installation] = await installations.all()
    found = [each for each in known if org is None or each.answers_to(org)]
    if org is not None and not found:
        raise UnknownOrgError(no_such_org(org, (each.org for each in known)))
    return found


def require_redis_url(settings: Settings, *, over_http: bool = False) -> str:
    """Returns the URL of Redis.

    Args:
        settings: of this machine.
        over_http: True for a command that can also ask a server.

    Raises:
        ConfigurationError: it is not known; the message names the ways to run the command.
    """
    if settings.redis_url is not None:
        return settings.redis_url
    if settings.url is not None:
        raise ConfigurationError(
            "GHAPP_REDIS_URL: not set; this command does not work over GHAPP_URL, which serves the reading commands, "
            "doctor, sweep, pause, resume and gate"
        )
    ways = "set GHAPP_REDIS_URL" + (", or GHAPP_URL and GHAPP_TOKEN to ask a server" if over_http else NOT_OVER_HTTP)
    raise ConfigurationError(
        f"GHAPP_REDIS_URL: not set, and no `ghapp up` runs with the state directory {settings.state_dir} (a sandbox "
        f"prints the file with its variables, to be loaded); {ways}"
    )


NOT_OVER_HTTP = f"; GHAPP_URL serves other commands ({DOCS}/commands.md)"


@asynccontextmanager
async def opened(settings: Settings, *, over_http: bool = False) -> AsyncIterator[Stores]:
    """Yields the stores, closed at the end of the block; arguments and errors as of `require_redis_url`."""
    from ghapp.store.stores import open_stores

    async with open_stores(require_redis_url(settings, over_http=over_http), settings.named) as stores:
        yield stores


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine and returns its result."""
    return asyncio.run(work)


class _Screen:
    """Whether the next table is drawn on an empty terminal."""

    clears = False


def redraw() -> None:
    """Clears the terminal as soon as there is something new to show."""
    _Screen.clears = True


def exit_with(message: str, code: int, *more: str) -> NoReturn:
    """Prints each message in one line, and exits. They may quote anybody."""
    for each in (message, *more):
        click.echo(f"ghapp: {one_line(each)}", err=True)
    raise click.exceptions.Exit(code)


def show(renderable: Any) -> None:
    """Prints a table; in a pipe at full width, without colours and trailing blanks."""
    from rich.console import Console, Group

    if _Screen.clears:
        click.clear()
        _Screen.clears = False
    # A group, because `print` takes the lines of a text itself, and would break its words.
    console = Console(markup=False, emoji=False, highlight=False)
    if console.is_terminal:
        console.print(Group(renderable), crop=False)  # the terminal may wrap a line, but must not cut it
        return
    console = Console(width=PIPED_WIDTH, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(Group(renderable), crop=False)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
