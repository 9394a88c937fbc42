"""Tables of runners' deaths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ghapp.terminal.tables import ShrinkingTable, ago, constant_column, copyable, count_line, new_table
from ghapp.untrusted_text import shell_command

MOST_SHARED = 5
"""Values of one kind in the summary, the most frequent."""


def deaths_table(
    documents: Sequence[Mapping[str, Any]], now: float, *, has_more: bool = False, are_clean: bool = False
) -> RenderableType:
    """Returns a row per death, what several deaths have in common, and what to do by cause.

    Args:
        documents: the deaths.
        now: epoch seconds.
        has_more: True if there are older ones.
        are_clean: True if clean exits were asked for, which are no deaths.
    """
    rows = new_table("org", "ended" if are_clean else "died", "runner", "pool", "node", "cause", "reason", "job")
    for each in documents:
        job = each["job"] or {}
        place = f"{job['repository']} {job['name']}".strip() if job else ""
        names = (each[key] for key in ("runner_name", "pool", "node"))
        cause = Text(each["cause"], "" if are_clean else "red")
        rows.add_row(each["org"], ago(each["at"], now), *names, cause, each["reason"], place)
    if not documents:
        soon = "" if are_clean else "; one that no container shows is known within two minutes of its job's end"
        return copyable(f"no {'clean exit' if are_clean else 'death'} is known{soon}")
    count = count_line(len(documents), len(documents), "clean exit" if are_clean else "death")
    if has_more:
        count.append("; older ones are not counted, --limit shows more")
    parts: list[RenderableType] = [
        count,
        ShrinkingTable(rows, [*constant_column("org", documents), "reason", "node", "job", "pool"]),
    ]
    for key in ("cause", "pool", "node", "image"):
        counts = Counter(each[key] for each in documents if each[key])
        most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MOST_SHARED]
        if most:
            shared = ", ".join(f"{value} {count}" for value, count in most)
            parts.append(copyable(f" by {key}: {shared}"))
    latest = {} if are_clean else {each["cause"]: each for each in reversed(documents) if each["advice"]}
    for cause, each in sorted(latest.items())[:MOST_SHARED]:
        command = shell_command("ghapp", "explain", each["org"], each["runner_name"])
        lines = f"; its last lines: `{command}`" if each["runner_log"] else ""
        parts.append(copyable(f"  → {cause}: {each['advice'].removesuffix('.')}{lines}", "dim"))
    return Group(*parts)
