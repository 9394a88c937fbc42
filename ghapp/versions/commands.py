"""`ghapp versions`: which versions of the runner run, and until when GitHub gives them jobs."""

from __future__ import annotations

import click

from ghapp.cli.api_connection import query
from ghapp.cli.context import show
from ghapp.cli.options import ORG, WATCH, WEB, CommandOutput, OutputCommand, json_fields, links, links_of, open_page
from ghapp.versions.documents import VersionDocument


@click.command(cls=OutputCommand, short_help="List the versions of the runner and their dates.")
@ORG
@WATCH
@WEB
@json_fields(VersionDocument, more=["org"])
def versions(org: str | None, *, web: bool, output: CommandOutput) -> None:
    """List the versions of the runner that run, the worst first, and until when GitHub gives them jobs.

    Below the table is what to do about versions that end or have ended.

    Example: ghapp versions --org acme
    """
    if web:
        open_page(pages.versions if (pages := links_of(org)) else links("").home)
        return
    found = query(lambda client: client.versions(org))
    if output.is_json:
        output.print({"versions": found}, found)
        return
    from ghapp.terminal.version_tables import versions_table

    show(versions_table(found))
