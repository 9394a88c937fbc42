"""What a scan shows to people: tables for a terminal, and Markdown to paste into an issue.

Both show the same document, the worst first, and cut long lists; `--json` has all of it. Names are of outsiders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from ghapp.report import markdown
from ghapp.report.headline import Severity, counted
from ghapp.scan.documents import ScanDocument, ScannedRunnerDocument, ScopeDocument, WaitingJobDocument
from ghapp.scan.looks import ListDifference
from ghapp.terminal.tables import COLOURS, SEVERITIES, ShrinkingTable, copyable, epoch, new_table, plain
from ghapp.workflow_jobs.explanation import duration

MOST_ROWS = 15
"""Rows of one table."""

MOST_LABELS = 10
"""Labels of one line."""

LONGEST_ISSUE = 60_000
"""Characters of the Markdown; GitHub takes 65,536 in an issue."""

CHANGES: Mapping[ListDifference, str] = {
    ListDifference.MISSING: "missing from the second list",
    ListDifference.UNLISTED: "missing from the second list, but registered",
    ListDifference.WENT_OFFLINE: "went offline",
    ListDifference.CAME_ONLINE: "came online",
    ListDifference.LEFT: "left after its job",
    ListDifference.CAME: "registered",
}
"""How the lists differ about a runner, the worst first."""

ORDINARY = (ListDifference.CAME, ListDifference.LEFT, ListDifference.CAME_ONLINE)
"""Changes of a fleet that works: they are counted, and shown by name in JSON alone."""

VERSION_STATES = {"ended": "no jobs any more", "ending": "ends soon", "current": "gets jobs", "unknown": "not known"}


class WaitingGroup(NamedTuple):
    """Jobs that wait for the same pool for the same reason, the oldest first."""

    jobs: Sequence[WaitingJobDocument]

    @property
    def first(self) -> WaitingJobDocument:
        """The oldest one; its text stands for all."""
        return self.jobs[0]


def waiting_groups(scope: ScopeDocument) -> list[WaitingGroup]:
    """Returns the jobs that wait, by labels and reason; the largest groups first."""
    found: dict[tuple[str, ...], list[WaitingJobDocument]] = {}
    for each in scope["jobs"]:
        reason = "" if each["why"] is None else each["why"]["reason"]
        found.setdefault((reason, each["pool"], *sorted(each["labels"])), []).append(each)
    return sorted(map(WaitingGroup, found.values()), key=lambda each: (each.first["why"] is None, -len(each.jobs)))


def summary(scope: ScopeDocument) -> str:
    """Returns what a scope has: `300 runners: 280 healthy, 20 offline`."""
    counts = scope["runners"]
    if counts is None:
        return "its runners cannot be read"
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items(), key=lambda each: -each[1]))
    return counted(sum(counts.values()), "runner") + (f": {states}" if states else "")


def looked(scope: ScopeDocument) -> str:
    """Returns how the lists were read."""
    times = [epoch(each) for each in scope["listed_at"]]
    return f"two lists, {times[1] - times[0]:.0f} s apart" if len(times) > 1 else "one list"


def waiting_text(group: WaitingGroup, now: float) -> str:
    """Returns how many jobs wait, for how long, and why."""
    first, count = group.first, len(group.jobs)
    oldest = duration(now - epoch(first["queued_at"]))
    waits = f"{counted(count, 'job')} {'waits' if count == 1 else 'wait'} {'' if count == 1 else 'up to '}{oldest}"
    if first["why"] is None:
        labels = ", ".join(first["labels"])
        return f"{waits} for {labels or first['pool']}: GitHub has assigned no runner yet, and no reason is known"
    return f"{waits}: {first['why']['text']} ({first['why']['reason']})"


def job_name(job: WaitingJobDocument) -> str:
    """Returns a job's repository, workflow and name."""
    return " / ".join(filter(None, (job["repository"], job["workflow"], job["name"])))


def label_lines(scope: ScopeDocument) -> Iterator[str]:
    """Returns what jobs and runners do not have in common."""
    unserved = [f"{each['label']} ({counted(each['jobs'], 'job')})" for each in scope["unserved_labels"]]
    if unserved:
        yield f"labels of waiting jobs that no runner has: {_listed(unserved)}"
    unused = [f"{each['label']} ({counted(each['runners'], 'runner')})" for each in scope["unused_labels"] or ()]
    if unused:
        yield f"labels of runners that no job asked for, of those that were read: {_listed(unused)}"


def group_lines(scope: ScopeDocument) -> Iterator[str]:
    """Returns what the runner groups exclude."""
    for each in scope["restricted_groups"]:
        repositories = each["repositories"]
        match each["visibility"]:
            case "selected" if repositories is not None:
                admits = f"{counted(len(repositories), 'repository').replace('repositorys', 'repositories')} only"
            case "selected":
                admits = "selected repositories only, which cannot be read"
            case "private":
                admits = "private repositories only"
            case _:
                admits = "all repositories"
        public = "" if each["allows_public_repositories"] else ", and no public one"
        yield f"runner group {each['name']}: {admits}{public}"


def coverage_line(scope: ScopeDocument) -> str:
    """Returns of what the jobs were read; empty if there is nothing to read."""
    known = scope["coverage"]
    if not known["repositories"]:
        return ""
    of = known["of_repositories"]
    repositories = f"{known['repositories']:,}" + ("" if of in (None, known["repositories"]) else f" of {of:,}")
    which = "" if of in (None, known["repositories"]) else ", those that were pushed to last"
    noun = "repository" if known["repositories"] == 1 and of in (None, 1) else "repositories"
    runs = f"{known['runs']:,}" + ("" if known["runs"] == known["of_runs"] else f" of {known['of_runs']:,}")
    unfinished = f"{runs} unfinished run{'' if known['of_runs'] == 1 else 's'}"
    return f"jobs were read of {unfinished} in {repositories} {noun}{which}"


def not_seen_lines(scope: ScopeDocument) -> Iterator[str]:
    """Returns what could not be seen, and what it takes."""
    for each in scope["not_seen"]:
        needs = f"; it takes a token {each['needs']}" if each["needs"] else ""
        yield f"not seen: {each['what']}: {each['why']}{needs}"


def differing(scope: ScopeDocument) -> list[ScannedRunnerDocument]:
    """Returns the runners about which the lists differ, without ordinary changes; the worst first."""
    order = list(CHANGES)
    found = [each for each in scope["differing"] if each["change"] not in ORDINARY]
    return sorted(found, key=lambda each: (order.index(each["change"] or ListDifference.CAME), each["name"]))


def differing_line(scope: ScopeDocument) -> str:
    """Returns how many runners the lists differ about, by what happened; empty if none."""
    counts = {each: sum(row["change"] is each for row in scope["differing"]) for each in CHANGES}
    listed = ", ".join(f"{count:,} {CHANGES[each]}" for each, count in counts.items() if count)
    return f"between the lists: {listed}" if listed else ""


def offline_since(runner: ScannedRunnerDocument) -> str:
    """Returns since when a runner is offline, as far as is known."""
    if runner["last_job_at"] is not None:
        return f"after {runner['last_job_at']}, its last known job"
    return runner["offline_since"] or "not reported by GitHub"


def next_steps(document: ScanDocument, set_up: str) -> str:
    """Returns the end: what the scan has cost, and how to watch the runners from now on."""
    calls = f"{counted(document['calls'], 'call')} to GitHub"
    return f"{calls}. To watch these runners from now on, set up the App: `{set_up}`"


def _listed(words: Sequence[str]) -> str:
    more = [f"and {len(words) - MOST_LABELS} more"] if len(words) > MOST_LABELS else []
    return ", ".join([*words[:MOST_LABELS], *more])


# ---- terminal


def terminal_text(document: ScanDocument, wells: Sequence[str], set_up: str, now: float) -> RenderableType:
    """Returns a scan for a terminal; `wells` has for each scope what to say if nothing is wrong."""
    parts: list[RenderableType] = [*_problems(document, wells)]
    for scope in document["scopes"]:
        parts += [Text(), *_scope(scope, now)]
    return Group(*parts, Text(), copyable(next_steps(document, set_up)))


def _problems(document: ScanDocument, wells: Sequence[str]) -> Iterator[RenderableType]:
    order = [Severity.CRITICAL, Severity.ATTENTION]
    problems = [(scope, each) for scope in document["scopes"] for each in scope["problems"]]
    for scope, each in sorted(problems, key=lambda pair: order.index(pair[1]["severity"])):
        yield copyable(f"{scope['scope']}: {each['text']}", SEVERITIES[each["severity"]])
        if each["step"]:
            yield copyable(f"  → {each['step']}", "dim")
    for scope, well in zip(document["scopes"], wells, strict=True):
        if not scope["problems"]:
            yield copyable(f"{scope['scope']}: nothing is wrong. {well}", SEVERITIES["good"])


def _scope(scope: ScopeDocument, now: float) -> Iterator[RenderableType]:
    yield copyable(f"{scope['scope']} ({scope['kind']}), {looked(scope)}; {summary(scope)}", "bold")
    if scope["pools"]:
        yield _pools_table(scope)
    if scope["offline"]:
        yield _offline_table(scope)
    if scope["versions"]:
        yield _versions_table(scope)
    if line := differing_line(scope):
        yield copyable(line)
    for runner in differing(scope)[:MOST_ROWS]:
        yield copyable(f"  {runner['name']} of {runner['pool']}: {CHANGES[runner['change'] or ListDifference.CAME]}")
    yield from _jobs_lines(scope, now)
    for line in (*label_lines(scope), *group_lines(scope), coverage_line(scope), *not_seen_lines(scope)):
        if line:
            yield copyable(line)


def _jobs_lines(scope: ScopeDocument, now: float) -> Iterator[RenderableType]:
    groups = waiting_groups(scope)
    for group in groups[:MOST_ROWS]:
        yield copyable(waiting_text(group, now), "yellow" if group.first["why"] is not None else "")
        if group.first["why"] is not None and group.first["why"]["next"]:
            yield copyable(f"  → {group.first['why']['next'][0]['step']}", "dim")
        more = f" and {len(group.jobs) - 1} more" if len(group.jobs) > 1 else ""
        yield copyable(f"  {job_name(group.first)}{more}: {group.first['html_url']}", "dim")
    if len(groups) > MOST_ROWS:
        yield _more(sum(len(each.jobs) for each in groups[MOST_ROWS:]), "job")


def _pools_table(scope: ScopeDocument) -> RenderableType:
    numbers = ("runners", "busy", "idle", "offline", "other", "waiting")
    table = new_table("pool", *numbers)
    rows = scope["pools"][:MOST_ROWS]
    for each in rows:
        cells: Mapping[str, Any] = each
        table.add_row(each["pool"], *(f"{cells[name]:,}" for name in numbers))
    return _with_rest(ShrinkingTable(table, ["other", "idle", "busy"]), len(scope["pools"]) - len(rows), "pool")


def _offline_table(scope: ScopeDocument) -> RenderableType:
    table = new_table("offline", "pool", "since")
    rows = scope["offline"][:MOST_ROWS]
    for each in rows:
        table.add_row(Text(plain(each["name"]).plain, COLOURS["offline"]), each["pool"], offline_since(each))
    return _with_rest(ShrinkingTable(table, ["pool"]), len(scope["offline"]) - len(rows), "offline runner")


def _versions_table(scope: ScopeDocument) -> RenderableType:
    table = new_table("version", "runners", "jobs until", "state")
    rows = scope["versions"][:MOST_ROWS]
    for each in rows:
        until = (each["jobs_end_at"] or "")[:10] or "no date"
        version = each["version"] or "not listed"
        table.add_row(version, f"{each['runners']:,}", until, VERSION_STATES[each["state"]])
    return _with_rest(ShrinkingTable(table, ["state"]), len(scope["versions"]) - len(rows), "version")


def _with_rest(table: RenderableType, rest: int, noun: str) -> RenderableType:
    return Group(table, _more(rest, noun)) if rest else table


def _more(count: int, noun: str) -> RenderableType:
    return copyable(f" and {counted(count, f'more {noun}')}; --json has all", "dim italic")


# ---- Markdown


def markdown_text(document: ScanDocument, wells: Sequence[str], set_up: str, now: float) -> str:
    """Returns a scan as Markdown for an issue, as many scopes as fit; arguments as of `terminal_text`."""
    end = f"\n\n{_prose(next_steps(document, set_up))}\n"
    room = LONGEST_ISSUE - len(end)
    shown, length = list[str](), 0
    for number, (scope, well) in enumerate(zip(document["scopes"], wells, strict=True)):
        section = "\n".join(_section(scope, well, now))
        if length + len(section) > room:
            left = len(document["scopes"]) - number
            shown.append(f"… and {counted(left, 'more scope')}, left out (GitHub's limit).")
            break
        shown.append(section)
        length += len(section) + 2
    return "\n\n".join(shown) + end


def _section(scope: ScopeDocument, well: str, now: float) -> Iterator[str]:
    yield f"### {markdown.code(scope['scope'])}"
    yield ""
    for each in scope["problems"]:
        step = f" → {_prose(each['step'])}" if each["step"] else ""
        yield f"- **{each['severity']}**: {_prose(each['text'])}{step}"
    if not scope["problems"]:
        yield f"- Nothing is wrong. {_prose(well)}"
    yield ""
    yield f"{_prose(looked(scope))}; {_prose(summary(scope))}"
    for title, rows in _tables(scope):
        yield ""
        yield markdown.heading(*title)
        yield from rows
    lines = [
        differing_line(scope),
        *(
            f"{each['name']} of {each['pool']}: {CHANGES[each['change'] or ListDifference.CAME]}"
            for each in differing(scope)[:MOST_ROWS]
        ),
        *(waiting_text(each, now) for each in waiting_groups(scope)[:MOST_ROWS]),
        *label_lines(scope),
        *group_lines(scope),
        coverage_line(scope),
        *not_seen_lines(scope),
    ]
    yield ""
    yield from (f"- {_prose(line)}" for line in lines if line)


def _tables(scope: ScopeDocument) -> Iterator[tuple[Sequence[str], Iterable[str]]]:
    numbers = ("runners", "busy", "idle", "offline", "other", "waiting")
    if scope["pools"]:
        pools: Sequence[Mapping[str, Any]] = scope["pools"][:MOST_ROWS]
        rows = [markdown.row(markdown.code(each["pool"]), *(f"{each[name]:,}" for name in numbers)) for each in pools]
        yield ("pool", *numbers), rows
    if scope["offline"]:
        offline = scope["offline"][:MOST_ROWS]
        rows = [
            markdown.row(markdown.code(each["name"]), markdown.code(each["pool"]), _prose(offline_since(each)))
            for each in offline
        ]
        yield ("offline", "pool", "since"), rows
    if scope["versions"]:
        rows = [
            markdown.row(
                markdown.code(each["version"] or "not listed"),
                f"{each['runners']:,}",
                (each["jobs_end_at"] or "")[:10] or "no date",
                VERSION_STATES[each["state"]],
            )
            for each in scope["versions"][:MOST_ROWS]
        ]
        yield ("version", "runners", "jobs until", "state"), rows


def _prose(text: str) -> str:
    return markdown.prose(text)
