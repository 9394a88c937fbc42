"""Tries mutants of the judgement's rules: `python -m tests.mutation COSMIC_RAY [--mutants N] [--seed N] [PACKAGE …]`.

All mutants of the three packages are some ten thousand, a few seconds of CPU each; a run tries some, chosen by a seed.
Exits with 1 if fewer than `--reach` of them were noticed. Those that survived are printed: each is a line whose change
no test of the package's rules notices, or one that means the same.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from click import echo

from tests.manifests.rendered import ROOT
from tests.mutation.mutants import Outcome, Trial, copy_of, mutants_in, rules_of, tests_of, try_mutant

PACKAGES = ("runners", "remediation", "leaks")


def absolute(command: str) -> str:
    """Returns the path of a command for any working directory."""
    return str(Path(command).absolute())


def options_of(line: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("cosmic_ray", type=absolute, help="its command")
    arguments.add_argument("packages", nargs="*", help=f"packages of ghapp (default: {' '.join(PACKAGES)})")
    arguments.add_argument("--mutants", type=int, default=60, help="how many of each package (default: 60)")
    arguments.add_argument("--seed", type=int, default=1, help="chooses them (default: 1)")
    arguments.add_argument("--reach", type=float, default=0.0, help="the share that must be noticed (default: 0)")
    return arguments.parse_intermixed_args(line)  # packages may follow options


def main() -> int:
    """Tries mutants, and prints what became of them."""
    options = options_of()
    with tempfile.TemporaryDirectory(prefix="ghapp-mutation-") as folder:
        trials = [
            trial
            for package in options.packages or PACKAGES
            for trial in _try(Path(folder), options.cosmic_ray, package, options.mutants, options.seed)
        ]
    counts = Counter(each.outcome for each in trials)
    tried = counts[Outcome.KILLED] + counts[Outcome.SURVIVED]
    share = counts[Outcome.KILLED] / tried if tried else 1.0
    echo(f"{counts[Outcome.KILLED]} of {tried} mutants were noticed ({share:.1%})")
    return int(share < options.reach)


def _try(folder: Path, cosmic_ray: str, package: str, number: int, seed: int) -> list[Trial]:
    scratch = folder / package
    scratch.mkdir()
    modules = rules_of(ROOT / "ghapp" / package)
    mutants = [mutant for module in modules for mutant in mutants_in(cosmic_ray, ROOT, module, scratch)]
    chosen = random.Random(seed).sample(mutants, min(number, len(mutants)))
    workers = len(os.sched_getaffinity(0))
    copies = SimpleQueue[Path]()
    for worker in range(workers):
        copies.put(copy_of(ROOT, scratch / str(worker)))

    def attempt(mutant):
        copy = copies.get()
        try:
            return try_mutant(cosmic_ray, copy, mutant, tests_of(mutant.module))
        finally:
            copies.put(copy)

    trials = []
    with ThreadPoolExecutor(workers) as pool:
        for trial in pool.map(attempt, chosen):
            trials.append(trial)
            if trial.outcome is not Outcome.KILLED:
                where = f"{trial.mutant.module}:{trial.mutant.line} {trial.mutant.place}"
                echo(f"{trial.outcome}: {where} ({trial.mutant.operator})\n{trial.diff}\n")
    counts = Counter(each.outcome for each in trials)
    echo(f"{package}: {len(mutants):,} mutants, {len(trials)} tried: {dict(counts)}\n")
    return trials


if __name__ == "__main__":
    sys.exit(main())
