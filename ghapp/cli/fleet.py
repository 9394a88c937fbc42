"""`ghapp sweep`, `ghapp runners`, `ghapp explain`: the fleet and its runners."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ghapp.cli.backend import Backend, query
from ghapp.cli.context import FAILED, chosen, run, settings_here, show
from ghapp.errors import GhappError
from ghapp.settings import Settings


@click.command(short_help="Sweep now; print what was found and what it cost.")
@click.option("--org", help="Only this organization (default: all).")
@click.option("--dry-run", is_flag=True, help="Record observations, but remove and replace nothing.")
def sweep(org: str | None, *, dry_run: bool) -> None:
    """Sweep now, in this process, and print what was found and the calls it cost.

    Example: ghapp sweep --org acme --dry-run
    """
    settings = settings_here()
    results = run(_sweep(settings, org, act=not dry_run))
    from ghapp.terminal.tables import sweeps_table

    show(sweeps_table(results))
    if any(result.flaw for result in results):
        sys.exit(FAILED)


async def _sweep(settings: Settings, org: str | None, *, act: bool) -> list[Any]:
    from rich.progress import Progress

    from jobs.context import open_context
    from jobs.deliveries.installations import discover_installations
    from jobs.runners.sweep import sweep_installation

    results = []
    async with open_context(settings) as context:
        await context.redis.ping()  # before any request to GitHub whose answer could not be stored
        await discover_installations(context)
        for installation in await chosen(context.installations, org):
            with Progress(transient=True, disable=not sys.stdout.isatty()) as bar:
                pages = partial(bar.update, bar.add_task(f"{installation.org}: pages", total=None))
                result = await sweep_installation(context, installation.id, act=act, progress=partial(_advance, pages))
            if result is None:
                raise GhappError(f"{installation.org}: another process is sweeping it; try again in a moment")
            results.append(result)
    return results


def _advance(pages: Callable[..., None], done: int, of: int) -> None:
    pages(completed=done, total=of)


@click.command(short_help="List the runners as last known.")
@click.option("--org", help="Only this organization (default: all).")
@click.option("--state", help="Only runners in this state.")
@click.option("--all", "everyone", is_flag=True, help="Also runners retired or healed within the last 24 hours.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def runners(org: str | None, state: str | None, *, everyone: bool, as_json: bool) -> None:
    """List the runners as last known, the pools' queues, and phantoms: pods and objects that count as runners.

    Retired and healed runners are counted but not listed, unless --all or --state selects them.

    Example: ghapp runners --org acme --state suspect
    """
    from ghapp.health.runner.verdict import State

    if state is not None and state not in {each.value for each in State}:
        raise click.BadParameter(f"{state!r} is not a state; states are {', '.join(State)}", param_hint="--state")
    known = query(lambda backend: backend.fleet(org))
    left = [each for each in known.runners if each["healed"] or each["state"] == State.RETIRED]
    if state is not None:
        documents = [each for each in known.runners if each["state"] == state]
    else:
        documents = known.runners if everyone else [each for each in known.runners if each not in left]
    if as_json:
        document = {
            "runners": documents,
            "total": len(documents),
            "healed": sum(each["healed"] for each in known.runners),
            "retired": sum(each["state"] == State.RETIRED for each in known.runners),
            "held": known.held,
            "pools": known.pools,
            "phantoms": known.phantoms,
            "unseen": known.unseen,
        }
        click.echo(json.dumps(document, indent=2))
        return
    from ghapp.terminal.job_tables import queue_table
    from ghapp.terminal.tables import held_lines, phantoms_table, runners_table, unseen_line

    show(runners_table(documents, [] if state is not None or everyone else left))
    if any(each["queued"] for each in known.pools):
        show(queue_table(known.pools))
    if known.held:
        show(held_lines(known.held))
    if known.phantoms:
        show(phantoms_table(known.phantoms))
    if known.unseen:
        show(unseen_line(known.unseen, time.time()))


@click.command(short_help="Show one runner: its state, and the evidence for it.")
@click.argument("org")
@click.argument("name_or_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(org: str, name_or_id: str, *, as_json: bool) -> None:
    """Show one runner: its evidence in order, its state and reason, and its death if it died.

    Example: ghapp explain acme linux-4vcpu-x7k2p
    """

    async def read(backend: Backend) -> tuple[dict[str, Any], str | None]:
        return await backend.runner(org, name_or_id), backend.page_url

    document, page_url = query(read)
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    from ghapp.report.links import PageLinks
    from ghapp.terminal.tables import explanation

    links = PageLinks(page_url, document["org"])
    is_only_dead = document["death"] is not None and not document["evidence"]  # its record was deleted
    page = links.death(document["name"]) if is_only_dead else links.runner(document["runner_id"])
    show(explanation(document, page))
