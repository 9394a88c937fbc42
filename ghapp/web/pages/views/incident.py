"""One incident: its losses and its fuses as one time line, and its runners. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ghapp.incidents.incident import FuseStep, LossEnd, LossIncident, RunnerLoss
from ghapp.remediation.fuse import FUSE_REASONS, FuseReason, Position
from ghapp.report.documents import timestamp
from ghapp.report.incidents import ENDS, PROOFS
from ghapp.runners.verdict import Reason
from ghapp.web.pages.views.incidents import (
    CodedCount,
    ends_of,
    fuse_name,
    fuse_of,
    heal_seconds,
    proofs_of,
    state_of,
    title_of,
    typical_heal,
)
from ghapp.web.pages.views.wording import Moment, counted, duration, exact, moment

TOGETHER_SECONDS = 30.0
"""Events of one kind that follow each other within this time are one entry of the time line."""

MOST_NAMED = 8
"""Runners named in one entry."""

MOST_ROWS = 200

MOST_ENTRIES, MOST_FIRST = 200, 50
"""Entries of a time line, and how many of them are its first ones."""

ORDER = ("first", "missing", "confirmed", "fuse", "granted", "accepted", "online", "end")
"""Kinds of entries, in their order at the same time."""

Names = Mapping[int, str]
"""The names of runners, by id."""


class IncidentRunner(NamedTuple):
    """A runner; `known` is False if its record was deleted, so that it has no page."""

    id: int
    name: str
    known: bool


class IncidentEntry(NamedTuple):
    """One entry of the time line.

    Attributes:
        iso: its time for machines.
        clock: the same for people, in UTC.
        after: how long after the first evidence, and until when if it has several events; empty for the first.
        kind: of the entry; its class.
        text: what happened.
        code: the constant behind the words; empty for none.
        runners: those concerned, if they are not all lost ones.
        hidden_count: how many runners are not named.
    """

    iso: str
    clock: str
    after: str
    kind: str
    text: str
    code: str
    runners: tuple[IncidentRunner, ...]
    hidden_count: int


class IncidentRow(NamedTuple):
    """One lost runner: how it was proved, how its loss ended, after how long, and its successor."""

    runner: IncidentRunner
    pool: str
    proof: str
    proof_words: str
    end: str
    end_words: str
    lasted: str
    successor: IncidentRunner | None


class IncidentPageView(NamedTuple):
    """The page's content. `heal`: the median time to heal, `longest_heal` the longest; empty before the first."""

    id: str
    title: str
    state: str
    sentence: str
    began: Moment | None
    ended: Moment | None
    pools: tuple[str, ...]
    lost: int
    still_lost: int
    healed: int
    batches: int
    heal: str
    longest_heal: str
    fuse: str
    fuse_words: str
    fuse_code: str
    proofs: tuple[CodedCount, ...]
    ends: tuple[CodedCount, ...]
    entries: tuple[IncidentEntry, ...]
    rows: tuple[IncidentRow, ...]
    more_rows: int


class _Group(NamedTuple):
    """Events of one kind that are one entry: when, and of which runner, the first one first."""

    kind: str
    detail: str
    events: list[tuple[float, int]]


def incident_page(incident: LossIncident, names: Names, now: float) -> IncidentPageView:
    """Returns the page of an incident; `names` are those of all runners that have a page."""
    losses = incident.losses
    heals = heal_seconds(losses)
    last_step = next((each for each in reversed(incident.steps) if each.position.value == fuse_of(incident)), None)
    return IncidentPageView(
        id=incident.id,
        title=title_of(incident),
        state=state_of(incident),
        sentence=_sentence(incident, now),
        began=moment(incident.began, now),
        ended=moment(incident.ended, now),
        pools=tuple(sorted({each.pool for each in losses})),
        lost=len(losses),
        still_lost=sum(each.is_open for each in losses),
        healed=len(heals),
        batches=sum(each.position is Position.PROVING for each in incident.steps),
        heal=typical_heal(losses),
        longest_heal=exact(heals[-1]) if heals else "",
        fuse=fuse_of(incident),
        fuse_words="" if last_step is None else FUSE_REASONS[last_step.reason],
        fuse_code="" if last_step is None else last_step.reason.value,
        proofs=proofs_of(losses),
        ends=ends_of(losses),
        entries=tuple(_entries(incident, names)),
        rows=tuple(_row(each, names, now) for each in _open_first(losses)[:MOST_ROWS]),
        more_rows=max(0, len(losses) - MOST_ROWS),
    )


def _sentence(incident: LossIncident, now: float) -> str:
    lost = counted(len(incident.losses), "runner")
    were = "was" if len(incident.losses) == 1 else "were"
    waiting = sum(each.is_open for each in incident.losses)
    if incident.ended is not None:
        word = "healed" if state_of(incident) == "healed" else "over"
        return f"{lost} {were} lost; {word} after {exact(incident.ended - incident.began)}."
    is_stopped = state_of(incident) == "stopped"
    if not waiting:
        return f"{lost} {were} lost, and none waits; the fuse is {'stopped' if is_stopped else 'not closed yet'}."
    not_yet = f"{waiting:,} {'has' if waiting == 1 else 'have'} no successor online yet"
    stopped = ", and the fuse is stopped" if is_stopped else ""
    return f"{lost} {were} lost, the first {duration(now - incident.began)} ago; {not_yet}{stopped}."


def _entries(incident: LossIncident, names: Names) -> Iterator[IncidentEntry]:
    """Yields the time line, the oldest first; of a very long one its beginning and its end."""
    dated = [(group.events[0][0], ORDER.index(group.kind), group) for group in _groups(incident)]
    steps = [(step.at, ORDER.index("fuse"), step) for step in incident.steps]
    facts: list[tuple[float, int, _Group | FuseStep]] = sorted([*dated, *steps], key=lambda fact: fact[:2])
    left_out = len(facts) - MOST_ENTRIES
    lost = {each.runner_id: each.name for each in incident.losses}
    for number, (at, _, fact) in enumerate(facts):
        if left_out > 0 and number == MOST_FIRST:
            yield _entry(incident, (at, at), "gap", f"{left_out:,} entries are left out here", "")
        if left_out > 0 and MOST_FIRST <= number < MOST_FIRST + left_out:
            continue
        if isinstance(fact, FuseStep):
            kind = f"fuse-{fact.position.value}"
            yield _entry(incident, (at, at), kind, _of_fuse(fact), fact.reason.value)
        else:
            yield _of_group(fact, incident, lost, names)
    if incident.ended is not None:
        word = "Healed" if state_of(incident) == "healed" else "Over"
        text = f"{word} after {exact(incident.ended - incident.began)}"
        yield _entry(incident, (incident.ended, incident.ended), "over", text, "")


def _of_group(group: _Group, incident: LossIncident, lost: Names, names: Names) -> IncidentEntry:
    events = group.events
    text, code = _words(group.kind, group.detail, len(events))
    entry = _entry(incident, (events[0][0], events[-1][0]), group.kind, text, code)
    if group.kind != "online" and len(events) == len(incident.losses):
        return entry
    runners = tuple(_runner(runner_id, lost, names) for _, runner_id in events[:MOST_NAMED])
    return entry._replace(runners=runners, hidden_count=max(0, len(events) - MOST_NAMED))


def _entry(incident: LossIncident, at: tuple[float, float], kind: str, text: str, code: str) -> IncidentEntry:
    """Returns an entry of events between two times."""
    first, last = (exact(each - incident.began) for each in at)
    after = first if last == first else f"{first} to {last}"
    iso = timestamp(float(int(at[0])))
    return IncidentEntry(
        iso, f"{iso[:10]} {iso[11:19]} UTC", "" if after == exact(0.0) else after, kind, text, code, (), 0
    )


def _groups(incident: LossIncident) -> Iterator[_Group]:
    """Yields the events of one kind that follow each other closely, without a change of a fuse in between."""
    turns = sorted(each.at for each in incident.steps)
    for (kind, detail), events in _events(incident.losses).items():
        events.sort()
        begin, last = 0, events[0][0]
        for index, (at, _) in enumerate(events):
            is_turned = at != last and bisect_right(turns, last) != bisect_right(turns, at)
            if is_turned or at - last > TOGETHER_SECONDS:
                yield _Group(kind, detail, events[begin:index])
                begin = index
            last = at
        yield _Group(kind, detail, events[begin:])


def _events(losses: Sequence[RunnerLoss]) -> dict[tuple[str, str], list[tuple[float, int]]]:
    """Returns when which runner had an event, by its kind and its detail: the proof, or the end."""
    found: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for each in losses:
        runner = each.runner_id
        is_offline = each.proof is Reason.REPLACED_WHILE_OFFLINE
        found["first", "offline" if is_offline else ""].append((each.first_at, runner))
        if each.missing_at is not None and each.confirmed_at is not None and each.missing_at != each.first_at:
            found["missing", ""].append((each.missing_at, runner))
        if each.confirmed_at is not None:
            found["confirmed", each.proof.value].append((each.confirmed_at, runner))
        if each.granted_at is not None:
            found["granted", ""].append((each.granted_at, runner))
        if each.accepted_at is not None:
            found["accepted", ""].append((each.accepted_at, runner))
        if each.ended_at is not None and each.end is LossEnd.SUCCESSOR_ONLINE and each.successor is not None:
            found["online", ""].append((each.ended_at, each.successor))
        elif each.ended_at is not None:
            found["end", each.end.value].append((each.ended_at, runner))
    return found


def _words(kind: str, detail: str, count: int) -> tuple[str, str]:
    """Returns the text of an entry, and its code."""
    runners = counted(count, "runner")
    match kind:
        case "first" if detail:
            return f"{runners} went offline", ""
        case "first":
            return f"{runners} first missing: not in GitHub's list, or not found", ""
        case "missing":
            return f"GitHub answered 404 for {runners}: confirmation began", ""
        case "confirmed":
            return f"{runners} confirmed as lost by a second 404: {PROOFS.get(Reason(detail), '')}", detail
        case "granted":
            return f"Replacement granted for {runners}", ""
        case "accepted":
            return f"Replacement request accepted for {runners}", ""
        case "online":
            return f"{counted(count, 'successor')} online", LossEnd.SUCCESSOR_ONLINE.value
    return f"{runners}: {ENDS[LossEnd(detail)]}", detail


def _of_fuse(step: FuseStep) -> str:
    """Returns what a fuse did, and why."""
    name, reason = fuse_name(step.pool), FUSE_REASONS[step.reason]
    by = f" ({step.by})" if step.by else ""
    why = f": {reason}{by}" if reason else ""
    lost = f" ({step.lost:,} of {step.expected:,})" if step.lost and step.expected else ""
    batch = f"; {counted(step.batch, 'runner')} may be replaced" if step.batch else ""
    match step.position:
        case Position.CLOSED:
            return f"{name} closed{why}"
        case Position.STOPPED:
            return f"{name} stopped{why}; nothing more is replaced until an admin resumes it"
    if step.reason is FuseReason.BATCH_ONLINE:
        return f"Next batch{why}{batch}"
    return f"{name} tripped{why}{lost}{batch}" if not step.by else f"{name} proves again{why}{batch}"


def _open_first(losses: Sequence[RunnerLoss]) -> list[RunnerLoss]:
    return sorted(losses, key=lambda each: (not each.is_open, each.first_at, each.runner_id))


def _row(loss: RunnerLoss, names: Names, now: float) -> IncidentRow:
    return IncidentRow(
        _runner(loss.runner_id, {loss.runner_id: loss.name}, names),
        loss.pool,
        loss.proof.value,
        PROOFS.get(loss.proof, ""),
        loss.end.value,
        ENDS[loss.end],
        duration(now - loss.first_at) if loss.ended_at is None else exact(loss.ended_at - loss.first_at),
        None if loss.successor is None else _runner(loss.successor, {}, names),
    )


def _runner(runner_id: int, lost: Names, names: Names) -> IncidentRunner:
    name = names.get(runner_id) or lost.get(runner_id) or str(runner_id)
    return IncidentRunner(runner_id, name, runner_id in names)
