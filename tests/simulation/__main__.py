"""`python -m tests.simulation`: runs many seeds on all cores, or one seed with its trace."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from click import echo

from tests.simulation.engine import Engine, simulate
from tests.simulation.invariants import Violation
from tests.simulation.mutations import MUTATIONS, broken


class Outcome(NamedTuple):
    """The result of one seed; `wrong` is empty if all invariants held."""

    seed: int
    wrong: str
    steps: int
    lost: int
    replaced: int


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    arguments.add_argument("seed", type=int, nargs="?", help="run this one alone")
    arguments.add_argument("--trace", action="store_true", help="print the trace of that seed")
    arguments.add_argument("--seeds", type=int, default=10_000, help="how many, from --first on")
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--broken", default="", choices=MUTATIONS, metavar="RULE", help="with this rule broken")
    asked = arguments.parse_args()
    if asked.seed is not None:
        with broken(asked.broken):
            return print_result(asked.seed, tracing=asked.trace)
    return run_all(range(asked.first, asked.first + asked.seeds), asked.broken)


def print_result(seed: int, *, tracing: bool) -> int:
    """Run one seed and print its trace, whether it passes or fails."""
    engine = Engine(seed, tracing=tracing)
    wrong = ""
    try:
        engine.run()
    except Violation as violation:
        wrong = str(violation)
    echo("\n".join(engine.story))
    echo(
        wrong
        or f"seed {seed}: all invariants held; {engine.audit.noticed} losses, {engine.audit.replaced} replacements"
    )
    return 1 if wrong else 0


def outcome(seed: int, rule: str = "") -> Outcome:
    """Run one seed in a worker process; with a mutation, if one is named."""
    try:
        with broken(rule):
            audit = (engine := simulate(seed)).audit
    except Violation as violation:
        return Outcome(seed, str(violation), 0, 0, 0)
    return Outcome(seed, "", engine.steps, audit.noticed, audit.replaced)


def run_all(seeds: Iterable[int], rule: str = "") -> int:
    """Run all seeds; a failure is printed at once, with the command that prints its trace."""
    began, cores = time.monotonic(), os.cpu_count() or 1
    done = steps = lost = replaced = 0
    failed = []
    with ProcessPoolExecutor(cores) as pool:
        for each in pool.map(partial(outcome, rule=rule), seeds, chunksize=10):
            done, steps = done + 1, steps + each.steps
            lost, replaced = lost + each.lost, replaced + each.replaced
            if each.wrong:
                failed.append(each.seed)
                echo(f"{each.wrong}\n  python -m tests.simulation {each.seed} --trace")
            if done % 500 == 0:
                echo(f"  {done} days, {done / (time.monotonic() - began) * 60:.0f} a minute", err=True)
    minutes = (time.monotonic() - began) / 60
    echo(
        f"{done} simulated days in {minutes:.1f} min on {cores} cores, {done / minutes:.0f} days/minute: "
        f"{steps} steps, {lost} losses replaced, {replaced} replacements in all, {len(failed)} seeds failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
