"""`ghapp doctor`: checks the whole set-up."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ghapp.cli.context import run, settings_here, show
from ghapp.exit_codes import FAILED

if TYPE_CHECKING:
    from ghapp.doctor.finding import Finding


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, as_json: bool) -> None:
    """Check configuration, Redis, roles, GitHub and the cluster, and print a fix for each problem.

    Example: ghapp doctor --json
    """
    from ghapp.doctor.runner import examine

    findings = run(examine(settings_here(), os.environ))
    well = all(each.status != "wrong" for each in findings)
    if as_json:
        click.echo(json.dumps({"ok": well, "findings": [_document(each) for each in findings]}, indent=2))
    else:
        from ghapp.terminal.tables import findings_table

        show(findings_table(findings))
    if not well:
        sys.exit(FAILED)


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
