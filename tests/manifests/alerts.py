"""The alerts of manifests/observability, and which of them fire."""

from __future__ import annotations

import yaml

from tests.manifests.promql import Scrapes, evaluate
from tests.manifests.rendered import MANIFESTS

ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load((MANIFESTS / "observability" / "alerts.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
}


def firing(scrapes: Scrapes) -> dict[str, list[dict[str, str]]]:
    """The labels of each series for which an alert fires, by the alert's name."""
    found = {name: evaluate(expression, scrapes) for name, expression in ALERTS.items()}
    return {name: [dict(labels) for labels in series] for name, series in found.items() if series}
