"""The pins of constraints.txt, by environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
REQUIREMENTS = ROOT / "requirements.txt"
"""What the image installs, with the hashes of its files."""

INTEL_MAC = "sys_platform == 'darwin' and platform_machine == 'x86_64'"


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


def read(path: Path = CONSTRAINTS) -> list[Requirement]:
    """Returns the lines of the file, without comments."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pins(target: Target, path: Path = CONSTRAINTS) -> dict[str, str]:
    """Returns the pinned versions that hold in an environment, by normalized name.

    Raises:
        ValueError: a line is no pin, or two lines pin the same package there.
    """
    found: dict[str, str] = {}
    for line in read(path):
        if line.marker is not None and not line.marker.evaluate(dict(target.markers())):
            continue
        name, (pin,) = canonicalize_name(line.name), tuple(line.specifier)
        if pin.operator != "==" or name in found:
            raise ValueError(f"{path.name}: {line}: must be the only line for this package, and name one version")
        found[name] = pin.version
    return found


def lines_of(versions: dict[Target, dict[str, str]]) -> Iterator[str]:
    """Yields a line for each package, or a line with a marker for each of its versions.

    Raises:
        ValueError: a package has several versions that do not differ by platform alone.
    """
    for name in sorted({name for each in versions.values() for name in each}):
        chosen = {target: each[name] for target, each in versions.items() if name in each}
        if len(set(chosen.values())) == 1:
            yield f"{name}=={next(iter(chosen.values()))}"
            continue
        intel = {version for target, version in chosen.items() if target.platform == "x86_64-apple-darwin"}
        others = {version for target, version in chosen.items() if target.platform != "x86_64-apple-darwin"}
        if len(intel) != 1 or len(others) != 1:
            raise ValueError(f"{name}: needs {chosen}; bound it in pyproject.toml so that fewer versions remain")
        yield f"{name}=={intel.pop()} ; {INTEL_MAC}"
        yield f"{name}=={others.pop()} ; sys_platform != 'darwin' or platform_machine != 'x86_64'"
