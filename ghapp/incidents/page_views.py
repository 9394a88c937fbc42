"""The pages of incidents: those of a month, the open ones first; and one, its losses and fuses as a time line. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ghapp.incidents.incident import FuseStep, LossEnd, LossIncident, RunnerLoss, granted_by_batch
from ghapp.incidents.interruptions import Interruption
from ghapp.incidents.texts import (
    ENDS,
    PROOFS,
    CodedCount,
    ends_of,
    fuse_of,
    heal_seconds,
    last_positions,
    listed,
    state_of,
    title_of,
    typical_heal_seconds,
)
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import FUSE_REASONS, FuseReason, Position, fuse_name
from ghapp.report.documents import timestamp
from ghapp.runners.verdict import Reason
from ghapp.web.pages.views.paging import Paging, paged, query_string
from ghapp.web.pages.views.wording import Moment, moment, page_duration
from ghapp.wording import capitalized, counted, duration


class IncidentLine(NamedTuple):
    """An incident in a list. `state` is `open`, `stopped`, `healed` or `ended`; `lasted` up to now while it is open."""

    id: str
    title: str
    state: str
    began: Moment | None
    ended: Moment | None
    lasted: str
    lost: int
    still_lost: int
    ends: tuple[CodedCount, ...]
    fuse: str
    typical_heal: str


class IncidentsPageView(NamedTuple):
    """The page's content; `paging` is of the incidents that are over."""

    sentence: str
    good: bool
    open: tuple[IncidentLine, ...]
    over: tuple[IncidentLine, ...]
    paging: Paging


def incidents_page(incidents: Mapping[str, LossIncident], page: int, now: float) -> IncidentsPageView:
    """Returns the page: all open incidents, the latest first, and one page of the others."""
    known = listed(incidents.values())
    still, over = [each for each in known if each.is_open], [each for each in known if not each.is_open]
    shown, paging = paged(over, page, query_string)
    return IncidentsPageView(
        _sentence(still, len(over)),
        not still,
        tuple(incident_line(each, now) for each in still),
        tuple(incident_line(each, now) for each in shown),
        paging,
    )


def open_incidents(incidents: Mapping[str, LossIncident]) -> dict[str, str]:
    """Returns the id of the open incident of each pool that has one, and of `*` if the whole organization has one."""
    found: dict[str, str] = {}
    for each in sorted(incidents.values(), key=lambda each: each.began):
        if each.is_open:
            found |= dict.fromkeys((*(loss.pool for loss in each.losses), each.pool), each.id)
    return found


def last_incident(incidents: Mapping[str, LossIncident], runner_id: int) -> str:
    """Returns the id of the latest incident in which a runner was lost, or was a successor; empty for none."""
    found = [
        each
        for each in incidents.values()
        if any(runner_id in (loss.runner_id, loss.successor) for loss in each.losses)
    ]
    return max(found, key=lambda each: each.began).id if found else ""


def incident_line(incident: LossIncident, now: float) -> IncidentLine:
    """Returns the line of an incident."""
    return IncidentLine(
        incident.id,
        title_of(incident),
        state_of(incident),
        moment(incident.began, now),
        moment(incident.ended, now),
        page_duration(now - incident.began) if incident.ended is None else duration(incident.ended - incident.began),
        len(incident.losses),
        sum(each.is_open for each in incident.losses),
        ends_of(incident.losses),
        fuse_of(incident),
        _typical_heal(incident.losses),
    )


def proofs_of(losses: Sequence[RunnerLoss]) -> tuple[CodedCount, ...]:
    """Returns how many losses were proved in each way, the commonest first."""
    count = Counter(each.proof for each in losses)
    return tuple(CodedCount(number, proof.value, PROOFS.get(proof, "")) for proof, number in count.most_common())


def _typical_heal(losses: Sequence[RunnerLoss]) -> str:
    """Returns the median time from the first evidence to the successor; empty if none is online yet."""
    seconds = typical_heal_seconds(losses)
    return "" if seconds is None else duration(seconds)


def _sentence(still: Sequence[LossIncident], over: int) -> str:
    past = f"{counted(over, 'incident')} of the last month {'is' if over == 1 else 'are'} over"
    if not still:
        return f"No incident is open; {past}." if over else "No runner was lost in the last month."
    lost = sum(loss.is_open for each in still for loss in each.losses)
    are = "is" if len(still) == 1 else "are"
    waiting = (
        f"{counted(lost, 'runner')} {'has' if lost == 1 else 'have'} no successor online yet"
        if lost
        else "all are replaced"
    )
    return f"{counted(len(still), 'incident')} {are} open: {waiting}."


TOGETHER_SECONDS = 30.0
"""Events of one kind that follow each other within this time are one entry of the time line."""

MOST_NAMED = 8
"""Runners named in one entry."""

MOST_ROWS = 200

MOST_ENTRIES, MOST_FIRST = 200, 50
"""Entries of a time line, and how many of them are its first ones."""

ORDER = ("interruption", "first", "missing", "confirmed", "fuse", "granted", "accepted", "online", "end")
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


class IncidentFuse(NamedTuple):
    """One of the incident's fuses: of a pool or of the whole organization, its position now, and why.

    `batches`: how many of its batches granted a replacement.
    """

    name: str
    position: str
    batches: int
    words: str
    code: str


class IncidentPageView(NamedTuple):
    """The page's content.

    `progress`: how many runners came how far; `entries`: the time line, the oldest first; `heal`: the median time to
    heal, `longest_heal` the longest; empty before the first.
    """

    id: str
    title: str
    state: str
    sentence: str
    progress: str
    began: Moment | None
    ended: Moment | None
    pools: tuple[str, ...]
    lost: int
    still_lost: int
    healed: int
    heal: str
    longest_heal: str
    fuses: tuple[IncidentFuse, ...]
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


def incident_page(
    incident: LossIncident, names: Names, now: float, interruptions: Sequence[Interruption] = ()
) -> IncidentPageView:
    """Returns the page of an incident.

    Args:
        incident: the incident.
        names: of all runners that have a page.
        now: epoch seconds.
        interruptions: what held up its replacements from outside.
    """
    losses = incident.losses
    heals = heal_seconds(losses)
    return IncidentPageView(
        id=incident.id,
        title=title_of(incident),
        state=state_of(incident),
        sentence=_loss_sentence(incident, now),
        progress=_progress(incident),
        began=moment(incident.began, now),
        ended=moment(incident.ended, now),
        pools=tuple(sorted({each.pool for each in losses})),
        lost=len(losses),
        still_lost=sum(each.is_open for each in losses),
        healed=len(heals),
        heal=_typical_heal(losses),
        longest_heal=duration(heals[-1]) if heals else "",
        fuses=tuple(_fuses(incident)),
        proofs=proofs_of(losses),
        ends=ends_of(losses),
        entries=tuple(_entries(incident, names, interruptions)),
        rows=tuple(_row(each, names, now) for each in _open_first(losses)[:MOST_ROWS]),
        more_rows=max(0, len(losses) - MOST_ROWS),
    )


def _fuses(incident: LossIncident) -> Iterator[IncidentFuse]:
    """Yields its fuses, the one that holds most first; each with the reason of its last change that has one."""
    order = (Position.STOPPED, Position.PROVING, Position.CLOSED)
    for pool, position in sorted(last_positions(incident).items(), key=lambda each: (order.index(each[1]), each[0])):
        steps = [each for each in incident.steps if each.pool == pool]
        last = next((each for each in reversed(steps) if each.reason is not FuseReason.NONE), steps[-1])
        batches = sum(each == pool for each, _ in granted_by_batch(incident))
        name = "all pools" if pool == ALL_POOLS else pool
        yield IncidentFuse(name, position.value, batches, FUSE_REASONS[last.reason], last.reason.value)


def _loss_sentence(incident: LossIncident, now: float) -> str:
    lost = counted(len(incident.losses), "runner")
    were = "was" if len(incident.losses) == 1 else "were"
    waiting = sum(each.is_open for each in incident.losses)
    if incident.ended is not None:
        word = "healed" if state_of(incident) == "healed" else "over"
        return f"{lost} {were} lost; {word} after {duration(incident.ended - incident.began)}."
    is_stopped = state_of(incident) == "stopped"
    if not waiting:
        return f"{lost} {were} lost, and none waits; the fuse is {'stopped' if is_stopped else 'not closed yet'}."
    not_yet = f"{waiting:,} {'has' if waiting == 1 else 'have'} no successor online yet"
    stopped = ", and the fuse is stopped" if is_stopped else ""
    return f"{lost} {were} lost, the first {page_duration(now - incident.began)} ago; {not_yet}{stopped}."


def _progress(incident: LossIncident) -> str:
    """Returns how many of the lost runners came how far: the time line in one sentence."""
    losses = incident.losses
    by_batch = granted_by_batch(incident)
    requested = sum(each.granted_at is not None for each in losses)
    which = "" if by_batch.total() == requested else f", {by_batch.total():,} of them"
    batches = f"{which} in {counted(len(by_batch), 'batch', 'batches')}" if by_batch else ""
    healed = len(heal_seconds(losses))
    otherwise = sum(not each.is_open for each in losses) - healed
    parts = [
        f"{len(losses):,} lost",
        f"replacement granted for {requested:,}{batches}",
        f"{counted(healed, 'successor')} online",
        *([f"{otherwise:,} ended otherwise"] if otherwise else []),
        f"{sum(each.is_open for each in losses):,} open",
    ]
    return ", ".join(parts) + "."


def _entries(incident: LossIncident, names: Names, interruptions: Sequence[Interruption]) -> Iterator[IncidentEntry]:
    """Yields the time line, the oldest first; of a very long one its beginning and its end."""
    dated = [(group.events[0][0], ORDER.index(group.kind), group) for group in _groups(incident)]
    steps = [(step.at, ORDER.index("fuse"), step) for step in incident.steps]
    outside = [(each.at, ORDER.index("interruption"), each) for each in interruptions]
    facts: list[tuple[float, int, _Group | FuseStep | Interruption]] = sorted(
        [*dated, *steps, *outside], key=lambda fact: fact[:2]
    )
    left_out = len(facts) - MOST_ENTRIES
    lost = {each.runner_id: each.name for each in incident.losses}
    last_steps = {(each.pool, each.reason): each for each in incident.steps}
    for number, (at, _, fact) in enumerate(facts):
        if left_out > 0 and number == MOST_FIRST:
            yield _entry(incident, (at, at), "gap", f"{left_out:,} entries are left out here", "")
        if left_out > 0 and MOST_FIRST <= number < MOST_FIRST + left_out:
            continue
        if isinstance(fact, FuseStep):
            kind = f"fuse-{fact.position.value}"
            says_why = fact.reason is not FuseReason.BATCH_ONLINE or fact is last_steps[fact.pool, fact.reason]
            yield _entry(incident, (at, at), kind, _of_fuse(fact, incident, says_why=says_why), fact.reason.value)
        elif isinstance(fact, Interruption):
            yield _entry(incident, (at, at), fact.kind, fact.text, fact.code)
        else:
            yield _of_group(fact, incident, lost, names)
    if incident.ended is not None:
        word = "Healed" if state_of(incident) == "healed" else "Over"
        text = f"{word} after {duration(incident.ended - incident.began)}"
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
    first, last = (duration(each - incident.began) for each in at)
    after = first if last == first else f"{first} to {last}"
    iso = timestamp(float(int(at[0])))
    is_later = last != duration(0.0) and at[1] > incident.began  # lists may have failed before the incident began
    return IncidentEntry(iso, f"{iso[:10]} {iso[11:19]} UTC", after if is_later else "", kind, text, code, (), 0)


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
        if each.first_404_at is not None and each.confirmed_at is not None and each.first_404_at != each.first_at:
            found["missing", ""].append((each.first_404_at, runner))
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


def _of_fuse(step: FuseStep, incident: LossIncident, *, says_why: bool) -> str:
    """Returns what a fuse did, and why: of batches that proved the same, the last one says it."""
    name, reason = capitalized(fuse_name(step.pool)), FUSE_REASONS[step.reason]
    by = f" ({step.by})" if step.by else ""
    why = f": {reason}{by}" if reason and says_why else ""
    lost = f" ({_counted_by(step, incident)})" if step.lost and step.expected else ""
    batch = f"; a batch of up to {counted(step.batch, 'runner')}" if step.batch else ""
    match step.position:
        case Position.CLOSED:
            return f"{name} closed{why}"
        case Position.STOPPED:
            return f"{name} stopped{why}; nothing more is replaced until an admin resumes it"
    if step.reason is FuseReason.BATCH_ONLINE:
        return f"{name} goes on{why}{batch}"
    return f"{name} tripped{why}{lost}{batch}" if not step.by else f"{name} proves again{why}{batch}"


def _counted_by(step: FuseStep, incident: LossIncident) -> str:
    """Returns which losses a fuse counted: its window is longer than an incident, so that earlier ones may count, too.

    It counts what is missing and not confirmed yet, too: that may return, and is in no incident then. Clocks may differ
    by a second.
    """
    is_whole = step.pool == ALL_POOLS
    of_fuse = (each for each in incident.losses if is_whole or each.pool == step.pool)
    own = min(step.lost, sum(each.first_at <= step.at + 1.0 for each in of_fuse))
    if own == step.lost:
        return f"{step.lost:,} of {step.expected:,}"
    counted_now = f"it counted {step.lost:,} of {step.expected:,} within its window"
    return f"{counted_now}: {own:,} of this incident, {step.lost - own:,} lost before it or returned"


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
        page_duration(now - loss.first_at) if loss.ended_at is None else duration(loss.ended_at - loss.first_at),
        None if loss.successor is None else _runner(loss.successor, {}, names),
    )


def _runner(runner_id: int, lost: Names, names: Names) -> IncidentRunner:
    name = names.get(runner_id) or lost.get(runner_id) or str(runner_id)
    return IncidentRunner(runner_id, name, runner_id in names)
