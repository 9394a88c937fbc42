"""`ghapp pause`, `ghapp resume`: stop and restart remediation."""

from __future__ import annotations

import click

from ghapp.cli.backend import query
from ghapp.untrusted_text import visible


@click.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
@click.option("--why", required=True, help="Reason shown in reports and in doctor.")
def pause(org: str, pool: str | None, why: str) -> None:
    """Stop remediation; sweeps and reports continue. An existing pause is kept, with its reason.

    Example: ghapp pause acme --pool linux-4vcpu --why "network maintenance"
    """
    for line in query(lambda backend: backend.pause(org, pool, why)):
        click.echo(visible(line))


@click.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
def resume(org: str, pool: str | None) -> None:
    """Clear pauses and restart stopped fuses.

    Without --pool this concerns the whole organization: its own pause and fuse, and those of each pool.

    Example: ghapp resume acme --pool linux-4vcpu
    """
    for line in query(lambda backend: backend.resume(org, pool)):
        click.echo(visible(line))
