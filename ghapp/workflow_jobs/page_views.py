"""The pages of jobs: queued with their reason and next step, running, and recently over; and one job's story. Pure.

A board is made once for all visitors; each visitor sees the jobs of repositories that they may read, and the numbers of
all jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from ghapp.deaths.job_outcome import (
    NOT_TO_REPEAT,
    JobOutcome,
    JobSummary,
    LaterAttempt,
    job_summary,
    next_steps,
    wait_text,
)
from ghapp.deaths.job_story import StoryStep, job_story
from ghapp.web.pages.views.paging import Paging, choice_of, filter_of, page_of, paged, pool_note, query_string, text_of
from ghapp.web.pages.views.wording import Moment, exact, moment, page_duration, web_address
from ghapp.wording import capitalized, sentence
from ghapp.workflow_jobs.demand import PoolDemand, demand
from ghapp.workflow_jobs.documents import JOB_STATES, list_order, select_jobs, state_of
from ghapp.workflow_jobs.explanation import QueueExplanation, QueueStep, explain, usual_wait
from ghapp.workflow_jobs.job import ANY_ORIGIN, SHORTEST_SHA, Job, JobOrigin, JobSearch, is_sha
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.labels import labels_text
from ghapp.workflow_jobs.reason import STUCK
from ghapp.workflow_jobs.texts import again_text, origin_text

OPEN = ""
"""The state of a query without one: queued and running jobs."""

EVERY = "all"
UNSERVED = "unserved"
"""Queued jobs that cannot start by themselves."""

FAILED = "failed"
"""Jobs that are over and did not succeed."""

NO_DEATHS: Mapping[int, str] = {}

BAD = frozenset({"failure", "timed_out"})
"""Conclusions that are shown as bad."""

Reads = Callable[[str], bool]
"""True if the visitor may read a repository (`owner/name`)."""


class JobLine(NamedTuple):
    """A job. `pool` is empty if no pool has its labels; `stuck`: it is queued, and cannot start by itself."""

    job: Job
    pool: str
    state: str
    stuck: bool


class JobSurvey(NamedTuple):
    """All known jobs of an organization, in the order of the list, and its pools' numbers.

    `queue` explains those that are shown.
    """

    queue: JobQueue
    lines: tuple[JobLine, ...]
    pools: tuple[PoolDemand, ...]


class JobsQuery(NamedTuple):
    """What is asked for. An empty `state` is every job that is not over."""

    state: str = OPEN
    pool: str = ""
    text: str = ""
    page: int = 1
    origin: JobOrigin = ANY_ORIGIN

    @property
    def selects(self) -> bool:
        """True if something other than a state is asked for."""
        return bool(self.pool or self.text or self.origin != ANY_ORIGIN)

    def address(self, **changes: object) -> str:
        """Returns the query string of this selection with changes; without defaults."""
        asked = self._replace(**changes)  # type: ignore[arg-type]
        return query_string(
            asked.page,
            state=asked.state,
            pool=asked.pool,
            text=asked.text,
            branch=asked.origin.branch,
            actor=asked.origin.actor,
        )


class ListedJobs(NamedTuple):
    """Jobs of a list by id, and the latest attempts of those of them that were run again."""

    jobs: Mapping[int, Job]
    later: Mapping[int, LaterAttempt]


class LaterLine(NamedTuple):
    """The latest attempt of a job that was run again. `text`: its number; `where`: empty if that is not known."""

    at: Moment | None
    text: str
    where: str
    job_id: int | None


class JobRow(NamedTuple):
    """A row. `mark` is the class of its state; `note`: why it waits, or its conclusion; `step`: what to do.

    `branch_query` selects all jobs of its branch; empty without one. `labels` are shown of a job that no pool has.
    `again`: who had ghapp run the job again; empty for others. `death` is the address of its runner's death, relative
    to the list of deaths; empty if the runner did not die. `step_failed`: it did not, and a step of the job failed.
    `later` is None unless the job failed and was run again.
    """

    id: int
    name: str
    repository: str
    branch: str
    branch_query: str
    sha: str
    actor: str
    again: str
    workflow: str
    state: str
    mark: str
    pool: str
    labels: str
    reason: str
    note: str
    step: str
    ahead: int | None
    runner: str
    runner_id: int | None
    since: Moment | None
    lasted: str
    death: str
    step_failed: bool
    later: LaterLine | None = None


class PoolRow(NamedTuple):
    """A pool's numbers, of all repositories. `query` selects its jobs; empty for the sum of those that no pool has."""

    name: str
    queued: int
    running: int
    idle: int
    online: int
    unserved: int
    oldest: Moment | None
    query: str


class JobsPageView(NamedTuple):
    """The page's content. `hidden` counts open jobs of repositories that the visitor may not read.

    It is 0 where something is selected: a count that follows a selection shows what they are.
    """

    query: JobsQuery
    rows: tuple[JobRow, ...]
    pools: tuple[PoolRow, ...]
    pool_names: tuple[str, ...]
    hidden: int
    paging: Paging

    @property
    def run_again_ids(self) -> tuple[int, ...]:
        """The ids of the listed jobs that are over, and may have been run again."""
        return tuple(each.id for each in self.rows if each.state == "over")

    @property
    def pool_note(self) -> str:
        """Which pools there are, if the selected one is not among them."""
        return pool_note(self.query.pool, self.pool_names)


def read_query(given: Mapping[str, str]) -> JobsQuery:
    """Returns the query of an address; raises UnknownValueError for a filter that does not exist."""
    return JobsQuery(
        state=choice_of(given, "state", (*JOB_STATES, UNSERVED, FAILED, EVERY), OPEN),
        pool=filter_of(given, "pool"),
        text=text_of(given),
        page=page_of(given),
        origin=JobOrigin(filter_of(given, "branch").strip(), filter_of(given, "actor").strip()),
    )


def job_board(queue: JobQueue) -> JobSurvey:
    """Returns the board of an organization: queued jobs first, then running ones, then those that are over.

    Queued jobs that cannot start by themselves come first, then the oldest. Of the others the latest come first.
    """
    lines = [job_line(queue, job) for job in select_jobs(queue)]
    return JobSurvey(queue, tuple(sorted(lines, key=_order)), tuple(demand(queue)[0]))


def job_line(queue: JobQueue, job: Job) -> JobLine:
    """Returns the line of a job."""
    return JobLine(job, queue.existing_pool(job), state_of(job, queue.now), queue.reason(job) in STUCK)


def _order(line: JobLine) -> tuple[int, bool, float, int]:
    job = line.job
    latest_at = job.ended_at or job.started_at or job.queued_at
    return list_order(line.state, is_stuck=line.stuck, queued_at=job.queued_at, latest_at=latest_at, job_id=job.id)


def searches_of(text: str) -> tuple[JobSearch, ...]:
    """Returns what a text may be of a job that ended long ago: its runner's name, or its commit."""
    by_commit = (JobSearch(sha=text),) if is_sha(text) else ()
    return (JobSearch(runner=text), *by_commit) if text else ()


def jobs_page(
    board: JobSurvey,
    query: JobsQuery,
    reads: Reads,
    now: float,
    deaths: Mapping[int, str] = NO_DEATHS,
    found: Iterable[Job] = (),
) -> JobsPageView:
    """Returns one page of the jobs that match and that the visitor may see.

    Args:
        board: jobs that are not over, and those that ended within the last hour.
        query: what is asked for.
        reads: what the visitor may read.
        now: the present time.
        deaths: the addresses of deaths by the id of their job.
        found: jobs of the last 30 days of the runner, commit or pull request that is asked for; they are shown in any
            state unless another one is asked for.
    """
    searched = {job.id: job_line(board.queue, job) for job in found}
    known = [each for each in board.lines if each.job.id not in searched]
    seen = sorted((each for each in (*known, *searched.values()) if reads(each.job.repository)), key=_order)
    of_found = query._replace(state=EVERY if query.state == OPEN else query.state, text="")
    matching = [each for each in seen if _matches(each, of_found if each.job.id in searched else query)]
    rows, paging = paged(matching, query.page, lambda page: query.address(page=page))
    open_jobs = Counter(reads(each.job.repository) for each in board.lines if each.state != "over")
    return JobsPageView(
        query=query,
        rows=tuple(_row(each, explain(board.queue, each.job), deaths.get(each.job.id, ""), now) for each in rows),
        pools=tuple(_pool(each, now) for each in board.pools),
        pool_names=tuple(sorted(board.queue.pool_names)),
        hidden=0 if query.selects or query.state in ("over", FAILED) else open_jobs[False],
        paging=paging,
    )


def with_later(view: JobsPageView, listed: ListedJobs, now: float) -> JobsPageView:
    """Returns the page with when and where each of its jobs was run again."""
    rows = (each._replace(later=later_line(listed.later.get(each.id), now)) for each in view.rows)
    return view._replace(rows=tuple(rows))


def later_line(found: LaterAttempt | None, now: float) -> LaterLine | None:
    """Returns the line of a later attempt."""
    if found is None:
        return None
    return LaterLine(moment(found.at, now), f"attempt {found.attempt}", found.where, found.job_id)


def branch_query(branch: str) -> str:
    """Returns the query of all jobs of a branch; empty without one."""
    return urlencode({"state": EVERY, "branch": branch}) if branch else ""


def name_of(job: Job) -> str:
    """Returns the name of a job, or its id."""
    return job.name or f"Job {job.id}"


def mark_of(line: JobLine) -> str:
    """Returns the class of a job's mark."""
    if line.state == "over":
        return "bad" if line.job.conclusion in BAD else "ended"
    if line.state == "running":
        return "running"
    return "stuck" if line.stuck else "queued"


def _matches(line: JobLine, query: JobsQuery) -> bool:
    if query.state == OPEN:
        if line.state == "over":
            return False
    elif query.state == UNSERVED:
        if not line.stuck:
            return False
    elif query.state == FAILED:
        if line.state != "over" or line.job.conclusion in ("", *NOT_TO_REPEAT):
            return False
    elif query.state not in (EVERY, line.state):
        return False
    if (query.pool and line.pool != query.pool) or not query.origin.matches(line.job):
        return False
    text, job = query.text.lower(), line.job
    origin = (job.repository, job.head_branch, job.head_sha, job.actor)
    words = (job.name, job.workflow, *origin, job.runner_name or "", *job.labels)
    return not text or any(text in each.lower() for each in words) or text == str(job.id)


def _row(line: JobLine, why: QueueExplanation | None, death: str, now: float) -> JobRow:
    job = line.job
    at = {"queued": job.queued_at, "running": job.started_at or job.queued_at}.get(line.state, job.ended_at)
    return JobRow(
        id=job.id,
        name=name_of(job),
        repository=job.repository,
        branch=job.head_branch,
        branch_query=branch_query(job.head_branch),
        sha=job.head_sha[:SHORTEST_SHA],
        actor=job.actor,
        again=again_text(job.rerun_by, job.actor),
        workflow=job.workflow,
        state=line.state,
        mark=mark_of(line),
        pool=line.pool,
        labels="" if line.pool else labels_text(job.labels),
        reason="" if why is None else why.reason.value,
        note=_note(line, why),
        step="" if why is None or not why.next else why.next[0].step,
        ahead=None if why is None else why.ahead,
        runner=job.runner_name or "",
        runner_id=job.runner_id,
        since=moment(at, now),
        lasted=_lasted(line),
        death=death,
        step_failed=not death and line.state == "over" and job.steps is not None and job.steps.failed,
    )


HELD = "GitHub holds it back: it waits for an approval, or for its concurrency group."


def _note(line: JobLine, why: QueueExplanation | None) -> str:
    if why is not None:
        return sentence(why.text)
    if line.state == "queued":
        return HELD if line.job.waiting else "GitHub has assigned no runner yet."
    conclusion = line.job.conclusion.replace("_", " ")
    return (wait_text(line.job) or conclusion) if line.state == "over" else ""


def _lasted(line: JobLine) -> str:
    """Returns how long a job that is over ran; empty for others."""
    job = line.job
    if line.state != "over" or job.started_at is None or job.ended_at is None:
        return ""
    return exact(max(0.0, job.ended_at - job.started_at))


def _pool(row: PoolDemand, now: float) -> PoolRow:
    oldest, query = moment(row.oldest_queued_at, now), urlencode({"pool": row.pool}) if row.pool else ""
    return PoolRow(row.shown_name, row.queued, row.running, row.idle, row.online, row.unserved, oldest, query)


class StepLine(NamedTuple):
    """A next step, and why, as sentences. `is_command`: the step is to be typed as it is; `url`: where it is taken."""

    step: str
    why: str = ""
    is_command: bool = False
    url: str = ""


class WhyView(NamedTuple):
    """Why a queued job waits. `fails`: when GitHub fails it; None while a runner can take it."""

    reason: str
    sentence: str
    since: Moment | None
    ahead: int | None
    usual: str
    stuck: bool
    fails: Moment | None = None


class StoryLine(NamedTuple):
    """One event of the job's story; `at` is None if it is not known when it happened.

    `job_id`: of the other attempt that it is about; None if it is about none.
    """

    at: Moment | None
    text: str
    is_bad: bool
    command: str
    job_id: int | None


class JobPageView(NamedTuple):
    """The page of one job. `waited` and `ran` are lengths of time so far; empty if there is none.

    `steps` is what to do about a job that waits, or after its end. `summary`: what it failed by, and whether it runs
    again, as sentences; None if it did not fail, or that is not known.
    """

    id: int
    name: str
    repository: str
    workflow: str
    url: str
    state: str
    mark: str
    conclusion: str
    pool: str
    labels: tuple[str, ...]
    attempt: int
    origin: str
    runner: str
    runner_id: int | None
    runner_group: str
    queued: Moment | None
    started: Moment | None
    ended: Moment | None
    waited: str
    ran: str
    why: WhyView | None
    is_held: bool
    summary: JobSummary | None
    steps: tuple[StepLine, ...]
    story: tuple[StoryLine, ...]


def job_page(queue: JobQueue, job: Job, outcome: JobOutcome, now: float, *, has_button: bool = False) -> JobPageView:
    """Returns the page of a job that the visitor may see; `has_button`: who may run it again here."""
    line, why = job_line(queue, job), explain(queue, job)
    begun = job.started_at if line.state != "queued" else None
    waited_until = begun or job.ended_at or now
    summary = job_summary(job, outcome, now)
    again = "" if summary is None or not summary.again else sentence(summary.again)
    return JobPageView(
        id=job.id,
        name=name_of(job),
        repository=job.repository,
        workflow=job.workflow,
        url=web_address(job.html_url),
        state=line.state,
        mark=mark_of(line),
        conclusion=job.conclusion,
        pool=line.pool,
        labels=job.labels,
        attempt=job.attempt,
        origin=origin_text(job.head_branch, job.head_sha, job.actor, job.rerun_by),
        runner=job.runner_name or "",
        runner_id=job.runner_id,
        runner_group=job.runner_group,
        queued=moment(job.queued_at, now),
        started=moment(begun, now),
        ended=moment(job.ended_at, now),
        waited=(page_duration if line.state == "queued" else exact)(max(0.0, waited_until - job.queued_at)),
        ran=""
        if begun is None
        else (page_duration if job.ended_at is None else exact)(max(0.0, (job.ended_at or now) - begun)),
        why=None if why is None else _why(line, why, now),
        is_held=job.waiting and line.state == "queued",
        summary=None if summary is None else summary._replace(text=sentence(summary.text), again=again),
        steps=tuple(_step(each) for each in (() if why is None else why.next))
        + tuple(
            StepLine(sentence(each.step), sentence(each.why), url=web_address(each.url))
            for each in next_steps(job, outcome, now)
            if not (each.runs_again and has_button)
        ),
        story=tuple(
            StoryLine(
                moment(each.at, now),
                capitalized(each.before_command) if each.command else sentence(each.text),
                is_bad=each.step is StoryStep.DIED,
                command=each.command,
                job_id=each.job_id,
            )
            for each in job_story(job, line.pool, why, outcome, now)
        ),
    )


def _why(line: JobLine, found: QueueExplanation, now: float) -> WhyView:
    return WhyView(
        reason=found.reason.value,
        sentence=sentence(found.text),
        since=moment(found.since, now),
        ahead=found.ahead,
        usual=usual_wait(found.typical_wait_seconds or 0.0, page_duration),
        stuck=line.stuck,
        fails=moment(found.fails_at, now),
    )


def _step(found: QueueStep) -> StepLine:
    is_command = found.step.startswith("ghapp ")
    return StepLine(
        found.step if is_command else sentence(found.step), sentence(found.why), is_command, web_address(found.url)
    )
