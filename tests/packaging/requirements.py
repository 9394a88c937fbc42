"""requirements.txt: the version and the hashes of each dependency, by section and environment."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements.txt"
_PARSING = Lock()


class Section(StrEnum):
    """A section of the file by its title. What installs ghapp reads the file down to a section: the order counts."""

    IMAGE = "# What the image installs, and the build backend:"
    DEVELOPMENT = "# What only development needs:"
    EMBEDDED = "# A server, where no Redis on PATH is supported:"


class Target(NamedTuple):
    """An environment in which ghapp can be installed. `platform` is uv's name of it, `python` a full version."""

    platform: str
    python: str

    def markers(self) -> dict[str, str]:
        """Returns the environment by which the markers of requirements are evaluated."""
        system, machine, _ = PLATFORMS[self.platform]
        return {
            "implementation_name": "cpython",
            "implementation_version": self.python,
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": {"linux": "Linux", "darwin": "Darwin"}[system],
            "platform_version": "",
            "python_full_version": self.python,
            "python_version": ".".join(self.python.split(".")[:2]),
            "sys_platform": system,
            "extra": "",
        }


PLATFORMS = {
    "x86_64-manylinux_2_28": ("linux", "x86_64", "Linux x86_64"),
    "aarch64-manylinux_2_28": ("linux", "aarch64", "Linux arm64"),
    "x86_64-apple-darwin": ("darwin", "x86_64", "macOS x86_64"),
    "aarch64-apple-darwin": ("darwin", "arm64", "macOS arm64"),
}
"""`sys_platform`, `platform_machine` and a name for people, by uv's name of the platform."""

PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")
"""The first release of each: later ones need what these need, or less."""


def targets(pythons: Iterable[str] = PYTHONS) -> list[Target]:
    """Returns each platform with each Python."""
    return [Target(platform, python) for platform in PLATFORMS for python in pythons]


def sections(text: str) -> dict[Section, list[str]]:
    """Returns the lines of each section, each joined to one, with its hashes."""
    found: dict[Section, list[str]] = {}
    for line in text.replace("\\\n", "").splitlines():
        if line in [*Section]:
            lines = found[Section(line)] = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


def pins(target: Target, text: str | None = None, wanted: Collection[Section] = tuple(Section)) -> dict[str, str]:
    """Returns the pinned versions that are installed in an environment, by normalized name.

    Args:
        target: the environment.
        text: of the file; None: as it is here.
        wanted: the sections that are installed.

    Raises:
        ValueError: a line is no pin, or two lines pin the same package there.
    """
    text = REQUIREMENTS.read_text() if text is None else text
    found: dict[str, str] = {}
    for line in (line for section, lines in sections(text).items() if section in wanted for line in lines):
        requirement = parsed(line.partition(" --hash=")[0])
        if requirement.marker is not None and not requirement.marker.evaluate(dict(target.markers())):
            continue
        name, (pin,) = canonicalize_name(requirement.name), tuple(requirement.specifier)
        if pin.operator != "==" or name in found:
            raise ValueError(f"{line}: must be the only line for this package, and name one version")
        found[name] = pin.version
    return found


def parsed(line: str) -> Requirement:
    """Parses a requirement, one thread at a time.

    The parser of markers uses `ast`, in which two threads of a Python before 3.11.5 corrupt each other's depth of
    recursion.
    """
    with _PARSING:
        return Requirement(line)


def lines_of(versions: Mapping[Target, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields each package as (`name==version`, marker), once for each of its versions.

    Raises:
        ValueError: no marker holds exactly where a version is needed.
    """
    for name in sorted({name for each in versions.values() for name in each}):
        chosen = {target: each[name] for target, each in versions.items() if name in each}
        for version in sorted(set(chosen.values())):
            yield f"{name}=={version}", marker({target for target, each in chosen.items() if each == version})


def marker(chosen: Collection[Target]) -> str:
    """Returns the marker that holds in these environments alone; none if it is all of them.

    Raises:
        ValueError: it is more than some platforms with each Python up to one.
    """
    platforms = {target.platform for target in chosen}
    pythons = sorted({target.python for target in chosen})
    if len(chosen) != len(platforms) * len(pythons) or tuple(pythons) != PYTHONS[: len(pythons)]:
        raise ValueError(
            f"no marker distinguishes {sorted(chosen)} from the others; bound the package in pyproject.toml"
        )
    parts = []
    if len(platforms) == 1:
        system, machine, _ = PLATFORMS[platforms.pop()]
        parts.append(f"sys_platform == '{system}' and platform_machine == '{machine}'")
    elif others := PLATFORMS.keys() - platforms:
        rows = [PLATFORMS[each] for each in sorted(others)]
        parts += [f"(sys_platform != '{system}' or platform_machine != '{machine}')" for system, machine, _ in rows]
    if len(pythons) < len(PYTHONS):
        parts.append(f"python_version < '{PYTHONS[len(pythons)].removesuffix('.0')}'")
    return " and ".join(parts)


def text_of(rows: Mapping[Section, Iterable[tuple[str, str]]], hashes: Mapping[str, Collection[str]]) -> str:
    """Returns the text of the file: `rows` as of `lines_of`, with the hashes of each `name==version`."""
    text = "# Written by `make requirements`, checked by `make wheels`.\n"
    for section in Section:
        text += f"\n{section}\n"
        for pin, where in rows[section]:
            head = f"{pin} ; {where}" if where else pin
            text += " \\\n    ".join([head, *(f"--hash={each}" for each in sorted(hashes[pin]))]) + "\n"
    return text


def hashes_in(text: str) -> dict[str, set[str]]:
    """Returns the hashes of each `name==version` in a file of requirements."""
    found: dict[str, set[str]] = {}
    for line in text.replace("\\\n", "").splitlines():
        if hashes := re.findall(r"--hash=(\S+)", line):
            found.setdefault(line.split()[0], set()).update(hashes)
    return found
