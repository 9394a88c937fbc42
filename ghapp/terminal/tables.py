"""Tables that the commands print."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from ghapp.deaths.cause import HAPPENED, Cause
from ghapp.deaths.post_mortem import APART_SECONDS
from ghapp.deaths.texts import memory_text
from ghapp.installations.pool_matching import ALL_POOLS, LONGEST_POOL
from ghapp.leaks.documents import LEAKED
from ghapp.leaks.tick import WAITS
from ghapp.pods.phantom_kinds import KNOWN_SOON, may_be_phantoms
from ghapp.report.documents import HEALED, NO_SUCCESSOR, listed_state, timestamp
from ghapp.report.overview import PhantomDocument, phantoms_of_runner
from ghapp.runners.next_attempt import blindness_of
from ghapp.runners.verdict import Reason, State
from ghapp.untrusted_text import visible
from ghapp.wording import duration, time_of

ANY_WIDTH = 100_000

LONGEST_CELL = LONGEST_POOL
"""Characters of a name in a table: one long name makes all rows as long."""

LONGEST_SENTENCE = 1000

COLOURS = {
    "healthy": "green",
    "starting": "cyan",
    "offline": "yellow",
    "suspect": "magenta",
    "invalidated": "red",
    "retired": "bright_black",
    "unknown": "bright_black",
    HEALED: "green",
    NO_SUCCESSOR: "bright_black",
}

LISTED = (State.HEALTHY, State.STARTING, State.OFFLINE)
"""States that are GitHub's last answer: while it gives none, they are as old as that."""

ABSENT = ("suspect", "invalidated", "retired")
"""States of runners that GitHub does not list any more: for them the age of the last answer means nothing."""

SEVERITIES = {"good": "green", "busy": "cyan", "attention": "yellow", "critical": "bold red"}

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


def plain(text: str, style: str = "", most: int = LONGEST_SENTENCE) -> Text:
    """Returns text of anybody as text of the terminal: one line, without markup and control characters."""
    return Text(visible(text, most), style)


class CopyableText(Text):
    """A line that is wrapped between words on a terminal, and not at all in a pipe; no word is broken."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        """Draws the line; what is wrapped keeps its indentation."""
        width = options.max_width if console.is_terminal else ANY_WIDTH
        for line in self.split(allow_blank=True):
            indent = " " * (len(line.plain) - len(line.plain.lstrip()))
            for number, part in enumerate(line.divide(_breaks(line.plain, width, len(indent)))):
                part.rstrip()
                whole = Text(indent if number else "", self.style, end="").append_text(part)
                yield from console.render(whole, options.update(no_wrap=True, overflow="ignore"))
                yield Segment.line()


def _breaks(text: str, width: int, indent: int) -> list[int]:
    """Returns where a line is wrapped: before the words that would make it wider than `width` cells.

    What follows a break is indented by `indent` cells. A command in backquotes is wrapped only if it is too
    long for a line.
    """
    breaks, start = list[int](), 0
    command = rf"`[^`]{{1,{max(1, width - indent - 3)}}}`\S?(?=\s|$)"
    for word in re.finditer(rf"{command}|\S+", text):
        most = width - indent if breaks else width
        if text[start : word.start()].strip() and cell_len(text[start : word.end()]) > most:
            start = word.start()
            breaks.append(start)
    return breaks


def copyable(text: str, style: str = "") -> Text:
    """Returns the same for a line below or above a table."""
    return CopyableText(visible(text), style)


class PlainTable(Table):
    """A table. What is added as a `str` is a name of anybody, and is shown as it is: rich would read its markup."""

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        """Adds a row of texts and renderables."""
        plain_cells = (plain(each, most=LONGEST_CELL) if isinstance(each, str) else each for each in cells)
        super().add_row(*plain_cells, style=style, end_section=end_section)


class ShrinkingTable:
    """A table that drops redundant columns when it is too wide for the terminal; no word of a cell is broken."""

    def __init__(self, table: Table, optional: Sequence[str] = (), *, stacks: bool = True) -> None:
        """Takes the table, and how it becomes narrower.

        Args:
            table: its columns are as wide as their longest cell, but those of `new_table`'s `sentences`.
            optional: the headers of the columns that may be dropped, in that order.
            stacks: True: a table that is still too wide is drawn as a list, with a line for each cell.
        """
        self._table, self._optional, self._stacks = table, optional, stacks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws the table; in a pipe with a line for each row; if it may not become a list, wider than the terminal."""
        table, widest = self._table, options.update(max_width=ANY_WIDTH)
        for table in _narrower(self._table, self._optional):
            if _least_width(console, widest, table) <= options.max_width:
                break
        else:
            if self._stacks and console.is_terminal:
                yield from _as_list(self._table)
                return
        natural = console.measure(table, options=widest).maximum
        has_sentences = any(not column.no_wrap for column in table.columns)
        width = min(natural, options.max_width) if has_sentences and console.is_terminal else natural
        width = max(width, _least_width(console, widest, table))
        yield from console.render(table, options.update(width=width, max_width=width))


LEAST_SENTENCE = 30
"""The least width of a column of sentences; below it, each word would have a line of its own."""


def _least_width(console: Console, options: ConsoleOptions, table: Table) -> int:
    """Returns the width below which a name would be broken, or a sentence be unreadable."""
    width = 0
    for column in table.columns:
        measures = [console.measure(each, options=options) for each in (column.header, *column.cells)]
        widest = max(each.maximum for each in measures)
        longest_word = max(each.minimum for each in measures)
        width += 2 + (widest if column.no_wrap else min(widest, max(longest_word, LEAST_SENTENCE)))
    return width


def _as_list(table: Table) -> Iterable[RenderableType]:
    """Returns a line for each cell, with the column's header; the lines of a row below its first one are indented."""
    columns = [(str(column.header), [*column.cells]) for column in table.columns]
    for row in range(table.row_count):
        marks = Text()
        for header, cells in columns:
            cell = cells[row]
            value = cell if isinstance(cell, Text) else Text(str(cell))
            if not value.plain.strip():
                continue
            if not header or not table.show_header:
                marks = marks.append_text(value).append(" ")
                continue
            is_first = header == next(name for name, _ in columns if name)
            line = CopyableText("" if is_first else "  ").append_text(marks).append(f"{header}: ", "dim")
            yield line.append_text(value)
            marks = Text()
        if marks.plain:
            yield CopyableText("").append_text(marks)


def _narrower(table: Table, optional: Sequence[str]) -> Iterable[Table]:
    yield table
    for header in optional:
        table = _without(table, header)
        yield table


def _without(table: Table, header: str) -> Table:
    smaller = copy(table)
    smaller.columns = [column for column in table.columns if column.header != header]
    return smaller


def sweeps_table(accounts: Iterable[Any]) -> RenderableType:
    """Returns a row per sweep: what it found and cost; below, what happens next to lost runners, and why one failed."""
    accounts = [*accounts]
    numbers = ("runners", "suspects", "lost", "calls", "billable", "ms", "calls left", "next in")
    table = new_table("org", *numbers, "problem", sentences=["problem"])
    for each in accounts:
        is_listed = bool(each.runners) or not each.flaw
        seen = (each.runners, len(each.absent.suspects)) if is_listed else ("-", "-")
        cells = (*seen, each.losses.runners, each.calls, each.billable, round(each.milliseconds), each.left)
        table.add_row(each.org, *(str(cell) for cell in cells), f"{each.next_in:.0f} s", each.flaw)
    lines = [copyable(f"{each.org}: {each.losses.in_words}", "red") for each in accounts if each.losses.runners]
    lines += [copyable(f"{each.org}: {each.absent.in_words}", "dim") for each in accounts if any(each.absent)]
    for each in (each for each in accounts if each.flaw):
        why = blindness_of(each.flaw, each.org)
        lines.append(copyable(f"{each.org}: {why.meaning} ({each.flaw})", "yellow"))
        lines.append(copyable(f"  → {why.fix}", "dim"))
    return Group(ShrinkingTable(table, ["billable", "ms"]), *lines)


def remote_sweeps_text(sweeps: Iterable[Any]) -> RenderableType:
    """Returns a line for each sweep by a server: what it found and cost, or why it failed."""
    return Group(*(copyable(f"{each.org}: {each.outcome}", "yellow" if each.failed else "") for each in sweeps))


def runners_table(
    documents: Sequence[Mapping[str, Any]],
    total: int,
    now: float,
    limit: int | None = None,
    phantoms: Iterable[PhantomDocument] = (),
) -> RenderableType:
    """Returns a row per runner; on narrow terminals without columns that are constant or contained in the name.

    `total` is the number of runners of which these were selected, `now` is in epoch seconds; of more than `limit`
    runners, the others are only counted above it. A runner that is one of the `phantoms` is called so.
    """
    rows = documents[:limit]
    has_losses = any(each["remediation"]["status"] != "none" for each in rows)
    table = new_table("org", "pool", "runner", "id", "state", "reason", *(["next"] if has_losses else []), "seen")
    for each in rows:
        held = [_next(each["remediation"])] if has_losses else []
        first = (each["org"], each["pool"], each["name"], str(each["runner_id"]))
        mine = phantoms_of_runner([one for one in phantoms if one["org"] == each["org"]], each["name"])
        seen = f"phantom for {duration(now - epoch(mine[0]['since']))}" if mine else _last_seen(each, now)
        table.add_row(*first, _state(each), each["reason"], *held, seen)
    name_has_pool = all(each["name"].startswith(str(each["pool"])) for each in rows)
    optional = [*constant_column("org", rows), *(["pool"] if name_has_pool else []), "id"]
    counts = Counter(listed_state(each) for each in documents if each["state"] != "healthy")
    parts: list[RenderableType] = [
        count_line(len(rows), total, "runner", counts),
        ShrinkingTable(table, optional),
    ]
    if len(rows) < len(documents):
        parts.append(more_line(len(documents) - len(rows), len(rows)))
    return Group(*parts)


def no_runners(state: str | None, places: Iterable[str], total: int) -> RenderableType:
    """Returns the sentence in place of an empty table.

    Args:
        state: that was asked for; None: any.
        places: the pool and the organization that were asked for.
        total: the number of runners there in any state.
    """
    of = "".join(f" of {each}" for each in places if each)
    return copyable(f"no runner{of} is {state} (of {total:,})" if state and total else f"no runner{of} is known")


def past_line(past: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Returns how many runners a table leaves out because they are retired or healed."""
    counts = Counter(listed_state(each) for each in past)
    summary = ", ".join(f"{counts[each]} {each}" for each in sorted(counts))
    return CopyableText(f" {summary} within the last 24 hours; --all shows them", "dim italic")


def _next(remediation: Mapping[str, Any]) -> str:
    """Returns how far the replacement of a runner is, and what blocks it: `waiting (pause)`."""
    if remediation["status"] == "none":
        return ""
    if remediation["status"] == "suspect":  # the column beside it has that word as the state
        return "second 404"
    blocked_by = remediation["blocked_by"]
    return f"{remediation['status']} ({blocked_by})" if blocked_by else str(remediation["status"])


def action_text(command: str, link: str) -> str:
    """Returns the command or the link of a step, after it; a command is between backquotes."""
    return f"`{command}`" if command else link


def headlines_text(
    headlines: Iterable[Mapping[str, Any]], notes: Mapping[str, Iterable[str]], now: float
) -> RenderableType:
    """Returns what is wrong, the worst first, each with what to do below it, and the notes of each organization."""
    lines = []
    for each in headlines:
        since = "" if each["since"] is None else f" (for {duration(now - epoch(each['since']))})"
        lines.append(copyable(f"{each['org']}: {each['text']}{since}", SEVERITIES[each["severity"]]))
        action = action_text(each["command"], each["link"] or "")
        if each["step"]:
            lines.append(copyable(f"  → {each['step']}{f': {action}' if action else ''}", "dim"))
    lines += [copyable(f"{org}: {each}", "dim") for org, several in notes.items() for each in several]
    return Group(*lines)


def _last_seen(document: Mapping[str, Any], now: float) -> str:
    """Returns the time since GitHub last listed the runner; for an absent runner, for how long it has its state.

    A lost runner whose replacement runner is online is healed, and no longer invalidated.
    """
    if listed_state(document) == HEALED and document["remediation"]["since"] is not None:
        return f"healed {duration(now - epoch(document['remediation']['since']))} ago"
    if document["state"] in ABSENT and document["since"] is not None:
        return f"{document['state']} for {duration(now - epoch(document['since']))}"
    return "never" if document["age_seconds"] is None else f"{duration(document['age_seconds'])} ago"


def explanation(document: Mapping[str, Any], page: str | None = None) -> RenderableType:
    """Returns one runner: its state, its evidence in order, and the address of its page if that is known."""
    head = copyable(f"{document['org']} {document['name']} ({document['runner_id']}) ")
    death = document.get("death")
    is_dead = death is not None and death["cause"] != Cause.CLEAN_EXIT
    if death is not None and is_dead:
        happened = HAPPENED[Cause(death["cause"])]
        words = f"{happened[:1].lower()}{happened[1:]}"
        head.append(f"died at {to_the_second(death['at'])} ({death['cause']}): {words}; ", "red")
        head.append(f"{_after_death(document, death)} ")
    else:
        head.append("is ")
    head.append_text(_state(document))
    # The reason alone would read as if the job had come to its own end.
    because = ", because its job ended with it" if is_dead and document["reason"] == Reason.JOB_COMPLETED else ""
    is_listed = not is_dead and document["state"] in LISTED and document["age_seconds"] is not None
    seen = f", as of {duration(document['age_seconds'])} ago" if is_listed else ""
    head.append(f"{because}: {document['reason']}{seen}")
    fuse = "fuse of all pools" if document["fuse_of_all_pools"] else "fuse"
    head.append(visible(f"; pool {document['pool']}, {fuse} {document['fuse']}"))
    table = new_table("at", "source", "observation", sentences=["observation"])
    for each in document["evidence"]:
        table.add_row(to_the_second(each["at"]), each["source"], plain(each["text"]))
    parts: list[RenderableType] = [head]
    remediation = document["remediation"]
    if remediation["status"] != "none":
        since = f" since {to_the_second(remediation['since'])}" if remediation["since"] else ""
        parts.append(copyable(f"replacement: {remediation['status']}{since}; {remediation['text']}", "yellow"))
    if phantoms := document.get("phantoms"):
        kinds = ", ".join(f"{each['kind']} since {to_the_second(each['since'])}" for each in phantoms)
        parts.append(copyable(f"phantom: it counts as a runner, and cannot run a job ({kinds})", "yellow"))
        parts += _phantom_steps(phantoms)
    if document.get("may_be_phantom"):
        parts.append(copyable(f"{may_be_phantoms(1, 1)}\n  → {KNOWN_SOON}", "yellow"))
    for each in document.get("leaks", ()):
        guard = f" ({each['state']})" if each["state"] != LEAKED else ""
        word = f"{'unused' if each['state'] in WAITS else 'leaked'}{guard} since"
        word = "deleted by the reaper at" if each["state"] == "deleted" else word
        parts.append(
            copyable(
                f"pod {each['namespace']}/{each['pod']}: {word} {to_the_second(each['at'])}; {each['text']}", "yellow"
            )
        )
    if document["evidence"]:
        parts.append(ShrinkingTable(table))
    if death is not None:
        parts.append(post_mortem(death))
    if page is not None:
        parts.append(copyable(f"page: {page}"))
    return Group(*parts)


def _after_death(document: Mapping[str, Any], death: Mapping[str, Any]) -> str:
    """Returns the words before the state of a runner that died: GitHub lists it for some time as if it had not."""
    if document["state"] not in (State.HEALTHY, State.STARTING):
        return "it is"
    is_offline = document["reason"] == Reason.OFFLINE_BRIEFLY or document["observed_at"] is None
    if is_offline or epoch(document["observed_at"]) < epoch(death["at"]) + APART_SECONDS:
        return "GitHub still lists it as"
    return "GitHub listed it after that as"


def post_mortem(death: Mapping[str, Any]) -> RenderableType:
    """Returns how a runner ended, the advice, and the log lines around its end."""
    ended = "exit code unknown" if death["exit_code"] is None else f"exit code {death['exit_code']}"
    signal = "" if death["signal"] is None else f"signal {death['signal']}"
    of_container = [ended, signal] if death["pod"] else []
    details = ", ".join(filter(None, [*of_container, death["reason"]]))
    is_clean = death["cause"] == Cause.CLEAN_EXIT
    head = CopyableText(f"\n{'ended' if is_clean else 'died'} at {to_the_second(death['at'])}: ")
    head.append(death["cause"], "" if is_clean else "red")
    head.append(visible(f" ({details})" if details else ""))
    table = new_table("", " ", sentences=[" "])
    table.show_header = False
    if death["pod"]:
        table.add_row("pod", death["pod"])
        table.add_row("node", death["node"] or "unknown")
    if death["memory_limit"]:
        table.add_row("memory", memory_text(death["cause"], visible(death["memory_limit"])))
    if (job := death["job"]) is not None:
        parts = (job["repository"], job["name"] or job["id"], job["conclusion"] or "no conclusion yet", job["html_url"])
        table.add_row("job", plain(" ".join(str(each) for each in parts if each)))
    table.add_row("advice", plain(death["advice"]))
    for title, lines in (("runner log", death["runner_log"]), ("host log", death["host_log"])):
        if lines:
            table.add_row(title, Text("\n".join(map(visible, lines))))
    return Group(head, ShrinkingTable(table))


MOST_COMMANDS = 3
"""Commands shown for phantoms of one reason: the others differ in the name alone."""


def phantoms_table(phantoms: Sequence[Mapping[str, Any]], now: float) -> RenderableType:
    """Returns the phantoms, which are counted as runners but are not; by reason the advice, and each one's command."""
    table = new_table("org", "phantom", "kind", "reason", "found")
    for each in phantoms:
        place = f"{each['namespace']}/{each['name']}" if each["namespace"] else each["name"]
        table.add_row(each["org"], place, each["kind"], each["reason"], ago(each["since"], now))
    count = count_line(len(phantoms), len(phantoms), "phantom")
    count.append(": counted as runners, but not runners")
    steps = _phantom_steps(phantoms)
    return Group(Text(), count, ShrinkingTable(table, [*constant_column("org", phantoms), "kind"]), *steps)


def _phantom_steps(phantoms: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Returns by reason the advice, and each one's command."""
    advice = {each["reason"]: each["advice"] for each in phantoms}
    details = {each["reason"]: f" ({each['detail']})" for each in reversed(phantoms) if each["detail"]}
    steps: list[RenderableType] = []
    for reason, what in advice.items():
        steps.append(copyable(f" {reason}{details.get(reason, '')} → {what}"))
        commands = [each["command"] for each in phantoms if each["reason"] == reason and each["command"]]
        steps += [copyable(f"   {command}") for command in commands[:MOST_COMMANDS]]
    return steps


def tokens_table(tokens: Iterable[Any], now: float) -> RenderableType:
    """Returns all tokens, without their secrets."""
    tokens = [*tokens]
    if not tokens:
        return copyable("there is no token; `ghapp token create` makes one")
    table = new_table("id", "name", "orgs", "scopes", "created", "expires", sentences=["orgs", "scopes"])
    for each in tokens:
        created, expires = timestamp(each.created_at)[:10], Text("never" if each.expires_at is None else "")
        if each.expires_at is not None:
            expired = each.expires_at <= now
            date = timestamp(each.expires_at)[:10]
            expires.append(f"{date}{', expired' if expired else ''}", "red" if expired else "")
        table.add_row(each.id, each.name, ", ".join(each.orgs), ", ".join(each.scopes), created, expires)
    return ShrinkingTable(table, ["created"])


def findings_table(findings: Iterable[Any]) -> RenderableType:
    """Returns doctor's findings, each problem with its fix below it."""
    table = new_table("", "check", "result", sentences=["result"])
    group = None
    for each in findings:
        if each.group != group:
            group = each.group
            table.add_row("", Text(group, "bold"), "")
        mark, colour = MARKS[each.status]
        name = each.name if each.org is None else f"{each.org}: {each.name}"
        table.add_row(Text(mark, colour), name, plain(each.text))
        if each.fix is not None:
            table.add_row("", "", plain(f"→ {each.fix}", "dim"))
    return ShrinkingTable(table)


def findings_text(counts: Any, url: str | None) -> RenderableType:
    """Returns the line below doctor's findings: how many checks failed, and of which server (None: this machine)."""
    style = "red" if counts.problems else "yellow" if counts.warnings else "green"
    lines = [copyable(str(counts), style)]
    if url is not None:
        more = "on it, `ghapp doctor` also checks controllers, the cluster's API, active shards and notifications"
        lines.append(copyable(f"the server at {url}, as its web role sees it; {more}", "dim italic"))
    return Group(*lines)


def letters_table(letters: Iterable[Mapping[str, Any]], now: float) -> RenderableType:
    """Returns the deliveries that were given up."""
    table = new_table("given up", "delivery", "event", "reason", sentences=["reason"])
    for each in letters:
        table.add_row(ago(each["at"], now), each["guid"], each["event"], plain(each["why"]))
    return ShrinkingTable(table)


def constant_column(column: str, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the column if it has the same value in each row."""
    return [column] if len({each[column] for each in documents}) == 1 else []


def audit_table(documents: Sequence[Mapping[str, Any]], now: float) -> RenderableType:
    """Returns a row for each entry of the audit log."""
    if not documents:
        return copyable("no change is recorded")
    table = new_table("org", "when", "who", "through", "what", "result", "reason", sentences=["result", "reason"])
    for each in documents:
        subject = "all pools" if each["subject"] == ALL_POOLS else each["subject"]
        what, when = f"{each['action']} {subject}".strip(), ago(each["at"], now)
        table.add_row(
            each["org"], when, each["who"], each["channel"], plain(what), plain(each["text"]), plain(each["why"])
        )
    return ShrinkingTable(table, [*constant_column("org", documents), "through"])


def count_line(shown: int, total: int, name: str, counts: Mapping[str, int] | None = None) -> Text:
    """Returns the line above a table: `12 of 312 runners; 3 invalidated`. `counts` may be of more rows."""
    of = f"{shown} {name}" if shown == total else f"{shown} of {total} {name}"
    listed = ", ".join(f"{count} {each}" for each, count in sorted((counts or {}).items()))
    return CopyableText(f" {of}{'' if total == 1 else 's'}{f'; {listed}' if listed else ''}", "dim italic")


def more_line(count: int, shown: int) -> Text:
    """Returns the line below a table that a limit has cut."""
    return CopyableText(f" {count} more; --limit {shown + count} shows all", "dim italic")


def to_the_second(at: str | None) -> str:
    """Returns a time of a document for people, without the date if that is today's."""
    return "" if at is None else time_of(epoch(at), time.time())


def epoch(timestamp: str) -> float:
    """Returns an RFC 3339 time as epoch seconds."""
    return datetime.fromisoformat(timestamp).timestamp()


def ago(timestamp: str | None, now: float) -> str:
    """Returns the time since an RFC 3339 time, as people say it: `14 min ago`; empty for None."""
    return "" if timestamp is None else f"{duration(now - epoch(timestamp))} ago"


def _state(document: Mapping[str, Any]) -> Text:
    state = listed_state(document)
    return Text(state, COLOURS[state])


def new_table(*columns: str, sentences: Sequence[str] = ()) -> PlainTable:
    """Returns an empty table with these columns; those of `sentences` are wrapped between words."""
    table = PlainTable(box=None, header_style="bold", padding=(0, 1))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column not in sentences)
    return table
