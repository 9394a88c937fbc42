"""The bench: `python -m tests.bench [--strict] [--scale] [NAME…]`.

Prints each figure beside what it is compared with, in one run and on one machine, so that a slower machine changes
both. Ratios are medians of rounds that alternate between the two. Exit 1 with `--strict` when a figure is missed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

from tests.bench import deliveries, healing, history, pages, reads, steady, surfaces, sweeps
from tests.bench.figure import Figure
from tests.bench.fleet import large, losses, pods, week
from tests.bench.fleet import many as many_installations

BENCHES: dict[str, Callable[[Path], list[Figure]]] = {
    "deliveries": deliveries.measure,
    "reads": reads.measure_reads,
    "many": reads.measure_many,
    "pages": pages.measure,
    "history": history.measure,
    "sweep": sweeps.measure,
    "healing": healing.measure,
    "steady": steady.measure,
    "start": reads.measure_start,
    "surfaces": surfaces.measure,
}
SCALE: dict[str, Callable[[Path], list[Figure]]] = {
    "deliveries": deliveries.measure,
    "reads": reads.measure_reads,
    "many": reads.measure_many,
    "losses": losses.measure,
    "installations": many_installations.measure,
    "large": large.measure,
    "pods": pods.measure,
    "week": week.measure,
}
"""The most that ghapp is made for, some thirty minutes: `--scale`. Each has a bound in time."""

WIDTH = 150


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(BENCHES | SCALE)}")
    parser.add_argument(
        "--scale", action="store_true", help=f"the largest fleets: {', '.join(SCALE)}; takes 30 minutes"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a figure is not reached")
    options = parser.parse_args()
    benches = BENCHES | SCALE
    if unknown := set(options.names) - set(benches):
        parser.error(f"{', '.join(sorted(unknown))}: no such bench; there are {', '.join(benches)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    began, load = time.monotonic(), os.getloadavg()[0]
    figures: list[Figure] = []
    failed: list[str] = []
    for name in options.names or (SCALE if options.scale else BENCHES):
        console.print(f"[dim]{name} … ({time.monotonic() - began:.0f} s)[/]", highlight=False)
        with tempfile.TemporaryDirectory(prefix="ghapp-bench-") as folder:
            try:
                figures += benches[name](Path(folder))
            except Exception:  # noqa: BLE001 - the figures of the others are printed all the same
                console.print_exception()
                failed.append(name)
    console.print(_table(figures))
    for figure in figures:
        if figure.note:
            console.print(f"{figure.name}: {figure.note}", style="dim", highlight=False)
    console.print(
        f"{os.cpu_count()} cores; load {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end; "
        f"{time.monotonic() - began:.0f} s",
        style="dim",
        highlight=False,
    )
    if failed:
        console.print(f"[bold red]failed:[/] {', '.join(failed)}", highlight=False)
    missed = [figure for figure in figures if not figure.reached]
    return 1 if failed or (missed and options.strict) else 0


def _table(figures: list[Figure]) -> Table:
    table = Table("figure", "measured", "against", "ratio or value", "required", "")
    for figure in figures:
        mark = "[green]reached[/]" if figure.reached else "[bold red]MISSED[/]"
        mark = mark if figure.required else ""
        table.add_row(figure.name, figure.measured, figure.against, figure.compared, figure.required, mark)
    return table


if __name__ == "__main__":
    sys.exit(main())
