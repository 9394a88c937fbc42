"""`ghapp deaths`: how runners died lately."""

from __future__ import annotations

import click

from ghapp.cli.api_connection import query_of_pool
from ghapp.cli.context import show
from ghapp.cli.options import (
    ORG,
    POOL,
    WATCH,
    WEB,
    CommandOutput,
    NameChoice,
    OutputCommand,
    json_fields,
    limit,
    links,
    links_of,
    open_page,
    sort,
)
from ghapp.deaths.cause import Cause
from ghapp.report.documents import DeathDocument


@click.command(cls=OutputCommand, short_help="List how runners died lately.")
@ORG
@POOL
@click.option("--cause", type=NameChoice([each.value for each in Cause]), help="Only those of this cause.")
@sort(time="the latest first", cause="by cause", pool="by pool")
@limit("Deaths")
@WATCH
@WEB
@json_fields(DeathDocument, more=["org"], headers={"runner": "runner_name", "died": "at", "ended": "at"})
def deaths(
    org: str | None, pool: str | None, cause: str | None, sort: str, limit: int, *, web: bool, output: CommandOutput
) -> None:
    """List the deaths of runners of the last 30 days, the latest first, and count them by cause, pool, node and image.

    Clean exits are no deaths: they are listed and counted only with --cause clean-exit.

    Example: ghapp deaths --org acme --pool linux-4vcpu
    """
    if web:
        open_page(pages.selected("deaths", pool=pool, cause=cause) if (pages := links_of(org)) else links("").home)
        return
    found = query_of_pool(lambda client: client.deaths(org, pool, cause, limit + 1), org, pool)
    has_more = len(found) > limit
    found = found[:limit]
    if sort != "time":
        found.sort(key=lambda each: each[sort])
    if output.is_json:
        output.print({"deaths": found}, found)
        return
    import time

    from ghapp.terminal.death_tables import deaths_table

    show(deaths_table(found, time.time(), has_more=has_more, are_clean=cause == Cause.CLEAN_EXIT))
