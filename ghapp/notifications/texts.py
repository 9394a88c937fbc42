"""The texts of notifications: title, body and severity. Pure.

Names, labels and reasons are others' text, and a hundred kinds of receivers read as many kinds of markup: each of them
goes through `without_markup`. A command is shown if it survives that, so that what people copy is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.notifications.conditions import Change, Topic
from ghapp.remediation.fuse import Position, resume_command
from ghapp.report.headline import Headline, HeadlineKind
from ghapp.report.links import PageLinks
from ghapp.untrusted_text import shell_command, without_markup
from ghapp.versions.lifetime import Urgency
from ghapp.wording import capitalized, counted

Severity = Literal["info", "success", "warning", "failure"]
"""As Apprise names them; receivers show a colour or an icon."""


LONGEST_HEADLINE = 1000

LONGEST_LABELS = 500
"""Characters of the labels of waiting jobs."""

Rendered = tuple[str, list[str], Severity]


class Message(NamedTuple):
    """One notification. `body` is plain text of a few lines. Fields are only ever appended."""

    title: str
    body: str
    severity: Severity


KINDS = {
    Topic.FUSE: (HeadlineKind.LOST, HeadlineKind.FUSE),
    Topic.BLIND: (HeadlineKind.BLIND,),
    Topic.UNSERVED: (HeadlineKind.UNSERVED, HeadlineKind.LOST),
    Topic.GATE: (HeadlineKind.GATE,),
    Topic.VERSION: (),
}
"""The headlines that a condition may have opened; of jobs that wait for lost runners, the loss is the headline. The
message of a version says as much as its headline."""


def headline_of(change: Change, found: Sequence[Headline]) -> Headline | None:
    """Returns the headline with which the other surfaces show a condition now; None if it ended, or none shows it."""
    if not change.level:
        return None
    about = [each for kind in KINDS[change.topic] for each in found if each.kind is kind]
    is_same = (each for subject in _subjects(change) for each in about if (each.pool, each.shard) == subject)
    return next(is_same, about[0] if about and change.subject == ALL_POOLS else None)


def _subjects(change: Change) -> Iterator[tuple[str, str]]:
    """Returns the pools and shards of the headlines that may show a condition, the nearest first."""
    match change.topic:
        case Topic.GATE:
            pool, _, shard = change.subject.partition("/")
            yield pool, shard
        case Topic.UNSERVED:
            yield change.subject, ""
            yield change.subject.rpartition(" in ")[0], ""  # a repository that runner groups exclude
            yield "", ""  # labels that no pool has
        case _:
            yield "" if change.subject == ALL_POOLS else change.subject, ""


def message(
    org: str, change: Change, replaced: int = 0, link: str | None = None, headline: Headline | None = None
) -> Message:
    """Renders a change.

    Args:
        org: the organization's login.
        change: the condition that opened, changed its level, or closed.
        replaced: runners of the pool whose replacement was accepted since a fuse tripped; used when the fuse closes.
        link: address of a page with more; None if there is none.
        headline: from `headline_of`; the message begins with it, and has its link to GitHub.
    """
    title, lines, severity = _OF[change.topic](org, change, replaced)
    first = [] if headline is None else [without_markup(headline.sentence, LONGEST_HEADLINE)]
    if headline is not None and headline.link:
        step = capitalized(headline.step)
        first.append(f"{without_markup(step, LONGEST_HEADLINE)}: {headline.link}")
    body = [*first, *lines, *([link] if link else [])]
    return Message(f"ghapp: {without_markup(org)}: {title}", "\n".join(body), severity)


def _fuse(org: str, change: Change, replaced: int) -> Rendered:
    whole = change.subject == ALL_POOLS
    subject = "all pools together" if whole else f"pool {without_markup(change.subject)}"
    reason = without_markup(change.detail)
    if not change.level:
        replacements = (
            f"{counted(replaced, 'runner')} replaced since {clock(change.since)}. " if replaced or not whole else ""
        )
        lines = [f"{replacements}Reason: {reason}."]
        return f"the fuse of {subject} closed after {lasted(change)}", lines, "success"
    if change.level == Position.STOPPED.value:
        command = _command(resume_command(org, change.subject), "the command that `ghapp doctor` prints")
        lines = [
            f"{_lost(change)} Reason: {reason}.",
            f"Check the controller that replaces these runners, then run {command}.",
        ]
        return f"the fuse of {subject} stopped: replacing runners did not help", lines, "failure"
    lines = [
        f"{_lost(change)} Reason: {reason}.",
        "ghapp replaces a first batch, and continues when the replacements are online.",
    ]
    return f"the fuse of {subject} tripped", lines, "warning"


def _lost(change: Change) -> str:
    if change.subject == ALL_POOLS and not change.affected:
        return "No runner of the account itself is lost; those of its repositories count, too."
    return f"{counted(change.affected, 'runner')} lost, without a successor online."


def _blind(_org: str, change: Change, _replaced: int) -> Rendered:
    if not change.level:
        return f"runners are visible again after {lasted(change)}", ["Sweeps and remediation continue."], "success"
    lines = [
        f"The last complete list of runners is from {clock(change.since)}. Reason: {without_markup(change.detail)}.",
        "Until there is one, ghapp removes and replaces no runner. Run `ghapp doctor`.",
    ]
    return "no complete list of runners", lines, "failure"


def _unserved(_org: str, change: Change, _replaced: int) -> Rendered:
    where = f"pool {without_markup(change.subject)}" if change.subject else "other pools"
    if not change.level:
        title = f"no job waits for {where} any more that no runner can take, after {lasted(change)}"
        return title, [f"The most that waited at a time: {change.affected:,}."], "success"
    lines = [
        f"Waiting since {clock(change.since)}: {without_markup(change.detail, LONGEST_LABELS)}.",
        "Run `ghapp jobs --unserved`.",
    ]
    jobs = counted(change.affected, "job waits", "jobs wait")
    return f"{jobs} for {where} that no runner can take", lines, "warning"


def _gate(org: str, change: Change, _replaced: int) -> Rendered:
    pool, _, shard = change.subject.partition("/")
    command = _command(shell_command("ghapp", "gate", org, pool, shard), "`ghapp gate`")
    pool, shard = without_markup(pool), without_markup(shard)
    if not change.level:
        return f"the gate of shard {shard} of pool {pool} no longer fails", [f"Failed for {lasted(change)}."], "success"
    lines = [f"Deployed: {without_markup(change.detail)}."] if change.detail else []
    lines.append(f"Run {command} for the checks and next steps.")
    return f"the gate of shard {shard} of pool {pool} failed", lines, "failure"


def _version(org: str, change: Change, _replaced: int) -> Rendered:
    version, date = without_markup(change.subject), without_markup(change.detail)
    if not change.level:
        title = f"version {version} of the runner is not in use any more, or does not end"
        return title, [f"Reported for {lasted(change)}."], "success"
    command = _command(shell_command("ghapp", "versions", "--org", org), "`ghapp versions`")
    lines = [f"{counted(change.affected, 'runner')} online with this version.", f"Run {command} for what to do."]
    if change.level == Urgency.ACTION.value:
        since = f" since {date}" if date else ""
        return f"version {version} of the runner gets no jobs any more{since}", lines, "failure"
    until = f" gets jobs until {date} only" if date else " gets no jobs any more soon"
    severity: Severity = "warning" if change.level == Urgency.WARNING.value else "info"
    return f"version {version} of the runner{until}", lines, severity


def _command(command: str, otherwise: str) -> str:
    """Returns a command in backticks; `otherwise` if the receiver could take a part of it for markup."""
    return f"`{command}`" if without_markup(command, len(command)) == command else otherwise


_OF = {Topic.FUSE: _fuse, Topic.BLIND: _blind, Topic.UNSERVED: _unserved, Topic.GATE: _gate, Topic.VERSION: _version}


def page_of_topic(links: PageLinks) -> dict[Topic, str | None]:
    """Returns the page that shows more of each topic; None if its address is not known."""
    return {
        Topic.FUSE: links.incidents,
        Topic.BLIND: links.github,
        Topic.UNSERVED: links.jobs,
        Topic.GATE: links.gate,
        Topic.VERSION: links.versions,
    }


def lasted(change: Change) -> str:
    """Returns how long the condition lasted, in its two largest units."""
    seconds = max(0, round(change.at - change.since))
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts = [
        (seconds % previous // size, unit)
        for (size, unit), previous in zip(units, (10**9, 86_400, 3600, 60), strict=True)
    ]
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0 s"


def clock(at: float) -> str:
    """Formats a time for people: in UTC, to the minute."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
