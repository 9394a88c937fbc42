"""The soak: `python -m tests.chaos [--seed 1] [--seconds 300] [--json]`; exit 1 when something must not be."""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import sys
import tempfile
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

from tests.chaos.accounting import Account
from tests.chaos.soak import soak

LONGEST_SECONDS = 3600


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="which faults come when; some other each time, unless it is given")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long things go wrong")
    parser.add_argument("--json", action="store_true", help="the account as JSON on stdout, all else on stderr")
    options = parser.parse_args()
    if not 0 < options.seconds <= LONGEST_SECONDS:
        parser.error(f"--seconds: from 1 to {LONGEST_SECONDS}")
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console = Console(stderr=options.json, highlight=False)
    again = f"python -m tests.chaos --seed {seed} --seconds {options.seconds:g}"
    console.print(again, style="bold")
    with tempfile.TemporaryDirectory(prefix="ghapp-chaos-") as folder:
        account = soak(seed, options.seconds, Path(folder), lambda text: console.print(text, style="dim", markup=False))
    violations = account.violations()
    if options.json:
        figures = {figure.name: figure.value for figure in account.figures()}
        json.dump({"seed": seed, "seconds": options.seconds, "figures": figures, "violations": violations}, sys.stdout)
    console.print(_table(account))
    for violation in violations:
        console.print(violation, style="bold red", markup=False)
    if violations:
        console.print(f"run it again: {again}")
    return 1 if violations else 0


def _table(account: Account) -> Table:
    table = Table("account", "", "")
    for figure in account.figures():
        table.add_row(figure.name, figure.value, "[bold red]WRONG[/]" if figure.wrong else "")
    return table


if __name__ == "__main__":
    sys.exit(main())
