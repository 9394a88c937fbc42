"""What a scan shows to people: tables for a terminal, and Markdown to paste into an issue.

Both show the same document, the worst first, and cut long lists; `--json` has all of it. Names are of outsiders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from ghapp.report import markdown
from ghapp.runners.verdict import State
from ghapp.scan.documents import (
    ScanDocument,
    ScannedRunnerDocument,
    ScopeDocument,
    WaitingJobDocument,
)
from ghapp.scan.findings import WORST_FIRST, WRONG
from ghapp.scan.looks import ListDifference
from ghapp.terminal.tables import COLOURS, SEVERITIES, PlainTable, ShrinkingTable, copyable, epoch, new_table
from ghapp.versions.documents import VersionDocument
from ghapp.wording import counted, duration

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
    ListDifference.LEFT: "left as expected",
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

    @property
    def step(self) -> str:
        """What would let it start, after an arrow; empty if that is not known."""
        why = self.first["why"]
        return f" → {why['next'][0]['step']}" if why is not None and why["next"] else ""


def waiting_groups(scope: ScopeDocument) -> list[WaitingGroup]:
    """Returns the jobs that wait, by labels and reason; the largest groups first."""
    found: dict[tuple[str, ...], list[WaitingJobDocument]] = {}
    for each in scope["jobs"]:
        reason = "" if each["why"] is None else each["why"]["reason"]
        found.setdefault((reason, each["pool"], *sorted(each["labels"])), []).append(each)
    return sorted(map(WaitingGroup, found.values()), key=lambda each: (each.first["why"] is None, -len(each.jobs)))


def summary(scope: ScopeDocument) -> str:
    """Returns what a scope has: `300 runners: 280 healthy, 20 offline`; without those that left as they should."""
    if scope["runners"] is None:
        return "its runners cannot be read"
    counts = {state: count for state, count in scope["runners"].items() if state is not State.RETIRED}
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
    return f"{job['repository']} {' / '.join(filter(None, (job['workflow'], job['name'])))}".rstrip()


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
        repositories, public = each["repositories"], each["allows_public_repositories"]
        if each["visibility"] != "selected":
            admits = "private repositories only"
        elif repositories is None:
            admits = "selected repositories only, and which ones cannot be read"
        else:
            count = counted(len(repositories), "repository", "repositories")
            admits = f"{count} only{'' if public else ', and no public one'}"
        yield f"runner group {each['name']}: {admits}"


def coverage_line(scope: ScopeDocument) -> str:
    """Returns of what the jobs were read; empty if there is nothing to read."""
    known = scope["coverage"]
    if not known["repositories"]:
        return ""
    read, of = counted(known["repositories"], "repository", "repositories"), known["of_repositories"]
    if of is not None and of != known["repositories"]:
        read = (
            f"{known['repositories']:,} of {counted(of, 'repository', 'repositories')}, those that were pushed to last"
        )
    runs = counted(known["of_runs"], "unfinished run")
    if known["runs"] != known["of_runs"]:
        runs = f"{known['runs']:,} of {runs}"
    finished = known["finished_runs"]
    also = f", and of {counted(finished, 'completed run')}" if finished else ""
    return f"jobs were read of {runs} in {read}{also}"


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


NOT_DATED = "since when they are offline is not known: GitHub does not report it"


def offline_columns(scope: ScopeDocument) -> tuple[str, ...]:
    """Returns the column `since`, unless it is known of none of the offline runners: GitHub does not report it."""
    return ("offline since",) if any(is_dated(each) for each in scope["offline"]) else ()


def is_dated(runner: ScannedRunnerDocument) -> bool:
    """True if something is known of when a runner went offline."""
    return runner["last_job_at"] is not None or runner["offline_since"] is not None


def is_wrong(scope: ScopeDocument) -> bool:
    """True if something is wrong now."""
    return any(each["severity"] in WRONG for each in scope["problems"])


def well_text(scope: ScopeDocument, well: str) -> str:
    """Returns that nothing is wrong, as far as was seen."""
    return f"nothing is wrong{' in what was seen' if scope['not_seen'] else ''}. {well}".rstrip()


def version_cells(version: VersionDocument) -> tuple[str, str, str, str]:
    """Returns a version, how many runners have it, until when they get jobs, and what that means."""
    until = (version["jobs_end_at"] or "")[:10] or "no date"
    return version["version"] or "not listed", f"{version['runners']:,}", until, VERSION_STATES[version["state"]]


def offline_since(runner: ScannedRunnerDocument) -> str:
    """Returns since when a runner is offline, as far as is known."""
    if runner["last_job_at"] is not None:
        return f"after {runner['last_job_at']}, its last known job"
    return runner["offline_since"] or "not reported by GitHub"


def cost(document: ScanDocument) -> str:
    """Returns what the scan has cost."""
    return f"{counted(document['calls'], 'call')} to GitHub."


NEXT = "To watch these runners from now on, and have lost ones replaced, set up the App:"


def _listed(words: Sequence[str]) -> str:
    more = [f"and {len(words) - MOST_LABELS} more"] if len(words) > MOST_LABELS else []
    return ", ".join([*words[:MOST_LABELS], *more])


# ---- terminal


def terminal_text(document: ScanDocument, wells: Sequence[str], set_up: str, now: float) -> RenderableType:
    """Returns a scan for a terminal.

    Args:
        document: the scan.
        wells: for each scope what to say if nothing is wrong.
        set_up: the command that sets up the App.
        now: epoch seconds.
    """
    parts: list[RenderableType] = [*_problems(document, wells)]
    for scope in document["scopes"]:
        parts += [Text(), *_scope(scope, now)]
    return Group(*parts, Text(), copyable(f"{cost(document)} {NEXT}", "dim"), copyable(f"  `{set_up}`"))


def _problems(document: ScanDocument, wells: Sequence[str]) -> Iterator[RenderableType]:
    problems = [(scope, each) for scope in document["scopes"] for each in scope["problems"]]
    for scope, each in sorted(problems, key=lambda pair: WORST_FIRST.index(pair[1]["severity"])):
        yield copyable(f"{scope['scope']}: {each['text']}", SEVERITIES[each["severity"]])
        if each["step"]:
            yield copyable(f"  → {each['step']}", "dim")
    for scope, well in zip(document["scopes"], wells, strict=True):
        if not is_wrong(scope):
            yield copyable(f"{scope['scope']}: {well_text(scope, well)}", SEVERITIES["good"])


def _scope(scope: ScopeDocument, now: float) -> Iterator[RenderableType]:
    yield copyable(f"{scope['scope']} ({scope['kind']}): {summary(scope)}", "bold")
    if scope["listed_at"]:
        yield copyable(f"  {looked(scope)}", "dim")
    for section in (
        _pools_table(scope),
        _versions_table(scope),
        _offline_table(scope),
        _differing_table(scope),
        _jobs(scope, now),
        _lines((*label_lines(scope), *group_lines(scope), coverage_line(scope))),
        _lines(not_seen_lines(scope)),
    ):
        if section is not None:
            yield Text()
            yield section


def _lines(lines: Iterable[str]) -> RenderableType | None:
    shown = [copyable(f" {line}") for line in lines if line]
    return Group(*shown) if shown else None


def _jobs(scope: ScopeDocument, now: float) -> RenderableType | None:
    groups, lines = waiting_groups(scope), list[RenderableType]()
    for group in groups[:MOST_ROWS]:
        why = group.first["why"]
        lines.append(copyable(f" {waiting_text(group, now)}", "" if why is None else "yellow"))
        if group.step:
            lines.append(copyable(f"  {group.step}", "dim"))
        more = f" and {len(group.jobs) - 1:,} more" if len(group.jobs) > 1 else ""
        lines.append(copyable(f"   {job_name(group.first)}{more} {group.first['html_url']}", "dim"))
    if len(groups) > MOST_ROWS:
        lines.append(_more(sum(len(each.jobs) for each in groups[MOST_ROWS:]), "job"))
    return Group(*lines) if lines else None


NUMBERS = ("runners", "busy", "idle", "starting", "offline", "missing", "waiting")
"""The counts of a pool."""


def _pools_table(scope: ScopeDocument) -> RenderableType | None:
    rows: Sequence[Mapping[str, Any]] = scope["pools"][:MOST_ROWS]
    table = new_table("pool", *NUMBERS)
    for each in rows:
        table.add_row(each["pool"], *(f"{each[name]:,}" for name in NUMBERS))
    return _with_rest(table, ("starting", "busy", "idle"), len(scope["pools"]), "pool")


def _versions_table(scope: ScopeDocument) -> RenderableType | None:
    table = new_table("version", "runners", "jobs until", "state")
    for each in scope["versions"][:MOST_ROWS]:
        table.add_row(*version_cells(each))
    return _with_rest(table, ("state",), len(scope["versions"]), "version")


def _offline_table(scope: ScopeDocument) -> RenderableType | None:
    rows = scope["offline"][:MOST_ROWS]
    table = new_table("offline runner", "pool", *offline_columns(scope))
    for each in rows:
        since = [offline_since(each)] if offline_columns(scope) else []
        table.add_row(each["name"], each["pool"], *since, style=COLOURS["offline"])
    shown = _with_rest(table, ("pool",), len(scope["offline"]), "offline runner")
    return shown if shown is None or offline_columns(scope) else Group(shown, copyable(f" {NOT_DATED}", "dim italic"))


def _differing_table(scope: ScopeDocument) -> RenderableType | None:
    line, rows = differing_line(scope), differing(scope)
    if not line:
        return None
    table = new_table("runner", "pool", "between the lists")
    for each in rows[:MOST_ROWS]:
        table.add_row(each["name"], each["pool"], CHANGES[each["change"] or ListDifference.CAME])
    shown = _with_rest(table, ("pool",), len(rows), "runner")
    return Group(copyable(f" {line}"), *([] if shown is None else [shown]))


def _with_rest(table: PlainTable, optional: Sequence[str], total: int, noun: str) -> RenderableType | None:
    """Returns a table, without the optional columns where it is too wide, and how many rows it lacks of the total."""
    if not total:
        return None
    rest, shown = total - table.row_count, ShrinkingTable(table, optional)
    return Group(shown, _more(rest, noun)) if rest else shown


def _more(count: int, noun: str) -> RenderableType:
    return copyable(f" and {counted(count, f'more {noun}')}; --json has all", "dim italic")


# ---- Markdown


def markdown_text(document: ScanDocument, wells: Sequence[str], set_up: str, now: float) -> str:
    """Returns a scan as Markdown for an issue, as many scopes as fit; arguments as of `terminal_text`."""
    end = f"\n\n{markdown.prose(f'{cost(document)} {NEXT} `{set_up}`')}\n"
    shown, room = list[str](), LONGEST_ISSUE - len(end)
    for number, (scope, well) in enumerate(zip(document["scopes"], wells, strict=True)):
        section = "\n".join(_section(scope, well, now))
        if len(section) + 2 > room:
            shown.append(f"… and {counted(len(wells) - number, 'more scope')}, which do not fit here.")
            break
        shown.append(section)
        room -= len(section) + 2
    return "\n\n".join(shown) + end


def _section(scope: ScopeDocument, well: str, now: float) -> Iterator[str]:
    yield f"### {markdown.code(scope['scope'])}"
    yield ""
    for each in scope["problems"]:
        step = f" → {markdown.prose(each['step'])}" if each["step"] else ""
        yield f"- **{each['severity']}**: {markdown.prose(each['text'])}{step}"
    if not is_wrong(scope):
        yield f"- {markdown.prose(well_text(scope, well))}"
    yield ""
    yield markdown.prose(f"{summary(scope)}{f'; {looked(scope)}' if scope['listed_at'] else ''}")
    for title, rows in _tables(scope):
        if rows:
            yield ""
            yield markdown.heading(*title, numbers=NUMBERS)
            yield from (markdown.row(*cells) for cells in rows[:MOST_ROWS])
            if len(rows) > MOST_ROWS:
                yield ""
                yield f"… and {len(rows) - MOST_ROWS:,} more"
    lines = [
        NOT_DATED if scope["offline"] and not offline_columns(scope) else "",
        differing_line(scope),
        *(f"{waiting_text(each, now)}{each.step}" for each in waiting_groups(scope)[:MOST_ROWS]),
        *label_lines(scope),
        *group_lines(scope),
        coverage_line(scope),
        *not_seen_lines(scope),
    ]
    yield ""
    yield from (f"- {markdown.prose(line)}" for line in lines if line)


def _tables(scope: ScopeDocument) -> Iterator[tuple[Sequence[str], Sequence[Sequence[str]]]]:
    """Returns each table: its columns, and the cells of its rows as Markdown."""
    pools: Sequence[Mapping[str, Any]] = scope["pools"]
    yield (
        ("pool", *NUMBERS),
        [(markdown.code(each["pool"]), *(f"{each[name]:,}" for name in NUMBERS)) for each in pools],
    )
    versions = (version_cells(each) for each in scope["versions"])
    yield (
        ("version", "runners", "jobs until", "state"),
        [(markdown.code(version), *others) for version, *others in versions],
    )
    since = offline_columns(scope)
    yield (
        ("offline runner", "pool", *since),
        [(*_names(each), *([markdown.prose(offline_since(each))] if since else [])) for each in scope["offline"]],
    )
    yield (
        ("runner", "pool", "between the lists"),
        [(*_names(each), CHANGES[each["change"] or ListDifference.CAME]) for each in differing(scope)],
    )


def _names(runner: ScannedRunnerDocument) -> tuple[str, str]:
    return markdown.code(runner["name"]), markdown.code(runner["pool"])
