"""`ghapp scan`: what is wrong now, without an App."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

import click

from ghapp.cli.context import run, show
from ghapp.cli.options import CommandOutput, OutputCommand, json_fields
from ghapp.errors import UnauthorizedError, UnknownTargetError
from ghapp.exit_codes import FAILED
from ghapp.installations.scope import Scope
from ghapp.proxies import require_usable_proxies
from ghapp.scan.documents import ScopeDocument, scan_document
from ghapp.scan.findings import Findings, has_problems
from ghapp.scan.looks import LONGEST_GAP_SECONDS
from ghapp.scan.reader import Scan, read_scopes
from ghapp.scan.token import FoundToken, GitHubHost, find_token, token_of_gh
from ghapp.untrusted_text import one_line, shell_command
from ghapp.wording import duration

LEAST_SECONDS = 1.0


def _number(_: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuses `nan`, which is within any range."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds", param=parameter)
    return value


@click.command(cls=OutputCommand, short_help="Say what is wrong now, with your own token, without an App.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET…")
@click.option(
    "--seconds",
    type=click.FloatRange(LEAST_SECONDS, LONGEST_GAP_SECONDS),
    default=30.0,
    show_default=True,
    callback=_number,
    help="Time between the two lists of runners.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown, to paste into an issue.")
@json_fields(ScopeDocument)
def scan(targets: Sequence[str], *, seconds: float, markdown: bool, output: CommandOutput) -> None:
    """Look at organizations, repositories and enterprises twice, and say what is wrong now.

    It needs no App, no Redis and no configuration, and changes nothing. TARGET is acme, acme/api,
    enterprises/acme-corp, or the URL of one. The token is that of GH_TOKEN, of GITHUB_TOKEN, or of
    `gh auth token`. It sends at most 60 calls a hundred runners, and exits with 1 if anything is wrong.

    Example: ghapp scan acme acme/api --seconds 30
    """
    if markdown and output.is_json:
        raise click.UsageError("--markdown and --json are two forms of the result; leave out one of them")
    scopes = [_scope(each) for each in targets]
    require_usable_proxies(os.environ)
    github = GitHubHost.read(os.environ)
    token = find_token(os.environ, github, token_of_gh)
    try:
        found, calls = run(_scan(scopes, seconds, github, token))
    except UnauthorizedError as error:
        raise UnauthorizedError(
            f"{token.source}: {error} of {github.host}; make another one, or `gh auth login`"
        ) from None
    document, wells = scan_document(found, calls), [each.well for each in found]
    if output.is_json:
        output.print(document, document["scopes"])
    else:
        from ghapp.scan.texts import markdown_text, terminal_text

        set_up, now = _set_up(github), time.time()
        if markdown:
            click.echo(markdown_text(document, wells, set_up, now), nl=False)
        else:
            show(terminal_text(document, wells, set_up, now))
    if has_problems(found):
        raise click.exceptions.Exit(FAILED)


def _scope(target: str) -> Scope:
    scope = Scope.parse(target)
    if scope is None:
        raise UnknownTargetError(
            f"{target!r}: is no target; it is an organization like acme, a repository like acme/api, or an enterprise "
            "like enterprises/acme-corp"
        )
    return scope


async def _scan(
    scopes: Sequence[Scope], seconds: float, github: GitHubHost, token: FoundToken
) -> tuple[list[Findings], int]:
    from ghapp.github.personal_client import PersonalClient

    async with PersonalClient.open(github.api_url, token.secret, _say_wait) as client:
        readings = await read_scopes(Scan(client, seconds, _say), scopes)
        return [Findings(each) for each in readings], client.calls


def _say(progress: str) -> None:
    click.echo(one_line(progress), err=True)


def _say_wait(seconds: float) -> None:
    _say(f"GitHub asks to wait {duration(seconds)}")


def _set_up(github: GitHubHost) -> str:
    """Returns the command that sets up the App there."""
    if github.is_public:
        return "ghapp up"
    addresses = (f"GHAPP_GITHUB_API_URL={github.api_url}", f"GHAPP_GITHUB_WEB_URL={github.web_url}")
    return shell_command("env", *addresses, "ghapp", "up")
