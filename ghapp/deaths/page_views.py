"""The pages of deaths: counted by cause, pool, node and image, and listed; and one death. Pure.

Lines are made once for all visitors; each visitor sees the deaths of jobs of repositories that they may read, and those
of runners without a job. The page of one death has what happened, for the developer; the re-run; and, apart, what the
platform team needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from ghapp.deaths.cause import HAPPENED, Cause, needed_change, not_yours, rerun_label
from ghapp.deaths.death import LEAST_OF_BURST, DeadJob, Death, correlation
from ghapp.deaths.job_outcome import RUNS_AGAIN, JobStep
from ghapp.deaths.job_story import StoryEvent
from ghapp.deaths.patterns import DeathPattern, DeathSummary, PatternKind, death_patterns, death_summary
from ghapp.deaths.post_mortem import facts_on_record
from ghapp.deaths.rerun import (
    AUTO,
    WHY_NOT,
    Rerun,
    RerunFacts,
    RerunNote,
    RerunRefusal,
    RerunRules,
    RerunState,
    may_be_repeated,
    refusal,
)
from ghapp.deaths.texts import details, last_line, memory_text
from ghapp.report.documents import Fact
from ghapp.web.pages.views.charts import ChartView
from ghapp.web.pages.views.deaths_chart import CHARTED, MOST_COUNTED, deaths_over_time
from ghapp.web.pages.views.paging import Paging, choice_of, filter_of, page_of, paged, pool_note, query_string, text_of
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment, web_address
from ghapp.wording import capitalized, counted, sentence
from ghapp.workflow_jobs.page_views import LaterLine, ListedJobs, Reads, StepLine, branch_query, later_line, name_of

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
    """A row. `happened`: the cause in words; `repository`: empty for a runner without a job.

    `job_id` is None without a job that is known beside the death; `branch`, `branch_query`, `actor`, `later`: as of it.
    """

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
    named_job: int | None = None
    job_id: int | None = None
    branch: str = ""
    branch_query: str = ""
    actor: str = ""
    later: LaterLine | None = None


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

    @property
    def pool_note(self) -> str:
        """Which pools there are, if the selected one is not among them."""
        return pool_note(self.query.pool, self.pools)


def read_query(given: Mapping[str, str]) -> DeathsQuery:
    """Returns the query of an address; raises UnknownValueError for a filter that does not exist."""
    return DeathsQuery(
        days=choice_of(given, "days", PERIODS, DEFAULT_PERIOD),
        cause=choice_of(given, "cause", CAUSES),
        pool=filter_of(given, "pool"),
        node=filter_of(given, "node"),
        image=filter_of(given, "image"),
        text=text_of(given),
        page=page_of(given),
        by=choice_of(given, "by", CHARTED, CHARTED[0]),
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


def address(runner_name: str, death_id: str = "", button: str = "") -> str:
    """Returns the same by the runner's name; with the death's identity, of that death and not of the latest one.

    `button`: what follows in the address of a button of that page.
    """
    return f"{quote(runner_name, safe='')}{button}" + (f"?{urlencode({'end': death_id})}" if death_id else "")


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


def with_jobs(view: DeathsPageView, listed: ListedJobs, now: float) -> DeathsPageView:
    """Returns the page with what is known of the jobs: their branch, who triggered them, when they were run again."""
    return view._replace(rows=tuple(_with_job(each, listed, now) for each in view.rows))


def _with_job(row: DeathRow, listed: ListedJobs, now: float) -> DeathRow:
    if row.named_job is None or (job := listed.jobs.get(row.named_job)) is None:
        return row
    return row._replace(
        job=name_of(job),
        job_id=job.id,
        branch=job.head_branch,
        branch_query=branch_query(job.head_branch),
        actor=job.actor,
        later=later_line(listed.later.get(job.id), now),
    )


def mark_of(cause: Cause, reason: str) -> str:
    """Returns the class of a cause's mark: `needed` if a person must act before the next attempt."""
    return "needed" if needed_change(cause, reason) else "died"


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
            return (
                f"The last {deaths} are all {place}."
                if alone
                else f"{deaths}, none an hour after the last, are {place}."
            )
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
        named_job=None if job is None else job.id,
    )


MOST_LOG_LINES = 200


class RerunKnown(NamedTuple):
    """What is known of a job's re-run.

    Attributes:
        rules: the pool's `rerun` table.
        granted: the installation granted `actions: write`.
        rerun: the one re-run, if it was requested.
        note: why the last try was not sent to GitHub; None if there was none.
        attempt: the job's attempt, as far as is known.
        later: where its later attempts are, or how they ended, as the job's story has it.
        steps: what its developer can do, in the same words.
    """

    rules: RerunRules
    granted: bool
    rerun: Rerun | None = None
    note: RerunNote | None = None
    attempt: int = 1
    later: tuple[StoryEvent, ...] = ()
    steps: tuple[JobStep, ...] = ()


class MomentLine(NamedTuple):
    """Something that was seen of the runner."""

    at: Moment | None
    text: str


class DeathFact(NamedTuple):
    """A fact for the platform team."""

    name: str
    value: str


class AttemptLine(NamedTuple):
    """Where a later attempt is, or how it ended, and its job; None if that is not known."""

    text: str
    job_id: int | None


class RerunView(NamedTuple):
    """The re-run: what to do, its state in sentences, and whether this visitor may request it here, by which button.

    Where the page has the button, running the job again is no step beside it.
    """

    sentences: tuple[str, ...]
    later: tuple[AttemptLine, ...]
    has_button: bool
    button: str
    steps: tuple[StepLine, ...] = ()

    @property
    def button_does(self) -> str:
        """What the button does, as a sentence."""
        return f"The button {RUNS_AGAIN}."


class DeadJobView(NamedTuple):
    """The job of a dead runner. `url` is at GitHub; empty if it is not known."""

    id: int
    name: str
    repository: str
    url: str
    conclusion: str


class DeathPageView(NamedTuple):
    """The page's content. `hides_log`: the visitor may not read the runner's log."""

    runner: str
    runner_id: int | None
    happened: str
    not_yours: str
    cause: str
    mark: str
    at: Moment | None
    pool: str
    node: str
    job: DeadJobView | None
    moments: tuple[MomentLine, ...]
    rerun: RerunView | None
    advice: tuple[TextPart, ...]
    common: tuple[str, ...]
    facts: tuple[DeathFact, ...]
    runner_log: tuple[str, ...]
    host_log: tuple[str, ...]
    hides_log: bool

    @property
    def is_clean(self) -> bool:
        """True if the runner ended as it should, and did not die."""
        return self.cause == Cause.CLEAN_EXIT


def death_page(
    death: Death,
    others: Iterable[DeathLine],
    rerun: RerunKnown,
    now: float,
    *,
    manages: bool,
    reads_node_logs: bool,
    evidence: Iterable[Fact] = (),
) -> DeathPageView:
    """Returns the post-mortem of a death that the visitor may see.

    Args:
        death: the death.
        others: deaths of the organization.
        rerun: what is known of the job's re-run.
        now: epoch seconds.
        manages: True if the page's buttons work for the visitor.
        reads_node_logs: True if the log of the node is shown, which has lines of other pods.
        evidence: of the runner, as its own page has it; empty if its record was deleted.
    """
    job, shows_log = death.job, may_see_log(death, manages=manages)
    seen = [(each.at, each.text) for each in death.last_minutes]
    seen += [(at, text) for at, _, text in evidence] if not seen else []
    seen = sorted([*seen, *_end(death)], key=lambda each: each[0])
    return DeathPageView(
        runner=death.runner_name,
        runner_id=death.runner_id,
        happened=HAPPENED[death.cause],
        not_yours=not_yours(death.cause, death.reason, has_job=job is not None, is_run_again=bool(rerun.later)),
        cause=death.cause.value,
        mark=mark_of(death.cause, death.reason),
        at=moment(death.at, now),
        pool=death.pool,
        node=death.node,
        job=None
        if job is None
        else DeadJobView(
            job.id, job.name or f"Job {job.id}", job.repository, web_address(job.html_url), job.conclusion
        ),
        moments=tuple(MomentLine(moment(at, now), capitalized(text)) for at, text in seen),
        rerun=None
        if job is None or death.cause is Cause.CLEAN_EXIT
        else rerun_view(death, rerun, now, manages=manages),
        advice=coded(death.advice_now),
        common=tuple(_common(death, others, now)),
        facts=tuple(_facts(death)),
        runner_log=death.runner_log[-MOST_LOG_LINES:] if shows_log else (),
        host_log=death.host_log[-MOST_LOG_LINES:] if reads_node_logs else (),
        hides_log=bool(death.runner_log) and not shows_log,
    )


def may_see_log(death: Death, *, manages: bool) -> bool:
    """True if a visitor who may see a death may see the runner's log.

    The log of a runner without a known job is for people who manage the runners.
    """
    return death.job is not None or manages


def details_of(death: Death, *, manages: bool) -> tuple[str, ...]:
    """Returns what the developer of a job needs beside the cause, as far as the visitor may see it."""
    line = last_line(death.runner_log) if may_see_log(death, manages=manages) else ""
    return tuple(capitalized(each) for each in details(death.cause, death.memory_limit, line))


def _end(death: Death) -> Iterable[tuple[float, str]]:
    """Yields the end of the runner, which is always on record."""
    if death.exit_code is not None:
        yield death.at, "its container ended"
    elif death.pod:
        yield death.at, "its pod was found missing"
    elif not death.last_minutes:
        yield death.at, "it was lost, as its job shows"


def refusal_here(death: Death, known: RerunKnown, now: float) -> RerunRefusal | None:
    """Returns why a person cannot request the re-run, by the rules of the check run's button; None if they can.

    GitHub is not asked: the job that requests the re-run asks, and may find more against it.
    """
    job = death.job
    if job is None:
        return RerunRefusal.NOT_FAILED
    if not may_be_repeated(known.rerun, now):
        return RerunRefusal.ALREADY
    if known.later:
        return RerunRefusal.LATER_ATTEMPT
    if known.note is not None and known.note.is_final:
        return RerunRefusal(known.note.reason)
    job_facts = facts_on_record(job, known.attempt)
    return refusal(RerunFacts("", death, job_facts, known.rules, known.granted, fuse_closed=True))


def rerun_view(death: Death, known: RerunKnown, now: float, *, manages: bool) -> RerunView:
    """Returns what is known of the re-run of a death's job, and whether the visitor may request it."""
    why, label = refusal_here(death, known, now), rerun_label(death.cause, death.reason)
    later = tuple(AttemptLine(sentence(each.text), each.job_id) for each in known.later)
    has_button = why is None and manages
    steps = tuple(
        StepLine(sentence(each.step), url=web_address(each.url))
        for each in known.steps
        if not (each.runs_again and has_button)
    )
    if known.rerun is not None and why is RerunRefusal.ALREADY:
        sentences = [*_progress(known.rerun, now)]
    else:
        sentences = [] if known.note is None else [_tried(known.note, now)]
        if why is not None and (known.note is None or known.note.reason != why.value):
            sentences.append(WHY_NOT[why])
    return RerunView(tuple(sentences), later, has_button, label, steps)


def _progress(rerun: Rerun, now: float) -> Iterable[str]:
    at = moment(rerun.at, now)
    yield f"A re-run was requested {'' if at is None else at.text} by {_who(rerun.by)}."
    if rerun.state is RerunState.REFUSED:
        yield f"GitHub refused it: {rerun.why}." if rerun.why else "GitHub refused it."
    elif rerun.state is RerunState.ACCEPTED:
        yield f"It is attempt {rerun.attempt + 1} of the run."
    else:
        yield "GitHub has not confirmed it yet."


def _tried(note: RerunNote, now: float) -> str:
    at = moment(note.at, now)
    again = moment(note.next_at, now)
    later = f" It is tried again {again.text}." if again is not None and note.waits(now) else ""
    when = "" if at is None else f" {at.text}"
    if note.by == AUTO:
        return f"Not run again (looked at{when}): {note.text}.{later}"
    return f"A re-run was requested{when} by {note.by}: {note.text}.{later}"


def _who(by: str) -> str:
    return "ghapp" if by == AUTO else by


def _common(death: Death, others: Iterable[DeathLine], now: float) -> Iterable[str]:
    """Returns what the death has in common with earlier ones."""
    found = correlation(death_summary(death), [each.summary for each in others])
    if found.on_node > 1:
        yield f"It is death number {found.on_node} on node {death.node} within seven days."
    if found.of_pool >= LEAST_OF_BURST and (since := moment(found.since, now)) is not None:
        yield f"It is death number {found.of_pool} of pool {death.pool} in a row that began {since.text}."


def _facts(death: Death) -> Iterable[DeathFact]:
    facts = {
        "Cause": death.cause.value,
        "Reason": death.reason,
        "Exit code": "" if death.exit_code is None else str(death.exit_code),
        "Signal": "" if death.signal is None else str(death.signal),
        "Pod": f"{death.namespace}/{death.pod}" if death.namespace and death.pod else death.pod,
        "Node": death.node,
        "Image": death.image,
        "Memory": memory_text(death.cause, death.memory_limit) if death.memory_limit else "",
    }
    return [DeathFact(name, value) for name, value in facts.items() if value]
