"""Drains the inbox: many deliveries at once become observations of runners and jobs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from rq.timeouts import BaseTimeoutException

from ghapp.decoding import LeftOut
from ghapp.deliveries.log_store import arrived_at
from ghapp.deliveries.metrics import CHECK_REQUESTS, DELIVERIES, DELIVERIES_GIVEN_UP
from ghapp.deliveries.store import Entry
from ghapp.errors import GhappError
from ghapp.github.deliveries import KNOWN, Delivery, WorkflowJob, dated, decode
from ghapp.log import logger
from ghapp.queue.jobs import JobName, enqueue
from ghapp.runners import observations
from ghapp.runners.delivery_lag import arrivals_after
from ghapp.runners.evidence import Evidence, Fold
from ghapp.store.metric_counters import CounterBatch
from ghapp.workflow_jobs.job import HOSTED_GROUP, Job, known_status
from ghapp.workflow_jobs.job_steps import JobSteps
from ghapp.workflow_jobs.store import OVER_SECONDS, DeliveredStatus
from jobs.context import JobContext, configured, open_context
from jobs.deaths.job_deaths import enqueue_ended, enqueue_run_again, enqueue_suspicious, with_requesters
from jobs.deliveries.check_run_events import handle_check_event
from jobs.deliveries.scopes import ScopeShare, shares_of
from jobs.history.times import count_job_times, history_pools, taken_jobs
from jobs.installations.discover import contradict, discover_soon, installation_changed, list_repositories_again
from jobs.periodic_task import PeriodicTask, SchedulerContext

log = logger(__name__)

MOST = 500
"""Deliveries that take effect together."""

LONGEST_SECONDS = 2.0
"""After this a drain leaves the rest to the next one: other queues may have only this worker."""

LOOKED_UP_SECONDS = OVER_SECONDS / 2
"""A delivery of a job that began longer ago may be of one that the store no longer knows as over."""


async def drain() -> None:
    """The job: drains the inbox."""
    async with open_context(configured()) as context:
        await drain_inbox(context)


async def drain_inbox(context: JobContext) -> int:
    """Processes entries until few are left, or for `LONGEST_SECONDS`; returns how many had an effect.

    One drain runs at a time. Entries that it leaves, or that arrive too late for it, are for the next one: the web role
    requests one when deliveries arrive, and the scheduler every second while any wait. So a steady stream costs a short
    job or two a second. An entry is deleted when its effects are stored. All effects are folds over times, so that an
    entry that is processed twice, or after a later one, changes nothing.
    """
    async with context.locks.acquire("inbox", "drain") as mine:
        if not mine:  # held by another drain, or by a worker that was killed a moment ago
            return 0
        drained, ends = 0, time.monotonic() + LONGEST_SECONDS
        while entries := await context.inbox.take(MOST):
            drained += await _drained(context, entries)
            if len(entries) < MOST or time.monotonic() >= ends:
                break
    if drained:
        log.debug("drained", deliveries=drained)
    return drained


async def _enqueue_drain(context: SchedulerContext) -> None:
    if await context.inbox.lag():
        enqueue(context.queue_redis, JobName.INBOX, retry=False)


DRAIN = PeriodicTask("drain", 1.0, _enqueue_drain)
"""Requests a drain while deliveries wait. A drain that left some is followed by another within this time; until then
the worker is free for other queues.
"""


async def _drained(context: JobContext, entries: Sequence[Entry]) -> int:
    """Apply a batch at once; if one delivery fails, apply each alone, so that it blocks no other."""
    now = context.clock()
    fresh = await context.inbox.without_effect(entries, now)
    counters, left_out = context.counters.batch(), list[LeftOut]()
    try:
        await _take_effect(context, fresh, now, counters, left_out)
    except (GhappError, BaseTimeoutException):  # the error has nothing to do with the deliveries
        raise
    except Exception as error:
        if len(entries) > 1:
            return sum([await _drained(context, [entry]) for entry in entries])
        (entry,) = entries
        given_up = await context.inbox.failed(entry, f"{type(error).__name__}: {error}", now)
        log.exception("delivery had no effect", delivery=entry.guid, github_event=entry.event, given_up=given_up)
        if given_up:
            await context.counters.add(DELIVERIES_GIVEN_UP, event=_known(entry.event))
        return 0
    unreadable = await context.inbox.done(entries, now, counters.added)
    await context.counters.restart({series: counters.added[series] for series in unreadable})
    context.left_out_rows.add(left_out)
    return len(fresh)


async def _take_effect(
    context: JobContext, entries: Sequence[Entry], now: float, counters: CounterBatch, left_out: list[LeftOut]
) -> None:
    """Stores the effects of a batch, which may be repeated; adds what is to be counted once they are marked."""
    deliveries = [(entry.event, decode(entry.facts)) for entry in entries]
    by_installation: dict[int, list[tuple[Entry, Delivery, WorkflowJob]]] = defaultdict(list)
    for entry, (event, delivery) in zip(entries, deliveries, strict=True):
        installation = delivery.installation
        if event == "workflow_job" and delivery.workflow_job is not None and installation is not None:
            by_installation[installation.id].append((entry, delivery, dated(delivery.workflow_job, entry.guid)))
    for _, delivery in deliveries:
        left_out += delivery.left_out
    await _take_effect_on_orgs(context, deliveries, counters)
    # What deliveries leave of an installation that no discovery has listed expires, unless one lists it after all.
    await context.uninstalled.removed(await context.installations.unknown(by_installation.keys()), now)
    for installation_id, delivered in by_installation.items():
        current = await _current(context, installation_id, delivered, now)
        payload = [job for _, job in current]
        approvals = await context.demand.approvals(
            installation_id, [DeliveredStatus(job.id, job.status, job.deploys, job.sent_at) for job in payload], now
        )
        for scope, share in (await shares_of(context, installation_id, current)).items():
            await _jobs_take_effect(context, scope, share, approvals, now, counters)
        ended = {job.id for job in payload if job.status == "completed"}
        await context.inbox.mark_ended(installation_id, ended, now)
    await _record_arrivals(context, by_installation, now)
    for (event, action), count in Counter((_known(event), each.action or "") for event, each in deliveries).items():
        counters.add(DELIVERIES, count, event=event, action=action)


async def _record_arrivals(
    context: JobContext, delivered: Mapping[int, Sequence[tuple[Entry, Delivery, WorkflowJob]]], now: float
) -> None:
    """Records when deliveries about jobs arrived, and how late. Redeliveries are left out: they are old by nature.

    Redis dates an entry when it is stored. How long it waited is by Redis' clock; when that was is by ours, which
    agrees with GitHub's: GitHub refuses the App's tokens otherwise.
    """
    if not delivered:
        return
    status, redis_now = context.delivery_status, await context.delivery_status.redis_time()
    redelivered = await status.were_missing([entry.guid for several in delivered.values() for entry, _, _ in several])
    known = await status.arrivals(delivered)
    after = {}
    for installation_id, several in delivered.items():
        new = [
            (now - max(0.0, redis_now - arrived_at(entry.id)), _event_at(job))
            for entry, _, job in several
            if entry.guid not in redelivered
        ]
        after[installation_id] = arrivals_after(known[installation_id], new, now)
    await status.save_arrivals(after)


def _event_at(job: WorkflowJob) -> float | None:
    """Returns when a job started or ended (GitHub's clock), if the delivery reports that and is sent then.

    A queued job's date does not show the age of its delivery: it may have waited for an approval.
    """
    at = {"in_progress": job.started_at, "completed": job.completed_at}.get(job.status)
    return None if at is None else at.timestamp()


async def _current(
    context: JobContext,
    installation_id: int,
    delivered: Iterable[tuple[Entry, Delivery, WorkflowJob]],
    now: float,
) -> list[tuple[Delivery, WorkflowJob]]:
    """Returns the deliveries without those of the start of a job whose end had its effect, as after a redelivery.

    Ended jobs are known for as long as GitHub can send their earlier deliveries again. A job younger than
    `LOOKED_UP_SECONDS` ended less than an hour ago: the store knows it as over.
    """
    current = [(delivery, job) for _, delivery, job in delivered]
    old = {job.id for _, job in current if job.status != "completed" and now - _begun_at(job) > LOOKED_UP_SECONDS}
    ended = await context.inbox.ended_jobs(installation_id, old, now)
    return [(delivery, job) for delivery, job in current if job.status == "completed" or job.id not in ended]


def _begun_at(job: WorkflowJob) -> float:
    """Returns since when the job may have been over (epoch seconds); long ago without a date."""
    dates = [at.timestamp() for at in (job.created_at, job.started_at) if at is not None]
    return min(dates, default=0.0)


async def _jobs_take_effect(
    context: JobContext,
    installation_id: int,
    share: ScopeShare,
    approvals: Mapping[int, float | None],
    now: float,
    counters: CounterBatch,
) -> None:
    """Records what deliveries show of an installation's jobs and of their runners, and counts the jobs.

    A job is in one scope: where its runner turns out to be, once that is known.
    """
    delivered = [_with_approval(_job(delivery, job, now), approvals) for delivery, job in share.jobs]
    jobs = await with_requesters(context, installation_id, delivered)
    runners = await context.runners.revise(installation_id, _folds(share.runners, now))
    await context.demand.forget(installation_id, share.elsewhere)
    taken = taken_jobs(jobs)
    installation = await context.installations.one(installation_id) if taken else None
    pools: dict[int, str] = {}
    if installation is not None:
        pools = history_pools(taken, runners, context.settings.pools_of(installation.org))
    await context.demand.record(installation_id, jobs, pools, now)
    if installation is not None:
        await count_job_times(context, installation, taken, runners, counters)
    await enqueue_suspicious(context, installation_id, jobs, runners)
    await enqueue_ended(context, installation_id, jobs)
    await enqueue_run_again(context, installation_id, jobs)


async def _take_effect_on_orgs(
    context: JobContext, deliveries: Sequence[tuple[str, Delivery]], counters: CounterBatch
) -> None:
    """Applies deliveries about installations and reports, in the order in which they arrived."""
    for event, delivery in deliveries:
        match event:
            case "installation":
                await installation_changed(context, delivery)
            case "installation_repositories" if delivery.installation is not None:
                await contradict(context, delivery.installation.id)
                await list_repositories_again(context, delivery.installation.id)
                await context.reports.try_again(delivery.installation.id)
            case "check_run" | "check_suite":
                done = await handle_check_event(context, event, delivery)
                counters.add(CHECK_REQUESTS, done=done)
    if any(event in ("installation", "installation_repositories") for event, _ in deliveries):
        await discover_soon(context)


def _folds(payload: Sequence[WorkflowJob], now: float) -> dict[int, Fold]:
    """For each runner, all that these jobs say of it, in one fold."""
    by_runner: dict[int, list[WorkflowJob]] = defaultdict(list)
    for job in payload:
        if job.runner_id and job.runner_name and job.runner_group_name != HOSTED_GROUP:
            by_runner[job.runner_id].append(job)

    def fold_of(jobs: Sequence[WorkflowJob]) -> Fold:
        def fold(evidence: Evidence | None) -> Evidence | None:
            for job in jobs:
                evidence = _sighted(evidence, job, now)
            return evidence

        return fold

    return {runner_id: fold_of(jobs) for runner_id, jobs in by_runner.items()}


def _sighted(evidence: Evidence | None, job: WorkflowJob, now: float) -> Evidence:
    known = evidence or observations.first_observation(job.runner_id or 0, job.runner_name or "", now)
    if job.status == "in_progress":
        return observations.job_started(known, job.id, _date(job.started_at, now), now)
    if job.status == "completed":
        started_at = None if job.started_at is None else job.started_at.timestamp()
        ended_at, is_dated = _date(job.completed_at, now), job.completed_at is not None
        return observations.job_ended(known, job.id, ended_at, started_at, now, dated=is_dated)
    return known


def _job(delivery: Delivery, payload: WorkflowJob, now: float) -> Job:
    """Returns the job for the demand; a job that one of GitHub's own machines runs counts as over."""
    status, is_waiting = known_status(payload.status)
    return Job(
        id=payload.id,
        status="over" if payload.runner_group_name == HOSTED_GROUP else status,
        labels=payload.labels,
        repository=delivery.repository.full_name if delivery.repository is not None else "",
        queued_at=_epoch(payload.created_at, now),
        runner_id=payload.runner_id or None,  # 0 and "" for a job that was cancelled before a runner took it
        runner_name=payload.runner_name or None,
        started_at=_started_at(payload, now),
        run_id=payload.run_id,
        attempt=payload.run_attempt or 1,
        workflow=payload.workflow_name or "",
        name=payload.name or "",
        head_sha=payload.head_sha or "",
        html_url=payload.html_url or "",
        conclusion=(payload.conclusion or "") if payload.status == "completed" else "",
        ended_at=_epoch(payload.completed_at, now) if payload.status == "completed" else None,
        runner_group=payload.runner_group_name or "",
        private=delivery.repository.private if delivery.repository is not None else None,
        waiting=is_waiting,
        steps=_steps(payload) if payload.status == "completed" else None,
        deploys=payload.deploys,
        head_branch=payload.head_branch or "",
        actor=delivery.sender.login if delivery.sender is not None else "",
        sent_at=payload.sent_at if status == "queued" else None,
    )


def _with_approval(job: Job, approvals: Mapping[int, float | None]) -> Job:
    """Returns a job that deploys, or waited for an approval as jobs that deploy do, as queued when it was approved."""
    if job.id not in approvals:
        return job
    return job._replace(deploys=True, queued_at=max(job.queued_at, approvals[job.id] or 0.0))


def _steps(payload: WorkflowJob) -> JobSteps | None:
    facts = payload.step_facts
    return (
        None
        if facts is None
        else JobSteps(facts.failed, facts.left_open, facts.begun, facts.failed_steps, facts.failed_step)
    )


def _started_at(payload: WorkflowJob, now: float) -> float | None:
    """When a runner took the job (epoch seconds); None where none did: GitHub gives queued jobs a start, too.

    The delivery of its end gives the start again: the delivery of its beginning may be late or lost.
    """
    if payload.status == "in_progress":
        return _epoch(payload.started_at, now)
    took = payload.status == "completed" and bool(payload.runner_id) and payload.started_at is not None
    return _epoch(payload.started_at, now) if took else None


def _date(at: datetime | None, now: float) -> float:
    """Returns a date as GitHub has it, `now` if there is none."""
    return now if at is None else at.timestamp()


def _epoch(at: datetime | None, now: float) -> float:
    """Returns a date of GitHub's, `now` if there is none; a date in the future is none: GitHub's clock may differ."""
    return min(_date(at, now), now)


def _known(event: str) -> str:
    """Returns the event's name for the metric; unused events share one name, to limit the number of series."""
    return event if event in KNOWN else "other"
