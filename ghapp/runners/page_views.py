"""The pages of runners: an organization's, filtered, sorted, and one page of it; and one, as a time line. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from ghapp.deaths.death import Death, is_of
from ghapp.installations.pool_matching import PoolMatcher
from ghapp.pods.pod_claim import claim_on
from ghapp.remediation.status import ReplacementStage, ReplacementStatus, is_healed, is_loss_over, is_lost
from ghapp.report.documents import HEALED, NO_SUCCESSOR, Fact, HealthDocument, death_document, history
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import State, Verdict, judge
from ghapp.web.pages.views.paging import Paging, choice_of, filter_of, page_of, paged, pool_note, query_string, text_of
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment
from ghapp.wording import capitalized, sentence
from ghapp.workflow_jobs.job import Job

MOST_LABELS = 6

CURRENT, EVERY = "", "all"
GONE = ("retired", HEALED, NO_SUCCESSOR)
"""States of runners that do not count now."""

STATES = (*(state.value for state in State), HEALED, NO_SUCCESSOR)
LOST = {"lost": State.INVALIDATED.value}
"""Another name of a state, as the command takes it."""

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
    next: str = ""
    """How far the replacement of a lost runner is, and what blocks it."""


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
    next: str


class RunnersPageView(NamedTuple):
    """The page's content."""

    query: RunnerQuery
    rows: tuple[RunnerTableRow, ...]
    known: int
    paging: Paging
    columns: tuple[Column, ...]
    pools: tuple[str, ...]

    @property
    def pool_note(self) -> str:
        """Which pools there are, if the selected one is not among them."""
        return pool_note(self.query.pool, self.pools)


def read_query(given: Mapping[str, str]) -> RunnerQuery:
    """Returns the query of an address; raises UnknownValueError for a filter that does not exist."""
    given = {**given, "state": LOST.get(given.get("state", ""), given.get("state", ""))}
    return RunnerQuery(
        state=choice_of(given, "state", (*STATES, EVERY), CURRENT),
        pool=filter_of(given, "pool"),
        label=text_of(given, "label"),
        text=text_of(given),
        sort=choice_of(given, "sort", SORTS, "state"),
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
        state, pool = shown_state(each, verdict, now), matcher.pool(each)
        line = RunnerLine(each.id, each.name, pool, state, reason, verdict.since, shown, busy)
        if state == State.INVALIDATED:
            line = line._replace(next=view.replacement(each, now, verdict).short)
        found.append(line)
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
        line.next,
    )


MOST_SUCCESSORS = 5
SUCCESSOR_SECONDS = 900.0
"""A runner that registers later than this after the replacement was accepted is not shown as its result."""

MOST_LOG_LINES = 20

SOURCES = {
    "list": "GitHub's list",
    "get": "GET by ghapp",
    "delivery": "Webhook",
    "pod": "Cluster",
    "claim": "Remediation",
    "death": "Death",
}


class TimeLineEntry(NamedTuple):
    """One entry: when, from which source (code and name), and what."""

    at: Moment
    source: str
    source_name: str
    text: str


class ShownJob(NamedTuple):
    """The runner's last job. `id` is None and `repository` empty if the visitor may not read it, or it is unknown."""

    id: int | None
    repository: str
    hidden: bool
    state: str
    linked: bool = False
    """True if the job has a page."""


class ShownDeath(NamedTuple):
    """How the runner ended. `log` is empty if the visitor may not read the job's repository."""

    cause: str
    advice: tuple[TextPart, ...]
    at: Moment | None
    exit_code: int | None
    reason: str
    pod: str
    node: str
    log: tuple[str, ...]
    hidden: bool


class RunnerLink(NamedTuple):
    """Another runner."""

    id: int
    name: str
    first_seen: Moment | None


class RunnerPageView(NamedTuple):
    """The page's content. `replacement`: what happens next; empty if nothing does. `raw`: the documents as JSON."""

    id: int
    name: str
    pool: str
    shard: str
    state: str
    reason: str
    since: Moment | None
    observed: Moment | None
    labels: tuple[str, ...]
    os: str
    version: str
    entries: tuple[TimeLineEntry, ...]
    job: ShownJob | None
    death: ShownDeath | None
    replacement: str
    replacement_stage: str
    replacement_since: Moment | None
    successors: tuple[RunnerLink, ...]
    registered_again: RunnerLink | None
    raw: str


def runner_page(
    view: OrgView,
    evidence: Evidence,
    others: Iterable[Evidence],
    job: Job | None,
    death: Death | None,
    reads: Callable[[str], bool],
    now: float,
    *,
    manages: bool,
    reads_node_logs: bool,
) -> RunnerPageView:
    """Returns the page of a runner.

    Jobs of repositories that the visitor may not read have no id here, and no log. The log of a runner whose job is not
    known is for people who manage the runners.

    Args:
        view: of its organization.
        evidence: about it.
        others: evidence of the organization's runners.
        job: the record of its last job; None if it is unknown.
        death: the latest death of a runner of its name; ignored if that was an earlier runner.
        reads: True if the visitor may read a repository (`owner/name`).
        now: epoch seconds.
        manages: True if the page's buttons work for the visitor.
        reads_node_logs: True if the log of the node is shown, which has lines of other pods.
    """
    document, verdict = view.document(evidence, now), view.verdict(evidence, now)
    replacement = view.replacement(evidence, now, verdict)
    death = death if death is not None and is_of(death, evidence) else None
    others = list(others)
    hides = death is not None and not (manages if death.job is None else reads(death.job.repository))
    shown_job = _job(evidence, job, reads)
    mask = _masked if shown_job is not None and shown_job.hidden else _same
    return RunnerPageView(
        id=evidence.id,
        name=evidence.name,
        pool=document["pool"] or "",
        shard=document["shard"] or "",
        state=shown_state(evidence, verdict, now),
        reason=document["reason"].value,
        since=moment(verdict.since, now),
        observed=moment(verdict.observed_at, now),
        labels=evidence.labels,
        os=evidence.os,
        version=evidence.version or "",
        entries=_entries(evidence, view, death, now, mask),
        job=shown_job,
        death=None if death is None else _death(death, now, hides=hides),
        replacement=_replacement(replacement, mask),
        replacement_stage=replacement.stage.value,
        replacement_since=moment(replacement.since, now),
        successors=_successors(view, evidence, others, now),
        registered_again=_registered_again(evidence, others, now),
        raw=mask(_raw(document, death, hides=hides, reads_node_logs=reads_node_logs)),
    )


def _entries(
    evidence: Evidence, view: OrgView, death: Death | None, now: float, mask: Callable[[str], str]
) -> tuple[TimeLineEntry, ...]:
    """Returns the evidence and the death in order of time, the latest first."""
    facts: list[tuple[float, str, str]] = [*_evidence(evidence, view, now)]
    if death is not None:
        facts.append((death.at, "death", f"{'its container ended' if death.pod else 'it died'}: {death.cause}"))
    facts.sort(key=lambda fact: fact[0], reverse=True)
    found = []
    for at, source, text in facts:
        if (when := moment(at, now)) is not None:
            found.append(TimeLineEntry(when, source, SOURCES[source], mask(capitalized(text))))
    return tuple(found)


def evidence_of(death: Death, evidence: Evidence | None, view: OrgView, now: float) -> list[Fact]:
    """Returns the evidence of a runner that died, as its own page has it, for visitors who may see the death.

    The id of a job is shown only if it is the death's: of another job the visitor may not know.
    """
    if evidence is None or not is_of(death, evidence):
        return []
    is_deaths = death.job is not None and death.job.id == evidence.job_id
    mask = _same if is_deaths else _masked
    return [(at, source, mask(text)) for at, source, text in _evidence(evidence, view, now)]


def _evidence(evidence: Evidence, view: OrgView, now: float) -> list[Fact]:
    return history(evidence, view.survey, claim_on(view.claimed, evidence.name, now))


def _job(evidence: Evidence, job: Job | None, reads: Callable[[str], bool]) -> ShownJob | None:
    if evidence.job_id is None:
        return None
    state = "over" if evidence.job_ended_at is not None else "running"
    repository = job.repository if job is not None and job.id == evidence.job_id else ""
    if not reads(repository):  # also if it is unknown: the visitor is known to read no repository of an empty name
        return ShownJob(None, "", hidden=True, state=state)
    return ShownJob(evidence.job_id, repository, hidden=False, state=state, linked=bool(repository))


def _same(text: str) -> str:
    return text


def _masked(text: str) -> str:
    """Returns a text without the ids of jobs."""
    return re.sub(r"\bjob \d+", "a job", text)


def _death(death: Death, now: float, *, hides: bool) -> ShownDeath:
    log = () if hides else death.runner_log[-MOST_LOG_LINES:]
    at = moment(death.at, now)
    return ShownDeath(
        death.cause.value, coded(death.advice_now), at, death.exit_code, death.reason, death.pod, death.node, log, hides
    )


def _replacement(status: ReplacementStatus, mask: Callable[[str], str]) -> str:
    """Returns what happens next, as a sentence; empty if there is nothing to say."""
    if status.stage is ReplacementStage.NONE:
        return ""
    text = mask(status.text)
    return sentence(text)


def _successors(view: OrgView, evidence: Evidence, others: Sequence[Evidence], now: float) -> tuple[RunnerLink, ...]:
    """Returns its replacement runner; until that is known, those of its pool that registered next: one may be it."""
    at = evidence.replaced_at
    if at is None:
        return ()
    if (own := next((each for each in others if each.id == evidence.successor), None)) is not None:
        return (RunnerLink(own.id, own.name, moment(own.first_seen, now)),)
    pool = view.pool(evidence)
    found = sorted(
        (each for each in others if each.registered and at <= each.first_seen <= at + SUCCESSOR_SECONDS),
        key=lambda each: (each.first_seen, each.id),
    )
    mine = [each for each in found if each.id != evidence.id and view.pool(each) == pool]
    return tuple(RunnerLink(each.id, each.name, moment(each.first_seen, now)) for each in mine[:MOST_SUCCESSORS])


def _registered_again(evidence: Evidence, others: Sequence[Evidence], now: float) -> RunnerLink | None:
    """Returns the later registration of the same name."""
    again = evidence.reregistered_as
    found = next((each for each in others if each.id == again), None)
    return None if found is None else RunnerLink(found.id, found.name, moment(found.first_seen, now))


def _raw(document: HealthDocument, death: Death | None, *, hides: bool, reads_node_logs: bool) -> str:
    content: dict[str, Any] = {**document}
    if death is not None:
        # Logs of a job are shown to readers of its repository only; the node's log has lines of other pods.
        shown: dict[str, Any] = {**death_document(death)}
        shown |= {} if reads_node_logs else {"host_log": []}
        content["death"] = {**shown, "job": None, "runner_log": [], "host_log": []} if hides else shown
    return json.dumps(content, indent=2, ensure_ascii=False)
