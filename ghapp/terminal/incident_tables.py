"""Tables of incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ghapp.terminal.tables import ShrinkingTable, ago, constant_column, copyable, count_line, epoch, new_table
from ghapp.wording import duration, time_of

COLOURS = {"open": "red", "stopped": "bold red", "healed": "green", "ended": "bright_black"}


def incidents_table(
    documents: Sequence[Mapping[str, Any]], now: float, *, has_more: bool = False, is_open: bool = False
) -> RenderableType:
    """Returns a row for each incident; below it how its losses ended, and the address of the page of each open one.

    Args:
        documents: the incidents.
        now: epoch seconds.
        has_more: True if there are older ones.
        is_open: True if only open ones were asked for.
    """
    if not documents:
        return copyable("no incident is open" if is_open else "no runner was lost in the last month")
    rows = new_table("org", "state", "began", "ended", "lasted", "incident", "lost", "open", "fuse", "id")
    for each in documents:
        end = now if each["ended"] is None else epoch(each["ended"])
        rows.add_row(
            each["org"],
            Text(each["state"], COLOURS[each["state"]]),
            ago(each["began"], now),
            "" if each["ended"] is None else time_of(end, now),
            duration(end - epoch(each["began"])),
            each["text"],
            f"{each['lost']:,}",
            f"{each['open']:,}",
            each["fuse"] or "",
            each["id"],
        )
    count = count_line(len(documents), len(documents), "incident")
    if has_more:
        count.append("; there are more, --limit shows them")
    parts: list[RenderableType] = [
        count,
        ShrinkingTable(rows, [*constant_column("org", documents), "fuse", "ended", "lasted"]),
    ]
    parts += [copyable(f"  {each['id']}: {_ends(each)}", "dim") for each in documents if _ends(each)]
    return Group(*parts)


def _ends(document: Mapping[str, Any]) -> str:
    """Returns how losses ended, how long healing takes, and the page of an open incident; empty without any of them."""
    words = [f"{each['losses']:,} × {each['text']}" for each in document["ends"]]
    if document["heal_seconds"] is not None:
        words.append(f"median time to heal {duration(document['heal_seconds'])}")
    if document["url"] and document["ended"] is None:
        words.append(document["url"])
    return "; ".join(words)
