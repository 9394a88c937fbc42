"""`ghapp deaths`: how runners died lately."""

from __future__ import annotations

import json
from typing import Any

import click

from ghapp.cli.context import chosen, opened, run, settings_here, show
from ghapp.health.deaths.cause import Cause
from ghapp.settings import Settings


@click.command(short_help="List how runners died lately.")
@click.option("--org", help="Only this organization (default: all).")
@click.option("--pool", help="Only runners of this pool.")
@click.option("--cause", type=click.Choice([each.value for each in Cause]), help="Only deaths of this cause.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Deaths to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def deaths(org: str | None, pool: str | None, cause: str | None, limit: int, *, as_json: bool) -> None:
    """List the deaths of runners of the last 30 days, the latest first, and count them by cause, pool, node and image.

    Clean exits are listed only with --cause clean-exit.

    Example: ghapp deaths --org acme --pool linux-4vcpu
    """
    found = run(death_documents(settings_here(), org, pool, cause, limit))
    if as_json:
        click.echo(json.dumps({"deaths": found}, indent=2))
        return
    from ghapp.terminal.death_tables import deaths_table

    show(deaths_table(found))


async def death_documents(
    settings: Settings, org: str | None, pool: str | None, cause: str | None, limit: int
) -> list[Any]:
    """Returns the documents of the latest deaths of an org, or of all orgs, each with its `org`.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    from ghapp.health.deaths.correlation import chooser
    from ghapp.health.deaths.death import Death
    from ghapp.report.documents import death_document

    is_chosen = chooser(pool, cause)

    def is_wanted(death: Death) -> bool:
        return is_chosen(death) and (cause is not None or death.cause is not Cause.CLEAN_EXIT)

    found: list[Any] = []
    async with opened(settings) as stores:
        for installation in await chosen(stores.installations, org):
            latest, _ = await stores.deaths.page(installation.id, is_wanted, limit)
            found += [(each.at, {"org": installation.org, **death_document(each)}) for each in latest]
    found.sort(key=lambda each: each[0], reverse=True)
    return [document for _, document in found[:limit]]
