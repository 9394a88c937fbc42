"""Stop remediation, and let it go on."""

from __future__ import annotations

import getpass
import os
import time
from typing import Any

import click

from ghapp.cli.opening import UnknownPoolError, chosen, opened, run, settings_here
from ghapp.health.installation import Installation
from ghapp.settings import Settings


@click.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
@click.option("--why", required=True, help="Shown to whoever wonders.")
def pause(org: str, pool: str | None, why: str) -> None:
    """Stop remediation; looking and telling go on.

    Example: ghapp pause acme --pool linux-4vcpu --why "network maintenance"
    """
    name = run(_pause(settings_here(), org, pool, why))
    beside = f" --pool {pool}" if pool else ""
    click.echo(f"paused: {name}{'/' + pool if pool else ''}, until `ghapp resume {name}{beside}`")


@click.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
def resume(org: str, pool: str | None) -> None:
    """End pauses, and let stopped fuses prove anew.

    Without a pool the whole organization goes on: its own pause ends, and each pool's.

    Example: ghapp resume acme --pool linux-4vcpu
    """
    for line in run(_resume(settings_here(), org, pool)):
        click.echo(line)


async def _pause(settings: Settings, org: str, pool: str | None, why: str) -> str:
    """Pause, and say how the org writes its name.

    Raises:
        UnknownPoolError: a name that was mistyped would stop nothing.
    """
    from ghapp.store.fuses import WHOLE_ORG, Fuses, Pause
    from ghapp.store.installations import Installations

    async with opened(settings) as redis:
        (installation,) = await chosen(Installations(redis), org)
        if pool is not None and pool not in (known := await _pools(settings, redis, installation)):
            names = ", ".join(sorted(known)) or "none"
            raise UnknownPoolError(f"--pool {pool}: {installation.org} has no such pool; it has {names}")
        await Fuses(redis).pause(installation.id, pool or WHOLE_ORG, Pause(_user(), why, time.time()))
        return installation.org


async def _pools(settings: Settings, redis: Any, installation: Installation) -> set[str]:
    """The configured ones, those that runners are in, and those that have a fuse."""
    from ghapp.health.pools import pool_of
    from ghapp.store.fuses import Fuses
    from ghapp.store.runners import Runners

    rules = settings.pools_of(installation.org)
    runners = (await Runners(redis).all(installation.id)).values()
    return {
        *(rule.name for rule in rules),
        *(pool_of(each.labels, each.custom_labels, rules) for each in runners),
        *await Fuses(redis).all(installation.id),
    }


async def _resume(settings: Settings, org: str, pool: str | None) -> list[str]:
    """Resume, have it looked at, and say what was done for each pool."""
    from ghapp.store.connect import connect_sync
    from ghapp.store.fuses import WHOLE_ORG, Fuses
    from ghapp.store.installations import Installations
    from ghapp.work import ask_for_sweep

    async with opened(settings) as redis:
        (installation,) = await chosen(Installations(redis), org)
        fuses = Fuses(redis)
        limits = settings.of(installation.org).fuse
        done = await fuses.resume(installation, pool, _user(), time.time(), limits)
        org_pause = (await fuses.pauses(installation.id)).get(WHOLE_ORG)
    said = [
        f"resumed: {installation.org}{'' if name == WHOLE_ORG else '/' + name}, paused by {pause.who}: {pause.why}"
        for name, pause in done.ended.items()
    ]
    said += [f"fuse proves anew: {installation.org}/{name}" for name in done.proving]
    if org_pause is not None:
        said.append(f"still paused: {installation.org}, by {org_pause.who}: {org_pause.why}")
    if done and settings.redis_url is not None:
        with connect_sync(settings.redis_url) as desk:
            ask_for_sweep(desk, installation.id)
    return said or ["nothing was paused or stopped"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid {os.getuid()}"
