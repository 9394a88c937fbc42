"""The overview of one organization: the worst headline, what else is open, and its pools. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlencode

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Position
from ghapp.remediation.pause import Pause
from ghapp.report.fleet import FleetView, PoolView, by_pool
from ghapp.report.headline import Headline, HeadlineKind, Severity
from ghapp.report.headlines import headlines, holding_up
from ghapp.report.notes import notes
from ghapp.report.shards import shards_of, shards_text
from ghapp.runners.texts import fuse_history
from ghapp.runners.verdict import State
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment
from ghapp.wording import capitalized, sentence
from ghapp.workflow_jobs.demand import PoolDemand

SHOWN = (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT, State.INVALIDATED, State.UNKNOWN)
"""In the order of the bar and of the table. `invalidated` counts lost runners until their successors are online."""

ALWAYS_SHOWN = (State.HEALTHY.value, State.INVALIDATED.value)

BAR_WIDTH = 100.0

NO_INCIDENTS: Mapping[str, str] = MappingProxyType({})


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
    """A pool. `fuse_text` says which fuse is in force, `fuse_note` why it is not closed; `query` selects its runners.

    `queued` jobs wait for it, the oldest since `oldest`; `idle` runners are online without a job. `shards` has
    each shard's.
    """

    name: str
    total: int
    states: tuple[StateCount, ...]
    healed: int
    fuse: str
    fuse_text: str
    fuse_note: str
    pause: PauseLine | None
    query: str
    queued: int = 0
    oldest: Moment | None = None
    idle: int = 0
    shards: str = ""


class OpenItem(NamedTuple):
    """One of the headlines: what is wrong, since when, and what to do. `page` is below the organization's.

    Attributes:
        incident: the id of the incident with a page of its own; empty if there is none.
        who: who acts next.
        link: the page of GitHub where the step is taken; empty if there is none.
        readers_step: the step for who may not act, in place of the step and its command; empty if these are for all.
    """

    severity: Severity
    sentence: str
    since: Moment | None
    step: tuple[TextPart, ...]
    command: str
    page: str
    incident: str = ""
    who: str = ""
    link: str = ""
    readers_step: tuple[TextPart, ...] = ()

    def for_readers(self) -> OpenItem:
        """Returns the item for who may not act."""
        return self._replace(step=self.readers_step, command="") if self.readers_step else self


class OverviewPage(NamedTuple):
    """The page's content: the worst headline, then the others.

    Attributes:
        is_well: True if the headline is that all is well.
        others: what is wrong beside the headline, the worst first.
        notes: what to know beside the headlines.
        listed: when the last complete list was begun.
    """

    headline: OpenItem
    is_well: bool
    others: tuple[OpenItem, ...]
    notes: tuple[tuple[TextPart, ...], ...]
    total: int
    states: tuple[StateCount, ...]
    healed: int
    listed: Moment | None
    mode: str
    pools: tuple[PoolLine, ...]
    can_resume: bool

    def for_readers(self) -> OverviewPage:
        """Returns the page for who may not act."""
        others = tuple(each.for_readers() for each in self.others)
        return self._replace(headline=self.headline.for_readers(), others=others)

    @property
    def columns(self) -> tuple[str, ...]:
        """The states with a column of their own: healthy, lost, and all others in which a runner is."""
        return tuple(each.state for each in self.states if each.runners or each.state in ALWAYS_SHOWN)


def overview(fleet: FleetView, now: float, open_incidents: Mapping[str, str] = NO_INCIDENTS) -> OverviewPage:
    """Returns the page of a fleet as of `now` (epoch seconds); `open_incidents`: ids by pool, `*` for all pools."""
    pools, demand = by_pool(fleet, now), {each.pool: each for each in fleet.demand}
    count = sum((pool.count for pool in pools), Counter[State]())
    found = headlines(fleet, pools, now)
    worst, *others = (_item(each, open_incidents, now) for each in found)
    is_stopped = any(fuse.position is Position.STOPPED for fuse in fleet.view.fuses.values())
    return OverviewPage(
        headline=worst,
        is_well=found[0].kind is HeadlineKind.WELL,
        others=tuple(others),
        notes=tuple(coded(each) for each in notes(fleet, pools, found, now)),
        total=count.total(),
        states=state_counts(count),
        healed=sum(len(pool.healed) for pool in pools),
        listed=moment(fleet.view.survey.swept_at, now),
        mode=fleet.view.mode,
        pools=tuple(
            _line(pool, demand.get(pool.name), now)._replace(shards=shards_text(shards_of(fleet, pool)))
            for pool in pools
        ),
        can_resume=bool(fleet.view.pauses) or is_stopped,
    )


def _item(headline: Headline, open_incidents: Mapping[str, str], now: float) -> OpenItem:
    has_incident = headline.kind in (HeadlineKind.LOST, HeadlineKind.FUSE)
    step, readers = capitalized(headline.step), headline.for_readers()
    return OpenItem(
        headline.severity,
        headline.sentence,
        moment(headline.since, now),
        coded(f"{step}{':' if headline.action else '.'}" if step else ""),
        headline.command,
        headline.page,
        open_incidents.get(headline.pool or ALL_POOLS, "") if has_incident else "",
        "A person has to act." if headline.needs_a_person else "No person has to act now.",
        headline.link,
        () if readers is headline else coded(sentence(readers.step)),
    )


def items_about(fleet: FleetView, pools: Collection[str], now: float) -> list[OpenItem]:
    """Returns what happens next to the lost runners of these pools, and what holds them up, without links to there."""
    found = holding_up(fleet, [each for each in by_pool(fleet, now) if each.name in pools], now)
    return [_item(each, NO_INCIDENTS, now) for each in found]


def items_about_blindness(fleet: FleetView, now: float) -> list[OpenItem]:
    """Returns why GitHub cannot be read, what that means and what to do, as the overview has it; empty if it can be."""
    found = (each for each in holding_up(fleet, (), now) if each.kind is HeadlineKind.BLIND)
    return [_item(each, NO_INCIDENTS, now)._replace(page="") for each in found]


def state_counts(count: Counter[State]) -> tuple[StateCount, ...]:
    """Returns all shown states with their parts of a bar of width 100."""
    total, x, found = sum(count[state] for state in SHOWN), 0.0, []
    for state in SHOWN:
        width = BAR_WIDTH * count[state] / total if total else 0.0
        found.append(StateCount(state.value, count[state], round(x, 3), round(width, 3)))
        x += width
    return tuple(found)


def _line(pool: PoolView, demand: PoolDemand | None, now: float) -> PoolLine:
    is_closed = pool.fuse.position is Position.CLOSED
    return PoolLine(
        name=pool.name,
        total=pool.total,
        states=state_counts(pool.count),
        healed=len(pool.healed),
        fuse=pool.fuse.position.value,
        fuse_text=pool.fuse_text,
        fuse_note="" if is_closed else fuse_history(pool.fuse, str),
        pause=None if pool.pause is None else _pause(pool.name, pool.pause, now),
        query=_query(pool.name, None),
        queued=0 if demand is None else demand.queued,
        oldest=None if demand is None else moment(demand.oldest_queued_at, now),
        idle=0 if demand is None else demand.idle,
    )


def _pause(pool: str, pause: Pause, now: float) -> PauseLine:
    return PauseLine(pool, pause.who, pause.why, moment(pause.at or None, now), moment(pause.until, now))


def _query(pool: str, state: State | None) -> str:
    return urlencode({"pool": pool, **({} if state is None else {"state": state.value})})
