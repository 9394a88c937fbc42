"""The check run "Runner health": one for each organization, posted when its text changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ghapp.deaths.cluster_summary import MOST_DEATHS, ClusterSummary, possible_phantoms
from ghapp.deaths.death import WEEK_SECONDS
from ghapp.deaths.patterns import DAY_SECONDS, DeathSummary, death_patterns, death_summary
from ghapp.github.checks import Checks
from ghapp.installations.installation import Installation
from ghapp.loading.views import load_fleet
from ghapp.log import logger
from ghapp.queue import jobs
from ghapp.report.check_run import RESUME, SWEEP, Report
from ghapp.report.check_run_state import (
    CheckRunState,
    CheckRunStep,
    Head,
    Posted,
    PostFailure,
    changes_after,
    next_of,
    repository_of,
    wants_report,
)
from ghapp.report.fleet import FleetView, PressedButton
from ghapp.report.fleet_report import report_on
from ghapp.report.metrics import REPORTS
from ghapp.settings import Settings
from ghapp.store.audit import BEGUN, AuditEntry, Channel, Trail
from ghapp.store.presses import QUEUED
from jobs.checks.publisher import POSTED, CheckRunOutcome, open_checks, outcome_of, publish, retry_after
from jobs.context import JobContext
from jobs.each_installation import each_installation
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_where
from jobs.pods.cluster_summary import leaks_of, summarize_cluster

log = logger(__name__)

PRESSED_SECONDS = 600.0
"""How long the outcome of a button stays in the report, from when it is known."""

_BUTTONS = {each.identifier: each.label for each in (SWEEP, RESUME)}

ENTRIES_LOOKED_AT = 20
"""Of each trail of the audit log: others may have changed something since the press."""


WHYS: Mapping[CheckRunOutcome, str] = {
    CheckRunOutcome.PERMISSION_MISSING: "the installation has not granted checks: write",
    CheckRunOutcome.REPOSITORY_MISSING: "GitHub shows no such repository to this installation",
    CheckRunOutcome.HEAD_UNKNOWN: "no workflow ran on its default branch, and no push was delivered since; push to it",
    CheckRunOutcome.REFUSED: "GitHub does not know the commit, or the repository, any more",
}
"""Explanations of outcomes for which GitHub gives none."""


def enqueue_report_if_wanted(context: JobContext, installation: Installation) -> None:
    """Enqueues the report if the org has a report repository, or pools with pods.

    The job also summarizes the cluster for the commands, without a check run, too.
    """
    if _is_wanted(context.settings, installation.org):
        jobs.enqueue_report(context.queue_redis, installation.id)


def _is_wanted(settings: Settings, org: str) -> bool:
    return wants_report(settings.of(org).report.repository, org, settings.pools_of(org))


async def _is_due(context: SchedulerContext, installation: Installation) -> bool:
    return _is_wanted(context.settings, installation.org)


REPORT = PeriodicTask("report", 10.0, enqueue_where(jobs.JobName.REPORT, _is_due))
"""Looks at the report of each org: much changes by time alone, and must be published within 15 s."""


def repository_for(context: JobContext, installation: Installation) -> str | None:
    """Returns the repository of an org's check run; None for no report."""
    repository = repository_of(context.settings.of(installation.org).report.repository, installation.org)
    return None if repository is None else installation.at_github(repository)


async def report(*installation_ids: int) -> None:
    """The job: enqueued by the scheduler, and for one installation after each change."""
    await each_installation(jobs.JobName.REPORT, report_installation, installation_ids)


async def report_installation(context: JobContext, installation_id: int) -> CheckRunOutcome:
    """Publishes the report, unless the check run on the newest head has the same text.

    One process at a time publishes, and searches for our check run before it creates one: a crash between the creation
    and its record leaves one check run.
    """
    async with context.locks.acquire("report", installation_id, context.locks.outliving_seconds) as acquired:
        installation = await context.installations.one(installation_id)
        if not acquired or installation is None or installation.suspended:
            return CheckRunOutcome.NOTHING_TO_DO
        now, repository = context.clock(), repository_for(context, installation)
        cluster = await summarize_cluster(context, installation, now)
        if repository is None:
            return CheckRunOutcome.NOTHING_TO_DO
        rendered = report_on(await _fleet(context, installation, cluster, now), now)
        state = (await context.reports.check_run_state(installation_id)).at(repository)
        if next_of(state, rendered, now) is CheckRunStep.NOTHING:
            if state.setback is not None and now >= state.setback.until:  # what could not be posted is no more
                await context.reports.try_again(installation_id)
            return CheckRunOutcome.NOTHING_TO_DO
        why, raised = "", None
        try:
            outcome = await _post(context, installation, repository, state, rendered, now)
        except Exception as error:  # noqa: BLE001 - `outcome_of` raises what cannot be recorded
            outcome, why, raised = outcome_of(error), str(error) or type(error).__name__, error
        await _count(context, installation, repository, outcome, why, raised, now)
    return outcome


async def _fleet(
    context: JobContext, installation: Installation, cluster: ClusterSummary | None, now: float
) -> FleetView:
    fleet = await load_fleet(context, installation, context.settings, now)
    week: Sequence[DeathSummary] = () if cluster is None else cluster.deaths
    if cluster is None:
        week = await _deaths_of_jobs(context, installation, now)
    return replace(
        fleet,
        phantoms=cluster.phantoms if cluster else (),
        possible_phantoms=possible_phantoms(cluster) if cluster else frozenset(),
        found_since=cluster.since if cluster else {},
        deaths=[each for each in week if each.at >= now - DAY_SECONDS],
        death_patterns=death_patterns(week, now),
        leaks=await leaks_of(context, installation, now),
        pressed=await _pressed(context, installation, now),
        pages_url=context.links(installation).base,
    )


async def _pressed(context: JobContext, installation: Installation, now: float) -> PressedButton | None:
    """Returns the press of a button of the check run whose outcome was known last, also a refused one, for minutes."""
    trails = (Trail.CHANGES, Trail.ATTEMPTS)
    entries = [each for of in trails for each in await context.audit.latest(installation.id, ENTRIES_LOOKED_AT, of)]
    known = [each for each in entries if each.channel == Channel.CHECK_RUN and each.action in _BUTTONS]
    known = [each for each in known if each.result not in (QUEUED, BEGUN)]
    last = max((each for each in known if 0.0 <= now - _known_at(each) < PRESSED_SECONDS), key=_known_at, default=None)
    if last is None:
        return None
    return PressedButton(last.why or _BUTTONS[last.action], last.at, last.who, last.outcome)


def _known_at(entry: AuditEntry) -> float:
    return entry.at if entry.ended_at is None else entry.ended_at


async def _deaths_of_jobs(context: JobContext, installation: Installation, now: float) -> list[DeathSummary]:
    """Returns the deaths of the last week of an org without a cluster, latest first; their records have no logs."""
    found = await context.deaths.unclean(installation.id, now - WEEK_SECONDS, MOST_DEATHS)
    return [death_summary(each) for each in found]


async def _post(
    context: JobContext, installation: Installation, repository: str, state: CheckRunState, rendered: Report, now: float
) -> CheckRunOutcome:
    details_url = context.links(installation).below(rendered.page)
    checks = await open_checks(context, installation, repository, details_url=details_url)
    state = state._replace(setback=None)
    if next_of(state, rendered, now) is CheckRunStep.FIND_HEAD:
        branch = await checks.default_branch()
        if branch is None:
            return CheckRunOutcome.REPOSITORY_MISSING
        state = state._replace(head=await _look_for_head(context, installation, checks, branch, state.head, now))
    if state.head is None:
        return CheckRunOutcome.HEAD_UNKNOWN
    posted, sha = state.posted, state.head.sha
    step = next_of(state, rendered, now)
    if step is CheckRunStep.NOTHING:
        return CheckRunOutcome.NOTHING_TO_DO
    known = posted.check_run if posted is not None and step is CheckRunStep.UPDATE else None
    check_run, outcome = await publish(context, checks, sha, rendered, known)
    if check_run is None:
        await context.reports.forget_head(installation.id)
        return outcome
    changes = changes_after(posted, rendered, now)
    record = Posted(repository, sha, check_run, rendered.digest, rendered.urgent, now, rendered.is_incident, changes)
    await context.reports.posted(installation.id, record)
    log.info(
        "reported",
        installation=installation.id,
        org=installation.org,
        repository=repository,
        check_run=check_run,
        outcome=outcome.value,
        conclusion=rendered.conclusion,
    )
    return outcome


async def _look_for_head(
    context: JobContext, installation: Installation, checks: Checks, branch: str, known: Head | None, now: float
) -> Head | None:
    """Returns the head of the branch by GitHub's answer, or by deliveries where those are newer."""
    found = await checks.head(branch, now)
    if found is None and known is not None and known.branch == branch:
        found = known._replace(confirmed_at=now)
    return None if found is None else await context.reports.record_head(installation.id, found)


async def _count(
    context: JobContext,
    installation: Installation,
    repository: str,
    outcome: CheckRunOutcome,
    why: str,
    raised: Exception | None,
    now: float,
) -> None:
    """Counts the outcome; a failure is recorded, and logged if it differs from the last one."""
    if outcome is CheckRunOutcome.NOTHING_TO_DO:
        return
    await context.counters.add(REPORTS, org=installation.org, outcome=outcome.value)
    if outcome in POSTED:
        return
    failure = PostFailure(repository, outcome.value, now + retry_after(outcome), now)
    if await context.reports.put_off(installation.id, failure):
        log.warning(
            "not reported",
            installation=installation.id,
            org=installation.org,
            repository=repository,
            reason=outcome.value,
            why=why or WHYS[outcome],
            exc_info=raised if outcome is CheckRunOutcome.FAILED else None,
        )
