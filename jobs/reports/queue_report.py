"""The check run "Runner queue" on the commits of jobs that wait: created once, updated, completed when no job waits.

Enqueued by the scheduler while a job has waited for half a minute, or a check run is open. Also records why jobs wait,
for their stories. One process at a time publishes for an installation. A check is recorded before its check run is
created: after a crash in between, the publisher finds the check run on the commit. Requests use the budget's share for
reports, and are limited by the hour.
"""

from __future__ import annotations

from dataclasses import replace

from ghapp.errors import GitHubError
from ghapp.github.checks import Checks
from ghapp.github.hosted_runners import read_hosted_labels
from ghapp.github.installation_client import InstallationClient
from ghapp.github.runner_groups import read_runner_groups
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.scope import ScopeKind
from ghapp.loading.views import load_job_queue
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import JobQueue
from ghapp.workflow_jobs.queue_check import (
    QueueCheck,
    checks_to_follow,
    is_done,
    is_forgotten,
    is_to_be_posted,
    unknown_jobs,
    with_outcomes,
)
from ghapp.workflow_jobs.reason import RECORDED_AFTER_SECONDS, QueueReason, WaitReason
from ghapp.workflow_jobs.runner_groups import RunnerGroups
from ghapp.workflow_jobs.store import MOST_CHECKS
from ghapp.workflow_jobs.texts import QUEUE_CHECK, QUIET_TOPIC, queue_report, reasons_digest
from jobs.checks.commit_check import CommitCheckPost
from jobs.checks.publisher import CheckRunOutcome, open_checks, publish
from jobs.context import JobContext
from jobs.each_installation import each_installation
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_where

log = logger(__name__)

GROUPS_SECONDS = 3600.0
"""How often the runner groups are read while a job waits."""

GROUPS_RETRY_SECONDS = 300.0
"""After a failure to read them."""

SUBJECT = "queue"
"""Identifies our check run on a commit, whatever its name."""

MOST_AT_ONCE = 50
"""Checks that one run of the job posts; the others follow in the next one."""


async def report_queue(*installation_ids: int) -> None:
    """The job: all commits of these orgs with jobs that wait."""
    await each_installation(JobName.QUEUE, report_queue_of, installation_ids)


async def report_queue_of(context: JobContext, installation_id: int) -> dict[str, CheckRunOutcome]:
    """Publishes each check that is due; returns the outcomes by `repository@commit`."""
    async with context.locks.acquire("queue", installation_id, context.locks.outliving_seconds) as is_mine:
        installation = await context.installations.one(installation_id)
        if not is_mine or installation is None or installation.suspended:
            return {}
        now, limits = context.clock(), context.settings.of(installation.org).queue
        queue = await load_job_queue(context, installation, context.settings, now)
        queue = await _with_runner_groups(context, installation, queue)
        await context.demand.note_reasons(
            installation_id,
            {job.id: reason for job in queue.queued if (reason := _lasting_reason(queue, job)) is not None},
            {job.id for job in queue.inputs.jobs},
        )
        checks = context.queue_checks
        known = await checks.all(installation_id)
        expired = [place for place, check in known.items() if is_forgotten(check, now)]
        await checks.forget(installation_id, *expired)
        known = {place: check for place, check in known.items() if place not in expired}
        followed = checks_to_follow(queue, known, limits)
        outcomes: dict[str, CheckRunOutcome] = {}
        for place, check in followed.items():
            is_new = place not in known
            if is_new and (not limits.report or len(known.keys() | outcomes.keys()) >= MOST_CHECKS):
                continue
            post = _QueuePost(context, installation, place, queue)
            outcome = await post.run(await _with_outcomes(context, installation, check, queue), known.get(place))
            if outcome is not CheckRunOutcome.NOTHING_TO_DO:
                outcomes[place] = outcome
            if len(outcomes) >= MOST_AT_ONCE:
                break
    return outcomes


def _lasting_reason(queue: JobQueue, job: Job) -> WaitReason | None:
    reason = queue.reason(job) if queue.now - job.queued_at >= RECORDED_AFTER_SECONDS else None
    if reason is not QueueReason.NO_RUNNER_WITH_LABELS:
        return None if reason is None else WaitReason(reason.value)
    return WaitReason(reason.value, tuple(queue.lacking_labels(job)))


async def _with_runner_groups(context: JobContext, installation: Installation, queue: JobQueue) -> JobQueue:
    """Reads the runner groups if they may be why a job waits, and they were not read within the hour.

    That is a job for runners of a group, or one whose labels no runner has: they may be those of a larger runner that
    GitHub hosts. With an enterprise among the scopes, its groups are read, too, whatever a job waits for.
    """
    known, now = queue.inputs.groups, queue.now
    waiting = [job for job in queue.queued if now - job.queued_at >= NOT_ASSIGNED_SECONDS]
    if installation.kind is not ScopeKind.ORGANIZATION:
        return queue  # it has no groups, and its organization's are read for its own jobs
    with_inherited = any(each.enterprise is not None for each in context.settings.scopes)
    is_concerned = (with_inherited and waiting) or any(_concerns_groups(queue, job) for job in waiting)
    if not is_concerned or (known is not None and 0 <= now - known.read_at < GROUPS_SECONDS):
        return queue
    try:
        client = await context.installation_client(installation, Purpose.REPORT)
        org = client.installation.org
        all_used = {each.group_id for each in queue.capacities if each.group_id is not None}
        found = await read_runner_groups(client, org, all_used, with_inherited=with_inherited)
        groups = RunnerGroups(now, found, await _hosted_labels(client, known))
    except GitHubError as error:
        log.warning("runner groups not read", installation=installation.id, org=installation.org, why=str(error))
        read_at = now - GROUPS_SECONDS + GROUPS_RETRY_SECONDS
        groups = RunnerGroups(read_at) if known is None else known._replace(read_at=read_at)
    await context.runner_groups.keep(installation.id, groups)
    return JobQueue(replace(queue.inputs, groups=groups), now)


def _concerns_groups(queue: JobQueue, job: Job) -> bool:
    is_of_group = any(each.group_id is not None for each in queue.placement(job).able)
    return is_of_group or queue.reason(job) is QueueReason.NO_RUNNER_WITH_LABELS


async def _hosted_labels(client: InstallationClient, known: RunnerGroups | None) -> tuple[str, ...]:
    """Reads the labels of GitHub's larger runners. Most organizations have none, and not every App may read them."""
    try:
        return tuple(sorted(await read_hosted_labels(client, client.installation.org)))
    except GitHubError:
        return () if known is None else known.hosted_labels


async def _with_outcomes(
    context: JobContext, installation: Installation, check: QueueCheck, queue: JobQueue
) -> QueueCheck:
    ids = unknown_jobs(check, queue)
    jobs = [await context.demand.one(installation.id, job_id) for job_id in ids]
    return with_outcomes(check, jobs, ids, queue.now)


class _QueuePost(CommitCheckPost):
    """One evaluation of one check."""

    FAILED = "queue check not posted"
    WHY = "GitHub shows no such commit or repository, or the posts of this hour are spent"

    def __init__(self, context: JobContext, installation: Installation, place: str, queue: JobQueue) -> None:
        super().__init__(context, installation, place, queue.now)
        self._queue, self._store = queue, context.queue_checks

    async def run(self, check: QueueCheck, known: QueueCheck | None) -> CheckRunOutcome:
        """Posts the check if it changed, and records it."""
        after, outcome = await self.attempt(check, self._post)
        if after is None:
            await self._store.forget(self._installation.id, self._place)
        elif after != known:
            await self._store.keep(self._installation.id, self._place, after)
        return outcome

    async def _post(self, check: QueueCheck) -> tuple[QueueCheck | None, CheckRunOutcome]:
        """Returns the check after the attempt (None to delete it), and the outcome."""
        pages = self._context.links(self._installation)
        report, over = queue_report(check, self._queue, pages.job), is_done(check)
        relevant = reasons_digest(check, self._queue)
        if not is_to_be_posted(check, report.digest, relevant, self._now):
            return check._replace(over=over), CheckRunOutcome.NOTHING_TO_DO
        checks, known = await self._checks(check), check.check_run
        if known is None and over:  # it may have been created just before a crash
            known = await checks.find(check.sha)
            if known is None:
                return None, CheckRunOutcome.NOTHING_TO_DO
        if known is None and await self._is_quiet(checks, check.repository):
            return None, CheckRunOutcome.NOTHING_TO_DO
        if not await self._store.may_post(self._installation.id, self._now):
            return check, CheckRunOutcome.NOT_NOW
        if known is None:  # recorded before it is created, so that it is completed even after a crash
            await self._store.keep(self._installation.id, self._place, check)
        check_run, outcome = await publish(self._context, checks, check.sha, report, known)
        if check_run is None:
            return check, outcome
        await self._context.demand.note_check_run(self._installation.id, check_run, [each.id for each in check.jobs])
        log.info("queue check posted", **self.named(check), check_run=check_run, outcome=outcome.value, over=over)
        posted = check._replace(
            check_run=check_run, digest=report.digest, reasons_digest=relevant, posted_at=self._now, over=over
        )
        return posted._replace(setback="", again_at=0.0), outcome

    async def _checks(self, check: QueueCheck) -> Checks:
        repository, pages = self._installation.at_github(check.repository), self._context.links(self._installation)
        is_of_one = len(check.jobs) == 1 and not check.more
        details_url = pages.job(check.jobs[0].id) if is_of_one else pages.selected("jobs", text=check.sha)
        return await open_checks(
            self._context, self._installation, repository, name=QUEUE_CHECK, subject=SUBJECT, details_url=details_url
        )

    async def _is_quiet(self, checks: Checks, repository: str) -> bool:
        """Returns True if the repository opted out; GitHub is queried once an hour."""
        known = await self._store.is_quiet(self._installation.id, repository)
        if known is None:
            known = QUIET_TOPIC in (await checks.topics() or ())
            await self._store.remember_quiet(self._installation.id, repository, quiet=known)
        return known


async def _has_queue(context: SchedulerContext, installation: Installation) -> bool:
    """True if a job has waited for `RECORDED_AFTER_SECONDS`, or a check run may have to be completed."""
    if await context.queue_checks.any(installation.id):
        return True
    jobs = await context.demand.all(installation.id)
    now = context.clock()
    return any(
        job.status == "queued" and not job.waiting and now - job.queued_at >= RECORDED_AFTER_SECONDS for job in jobs
    )


EXPLAIN_QUEUE = PeriodicTask("explain_queue", 15.0, enqueue_where(JobName.QUEUE, _has_queue))
"""Looks for jobs that have waited for `RECORDED_AFTER_SECONDS`."""
