"""The distributions, built as a release builds them, and an environment that has the wheel alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.manifests.rendered import ROOT

SOURCES = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "requirements.txt",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "NOTICE",
)
PACKAGES = ("ghapp", "jobs")
NOT_OURS = shutil.ignore_patterns("__pycache__", "*.pyc")


def checkout(folder: Path) -> Path:
    """Copies what a build reads, so that no `build/` and no `egg-info` appears in the working tree."""
    folder.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, folder / name)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=NOT_OURS)
    return folder


def build(source: Path, out: Path, *kinds: str) -> list[Path]:
    """Runs `python -m build` without isolation, hence without a network; returns what it made, by name."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(out.iterdir())


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpacks an sdist; returns its one directory."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # since 3.11.4; without it, 3.12 and 3.13 warn, and 3.14 uses it by default
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    (top,) = folder.iterdir()
    return top


def files_of(wheel: Path) -> dict[str, bytes]:
    """The content of a wheel by name, without RECORD, which lists the other files."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        return {name: archive.read(name) for name in names}


def environment_with(wheel: Path, folder: Path) -> Path:
    """Creates a virtual environment with this wheel, installed by pip; returns its `bin`.

    To save the minutes of a download, its dependencies are those of the running environment, by a `.pth` file. ghapp
    itself is not among them: `site` does not read the `.pth` files of directories that a `.pth` file names, and so does
    not see an editable install.
    """
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, timeout=120, env=clean())
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def clean(**more: str) -> dict[str, str]:
    """The environment of the tests without ghapp's variables and without its import path."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GHAPP_", "PYTHONPATH"))}
    return inherited | more


def run(command: Sequence[str | Path], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a command outside of the checkout."""
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=clean(**more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
