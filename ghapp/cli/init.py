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

    It reads what sweeps recorded and, of pools whose namespace is watched already, their pods: runners in pods are
    replaced by deleting their EphemeralRunner (arc) or their pod (pods).

    Example: ghapp init --org acme > ghapp.toml
    """
    click.echo(run(_suggestion(settings_here(), org)), nl=False)


async def _suggestion(settings: Settings, org: str | None) -> str:
    from ghapp.installations.texts import suggested_config
    from ghapp.loading.views import load_current_runners, load_watched_pods

    now = time.time()
    async with opened(settings) as stores:
        installations = await chosen(stores.installations, org)
        fleets = {each.org: await load_current_runners(stores, each, settings, now) for each in installations}
        return suggested_config(fleets, await load_watched_pods(stores, settings, now))
