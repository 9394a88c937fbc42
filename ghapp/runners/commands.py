"""`ghapp sweep`, `ghapp runners`, `ghapp explain`: the fleet and its runners."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import click

from ghapp.cli.api_client import ApiClient, FleetDocuments
from ghapp.cli.api_connection import query, require_pool
from ghapp.cli.completion import complete_runners
from ghapp.cli.context import NO_ORGANIZATION, chosen, require_redis_url, run, settings_here, show
from ghapp.cli.options import (
    ORG,
    ORG_ARGUMENT,
    POOL,
    WATCH,
    WEB,
    CommandOutput,
    NameChoice,
    OutputCommand,
    json_fields,
    links,
    links_of,
    open_page,
    sort,
)
from ghapp.errors import GhappError
from ghapp.exit_codes import FAILED
from ghapp.report.documents import HEALED, NO_SUCCESSOR, HealthDocument
from ghapp.runners.verdict import State
from ghapp.settings import Settings

ILL = ("invalidated", "suspect", "offline", "unknown")
WORST_FIRST = (*ILL, "starting", "retired", "healthy")
REMOTE_SWEEP_SECONDS = 60.0
MOST_LISTED = 50
"""Runners in a table without `--limit`."""

MOST_WELL = 20
"""Runners in a table of which none is ill and none was asked for: more are counted by pool."""


@click.command(short_help="Sweep now; print what was found and what it cost.")
@ORG
@click.option("--dry-run", is_flag=True, help="Record observations, but remove and replace nothing.")
def sweep(org: str | None, *, dry_run: bool) -> None:
    """Sweep now, in this process, and print what was found, the calls it cost, and what happens next to lost runners.

    With GHAPP_URL a worker of the server sweeps, and acts as the mode there says.

    Example: ghapp sweep --org acme --dry-run
    """
    settings = settings_here(over_http=True)
    if settings.url is not None:
        if dry_run:
            raise click.UsageError("--dry-run does not work over GHAPP_URL: the server's sweep acts as its mode says")
        _sweep_remotely(settings.url, settings.token, org)
        return
    require_redis_url(settings, over_http=True)
    results = run(_sweep(settings, org, act=not dry_run))
    from ghapp.terminal.tables import sweeps_table

    show(sweeps_table(results))
    if any(result.flaw for result in results):
        sys.exit(FAILED)


def _sweep_remotely(url: str, token: str | None, org: str | None) -> None:
    from ghapp.cli.api_connection import over_http
    from ghapp.terminal.tables import remote_sweeps_text

    async def sweep() -> list[Any]:
        async with over_http(url, token) as remote:
            return await remote.sweep(org, REMOTE_SWEEP_SECONDS)

    results = run(sweep())
    show(remote_sweeps_text(results))
    if any(result.failed for result in results):
        sys.exit(FAILED)


async def _sweep(settings: Settings, org: str | None, *, act: bool) -> list[Any]:
    from rich.console import Console

    from ghapp.cli.record_change import change
    from ghapp.terminal.pages_bar import pages_bar
    from jobs.context import open_context
    from jobs.installations.discover import discover_installations
    from jobs.runners.sweep import sweep_installation

    results = []
    # What a sweep did, and why it failed, is printed with its table; the traceback of an error of ghapp's own is not.
    for handler in logging.getLogger().handlers:
        handler.addFilter(_has_traceback)
    async with open_context(settings) as context:
        await context.redis.ping()  # before any request to GitHub whose answer could not be stored
        await discover_installations(context)
        for installation in await chosen(context.installations, org):
            async with change(context, installation.id, "sweep" if act else "dry sweep", "") as outcome:
                with pages_bar(installation.org, Console(), is_shown=sys.stdout.isatty()) as advance:
                    result = await sweep_installation(
                        context, installation.id, act=act, progress=advance, with_losses=True
                    )
                if result is None:
                    outcome.set("another process is sweeping", has_effect=False)
                else:
                    outcome.set(result.outcome)
            if result is None:
                raise GhappError(f"{installation.org}: another process is sweeping it; try again in a moment")
            results.append(result)
    return results


def _has_traceback(record: logging.LogRecord) -> bool:
    return isinstance(record.msg, dict) and bool(record.msg.get("exc_info"))


@click.command(cls=OutputCommand, short_help="List the runners as last known.")
@ORG
@POOL
@click.option(
    "--state",
    type=NameChoice([*(each.value for each in State), HEALED, NO_SUCCESSOR], {"lost": State.INVALIDATED.value}),
    help="Only runners in this state, or whose loss ended so.",
)
@click.option("--all", "everyone", is_flag=True, help="Also runners retired or healed within the last 24 hours.")
@sort(worst="the ill ones first", name="by organization, pool and name", seen="seen longest ago first")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Runners to list (default: the ill ones; if none is ill, up to {MOST_WELL}; all in JSON).",
)
@WATCH
@WEB
@json_fields(HealthDocument, headers={"runner": "name", "id": "runner_id", "seen": "observed_at"})
def runners(
    org: str | None,
    pool: str | None,
    state: str | None,
    sort: str,
    limit: int | None,
    *,
    everyone: bool,
    web: bool,
    output: CommandOutput,
) -> None:
    """List the runners as last known, the pools' queues, and phantoms: pods and objects that count as runners.

    The table has the ill runners, if any is ill; the others are counted below it, and --limit lists them, too. More
    than 20 runners of which none is ill are counted by pool.

    Retired and healed runners are counted but not listed, unless --all or --state selects them: invalidated are those
    whose replacement runner is not online yet.

    Example: ghapp runners --org acme --state suspect
    """
    from ghapp.report.documents import is_past, listed_state

    if web:
        shown = "all" if everyone else state
        open_page(pages.selected("runners", pool=pool, state=shown) if (pages := links_of(org)) else links("").home)
        return

    async def read(client: ApiClient) -> FleetDocuments:
        whole = await client.fleet(org)
        if not whole.headlines:  # each organization has one
            click.echo(f"ghapp: {NO_ORGANIZATION}", err=True)
        found = _of_pool(whole, pool)
        if not found.runners and not found.pools:
            await require_pool(client, org, pool)
        return found

    fleet = query(read)
    known = fleet.runners
    left = [each for each in known if is_past(each)]
    is_past_too = everyone or state in (State.RETIRED, HEALED, NO_SUCCESSOR)
    current = known if is_past_too else [each for each in known if each not in left]
    documents = [each for each in current if state in (None, each["state"], listed_state(each))]
    if sort == "worst":
        documents.sort(key=lambda each: (is_past(each), WORST_FIRST.index(each["state"])))
    if sort == "seen":
        documents.sort(key=lambda each: each["observed_at"] or "")
    if output.is_json:
        listed = documents[:limit]
        output.print(_fleet_document(fleet, listed, len(documents)), listed)
        return
    from ghapp.terminal.job_tables import pools_table
    from ghapp.terminal.tables import headlines_text, no_runners, past_line, phantoms_table, runners_table

    now = time.time()
    show(headlines_text(fleet.headlines, fleet.notes, now))
    left_out = [each for each in left if each not in current and state in (None, each["state"])]
    ill = sum(not is_past(each) and each["state"] in ILL for each in documents)
    is_chosen = state is not None or everyone or sort != "worst" or limit is not None
    is_by_pool = not is_chosen and not ill and len(documents) > MOST_WELL
    if not documents:
        show(no_runners(state, (f"pool {pool}" if pool else "", org or ""), len(current)))
    elif is_by_pool:
        show(pools_table(fleet.pools, documents, now))
        click.echo(f" {len(documents)} runners, each healthy or starting; --state healthy or --limit lists them")
    else:
        listed_count = limit or min(MOST_LISTED if is_chosen or not ill else ill, MOST_LISTED)
        show(runners_table(documents, len(current), now, listed_count, fleet.phantoms))
    if left_out:
        show(past_line(left_out))
    if not is_by_pool and any(each["queued"] for each in fleet.pools):
        show(pools_table(fleet.pools, (), now))
    if fleet.phantoms:
        show(phantoms_table(fleet.phantoms, now))


def _of_pool(fleet: FleetDocuments, pool: str | None) -> FleetDocuments:
    """Returns what concerns one pool (None: all); pauses and fuses of the whole organization concern each."""
    if pool is None:
        return fleet
    return fleet._replace(
        runners=[each for each in fleet.runners if each["pool"] == pool],
        phantoms=[each for each in fleet.phantoms if each["pool"] == pool],
        headlines=[each for each in fleet.headlines if each["pool"] in (None, pool)],
        held=[each for each in fleet.held if each["pool"] in (None, pool)],
        pools=[each for each in fleet.pools if each["pool"] == pool],
    )


def _fleet_document(fleet: FleetDocuments, listed: list[HealthDocument], total: int) -> dict[str, Any]:
    """Returns what `--json` prints; `total` is the number of runners that match."""
    return {
        "headlines": fleet.headlines,
        "runners": listed,
        "total": total,
        "healed": sum(each["healed"] for each in fleet.runners),
        "retired": sum(each["state"] == "retired" for each in fleet.runners),
        "held": fleet.held,
        "pools": fleet.pools,
        "phantoms": fleet.phantoms,
    }


@click.command(cls=OutputCommand, short_help="Show one runner: its state, and the evidence for it.")
@ORG_ARGUMENT
@click.argument("name_or_id", shell_complete=complete_runners)
@WATCH
@WEB
@json_fields(HealthDocument, more=["death", "phantoms", "may_be_phantom", "leaks"])
def explain(org: str, name_or_id: str, *, web: bool, output: CommandOutput) -> None:
    """Show one runner: its evidence in order, its state and reason, and its death if it died.

    If its pod or ARC object is a phantom, the command to copy is shown.

    Example: ghapp explain acme linux-4vcpu-x7k2p
    """

    async def read(client: ApiClient) -> tuple[dict[str, Any], str | None]:
        return await client.runner(org, name_or_id), client.page_url

    document, page_url = query(read)
    if output.is_json:
        output.print(document)
        return
    from ghapp.report.links import PageLinks
    from ghapp.terminal.tables import explanation

    pages = links(document["org"]) if web else PageLinks(page_url, document["org"])
    is_only_dead = document["death"] is not None and not document["evidence"]  # its record was deleted
    if is_only_dead:
        page = pages.death(document["name"])
    elif document["runner_id"] is None:  # a phantom that GitHub never listed
        page = pages.overview
    else:
        page = pages.runner(document["runner_id"])
    if web:
        open_page(page)
    else:
        show(explanation(document, page))
