"""`ghapp audit`: who changed what."""

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

FIELDS = ("org", "at", "who", "channel", "action", "subject", "why", "result", "text")
HEADERS = {"when": "at", "through": "channel", "what": "action", "reason": "why"}


@click.command("audit", cls=OutputCommand, short_help="List who changed what, when and why.")
@ORG
@limit("Changes", 20)
@WATCH
@WEB
@json_fields(more=FIELDS, headers=HEADERS)
def audit(org: str | None, limit: int, *, web: bool, output: CommandOutput) -> None:
    """List the changes that people and tokens made within a year, the latest first: who, what, when, and the result.

    What had no effect, and what controllers declared, is on the page, for managers.

    Example: ghapp audit --org acme
    """
    if web:
        open_page(pages.below("#audit") if (pages := links_of(org)) else links("").home)
        return
    found = query(lambda client: client.changes(org, limit))
    if output.is_json:
        output.print({"entries": found}, found)
        return
    import time

    from ghapp.terminal.tables import audit_table

    show(audit_table(found, time.time()))
