"""One name, one class: a search for a public class finds a single definition."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.manifests.rendered import ROOT


def test_no_two_public_classes_have_one_name():
    defined = defaultdict(list)
    for package in ("ghapp", "jobs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    defined[node.name].append(str(path.relative_to(ROOT)))
    assert len(defined) > 100
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}
