"""The command line: reads the environment, opens what a command needs, prints, and exits 0, 1 or 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from ghapp import log
from ghapp.cli import deliveries, doctor, fleet, gate, remediation, roles, tokens
from ghapp.cli.context import FAILED, MISUSED, UnknownOrgError, UnknownPoolError
from ghapp.errors import (
    ConfigurationError,
    GhappError,
    GitHubUnavailableError,
    NotFoundError,
    PermissionMissingError,
    StoreUnavailableError,
    UnauthorizedError,
)

LONGEST_SHOWN = 160


@contextmanager
def in_one_line() -> Iterator[None]:
    """What goes wrong is said in one line: 2 for configuration and usage, 1 for what failed."""
    from redis.exceptions import RedisError

    try:
        yield
    except NoArgsIsHelpError:  # no mistake: whoever gives a group no command is shown them
        raise
    except click.UsageError as error:
        usage = "" if error.ctx is None else f"see `{error.ctx.command_path} --help`"
        said = error.format_message().rstrip(".")
        _give_up(f"{said} {usage.capitalize()}" if said.endswith("?") else f"{said}; {usage}".rstrip("; "), MISUSED)
    except (ConfigurationError, StoreUnavailableError, UnauthorizedError, UnknownOrgError, UnknownPoolError) as error:
        _give_up(str(error), MISUSED)
    except RedisError as error:
        why = shorten(log.redact(str(error)), LONGEST_SHOWN, placeholder=" …").rstrip(".")
        _give_up(f"Redis does not answer: {why}; check GHAPP_REDIS_URL", MISUSED)
    except GitHubUnavailableError as error:
        _give_up(f"{error}; check GHAPP_GITHUB_API_URL, or see githubstatus.com", FAILED)
    except (NotFoundError, PermissionMissingError) as error:
        _give_up(f"{error}; check GHAPP_GITHUB_API_URL, or see `ghapp doctor`", FAILED)
    except GhappError as error:
        _give_up(str(error), FAILED)


def _give_up(said: str, code: int) -> NoReturn:
    """Exit with one line, whatever was in what is quoted there."""
    line = "".join(character if character.isprintable() else " " for character in said)
    click.echo(f"ghapp: {' '.join(line.split())}", err=True)
    raise click.exceptions.Exit(code)


class Group(click.Group):
    """Commands whose mistakes are told in one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options that come before a command."""
        with in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with in_one_line():
            return super().invoke(ctx)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ghapp")
def main() -> None:
    """Watches the registrations of self-hosted GitHub Actions runners, and has the lost ones replaced.

    Example: ghapp up --sandbox
    """


for command in (
    roles.up,
    roles.web,
    roles.worker,
    roles.clock,
    roles.watch,
    fleet.sweep,
    fleet.runners,
    fleet.explain,
    gate.gate,
    doctor.doctor,
    remediation.pause,
    remediation.resume,
    tokens.token,
    deliveries.deliveries,
):
    main.add_command(command)
