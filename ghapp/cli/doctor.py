"""`ghapp doctor`: checks the whole set-up, of this machine or of the server at GHAPP_URL."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ghapp.cli.context import run, settings_here, show
from ghapp.errors import ConfigurationError
from ghapp.exit_codes import FAILED, MISUSED

if TYPE_CHECKING:
    from ghapp.doctor.finding import Finding
    from ghapp.settings import Settings


@click.command(short_help="Check the whole set-up; print a fix for each problem.")
@click.option("--problems", "only_problems", is_flag=True, help="Print only what is not ok.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, only_problems: bool, as_json: bool) -> None:
    """Check configuration, Redis, roles, GitHub and the cluster, and print a fix for each problem.

    With GHAPP_URL the server there is checked, as its web role sees it. Mistakes of the configuration come first, and
    alone; the exit code is then 2.

    Example: ghapp doctor --problems
    """
    from ghapp.doctor.configuration import of_mistakes
    from ghapp.doctor.finding import Finding, FindingCounts, FindingStatus

    code, url, findings = FAILED, None, list[Finding]()
    try:
        settings = settings_here(over_http=True)
    except ConfigurationError as error:
        if not error.mistakes:
            raise
        code, findings = MISUSED, of_mistakes(error)
        click.echo("ghapp: correct this first", err=True)
    else:  # what a server refuses to a token is no mistake of the set-up
        url, findings = settings.url, run(_findings(settings))
    counts = FindingCounts.of(findings)
    shown = [each for each in findings if each.status is not FindingStatus.OK or not only_problems]
    if as_json:
        document = {"ok": not counts.problems, **counts._asdict(), "findings": [_document(each) for each in shown]}
        click.echo(json.dumps(document, indent=2))
    else:
        from ghapp.terminal.tables import findings_table, findings_text

        if shown:
            show(findings_table(shown))
        show(findings_text(counts, url))
    if counts.problems:
        sys.exit(code)


async def _findings(settings: Settings) -> list[Finding]:
    """Returns the findings of the server at GHAPP_URL; without it, those of this machine."""
    from ghapp.doctor.finding import Finding, FindingStatus

    if settings.url is not None:
        from ghapp.cli.api_connection import over_http

        async with over_http(settings.url, settings.token) as remote:
            return [Finding(**each | {"status": FindingStatus(each["status"])}) for each in await remote.findings()]
    from ghapp.doctor.runner import examine

    return await examine(settings, os.environ)


def _document(finding: Finding) -> dict[str, Any]:
    """Returns one finding as printed by `--json`, where the text is under `text` as in the gate's checks."""
    return {
        "group": finding.group,
        "name": finding.name,
        "status": finding.status,
        "text": finding.text,
        "fix": finding.fix,
        "org": finding.org,
    }
