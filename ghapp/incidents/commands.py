"""`ghapp incidents`: which losses belong together, and whether they are healed."""

from __future__ import annotations

import click

from ghapp.cli.api_connection import query
from ghapp.cli.context import show
from ghapp.cli.options import (
    ORG,
    WATCH,
    WEB,
    CommandOutput,
    OutputCommand,
    json_fields,
    limit,
    links,
    links_of,
    open_page,
)
from ghapp.incidents.documents import IncidentDocument


@click.command(cls=OutputCommand, short_help="List incidents: losses that belong together.")
@ORG
@click.option("--open", "is_open", is_flag=True, help="Only open ones.")
@limit("Incidents", 20)
@WATCH
@WEB
@json_fields(IncidentDocument, more=["org"], headers={"incident": "id", "page": "url"})
def incidents(org: str | None, limit: int, *, is_open: bool, web: bool, output: CommandOutput) -> None:
    """List the incidents of the last month: what was lost, from when until when, and what became of it.

    The open ones are the first, the latest begin first; the others follow, the latest end first.

    Example: ghapp incidents --org acme --open
    """
    if web:
        open_page(pages.incidents if (pages := links_of(org)) else links("").home)
        return
    found = query(lambda client: client.incidents(org, limit + 1, is_open=is_open))
    has_more = len(found) > limit
    found = found[:limit]
    if output.is_json:
        output.print({"incidents": found}, found)
        return
    import time

    from ghapp.terminal.incident_tables import incidents_table

    show(incidents_table(found, time.time(), has_more=has_more, is_open=is_open))
