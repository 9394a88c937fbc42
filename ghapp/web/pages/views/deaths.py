"""Deaths of runners: counted by cause, pool, node and image, and listed. Pure.

Lines are made once for all visitors; each visitor sees the deaths of jobs of repositories that they may read, and those
of runners without a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from ghapp.deaths.cause import HAPPENED, Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.patterns import DeathPattern, DeathSummary, PatternKind, death_patterns, death_summary
from ghapp.report.post_mortem import needs_a_person
from ghapp.web.pages.views.charts import ChartView
from ghapp.web.pages.views.deaths_chart import CHARTED, MOST_COUNTED, deaths_over_time
from ghapp.web.pages.views.jobs import Reads
from ghapp.web.pages.views.paging import Paging, filter_of, page_of, paged, query_string, text_of
from ghapp.web.pages.views.wording import Moment, counted, moment

DAY = 86_400.0
PERIODS = {"1": "24 hours", "7": "7 days", "30": "30 days"}
CHART_WIDTHS = {"1": 900, "7": 3600, "30": 14_400}
"""Seconds of a step of the chart, by the same keys."""
DEFAULT_PERIOD = "7"
CAUSES = tuple(each.value for each in Cause if each is not Cause.CLEAN_EXIT)


class DeathLine(NamedTuple):
    """A death without its logs.

    `id` is its `deaths.store.identity`; `is_latest`: no later death has its runner's name.
    """

    id: str
    summary: DeathSummary
    job: DeadJob | None
    is_latest: bool = True


class DeathsQuery(NamedTuple):
    """What is asked for. `days`: a key of `PERIODS`; `by`: one of `CHARTED`."""

    days: str = DEFAULT_PERIOD
    cause: str = ""
    pool: str = ""
    node: str = ""
    image: str = ""
    text: str = ""
    page: int = 1
    by: str = CHARTED[0]

    def address(self, **changes: object) -> str:
        """Returns the query string of this selection with changes; without defaults."""
        asked = self._replace(**changes)  # type: ignore[arg-type]
        return query_string(
            asked.page,
            days="" if asked.days == DEFAULT_PERIOD else asked.days,
            cause=asked.cause,
            pool=asked.pool,
            node=asked.node,
            image=asked.image,
            text=asked.text,
            by="" if asked.by == CHARTED[0] else asked.by,
        )


class CountLine(NamedTuple):
    """A value with its number of deaths, that number in percent of the highest one, and the query that selects it."""

    value: str
    deaths: int
    percent: int
    address: str


class CountGroup(NamedTuple):
    """The counts by one kind. `others` counts deaths with a value that is not listed."""

    title: str
    lines: tuple[CountLine, ...]
    others: int


class ChartLink(NamedTuple):
    """A link to the chart by one of `CHARTED`: its query string, and whether that chart is shown now."""

    by: str
    address: str
    current: bool


class DeathRow(NamedTuple):
    """A row. `happened`: the cause in words; `repository`: empty for a runner without a job."""

    runner: str
    address: str
    cause: str
    happened: str
    mark: str
    reason: str
    pool: str
    node: str
    job: str
    repository: str
    at: Moment | None


class DeathsPageView(NamedTuple):
    """The page's content. `hidden` counts deaths of jobs of repositories that the visitor may not read.

    `is_cut`: more deaths happened than are known here.
    """

    query: DeathsQuery
    period: str
    rows: tuple[DeathRow, ...]
    groups: tuple[CountGroup, ...]
    patterns: tuple[str, ...]
    causes: tuple[str, ...]
    pools: tuple[str, ...]
    hidden: int
    is_cut: bool
    paging: Paging
    chart: ChartView
    charts: tuple[ChartLink, ...]


def read_query(given: Mapping[str, str]) -> DeathsQuery:
    """Returns the query of an address; values that make no sense are taken as their defaults."""
    days, cause, by = given.get("days", ""), given.get("cause", ""), given.get("by", "")
    return DeathsQuery(
        days=days if days in PERIODS else DEFAULT_PERIOD,
        cause=cause if cause in CAUSES else "",
        pool=filter_of(given, "pool"),
        node=filter_of(given, "node"),
        image=filter_of(given, "image"),
        text=text_of(given),
        page=page_of(given),
        by=by if by in CHARTED else CHARTED[0],
    )


def death_line(death: Death, identifier: str) -> DeathLine:
    """Returns the line of a death; `identifier` is its `deaths.store.identity`."""
    return DeathLine(identifier, death_summary(death), death.job)


def with_latest(lines: Iterable[DeathLine]) -> list[DeathLine]:
    """Returns the lines, the latest death first, marked where a later death has the same name."""
    found, names = [], set[str]()
    for each in lines:
        name = each.summary.runner_name
        found.append(each._replace(is_latest=name not in names))
        names.add(name)
    return found


def address_of(line: DeathLine) -> str:
    """Returns the address of a death's page, relative to the list of deaths."""
    return address(line.summary.runner_name, "" if line.is_latest else line.id)


def address(runner_name: str, death_id: str = "") -> str:
    """Returns the same by the runner's name; with the death's identity, of that death and not of the latest one."""
    return quote(runner_name, safe="") + (f"?{urlencode({'end': death_id})}" if death_id else "")


def is_shown(job: DeadJob | None, reads: Reads) -> bool:
    """True if the visitor may see a death: of a job of a repository that they may read, or without a job."""
    return job is None or reads(job.repository)


def deaths_page(
    known: Sequence[DeathLine], query: DeathsQuery, reads: Reads, now: float, *, is_cut: bool = False
) -> DeathsPageView:
    """Returns one page of the deaths that match and that the visitor may see.

    Args:
        known: deaths of the last 30 days without clean exits, latest first.
        query: what is asked for.
        reads: True if the visitor may read a repository.
        now: epoch seconds.
        is_cut: True if `known` has not all deaths of that time.
    """
    since, width = now - int(query.days) * DAY, CHART_WIDTHS[query.days]
    recent = [each for each in known if each.summary.at >= since]
    seen = [each for each in recent if is_shown(each.job, reads)]
    matching = [each for each in seen if _matches(each, query)]
    rows, paging = paged(matching, query.page, lambda page: query.address(page=page))
    visible = [each.summary for each in known if is_shown(each.job, reads)]
    return DeathsPageView(
        query=query,
        period=PERIODS[query.days],
        rows=tuple(_row(each, now) for each in rows),
        groups=tuple(_groups(matching, query)),
        patterns=tuple(pattern_sentence(each, now) for each in death_patterns(visible, now)),
        causes=CAUSES,
        pools=tuple(sorted({each.summary.pool for each in seen if each.summary.pool})),
        hidden=len(recent) - len(seen),
        is_cut=is_cut,
        paging=paging,
        chart=deaths_over_time([each.summary for each in matching], query.by, (since, now), width),
        charts=tuple(ChartLink(each, query.address(by=each), each == query.by) for each in CHARTED),
    )


def mark_of(cause: Cause, reason: str) -> str:
    """Returns the class of a cause's mark: `needed` if a person must act before the next attempt."""
    return "needed" if needs_a_person(cause, reason) else "died"


def pattern_sentence(pattern: DeathPattern, now: float) -> str:
    """Returns what deaths have in common as a sentence."""
    at = moment(pattern.since, now)
    begun = "" if at is None else at.text
    deaths, alone = counted(pattern.deaths, "death"), pattern.alone
    match pattern.kind:
        case PatternKind.NODE:
            place = f"on node {pattern.value}"
            return (
                f"All {deaths} within seven days are {place}." if alone else f"{deaths} within seven days are {place}."
            )
        case PatternKind.POOL:
            place = f"of pool {pattern.value}; the first was {begun}"
            return f"The last {deaths} are all {place}." if alone else f"{deaths} in a row are {place}."
        case PatternKind.IMAGE:
            place = f"with image {pattern.value}"
            return f"All {deaths} within 24 hours are {place}." if alone else f"{deaths} within 24 hours are {place}."


def _matches(line: DeathLine, query: DeathsQuery) -> bool:
    summary, text = line.summary, query.text.lower()
    wanted = ((query.cause, summary.cause.value), (query.pool, summary.pool), (query.node, summary.node))
    if any(asked and asked != value for asked, value in (*wanted, (query.image, summary.image))):
        return False
    words = [summary.runner_name, summary.reason, summary.node]
    if line.job is not None:
        words += [line.job.name, line.job.repository, str(line.job.id)]
    return not text or any(text in each.lower() for each in words)


def _groups(found: Sequence[DeathLine], query: DeathsQuery) -> Iterable[CountGroup]:
    for title, field in (("Cause", "cause"), ("Pool", "pool"), ("Node", "node"), ("Image", "image")):
        counts = Counter(value for each in found if (value := str(getattr(each.summary, field))))
        ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        if ordered:
            most = ordered[0][1]
            lines = tuple(
                CountLine(value, count, round(100 * count / most), query.address(**{field: value}, page=1))
                for value, count in ordered[:MOST_COUNTED]
            )
            yield CountGroup(title, lines, sum(count for _, count in ordered[MOST_COUNTED:]))


def _row(line: DeathLine, now: float) -> DeathRow:
    summary, job = line.summary, line.job
    return DeathRow(
        runner=summary.runner_name,
        address=address_of(line),
        cause=summary.cause.value,
        happened=HAPPENED[summary.cause],
        mark=mark_of(summary.cause, summary.reason),
        reason=summary.reason,
        pool=summary.pool,
        node=summary.node,
        job="" if job is None else job.name or f"Job {job.id}",
        repository="" if job is None else job.repository,
        at=moment(summary.at, now),
    )
