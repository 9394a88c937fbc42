"""Whether every dependency is pinned and has a wheel, for each supported platform and Python; needs a network.

`make wheels` prints a table and exits with 1 if a package has no wheel or no pin. `make constraints` writes
constraints.txt: versions that it names are kept where they have wheels; and requirements.txt. Both resolve by the metadata in the index, and
install nothing, so one machine checks all platforms.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.constraints import (
    CONSTRAINTS,
    PLATFORMS,
    PYTHONS,
    REQUIREMENTS,
    ROOT,
    Target,
    lines_of,
    pins,
    targets,
)

IMAGE, IMAGE_EXTRA = Target("x86_64-manylinux_2_28", "3.11.0"), "notify"
MODELS = "githubkit-schemas-2026-03-10"
"""GitHub's models, which githubkit requires and nothing imports: a third of what would be installed."""

TOOLS = ("uv", "packaging")
"""What this script needs itself, pinned with the rest."""

COMMENT = "# Written by `make constraints`, checked by `make wheels`.\n"


class ResolutionError(Exception):
    """A package cannot be installed in this environment; the message names the package."""


def resolve(target: Target, *options: str, output: Path | None = None) -> dict[str, str]:
    """Returns the versions that would be installed with all extras, from wheels alone.

    Args:
        target: the environment.
        options: further ones for uv.
        output: a file whose pins are preferred and not required; it is overwritten.

    Raises:
        ResolutionError: there is no such set of versions.
    """
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder) / "tools.in"
        tools.write_text("\n".join(TOOLS))
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        command += ["--all-extras", "--only-binary", ":all:", "--python-platform", target.platform]
        command += ["--python-version", target.python, *options]
        command += ["--output-file", str(output)] if output else []
        done = subprocess.run(
            [*command, "pyproject.toml", str(tools)], cwd=ROOT, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise ResolutionError(reason(done.stderr))
    lines = [Requirement(line) for line in (output.read_text() if output else done.stdout).splitlines()]
    return {canonicalize_name(line.name): next(iter(line.specifier)).version for line in lines}


def reason(error: str) -> str:
    """Returns the packages that have no wheel, as uv's message names them, else the message in one line."""
    text = " ".join(error.split())
    if found := re.findall(r"([\w.-]+==[\w.+!-]+) has no (?:usable )?wheels", text):
        return "no wheel: " + ", ".join(dict.fromkeys(found))
    return text


def check(target: Target) -> str:
    """Returns `ok` with the number of packages, or what is wrong."""
    try:
        needed = resolve(target, "--constraint", str(CONSTRAINTS))
    except ResolutionError as error:
        return str(error)
    if missing := sorted(needed.keys() - pins(target).keys()):
        return "not pinned: " + ", ".join(missing)
    return f"ok, {len(needed)} packages"


def choose(target: Target, upgrade: bool) -> dict[str, str]:
    """Returns the versions for constraints.txt; those that it names are preferred unless `upgrade` is set."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pins.txt"
        kept = {} if upgrade or not CONSTRAINTS.exists() else pins(target)
        output.write_text("".join(f"{name}=={version}\n" for name, version in kept.items()))
        return resolve(target, output=output)


def write(upgrade: bool) -> None:
    """Writes constraints.txt."""
    with ThreadPoolExecutor(4) as pool:
        versions = dict(zip(targets(), pool.map(lambda target: choose(target, upgrade), targets()), strict=True))
    CONSTRAINTS.write_text(COMMENT + "".join(f"{line}\n" for line in lines_of(versions)))
    write_hashes()


def write_hashes() -> None:
    """Writes requirements.txt: what the image installs, as constraints.txt pins it, with the hashes of the files."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--generate-hashes", "--constraint", str(CONSTRAINTS), "--extra", IMAGE_EXTRA]
    command += ["--no-emit-package", MODELS]
    command += ["--python-platform", IMAGE.platform, "--python-version", IMAGE.python, "pyproject.toml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ResolutionError(reason(done.stderr))
    REQUIREMENTS.write_text(COMMENT + done.stdout)


def table(results: dict[Target, str]) -> str:
    """Returns the results as a table of platforms and Pythons, with the failures below it."""
    names = {platform: name for platform, (_, _, name) in PLATFORMS.items()}
    rows = [["", *PYTHONS]]
    for platform, name in names.items():
        cells = [results[Target(platform, python)] for python in PYTHONS]
        rows.append([name, *(cell if cell.startswith("ok") else "FAILED" for cell in cells)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    failures = [f"{names[target.platform]}, {target.python}: {text}" for target, text in results.items()]
    return "\n".join([*lines, *(line for line in failures if ": ok" not in line)])


def main() -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.wheels", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write constraints.txt before the check")
    parser.add_argument("--upgrade", action="store_true", help="with --write: newest versions, not those of the file")
    options = parser.parse_args()
    if options.write:
        try:
            write(options.upgrade)
        except (ResolutionError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
    with ThreadPoolExecutor(4) as pool:
        results = dict(zip(targets(), pool.map(check, targets()), strict=True))
    sys.stdout.write(f"{table(results)}\n")
    return int(any(not text.startswith("ok") for text in results.values()))


if __name__ == "__main__":
    sys.exit(main())
