"""Tables for people: what the commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ghapp.health.cluster_summary import StaleNamespace
from ghapp.report.documents import timestamp
from ghapp.terminal.shrinking_table import ShrinkingTable

COLOURS = {
    "healthy": "green",
    "starting": "cyan",
    "offline": "yellow",
    "suspect": "magenta",
    "invalidated": "red",
    "retired": "bright_black",
    "unknown": "bright_black",
    "healed": "green",
}

GONE = ("suspect", "invalidated", "retired")
"""States of runners that GitHub does not show any more: the age of the last answer is no sign of life."""

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


def sweeps_table(accounts: Iterable[Any]) -> Table:
    """What each sweep found and cost."""
    table = _table("org", "runners", "suspects", "calls", "billable", "ms", "calls left", "next in", "flaw")
    for each in accounts:
        seen = (each.runners, each.suspects) if each.runners or not each.flaw else ("-", "-")  # none were listed
        cells = (*seen, each.calls, each.billable, round(each.milliseconds), each.left)
        table.add_row(each.org, *(str(cell) for cell in cells), f"{each.next_in:.0f} s", each.flaw or "none")
    return table


def runners_table(documents: Sequence[Mapping[str, Any]], left: Sequence[Mapping[str, Any]] = ()) -> RenderableType:
    """The fleet, a line each; where there is little room, without what is the same in all lines, or told by a name.

    `left` are those that are counted below it, and not shown.
    """
    is_held = any(map(_held_by, documents))
    table = _table("org", "pool", "runner", "id", "state", "reason", *(["held by"] if is_held else []), "seen")
    for each in documents:
        held = [", ".join(_held_by(each))] if is_held else []
        first = (each["org"], each["pool"], each["name"], str(each["runner_id"]))
        table.add_row(*first, _state(each), each["reason"], *held, _last_seen(each))
    told_by_name = all(each["name"].startswith(str(each["pool"])) for each in documents)
    spare = [*_same("org", documents), *(["pool"] if told_by_name else []), "id"]
    count = _count(documents, "runner")
    healed = sum(each["healed"] for each in documents)
    if healed:
        count.append(f", {healed} of them healed: lost, and their replacement accepted", "dim italic")
    parts: list[RenderableType] = [ShrinkingTable(table, spare), count]
    if left:
        gone = Counter("healed" if each["healed"] else each["state"] for each in left)
        said = ", ".join(f"{gone[each]} {each}" for each in sorted(gone))
        parts.append(Text(f" {said} within the last 24 hours; --all shows them", "dim italic"))
    return Group(*parts)


def held_lines(held: Iterable[Mapping[str, Any]]) -> Text:
    """What holds replacements back, a line each."""
    return Text("\n".join(_held_line(each) for each in held), "yellow")


def _held_line(held: Mapping[str, Any]) -> str:
    where = f"{held['org']}, the whole organization" if held["pool"] is None else f"{held['org']}/{held['pool']}"
    return f"{held['kind']}: {where}, {held['said']}"


def _held_by(document: Mapping[str, Any]) -> list[str]:
    """What holds a runner's replacement back, should it be lost."""
    fuse = [] if document["fuse"] == "closed" else [f"fuse {document['fuse']}"]
    return [*(["pause"] if document["paused"] else []), *fuse]


def _last_seen(document: Mapping[str, Any]) -> str:
    """How long ago GitHub last showed it; since when it is gone, of one that is gone."""
    if document["state"] in GONE and document["since"] is not None:
        return f"gone since {document['since'][11:19]}"
    return "never" if document["age_seconds"] is None else f"{document['age_seconds']:.0f} s ago"


def explanation(document: Mapping[str, Any]) -> RenderableType:
    """One runner: what is true, and the evidence in order."""
    # The terminal may wrap it, but a name is not to be broken by us: it is there to be copied.
    head = Text(f"{document['org']}/{document['name']} ({document['runner_id']}) is ", no_wrap=True, overflow="ignore")
    head.append(document["state"], COLOURS[document["state"]])
    head.append(f": {document['reason']}")
    head.append(", healed" if document["healed"] else "", COLOURS["healed"])
    head.append(f"; pool {document['pool']}, fuse {document['fuse']}")
    head.append(", paused" if document["paused"] else "", "yellow")
    head.append(", replace now" if document["replace"] else "")
    table = _table("at", "source", "said")
    for each in document["evidence"]:
        table.add_row(each["at"], each["source"], Text(each["said"]))
    parts: list[RenderableType] = [head]
    if document.get("held"):
        parts.append(held_lines(document["held"]))
    if document["evidence"]:
        parts.append(table)
    if document.get("death") is not None:
        parts.append(post_mortem(document["death"]))
    return Group(*parts)


def post_mortem(death: Mapping[str, Any]) -> RenderableType:
    """How a runner ended, what to do about it, and what was logged around it."""
    ended = "nobody saw its exit code" if death["exit_code"] is None else f"exit code {death['exit_code']}"
    signal = "" if death["signal"] is None else f", signal {death['signal']}"
    reason = f", {death['reason']}" if death["reason"] else ""
    head = Text(f"\ndied at {death['at']}: ")
    head.append(death["cause"], "red")
    head.append(f" ({ended}{signal}{reason})")
    table = _table("", "")
    table.show_header = False
    table.add_row("pod", Text(death["pod"]))
    table.add_row("node", Text(death["node"] or "not told"))
    if (job := death["job"]) is not None:
        said = (job["repository"], job["name"] or job["id"], job["conclusion"] or "no conclusion yet", job["html_url"])
        table.add_row("job", Text(" ".join(str(each) for each in said if each)))
    table.add_row("advice", Text(death["advice"]))
    for title, lines in (("its last lines", death["runner_log"]), ("its node", death["host_log"])):
        if lines:
            table.add_row(title, Text("\n".join(map(_plain, lines))))
    return Group(head, table)


def phantoms_table(phantoms: Sequence[Mapping[str, Any]]) -> RenderableType:
    """What is counted as a runner and is none, and what to do about each kind of it."""
    table = _table("org", "phantom", "kind", "reason", "since")
    for each in phantoms:
        place = f"{each['namespace']}/{each['name']}" if each["namespace"] else each["name"]
        table.add_row(each["org"], Text(place), each["kind"], each["reason"], each["since"])
    count = Text.assemble(_count(phantoms, "phantom"), (": counted as runners, and none", "dim italic"))
    advice = {each["reason"]: each["advice"] for each in phantoms}
    return Group(
        Text(),
        ShrinkingTable(table, [*_same("org", phantoms), "kind"]),
        count,
        *(Text(f" {reason} → {what}") for reason, what in advice.items()),
    )


def unseen_line(unseen: Sequence[StaleNamespace], now: float) -> Text:
    """That nobody watches these namespaces just now, and since when."""
    times = [each.seen_at for each in unseen if each.seen_at is not None]
    seen = f"last seen {_ago(now - min(times))} ago" if times else "never seen"
    names = ", ".join(each.namespace for each in unseen)
    return Text(
        f"the cluster was {seen} ({names}): see that `ghapp watch` runs, and `ghapp doctor`",
        no_wrap=True,
        overflow="ignore",
    )


def tokens_table(tokens: Iterable[Any], now: float) -> Table:
    """All tokens, without their secrets."""
    table = _table("id", "name", "orgs", "scopes", "made", "expires")
    for each in tokens:
        made, expires = timestamp(each.created_at)[:10], Text("never" if each.expires_at is None else "")
        if each.expires_at is not None:
            over = each.expires_at <= now
            expires.append(f"{timestamp(each.expires_at)[:10]}{', over' if over else ''}", "red" if over else "")
        table.add_row(each.id, each.name, ", ".join(each.orgs), ", ".join(each.scopes), made, expires)
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


def _same(column: str, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """The column, if it says the same in each line."""
    return [column] if len({each[column] for each in documents}) == 1 else []


def _count(things: Sequence[Any], name: str) -> Text:
    return Text(f" {len(things)} {name}{'' if len(things) == 1 else 's'}", "dim italic")


def _ago(seconds: float) -> str:
    """A length of time in the largest unit that it has two of."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _plain(line: str) -> str:
    """Without what a terminal would obey."""
    return "".join(each if each.isprintable() or each == "\t" else " " for each in line)


def _state(document: Mapping[str, Any]) -> Text:
    if document["healed"]:
        return Text(f"{document['state']}, healed", COLOURS["healed"])
    return Text(document["state"], COLOURS[document["state"]])


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
