"""`ghapp up`, which runs everything on one machine, and one command per role."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ghapp import log
from ghapp.addresses import listen
from ghapp.cli.context import exit_with, require_redis
from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.exit_codes import REDIS_UNAVAILABLE
from ghapp.settings import Settings
from ghapp.settings.settings import DEFAULT_LISTEN
from ghapp.wording import DOCS

if TYPE_CHECKING:
    from ghapp.doctor.finding import Finding


class RoleCommand(click.Command):
    """A command that is one role. A Redis that does not answer has an exit code of its own: it is no wrong usage."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the role."""
        try:
            return super().invoke(ctx)
        except StoreUnavailableError as error:
            exit_with(str(error), REDIS_UNAVAILABLE)


@click.command(short_help="Run everything on this machine.")
@click.option("--sandbox", is_flag=True, help="Use a simulated GitHub with a simulated fleet; needs no account.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the web role (default: as in GHAPP_LISTEN).")
@click.option("--scenario", metavar="NAME", help=f"With --sandbox: the one incident to start; see {DOCS}/tour.md.")
@click.option("--no-browser", is_flag=True, help="Print the address of the page, and open no browser.")
def up(*, sandbox: bool, port: int | None, scenario: str | None, no_browser: bool) -> None:
    """Run everything on this machine, until Ctrl-C or until the terminal is closed.

    Example: ghapp up --sandbox --scenario mass-loss
    """
    from contextlib import suppress
    from functools import partial

    from ghapp.local.dashboard import show
    from ghapp.local.scenarios import DEFAULT, scenario_called
    from ghapp.local.up import up as run_all

    if scenario is not None and not sandbox:
        raise ConfigurationError("--scenario: needs --sandbox; nothing of a real fleet is broken on purpose")
    chosen = DEFAULT if scenario is None else (scenario_called(scenario),)
    try:
        address = {} if port is None else {"GHAPP_LISTEN": _with_port(os.environ.get("GHAPP_LISTEN"), port)}
        run_all(
            {**os.environ, **address},
            sandbox=sandbox,
            show=partial(show, scenarios=chosen, browser=not no_browser),
            report=partial(click.echo, err=True),
        )
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be closed
            click.echo("stopped")


def _with_port(value: str | None, port: int) -> str:
    """Returns `GHAPP_LISTEN` with another port."""
    host, _ = listen(value or DEFAULT_LISTEN)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@click.command(cls=RoleCommand, short_help="Serve HTTP: webhook, API, pages.")
def web() -> None:
    """Serve HTTP: the webhook, the API, the pages, and health checks.

    Example: GHAPP_REDIS_URL=redis://redis:6379/0 GHAPP_LISTEN=0.0.0.0:8000 ghapp web
    """
    from ghapp.local.port_check import require_free

    settings = read()
    require_redis(settings)
    require_free(*settings.listen)  # before what takes a second to import
    from ghapp.web.app import serve

    def examine() -> Sequence[Finding]:
        from ghapp.doctor import runner  # imports githubkit, which the role does without at its start

        settings = Settings.read(os.environ)  # /setup may have stored credentials since the start
        return asyncio.run(runner.examine(settings, os.environ, by_web_role=True))

    serve(settings, examine)


@click.command(cls=RoleCommand)
def worker() -> None:
    """Run RQ jobs: sweeps, confirmations, remediations, events.

    Example: GHAPP_REDIS_URL=redis://redis:6379/0 ghapp worker
    """
    from jobs.worker import run

    run(read())


@click.command(cls=RoleCommand)
def clock() -> None:
    """Schedule sweeps and periodic tasks for the workers. Two may run.

    Example: GHAPP_REDIS_URL=redis://redis:6379/0 ghapp clock
    """
    from jobs.scheduler import run_scheduler

    asyncio.run(run_scheduler(read()))


@click.command(cls=RoleCommand, short_help="Watch runners' pods in Kubernetes.")
def watch() -> None:
    """Watch runners' pods in Kubernetes, and record how each ends. Two may run; one of them records.

    Example: KUBECONFIG=~/.kube/config GHAPP_CONFIG=ghapp.toml GHAPP_REDIS_URL=redis://redis:6379/0 ghapp watch
    """
    from jobs.pods.watch import watch

    asyncio.run(watch(read()))


def read() -> Settings:
    """Reads a role's settings, and sets up its logging."""
    settings = Settings.read(os.environ)
    log.configure(settings.log_format)
    return settings
