"""The steps of the Dockerfile work, as far as that can be shown without a container engine.

COPY and RUN of the first stage run as they are written, below a temporary root instead of `/`, and the last stage's
environment and entry point are tried there. What an engine does remains untested: the base image, users, and the
download of the dependencies, which are those of the running environment.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.manifests.rendered import ROOT
from tests.manifests.test_image import LAST_STAGE, STEPS, arguments_of
from tests.packaging.built import NOT_OURS, clean
from tests.support.ports import free_port

pytestmark = pytest.mark.xdist_group("packaging")
FIRST_STAGE = STEPS[1 : len(STEPS) - len(LAST_STAGE)]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def below(root, text):
    """The absolute paths of the image, below a root."""
    return re.sub(r"(?<![\w.$/])/(src|wheels|opt)\b", rf"{root}/\1", text)


def variables(steps, root):
    """The ENV instructions, as a dict."""
    rows = [row.split("=", 1) for each in arguments_of("ENV", steps) for row in each.split()]
    return {name: below(root, value) for name, value in rows}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The root in which the first stage ran."""
    root = tmp_path_factory.mktemp("image")
    (workdir,) = [Path(below(root, each)) for each in arguments_of("WORKDIR", FIRST_STAGE)]
    workdir.mkdir()
    binaries = Path(sys.executable).parent
    environ = clean(**variables(FIRST_STAGE, root), PATH=f"{binaries}:/usr/bin:/bin")
    for word, rest in FIRST_STAGE:
        if word == "COPY":
            *names, target = rest.split()
            for name in names:
                source, copied = ROOT / name, workdir / target / (name if len(names) > 1 else "")
                shutil.copytree(source, copied, ignore=NOT_OURS) if source.is_dir() else shutil.copy(source, copied)
        elif word == "RUN" and "--require-hashes" in rest:
            (site_packages,) = (root / "opt" / "ghapp").glob("lib/python*/site-packages")
            for path in site_packages.glob("setuptools*"):  # of `venv`, older than the pinned one
                shutil.rmtree(path)
            (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        elif word == "RUN":
            command = ["sh", "-euc", below(root, rest)]
            done = subprocess.run(
                command, cwd=workdir, env=environ, capture_output=True, text=True, timeout=180, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
        else:
            assert word in ("FROM", "ENV", "WORKDIR", "RUN")
    return root


def run(image, *words, **more):
    """The entry point with arguments, in the environment of the last stage alone."""
    environ = variables(LAST_STAGE, image)
    environ["PATH"] = environ["PATH"].replace("$PATH", "/usr/bin:/bin")
    entrypoint = json.loads(arguments_of("ENTRYPOINT")[0])
    program = shutil.which(entrypoint[0], path=environ["PATH"])
    return subprocess.run(
        [program, *entrypoint[1:], *words],
        cwd="/",
        env=environ | more,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_entry_point_is_this_version(image):
    done = run(image, "--version")
    assert (done.returncode, done.stdout) == (0, f"ghapp, version {VERSION}\n")


def test_without_arguments_it_prints_its_help(image):
    done = run(image, *json.loads(arguments_of("CMD")[0]))
    assert (done.returncode, done.stdout.startswith("Usage: ghapp")) == (0, True)


@pytest.mark.parametrize("role", ["web", "worker", "clock", "watch"])
def test_a_role_without_redis_names_the_variable_and_writes_no_file(image, role):
    def files():
        return {path: path.stat().st_mtime_ns for path in (image / "opt").rglob("*")}

    before = files()
    done = run(image, role, GHAPP_LISTEN=f"127.0.0.1:{free_port()}")
    assert (done.returncode, "GHAPP_REDIS_URL" in done.stderr) == (2, True), done.stderr
    assert files() == before


def test_the_image_has_no_installer(image):
    names = {path.name for path in (image / "opt" / "ghapp").glob("lib/python*/site-packages/*")}
    assert "ghapp" in names
    assert names & {"pip", "setuptools"} == set()


def test_the_label_has_the_version_of_the_package():
    assert f"VERSION={VERSION}" in arguments_of("ARG")
