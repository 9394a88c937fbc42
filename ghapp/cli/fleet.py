"""Look at the fleet: now, as it is known, and one runner of it."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ghapp.cli.opening import FAILED, chosen, opened, run, settings_here, show
from ghapp.errors import GhappError
from ghapp.settings import Settings


@click.command()
@click.option("--org", help="Only this organization.")
@click.option("--dry-run", is_flag=True, help="Record what is seen, and do nothing about it.")
def sweep(org: str | None, *, dry_run: bool) -> None:
    """Sweep now, in this process, and print what was found and what it cost.

    Example: ghapp sweep --org acme --dry-run
    """
    settings = settings_here()
    accounts = run(_sweep(settings, org, act=not dry_run))
    from ghapp.tables import sweeps_table

    show(sweeps_table(accounts))
    if any(account.flaw for account in accounts):
        sys.exit(FAILED)


async def _sweep(settings: Settings, org: str | None, *, act: bool) -> list[Any]:
    from rich.progress import Progress

    house_module = importlib.import_module("jobs.house")
    sweep_module = importlib.import_module("jobs.sweep")
    installations_module = importlib.import_module("jobs.installations")
    accounts = []
    async with house_module.open_house(settings) as house:
        await house.redis.ping()  # before GitHub is asked for what could not be kept
        await installations_module.discover_installations(house)
        for installation in await chosen(house.installations, org):
            with Progress(transient=True) as bar:
                pages = partial(bar.update, bar.add_task(f"{installation.org}: pages", total=None))
                account = await sweep_module.sweep_installation(
                    house, installation.id, act=act, progress=partial(_advance, pages)
                )
            if account is None:
                raise GhappError(f"{installation.org}: a sweep is under way elsewhere; try again in a moment")
            accounts.append(account)
    return accounts


def _advance(pages: Callable[..., None], done: int, of: int) -> None:
    pages(completed=done, total=of)


@click.command()
@click.option("--org", help="Only this organization.")
@click.option("--state", help="Only runners in this state.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def runners(org: str | None, state: str | None, *, as_json: bool) -> None:
    """The fleet as known now.

    Example: ghapp runners --org acme --state suspect
    """
    from ghapp.health.verdict import State

    if state is not None and state not in {each.value for each in State}:
        raise click.BadParameter(f"{state!r} is no state; states are {', '.join(State)}", param_hint="--state")
    documents = [each for each in run(_documents(settings_here(), org)) if state is None or each["state"] == state]
    if as_json:
        click.echo(json.dumps({"runners": documents, "total": len(documents)}, indent=2))
        return
    from ghapp.tables import runners_table

    show(runners_table(documents))


@click.command()
@click.argument("org")
@click.argument("name_or_id")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def explain(org: str, name_or_id: str, *, as_json: bool) -> None:
    """One runner: its evidence in order, its state, and why.

    Example: ghapp explain acme linux-4vcpu-x7k2p
    """
    found = [
        each
        for each in run(_documents(settings_here(), org))
        if each["name"] == name_or_id or str(each["runner_id"]) == name_or_id
    ]
    if not found:
        raise GhappError(f"{org} {name_or_id}: nobody has told us of such a runner; see `ghapp runners --org {org}`")
    document = max(found, key=lambda each: int(each["runner_id"]))
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    from ghapp.tables import explanation

    show(explanation(document))


async def _documents(settings: Settings, org: str | None) -> list[dict[str, Any]]:
    from ghapp.health.document import PoolStanding, health_document
    from ghapp.health.fuse import Fuse
    from ghapp.health.pools import pool_of
    from ghapp.health.verdict import judge
    from ghapp.store.fuses import WHOLE_ORG, Fuses
    from ghapp.store.installations import Installations
    from ghapp.store.runners import Runners

    documents = []
    now = time.time()
    async with opened(settings) as redis:
        for installation in await chosen(Installations(redis), org):
            rules, limits = settings.pools_of(installation.org), settings.of(installation.org).evidence
            survey = await Runners(redis).survey(installation.id)
            fuses, pauses = await Fuses(redis).all(installation.id), await Fuses(redis).pauses(installation.id)
            for evidence in (await Runners(redis).all(installation.id)).values():
                pool = pool_of(evidence.labels, evidence.custom_labels, rules)
                paused = WHOLE_ORG in pauses or pool in pauses
                standing = PoolStanding(fuses.get(pool, Fuse()).position, paused)
                verdict = judge(evidence, survey, now, limits)
                documents.append(health_document(installation.org, evidence, verdict, survey, standing, rules, now))
    return sorted(documents, key=lambda each: (each["org"], each["pool"], each["name"]))
