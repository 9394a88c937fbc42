"""Tables for people: what the commands print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ghapp.health.document import timestamp

COLOURS = {
    "healthy": "green",
    "starting": "cyan",
    "offline": "yellow",
    "suspect": "magenta",
    "invalidated": "red",
    "retired": "bright_black",
    "unknown": "bright_black",
    "replaced": "green",
}


MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


def sweeps_table(accounts: Iterable[Any]) -> Table:
    """What each sweep found and cost."""
    table = _table("org", "runners", "suspects", "calls", "billable", "ms", "calls left", "next in", "flaw")
    for each in accounts:
        cells = (each.runners, each.suspects, each.calls, each.billable, round(each.milliseconds), each.left)
        table.add_row(each.org, *(str(cell) for cell in cells), f"{each.next_in:.0f} s", each.flaw or "none")
    return table


def runners_table(documents: Sequence[Mapping[str, Any]]) -> Table:
    """The fleet, a line each."""
    table = _table("org", "pool", "runner", "id", "state", "reason", "seen")
    for each in documents:
        age = "never" if each["age_seconds"] is None else f"{each['age_seconds']:.0f} s ago"
        table.add_row(
            each["org"], each["pool"], each["name"], str(each["runner_id"]), _state(each), each["reason"], age
        )
    table.caption = f"{len(documents)} runners"
    return table


def explanation(document: Mapping[str, Any]) -> RenderableType:
    """One runner: what is true, and the evidence in order."""
    # The terminal may wrap it, but a name is not to be broken by us: it is there to be copied.
    head = Text(f"{document['org']}/{document['name']} ({document['runner_id']}) is ", no_wrap=True, overflow="ignore")
    head.append(document["state"], COLOURS[document["state"]])
    head.append(f": {document['reason']}; pool {document['pool']}, fuse {document['fuse']}")
    head.append(", replace now" if document["replace"] else "")
    table = _table("at", "source", "said")
    for each in document["evidence"]:
        table.add_row(each["at"], each["source"], each["said"])
    return Group(head, table)


def tokens_table(tokens: Iterable[Any]) -> Table:
    """All tokens, without their secrets."""
    table = _table("id", "name", "orgs", "scopes")
    for each in tokens:
        table.add_row(each.id, each.name, ", ".join(each.orgs), ", ".join(each.scopes))
    return table


def findings_table(findings: Iterable[Any]) -> Table:
    """What the doctor found, and below each that is not well what to do."""
    table = _table("", "what", "found")
    group = None
    for each in findings:
        if each.group != group:
            group = each.group
            table.add_row("", Text(group, "bold"), "")
        mark, colour = MARKS[each.status]
        name = each.name if each.org is None else f"{each.org}: {each.name}"
        table.add_row(Text(mark, colour), name, Text(each.said))
        if each.fix is not None:
            table.add_row("", "", Text(f"→ {each.fix}", "dim"))
    return table


def letters_table(letters: Iterable[Any]) -> Table:
    """Deliveries that were given up."""
    table = _table("given up", "delivery", "event", "why")
    for each in letters:
        table.add_row(timestamp(each.at), each.guid, each.event, Text(each.why))
    return table


def _state(document: Mapping[str, Any]) -> Text:
    return Text(document["state"], COLOURS[document["state"]])


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
