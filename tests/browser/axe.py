"""Runs axe-core on an open page."""

from __future__ import annotations

from pathlib import Path

AXE = (Path(__file__).parent / "axe.min.js").read_text()
SCHEMES = ("light", "dark")


def violations(page):
    """Returns what axe finds on a page (opened with `bypass_csp`), by colour scheme: rule and elements."""
    page.evaluate(AXE)
    found = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [(scheme, each["id"], [node["html"] for node in each["nodes"]][:3]) for each in result["violations"]]
    return found
