"""The command line: reads the environment, opens what a command needs, prints, and exits 0, 1 or 2."""

from __future__ import annotations

from typing import Any

import click

from ghapp import log
from ghapp.cli import deliveries, doctor, fleet, remediation, roles, tokens
from ghapp.cli.opening import FAILED, MISUSED
from ghapp.errors import ConfigurationError, GhappError, StoreUnavailableError


class Group(click.Group):
    """Says what is wrong in one line: 2 for configuration and usage, 1 for what failed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and turn our errors into one clear line."""
        from redis.exceptions import RedisError

        try:
            return super().invoke(ctx)
        except (ConfigurationError, StoreUnavailableError) as error:
            click.echo(f"ghapp: {error}", err=True)
            ctx.exit(MISUSED)
        except RedisError as error:
            click.echo(f"ghapp: Redis does not answer: {log.redact(str(error))}; check GHAPP_REDIS_URL", err=True)
            ctx.exit(MISUSED)
        except GhappError as error:
            click.echo(f"ghapp: {error}", err=True)
            ctx.exit(FAILED)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ghapp")
def main() -> None:
    """Watches the registrations of self-hosted GitHub Actions runners, and has the lost ones replaced."""


for command in (
    roles.up,
    roles.web,
    roles.worker,
    roles.clock,
    fleet.sweep,
    fleet.runners,
    fleet.explain,
    doctor.doctor,
    remediation.pause,
    remediation.resume,
    tokens.token,
    deliveries.deliveries,
):
    main.add_command(command)
