"""`ghapp deliveries`: lists and replays deliveries that were given up."""

from __future__ import annotations

import time

import click

from ghapp.cli.api_connection import query
from ghapp.cli.context import opened, run, settings_here, show
from ghapp.cli.options import CommandOutput, HelpfulGroup, OutputCommand, json_fields
from ghapp.cli.record_change import change
from ghapp.errors import GhappError
from ghapp.settings import Settings
from ghapp.store.keys import ALL_ORGS


@click.group(cls=HelpfulGroup)
def deliveries() -> None:
    """Deliveries that were given up after three tries.

    Example: ghapp deliveries dead
    """


@deliveries.command("dead", cls=OutputCommand)
@json_fields(more=["id", "guid", "event", "why", "at"])
def dead_deliveries(output: CommandOutput) -> None:
    """Show the deliveries that were given up, and why.

    Example: ghapp deliveries dead
    """
    letters = query(lambda client: client.dead_letters())
    if output.is_json:
        output.print(letters)
        return
    if not letters:
        click.echo("no delivery was given up")
        return
    from ghapp.terminal.tables import letters_table

    show(letters_table(letters, time.time()))


@deliveries.command("replay", short_help="Process one delivery, or all, again.")
@click.argument("guid", required=False)
@click.option("--all", "everything", is_flag=True, help="Replay all deliveries that were given up.")
def replay_deliveries(guid: str | None, *, everything: bool) -> None:
    """Process one delivery, or all, again, after the cause of their failure was fixed.

    Example: ghapp deliveries replay 72d3162e-cc78-11e3-81ab-4c9367dc0958
    """
    if (guid is None) is not everything:
        raise click.UsageError("give one GUID, or --all")
    replayed = run(_replay(settings_here(), guid))
    if not replayed and guid is not None:
        raise GhappError(f"{guid}: not among the dead letters; see `ghapp deliveries dead`")
    click.echo(f"replayed: {replayed}")


async def _replay(settings: Settings, guid: str | None) -> int:
    async with opened(settings) as stores:
        letters = [each for each in await stores.inbox.dead() if guid in (None, each.guid)]
        if not letters:
            return 0
        async with change(stores, ALL_ORGS, "replay", guid or f"{len(letters)} deliveries") as outcome:
            replayed = [each for each in letters if await stores.inbox.replay(each)]
            outcome.set("replayed" if replayed else "not-replayed", has_effect=bool(replayed))
        return len(replayed)
