"""`ghapp pause`, `ghapp resume`: stop and restart remediation."""

from __future__ import annotations

import re
from typing import Any

import click

from ghapp.cli.api_connection import query
from ghapp.cli.options import ORG_ARGUMENT, POOL
from ghapp.untrusted_text import visible

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """A duration with its unit, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the seconds of such as `30m`, `2h` or `1d`."""
        from ghapp.remediation.pause import LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS

        found = re.fullmatch(r"([0-9]{1,9})([smhd])", value, re.ASCII)
        seconds = 0.0 if found is None else float(found[1]) * UNITS[found[2]]
        if not SHORTEST_PAUSE_SECONDS <= seconds <= LONGEST_PAUSE_SECONDS:
            self.fail(f"{value!r} is not a duration from 1m to 30d, such as 2h", param, ctx)
        return seconds


DURATION = Duration()


@click.command()
@ORG_ARGUMENT
@POOL
@click.option("--why", help="Reason shown in reports and in doctor; a new pause needs it.")
@click.option(
    "--for", "seconds", type=DURATION, help="How long from now, such as 30m, 2h or 1d (default: until `ghapp resume`)."
)
def pause(org: str, pool: str | None, why: str | None, seconds: float | None) -> None:
    """Stop remediation; sweeps and reports continue.

    While a pause is running, this command extends it. Who started the pause may also shorten it, and change its reason.
    Remediation stays stopped all the while.

    Example: ghapp pause acme --pool linux-4vcpu --why "network maintenance" --for 2h
    """
    if not why and seconds is None:
        raise click.UsageError("give --why, and --for if the pause is to end by itself")
    for line in query(lambda client: client.pause(org, pool, why, seconds)):
        click.echo(visible(line))


@click.command()
@ORG_ARGUMENT
@POOL
def resume(org: str, pool: str | None) -> None:
    """Clear pauses and restart stopped fuses.

    Without --pool this concerns all pools: the pause and the fuse of all together, and those of each.

    Example: ghapp resume acme --pool linux-4vcpu
    """
    for line in query(lambda client: client.resume(org, pool)):
        click.echo(visible(line))
