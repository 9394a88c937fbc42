"""The versions of the runners as a table of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ghapp.terminal.tables import ShrinkingTable, constant_column, copyable, count_line, new_table, plain

MOST_STEPS = 5
"""Steps that are shown for one version."""

COLOURS = {"current": "green", "ending": "yellow", "ended": "bold red", "unknown": "bright_black"}


def versions_table(documents: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Returns a row for each version of each organization, and below what to do about those that end."""
    if not documents:
        return copyable("no runner that runs has a known version")
    rows = new_table("org", "version", "state", "runners", "jobs until", "registers until", "pools")
    for each in documents:
        rows.add_row(
            each["org"],
            plain(each["version"] or "not listed"),
            Text(each["state"], COLOURS.get(each["state"], "")),
            f"{each['runners']:,}",
            _day(each["jobs_end_at"]),
            _day(each["registration_ends_at"]),
            _pools(each["pools"]),
        )
    parts: list[RenderableType] = [
        count_line(len(documents), len(documents), "version"),
        ShrinkingTable(rows, [*constant_column("org", documents), "registers until", "pools"]),
    ]
    for each in documents:
        steps = each["next"][:MOST_STEPS]
        parts += [copyable(f" {each['version']}: {step['step']}: {step['why']}") for step in steps]
    return Group(*parts)


def _day(timestamp: str | None) -> str:
    return "" if timestamp is None else timestamp.partition("T")[0]


def _pools(pools: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['pool']} {each['runners']:,}" for each in pools)
