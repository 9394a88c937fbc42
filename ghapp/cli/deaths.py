"""`ghapp deaths`: how runners died lately."""

from __future__ import annotations

import json

import click

from ghapp.cli.backend import query
from ghapp.cli.context import show
from ghapp.health.deaths.cause import Cause


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
    found = query(lambda backend: backend.deaths(org, pool, cause, limit))
    if as_json:
        click.echo(json.dumps({"deaths": found}, indent=2))
        return
    from ghapp.terminal.death_tables import deaths_table

    show(deaths_table(found))
