"""`ghapp pause`, `ghapp resume`: stop and restart remediation."""

from __future__ import annotations

import getpass
import os
import time
from typing import TYPE_CHECKING

import click

from ghapp.cli.context import UnknownPoolError, chosen, opened, run, settings_here
from ghapp.health.installation import Installation
from ghapp.settings import Settings

if TYPE_CHECKING:
    from ghapp.store.stores import Stores


@click.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
@click.option("--why", required=True, help="Reason shown in reports and in doctor.")
def pause(org: str, pool: str | None, why: str) -> None:
    """Stop remediation; sweeps and reports continue. An existing pause is kept, with its reason.

    Example: ghapp pause acme --pool linux-4vcpu --why "network maintenance"
    """
    for line in run(_pause(settings_here(), org, pool, why)):
        click.echo(line)


@click.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
def resume(org: str, pool: str | None) -> None:
    """Clear pauses and restart stopped fuses.

    Without --pool this concerns the whole organization: its own pause and fuse, and those of each pool.

    Example: ghapp resume acme --pool linux-4vcpu
    """
    for line in run(_resume(settings_here(), org, pool)):
        click.echo(line)


async def _pause(settings: Settings, org: str, pool: str | None, why: str) -> list[str]:
    """Pauses, and returns lines with the pause that is in effect.

    Raises:
        UnknownPoolError: there is no such pool; a mistyped name would stop nothing.
    """
    from ghapp.report.documents import timestamp
    from ghapp.store.fuses import WHOLE_ORG, Pause

    async with opened(settings) as stores:
        (installation,) = await chosen(stores.installations, org)
        await _require_pool(settings, stores, installation, pool)
        pause = Pause(_user(), why, time.time())
        first = await stores.fuses.pause(installation.id, pool or WHOLE_ORG, pause)
    name = installation.org
    whole = pool in (None, WHOLE_ORG)
    until = f"`ghapp resume {name}{'' if whole else f' --pool {pool}'}`"
    subject = _named(name, pool or WHOLE_ORG)
    if first == pause:
        return [f"paused: {subject}, until {until}"]
    return [
        f"already paused: {subject}, by {first.who} since {timestamp(first.at)}: {first.why}",
        f"that pause lasts until {until}; your reason was not recorded",
    ]


async def _require_pool(settings: Settings, stores: Stores, installation: Installation, pool: str | None) -> None:
    """Raises UnknownPoolError if the organization has no pool of that name; `*` stands for all pools."""
    from ghapp.store.fuses import WHOLE_ORG

    if pool is None or pool == WHOLE_ORG or pool in (known := await _pools(settings, stores, installation)):
        return
    names = ", ".join(sorted(known)) or "none"
    raise UnknownPoolError(f"--pool {pool}: {installation.org} has no such pool; it has {names}")


async def _pools(settings: Settings, stores: Stores, installation: Installation) -> set[str]:
    """Returns the configured pools, those of known runners, and those with a fuse or a pause."""
    from ghapp.store.fuses import WHOLE_ORG
    from ghapp.store.org_views import load_org_view

    view = await load_org_view(stores, installation, settings)
    runners = (await stores.runners.all(installation.id)).values()
    return view.pools(runners) - {WHOLE_ORG}


async def _resume(settings: Settings, org: str, pool: str | None) -> list[str]:
    """Resumes, makes a sweep due, and returns lines with the result for each pool and what is still paused or stopped.

    Raises:
        UnknownPoolError: there is no such pool; a mistyped name would resume nothing.
    """
    from ghapp.health.remediation.fuse import Position
    from ghapp.store.fuses import WHOLE_ORG

    async with opened(settings) as stores:
        (installation,) = await chosen(stores.installations, org)
        await _require_pool(settings, stores, installation, pool)
        fuses, name = stores.fuses, installation.org
        limits = settings.of(name).fuse
        done = await fuses.resume(installation, pool, _user(), time.time(), limits)
        org_pause = (await fuses.pauses(installation.id)).get(WHOLE_ORG)
        whole = (await fuses.all(installation.id)).get(WHOLE_ORG)
        if done:
            await stores.schedule.due_at(installation.id, time.time())
    output = [
        f"resumed: {_named(name, each)}, paused by {pause.who}: {pause.why}" for each, pause in done.ended.items()
    ]
    output += [f"fuse restarted, now proving: {_named(name, each, 'the whole installation')}" for each in done.proving]
    if org_pause is not None:
        output.append(f"still paused: {name}, by {org_pause.who}: {org_pause.why}")
    if whole is not None and whole.position is Position.STOPPED:
        output.append(f"still stopped: the fuse of the whole installation ({whole.reason}); `ghapp resume {name}`")
    return output or ["nothing was paused or stopped"]


def _named(org: str, pool: str, whole: str = "") -> str:
    """Returns `org/pool`; for the whole organization its name, with the suffix `whole` where that is ambiguous."""
    from ghapp.store.fuses import WHOLE_ORG

    if pool != WHOLE_ORG:
        return f"{org}/{pool}"
    return f"{org}, {whole}" if whole else org


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return f"uid {os.getuid()}"
