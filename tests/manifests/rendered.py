"""The overlays, rendered: by our own few lines always, and by kustomize itself where there is one.

Nothing here speaks to a cluster: `kubectl kustomize` needs none, and is given no configuration that would name one.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.manifests import kustomize
from tests.manifests.kustomize import Object

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
OVERLAYS = tuple(sorted(path.name for path in (MANIFESTS / "overlays").iterdir() if path.is_dir()))
NOWHERE = {"KUBECONFIG": "/dev/null", "HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}


def _kubectl(*arguments: str) -> str:
    path = shutil.which("kubectl") or ""
    done = subprocess.run([path, *arguments], env=NOWHERE, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


@functools.cache
def real_one() -> Callable[[Path], str] | None:
    """What prints a kustomization, if this machine has something that knows components (since 2021)."""
    if kustomize_path := shutil.which("kustomize"):
        return lambda directory: subprocess.check_output([kustomize_path, "build", str(directory)], text=True)
    if shutil.which("kubectl") and json.loads(_kubectl("version", "--client", "--output=json")).get("kustomizeVersion"):
        return lambda directory: _kubectl("kustomize", str(directory))
    return None


needs_the_real_one = pytest.mark.skipif(real_one() is None, reason="no kustomize or kubectl of 2021 or later on PATH")


def really(directory: Path) -> list[Object]:
    """A kustomization's objects, by kustomize itself."""
    render = real_one()
    assert render is not None
    return [each for each in yaml.load_all(render(directory), yaml.CSafeLoader) if each]


@functools.cache
def ours(directory: Path) -> list[Object]:
    """A kustomization's objects, by our own lines. Not to be changed by who reads them."""
    return kustomize.build(directory)


def objects(overlay: str) -> list[Object]:
    """An overlay's objects."""
    return ours(MANIFESTS / "overlays" / overlay)


def everything() -> list[tuple[str, Object]]:
    """Every object of every overlay, with the overlay's name."""
    return [(overlay, each) for overlay in OVERLAYS for each in objects(overlay)]


def kinds(overlay: str, *names: str) -> list[Object]:
    """An overlay's objects of some kinds."""
    return [each for each in objects(overlay) if each["kind"] in names]


def pods() -> list[tuple[str, Object]]:
    """Every pod template of every overlay, called `overlay name`."""
    return [
        (f"{overlay} {each['metadata']['name']}", each["spec"]["template"])
        for overlay in OVERLAYS
        for each in kinds(overlay, "Deployment", "StatefulSet")
    ]


def named(cases: list[tuple[str, Object]]) -> list[object]:
    """Cases for `parametrize`, with a name each."""
    return [pytest.param(each, id=name) for name, each in cases]
