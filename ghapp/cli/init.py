"""`ghapp init`: suggests a configuration."""

from __future__ import annotations

import click

from ghapp.cli.context import chosen, opened, run, settings_here
from ghapp.cli.options import ORG
from ghapp.settings import Settings


@click.command(short_help="Print a ghapp.toml with pools suggested from the runners' labels.")
@ORG
def init(org: str | None) -> None:
    """Print a ghapp.toml in dry-run, with a pool for each set of labels that runners have.

    It reads what sweeps recorded.

    Example: ghapp init --org acme > ghapp.toml
    """
    click.echo(run(_suggestion(settings_here(), org)), nl=False)


async def _suggestion(settings: Settings, org: str | None) -> str:
    from ghapp.report.suggested_config import suggested_config

    async with opened(settings) as stores:
        installations = await chosen(stores.installations, org)
        return suggested_config({each.org: (await stores.runners.all(each.id)).values() for each in installations})
