"""The command line: reads the environment, connects to what a command needs, prints, and exits with 0, 1 or 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from ghapp.cli import doctor, init, roles, tokens
from ghapp.cli.audit_log import audit
from ghapp.cli.context import (
    UnknownOrgError,
    UnknownPoolError,
    UnknownRunnerError,
    UnknownWorkflowJobError,
    exit_with,
)
from ghapp.cli.options import HelpfulGroup
from ghapp.deaths import commands as deaths
from ghapp.deliveries import commands as deliveries
from ghapp.errors import (
    ConfigurationError,
    GhappError,
    GitHubUnavailableError,
    NotFoundError,
    PermissionMissingError,
    ServerUnavailableError,
    StoreUnavailableError,
    UnauthorizedError,
    UnknownTargetError,
)
from ghapp.exit_codes import FAILED, INTERRUPTED, MISUSED
from ghapp.gate import commands as gate
from ghapp.incidents.commands import incidents
from ghapp.notifications import commands as notify
from ghapp.remediation import commands as remediation
from ghapp.runners import commands as fleet
from ghapp.scan import commands as scan
from ghapp.versions.commands import versions
from ghapp.workflow_jobs import commands as jobs

WRONG_USAGE = (
    ServerUnavailableError,
    UnauthorizedError,
    UnknownOrgError,
    UnknownPoolError,
    UnknownRunnerError,
    UnknownTargetError,
    UnknownWorkflowJobError,
)


@contextmanager
def _exit_on_error(*, goes_over_http: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Turns errors into one line on stderr; exits with 2 for configuration and usage errors, else with 1.

    Args:
        goes_over_http: returns True if the command can also ask a server.
    """
    try:
        yield
    except click.UsageError as error:
        usage = "" if error.ctx is None else f"see `{error.ctx.command_path} --help`"
        message = error.format_message().rstrip(".")
        exit_with(
            f"{message} {usage.capitalize()}" if message.endswith("?") else f"{message}; {usage}".rstrip("; "), MISUSED
        )
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal, which shows ^C, may be closed
            click.echo(err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except StoreUnavailableError as error:
        hint = ", or set GHAPP_URL and GHAPP_TOKEN to ask a server" if goes_over_http() else ""
        exit_with(f"{error}{hint}", MISUSED)
    except ConfigurationError as error:
        first, *others = error.mistakes
        exit_with(first, MISUSED, *others)
    except WRONG_USAGE as error:
        exit_with(str(error), MISUSED)
    except GitHubUnavailableError as error:
        exit_with(f"{error}; check GHAPP_GITHUB_API_URL, or see githubstatus.com", FAILED)
    except (NotFoundError, PermissionMissingError) as error:
        exit_with(f"{error}; check GHAPP_GITHUB_API_URL, or see `ghapp doctor`", FAILED)
    except GhappError as error:
        exit_with(str(error), FAILED)


GROUPS: Mapping[str, Sequence[click.Command]] = {
    "Look": (
        scan.scan,
        fleet.runners,
        fleet.explain,
        jobs.jobs,
        jobs.why,
        deaths.deaths,
        incidents,
        audit,
        versions,
        doctor.doctor,
    ),
    "Act": (fleet.sweep, remediation.pause, remediation.resume, gate.gate, deliveries.deliveries),
    "Run": (roles.up, roles.web, roles.worker, roles.clock, roles.watch),
    "Set up": (init.init, tokens.token, notify.notify),
}
"""The commands by purpose, as `--help` lists them."""


class Group(HelpfulGroup):
    """The command group; errors of its commands are printed in one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - of click
        """Lists the commands by purpose."""
        longest = max(len(each) for each in self.commands)
        for title, commands in GROUPS.items():
            width = formatter.width - 6 - longest
            rows = [(str(each.name).ljust(longest), each.get_short_help_str(width)) for each in commands]
            with formatter.section(title):
                formatter.write_dl(rows)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parses the options before the command."""
        with _exit_on_error():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        over_http = {each.name for title in ("Look", "Act") for each in GROUPS[title]}
        with _exit_on_error(goes_over_http=lambda: ctx.invoked_subcommand in over_http):
            return super().invoke(ctx)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ghapp")
def main() -> None:
    """Watches the registrations of self-hosted GitHub Actions runners, and replaces lost runners.

    Example: ghapp up --sandbox
    """


for commands in GROUPS.values():
    for command in commands:
        main.add_command(command)
