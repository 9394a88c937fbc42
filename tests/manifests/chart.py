"""The chart, rendered by Helm's own engine: the package `helm-python-sdk` has it as a library.

Helm runs in a process of its own, because a Go runtime does not suit a process that forks. Where the package has no
wheel for the machine, what needs it is skipped; on CI's it has one.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.manifests.kustomize import Object
from tests.manifests.rendered import MANIFESTS

CHART = MANIFESTS / "chart"
PROGRAM = """
import json, sys, helm_python
chart, values, namespace = sys.argv[1:]
with helm_python.Chart.load(chart) as loaded:
    try:
        loaded.validate_schema(json.loads(values))
        print(json.dumps(loaded.render(json.loads(values), name="ghapp", namespace=namespace)))
    except helm_python.HelmError as error:
        sys.exit(str(error))
"""
needs_helm = pytest.mark.skipif(importlib.util.find_spec("helm_python") is None, reason="no wheel of helm-python-sdk")


class Rendered(NamedTuple):
    """What `helm template` prints, and the notes after an installation."""

    objects: list[Object]
    notes: str


def render(values: Object, *, chart: Path = CHART, namespace: str = "ghapp") -> Rendered:
    """Renders the chart with these values over its defaults; not to be changed by who reads it.

    Raises:
        ValueError: the schema or a template refuses the values.
    """
    return _render(json.dumps(values), chart, namespace)


@functools.cache
def _render(values: str, chart: Path, namespace: str) -> Rendered:
    command = [sys.executable, "-c", PROGRAM, str(chart), values, namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    files = json.loads(done.stdout)
    documents = [text for name, text in sorted(files.items()) if name.endswith(".yaml")]
    objects = [each for text in documents for each in yaml.safe_load_all(text) if each]
    return Rendered(objects, files["ghapp/templates/NOTES.txt"])


def example(name: str) -> Object:
    """The values of an example, with the policy and the addresses of the overlay of that name."""
    roles = MANIFESTS / "overlays" / name / "roles"
    return {
        **yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text()),
        "config": (roles / "ghapp.toml").read_text(),
    }
