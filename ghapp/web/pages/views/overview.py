"""The overview of one organization: its state in one sentence, its pools, and what is open. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlencode

from ghapp.health.demand import PoolDemand
from ghapp.health.pods.degraded_sources import DegradedSource
from ghapp.health.queue.job_queue import PauseView
from ghapp.health.remediation.fuse import WHOLE_INSTALLATION, Fuse, FuseReason, Position
from ghapp.health.runner.verdict import State
from ghapp.report.fleet import FleetView, PoolView, by_pool
from ghapp.report.incidents import FUSE_REASONS
from ghapp.report.pools_section import fuse_history
from ghapp.web.pages.views.wording import Moment, counted, due, moment

SHOWN = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
"""In the order of the bar and of the table. `invalidated` counts lost runners: healed ones are counted apart."""

ALWAYS_SHOWN = (State.HEALTHY.value, State.INVALIDATED.value)

BAR_WIDTH = 100.0

NO_INCIDENTS: Mapping[str, str] = MappingProxyType({})


class Severity(StrEnum):
    """How urgent a state is; also the class of its colour, which never stands alone."""

    GOOD = "good"
    BUSY = "busy"
    ATTENTION = "attention"
    CRITICAL = "critical"


class StateCount(NamedTuple):
    """The number of runners in a state, and its part of the bar: from `x`, `width` of 100."""

    state: str
    runners: int
    x: float
    width: float


class PauseLine(NamedTuple):
    """A pause: its pool (empty: the whole organization), its author, reason, start, and end if it has one."""

    pool: str
    who: str
    why: str
    since: Moment | None
    until: Moment | None


class PoolLine(NamedTuple):
    """A pool. `fuse_note` says why its fuse is not closed; `query` selects its runners.

    `queued` jobs wait for it, the oldest since `oldest`; `idle` runners are online without a job.
    """

    name: str
    total: int
    states: tuple[StateCount, ...]
    healed: int
    fuse: str
    fuse_note: str
    pause: PauseLine | None
    query: str
    queued: int = 0
    oldest: Moment | None = None
    idle: int = 0


class Incident(NamedTuple):
    """Something open: what, since when, what happens next, and a query of the runners page (empty for none).

    `id` is that of the incident with its page; empty if there is none.
    """

    severity: Severity
    title: str
    since: Moment | None
    detail: str
    query: str = ""
    id: str = ""


class OverviewPage(NamedTuple):
    """The page's content. `listed`: when the last complete list was begun."""

    severity: Severity
    sentence: str
    total: int
    states: tuple[StateCount, ...]
    healed: int
    listed: Moment | None
    mode: str
    pools: tuple[PoolLine, ...]
    incidents: tuple[Incident, ...]
    pauses: tuple[PauseLine, ...]
    can_resume: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The states with a column of their own: healthy, lost, and all others in which a runner is."""
        return tuple(each.state for each in self.states if each.runners or each.state in ALWAYS_SHOWN)


def overview(fleet: FleetView, now: float, open_incidents: Mapping[str, str] = NO_INCIDENTS) -> OverviewPage:
    """Returns the page of a fleet as of `now` (epoch seconds); `open_incidents`: ids by pool, `*` for all pools."""
    pools, demand = by_pool(fleet, now), {each.pool: each for each in fleet.demand}
    count = sum((pool.count for pool in pools), Counter[State]())
    severity, sentence = headline(fleet, pools, now)
    pauses = [_pause("", fleet.org_pause, now)] if fleet.org_pause is not None else []
    pauses += [_pause(pool, pause, now) for pool, pause in sorted(fleet.pauses.items())]
    stopped = any(fuse.position is Position.STOPPED for fuse in fleet.fuses.values())
    return OverviewPage(
        severity=severity,
        sentence=sentence,
        total=count.total(),
        states=state_counts(count),
        healed=sum(len(pool.healed) for pool in pools),
        listed=moment(fleet.survey.swept_at, now),
        mode=fleet.mode,
        pools=tuple(_line(fleet, pool, demand.get(pool.name), now) for pool in pools),
        incidents=tuple(_incidents(fleet, pools, now, open_incidents)),
        pauses=tuple(pauses),
        can_resume=bool(pauses) or stopped,
    )


def headline(fleet: FleetView, pools: Sequence[PoolView], now: float) -> tuple[Severity, str]:
    """Returns the state of the organization in one sentence, the most urgent first, and how urgent it is."""
    count = sum((pool.count for pool in pools), Counter[State]())
    total, lost = count.total(), count[State.INVALIDATED]
    if fleet.survey.swept_at is None:
        if fleet.survey.failing_since is None:
            return Severity.ATTENTION, "The first list of runners has not been read yet."
        return Severity.CRITICAL, f"No list of runners could be read yet: {fleet.survey.failure}."
    if fleet.is_stale(now):
        age = moment(fleet.survey.swept_at, now)
        why = fleet.survey.failure or fleet.attempt.prevented_by or "no sweep ran"
        read = "" if age is None else f" {age.text}"
        return Severity.CRITICAL, f"The state of the runners is unknown: the last complete list was read{read} ({why})."
    of_total = f"of {counted(total, 'runner')}"
    if lost:
        severity, what_next = _what_next(fleet, pools)
        return severity, f"{lost:,} {of_total} {'is' if lost == 1 else 'are'} lost; {what_next}."
    for state, words in (
        (State.OFFLINE, "offline"),
        (State.UNKNOWN, "in an unknown state"),
        (State.SUSPECT, "missing from GitHub's list, which is being confirmed"),
    ):
        if count[state]:
            severity = Severity.BUSY if state is State.SUSPECT else Severity.ATTENTION
            return severity, f"{count[state]:,} {of_total} {'is' if count[state] == 1 else 'are'} {words}."
    rest = _rest(fleet, pools)
    if not total:
        return (Severity.ATTENTION if rest else Severity.GOOD), f"No runner is registered{rest}."
    starting = f", {count[State.STARTING]:,} of them starting" if count[State.STARTING] else ""
    are = "The only runner is healthy" if total == 1 else f"All {total:,} runners are healthy"
    return (Severity.ATTENTION if rest else Severity.GOOD), f"{are}{starting}{rest}."


def state_counts(count: Counter[State]) -> tuple[StateCount, ...]:
    """Returns all shown states with their parts of a bar of width 100."""
    total, x, found = sum(count[state] for state in SHOWN), 0.0, []
    for state in SHOWN:
        width = BAR_WIDTH * count[state] / total if total else 0.0
        found.append(StateCount(state.value, count[state], round(x, 3), round(width, 3)))
        x += width
    return tuple(found)


def _what_next(fleet: FleetView, pools: Sequence[PoolView]) -> tuple[Severity, str]:
    """Returns what happens to lost runners next."""
    losing = [pool for pool in pools if pool.count[State.INVALIDATED]]
    if fleet.mode != "act":
        return Severity.CRITICAL, f"nothing is replaced, because remediation is {fleet.mode}"
    if any(pool.fuse.position is Position.STOPPED for pool in losing):
        return Severity.CRITICAL, "a stopped fuse holds the replacement until an admin resumes it"
    if any(pool.pause is not None for pool in losing):
        return Severity.CRITICAL, "a pause holds the replacement"
    if any(each.stuck for pool in losing for each in pool.members):
        return Severity.CRITICAL, "the replacement waits for an admin"
    if any(pool.fuse.position is Position.PROVING for pool in losing):
        return Severity.ATTENTION, "replacement goes on in batches, as long as the new runners come online"
    return Severity.ATTENTION, "replacement is under way"


def _rest(fleet: FleetView, pools: Sequence[PoolView]) -> str:
    """Returns what an admin should know of a healthy fleet."""
    if fleet.org_pause is not None:
        return "; remediation is paused"
    if any(pool.pause is not None for pool in pools):
        return "; remediation is paused in some pools"
    positions = {fuse.position for fuse in fleet.fuses.values()}
    if Position.STOPPED in positions:
        return "; a fuse is stopped"
    if Position.PROVING in positions:
        return "; a fuse is proving"
    if not_seen := [*(f"namespace {each.namespace}" for each in fleet.unseen), *_places(fleet.degraded_sources)]:
        return f"; not seen: {', '.join(not_seen)}"
    return ""


def _places(sources: Iterable[DegradedSource]) -> list[str]:
    return [each.place for each in sources]


def _incidents(
    fleet: FleetView, pools: Sequence[PoolView], now: float, open_incidents: Mapping[str, str]
) -> Iterator[Incident]:
    attempt = fleet.attempt
    if attempt.prevented_by:
        next_at = due(attempt.at, now)
        planned = "No next attempt is planned." if next_at is None else f"Next attempt {next_at.text}."
        severity = Severity.CRITICAL if fleet.is_stale(now) else Severity.ATTENTION
        yield Incident(severity, f"Sweeps are prevented: {attempt.prevented_by}", moment(attempt.since, now), planned)
    if fleet.whole_fuse.position is not Position.CLOSED:
        whole = _of_fuse("The fuse of the whole organization", fleet.whole_fuse, fleet, now)
        yield whole._replace(id=open_incidents.get(WHOLE_INSTALLATION, ""))
    for pool in pools:
        own = fleet.fuses.get(pool.name)
        if own is not None and own.position is not Position.CLOSED:
            yield _of_fuse(f"The fuse of {pool.name}", own, fleet, now)._replace(id=open_incidents.get(pool.name, ""))
    for namespace in fleet.unseen:
        then = "Deaths, leaks and phantoms there are not seen: check that `ghapp watch` runs."
        yield Incident(
            Severity.ATTENTION, f"Not seen: namespace {namespace.namespace}", moment(namespace.seen_at, now), then
        )
    for source in fleet.degraded_sources:
        yield Incident(Severity.ATTENTION, f"Not seen: {source.place}", None, source.why)
    for pool in pools:
        lost = [each for each in pool.members if each.lost]
        if lost:
            since = min((each.verdict.since for each in lost if each.verdict.since is not None), default=None)
            requested = sum(each.evidence.granted_at is not None for each in lost)
            detail = f"Replacement requested for {requested:,} of {len(lost):,}." if requested else _held(pool)
            title, query = f"{counted(len(lost), 'lost runner')} in {pool.name}", _query(pool.name, State.INVALIDATED)
            severity = Severity.CRITICAL if pool.waits_for_a_person else Severity.ATTENTION
            yield Incident(severity, title, moment(since, now), detail, query, open_incidents.get(pool.name, ""))


def _held(pool: PoolView) -> str:
    if pool.mode != "act":
        return f"Remediation is {pool.mode}: nothing is replaced."
    if pool.pause is not None:
        return "Replacement waits: paused."
    if pool.fuse.position is not Position.CLOSED:
        return f"Replacement waits: the fuse is {pool.fuse.position}."
    return "Replacement is next."


def _of_fuse(what: str, fuse: Fuse, fleet: FleetView, now: float) -> Incident:
    if fuse.position is Position.STOPPED:
        is_deaf = fuse.reason is FuseReason.REQUEST_NOT_ACCEPTED
        then = (
            "It goes on when a request is accepted."
            if is_deaf
            else "Nothing more is replaced there until an admin resumes it."
        )
    elif fleet.mode != "act":
        then = f"Remediation is {fleet.mode}: nothing is replaced."
    else:
        then = f"A batch of {fuse.batch:,} is replaced at a time; it doubles when its replacements are online."
    severity = Severity.CRITICAL if fuse.position is Position.STOPPED else Severity.ATTENTION
    since = fuse.stopped_at if fuse.position is Position.STOPPED else fuse.since
    return Incident(severity, f"{what} is {fuse.position}", moment(since, now), f"{_history(fuse)} {then}")


def _history(fuse: Fuse) -> str:
    """Returns why a fuse is not closed, in words with the codes beside them."""
    if fuse.reason is FuseReason.UNREADABLE:
        text = _reason(fuse.reason)
        return f"{text[:1].upper()}{text[1:]}."
    first = FuseReason.RESUMED if fuse.by else fuse.tripped_for
    begun = f"Resumed by {fuse.by}" if fuse.by else f"Tripped: {_reason(first)}" if first else "Tripped"
    return f"{begun}." if fuse.reason in (first, FuseReason.NONE) else f"{begun}. Then: {_reason(fuse.reason)}."


def _reason(reason: FuseReason) -> str:
    words = FUSE_REASONS[reason]
    return f"{words} ({reason.value})"


def _line(fleet: FleetView, pool: PoolView, demand: PoolDemand | None, now: float) -> PoolLine:
    is_closed = pool.fuse.position is Position.CLOSED
    of_whole = pool.fuse is fleet.whole_fuse and not is_closed
    return PoolLine(
        name=pool.name,
        total=len(pool.members),
        states=state_counts(pool.count),
        healed=len(pool.healed),
        fuse=pool.fuse.position.value,
        fuse_note="" if is_closed else ("whole organization" if of_whole else fuse_history(pool.fuse, str)),
        pause=None if pool.pause is None else _pause(pool.name, pool.pause, now),
        query=_query(pool.name, None),
        queued=0 if demand is None else demand.queued,
        oldest=None if demand is None else moment(demand.oldest_queued_at, now),
        idle=0 if demand is None else demand.idle,
    )


def _pause(pool: str, pause: PauseView, now: float) -> PauseLine:
    return PauseLine(pool, pause.who, pause.why, moment(pause.at or None, now), moment(pause.until, now))


def _query(pool: str, state: State | None) -> str:
    return urlencode({"pool": pool, **({} if state is None else {"state": state.value})})
