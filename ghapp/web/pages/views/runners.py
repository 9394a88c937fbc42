"""The list of an organization's runners: filtered, sorted, and one page of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from ghapp.installations.pool_matching import PoolMatcher
from ghapp.remediation.status import is_healed, is_loss_over, is_lost
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import State, Verdict, judge
from ghapp.web.pages.views.paging import Paging, filter_of, page_of, paged, query_string, text_of
from ghapp.web.pages.views.wording import Moment, moment

MOST_LABELS = 6

CURRENT, EVERY, HEALED, NO_SUCCESSOR = "", "all", "healed", "no-successor"
GONE = ("retired", HEALED, NO_SUCCESSOR)
"""States of runners that do not count now."""

STATES = (*(state.value for state in State), HEALED, NO_SUCCESSOR)
SORTS = ("name", "state", "since", "pool")
STATE_ORDER = {
    name: at for at, name in enumerate(("invalidated", "suspect", "offline", "unknown", "starting", "healthy"))
}
"""Worst first."""


class RunnerLine(NamedTuple):
    """A runner. `state` is from `shown_state`; `since` in epoch seconds."""

    id: int
    name: str
    pool: str
    state: str
    reason: str
    since: float | None
    labels: tuple[str, ...]
    busy: bool


class RunnerQuery(NamedTuple):
    """What is asked for. An empty `state` is every runner that counts now: without retired and healed ones."""

    state: str = CURRENT
    pool: str = ""
    label: str = ""
    text: str = ""
    sort: str = "state"
    descending: bool = False
    page: int = 1

    def address(self, **changes: object) -> str:
        """Returns the query string of this selection with changes; without defaults."""
        asked = self._replace(**changes)  # type: ignore[arg-type]
        return query_string(
            asked.page,
            state=asked.state,
            pool=asked.pool,
            label=asked.label,
            text=asked.text,
            sort="" if asked.sort == "state" else asked.sort,
            order="desc" if asked.descending else "",
        )


class Column(NamedTuple):
    """A column's heading: its title, the address that sorts by it, and how it is sorted now (for `aria-sort`)."""

    title: str
    address: str
    sorted: str


class RunnerTableRow(NamedTuple):
    """A row of the table."""

    id: int
    name: str
    pool: str
    state: str
    reason: str
    since: Moment | None
    labels: tuple[str, ...]
    more_labels: int
    busy: bool


class RunnersPageView(NamedTuple):
    """The page's content."""

    query: RunnerQuery
    rows: tuple[RunnerTableRow, ...]
    known: int
    paging: Paging
    columns: tuple[Column, ...]
    pools: tuple[str, ...]


def read_query(given: Mapping[str, str]) -> RunnerQuery:
    """Returns the query of an address; values that make no sense are taken as their defaults."""
    state, sort = given.get("state", ""), given.get("sort", "")
    return RunnerQuery(
        state=state if state in (EVERY, *STATES) else CURRENT,
        pool=filter_of(given, "pool"),
        label=text_of(given, "label"),
        text=text_of(given),
        sort=sort if sort in SORTS else "state",
        descending=given.get("order") == "desc",
        page=page_of(given),
    )


def lines(view: OrgView, runners: Iterable[Evidence], now: float) -> list[RunnerLine]:
    """Returns all runners that were ever registered."""
    matcher, found = PoolMatcher(view.rules), []
    for each in runners:
        if not each.registered:
            continue
        verdict = judge(each, view.survey, now, view.limits)
        shown = each.custom_labels or each.labels
        reason, busy = str(verdict.reason), each.is_busy and verdict.state is State.HEALTHY
        state = shown_state(each, verdict, now)
        found.append(RunnerLine(each.id, each.name, matcher.pool(each), state, reason, verdict.since, shown, busy))
    return found


def shown_state(evidence: Evidence, verdict: Verdict, now: float) -> str:
    """Returns the state that the pages show; of a loss that is over, how it ended."""
    if not is_lost(evidence, verdict):
        return verdict.state.value
    if not is_loss_over(evidence, verdict, now):
        return State.INVALIDATED.value
    return HEALED if is_healed(evidence, verdict) else NO_SUCCESSOR


def runners_page(known: Sequence[RunnerLine], query: RunnerQuery, now: float) -> RunnersPageView:
    """Returns one page of the runners that match."""
    matching = _matching(known, query)
    _sort(matching, query)
    rows, paging = paged(matching, query.page, lambda page: query.address(page=page))
    return RunnersPageView(
        query=query,
        rows=tuple(_shown(each, now) for each in rows),
        known=len(known),
        paging=paging,
        columns=tuple(_column(name, query) for name in SORTS),
        pools=tuple(sorted({each.pool for each in known})),
    )


def _matching(known: Iterable[RunnerLine], query: RunnerQuery) -> list[RunnerLine]:
    """Returns the lines that match, one condition after the other: each is skipped for all lines at once."""
    if query.state == CURRENT:
        found = [each for each in known if each.state not in GONE]
    else:
        found = [each for each in known if query.state in (EVERY, each.state)]
    if query.pool:
        found = [each for each in found if each.pool == query.pool]
    if label := query.label.lower():
        fits = {labels: label in map(str.lower, labels) for labels in {each.labels for each in found}}
        found = [each for each in found if fits[each.labels]]
    if text := query.text.lower():
        found = [each for each in found if text in each.name.lower() or text == str(each.id)]
    return found


def _sort(found: list[RunnerLine], query: RunnerQuery) -> None:
    """Sorts by name, then by the chosen column: equal values stay in the order of names."""
    found.sort(key=attrgetter("name", "id"))
    match query.sort:
        case "state":
            last = len(STATE_ORDER)
            found.sort(key=lambda each: STATE_ORDER.get(each.state, last), reverse=query.descending)
        case "since":
            found.sort(key=lambda each: -(each.since or 0.0), reverse=query.descending)
        case "pool":
            found.sort(key=lambda each: each.pool, reverse=query.descending)
        case _ if query.descending:
            found.reverse()


def _column(name: str, query: RunnerQuery) -> Column:
    is_sorted = query.sort == name
    direction = ("descending" if query.descending else "ascending") if is_sorted else "none"
    address = query.address(sort=name, descending=is_sorted and not query.descending, page=1)
    return Column(name.capitalize(), address, direction)


def _shown(line: RunnerLine, now: float) -> RunnerTableRow:
    return RunnerTableRow(
        line.id,
        line.name,
        line.pool,
        line.state,
        line.reason,
        moment(line.since, now),
        line.labels[:MOST_LABELS],
        max(0, len(line.labels) - MOST_LABELS),
        line.busy,
    )
