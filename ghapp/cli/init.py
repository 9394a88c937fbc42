"""`ghapp init`: suggests a configuration."""

from __future__ import annotations

import time

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
    from ghapp.installations.texts import suggested_config
    from ghapp.loading.views import load_current_runners

    now = time.time()
    async with opened(settings) as stores:
        installations = await chosen(stores.installations, org)
        return suggested_config(
            {each.org: await load_current_runners(stores, each, settings, now) for each in installations}
        )
