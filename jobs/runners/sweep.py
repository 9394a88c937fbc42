"""Sweeps an installation: list all runners, judge, record, and enqueue confirmations of missing ones."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ghapp.errors import (
    BudgetSpentError,
    GitHubError,
    InstallationMissingError,
    InstallationSuspendedError,
    NotFoundError,
    PermissionMissingError,
    RateLimitedError,
    StoreRefusedError,
    UnauthorizedError,
)
from ghapp.health.history import HistorySample, sample
from ghapp.health.installation import Installation
from ghapp.health.job import Job, is_over
from ghapp.health.pacing import Purpose, left, next_sweep_at, next_sweep_in
from ghapp.health.pods.observed_remains import by_namespace
from ghapp.health.remediation.decision import are_at_rest
from ghapp.health.runner import absence
from ghapp.health.runner.absence import GetResult
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.remains import RemainsKind
from ghapp.health.runner.transitions import may_be_forgotten
from ghapp.health.runner.verdict import Limits, Reason, is_absent, judge
from ghapp.health.settled import Settled, holds, is_settled
from ghapp.log import logger
from ghapp.store.locks import OUTLIVING_SECONDS
from jobs.context import JobContext, configured, open_context
from jobs.deliveries.installations import warn_of_name
from jobs.pods.remains import observe_remains
from jobs.remediation.job_lookup import look_up_jobs
from jobs.remediation.plan_remediation import plan_after_sweep
from jobs.runners.confirm import ask_to_confirm, confirm_listed, prepare_confirmation
from jobs.runners.heal_times import count_heals
from jobs.runners.incidents import record_deleted
from jobs.runners.list_runners import ListResult, Progress, get_each, list_runners

log = logger(__name__)

FAILURES: dict[type[GitHubError], Reason] = {
    BudgetSpentError: Reason.BUDGET_SPENT,
    NotFoundError: Reason.PERMISSION_MISSING,
    RateLimitedError: Reason.RATE_LIMITED,
    UnauthorizedError: Reason.UNAUTHORIZED,
    PermissionMissingError: Reason.PERMISSION_MISSING,
    InstallationSuspendedError: Reason.INSTALLATION_SUSPENDED,
    InstallationMissingError: Reason.INSTALLATION_GONE,
}


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result and the cost of a sweep, and when the next steps are due.

    Attributes:
        org: the organization.
        runners: how many were listed.
        suspects: how many are absent and not confirmed as lost.
        calls: requests sent.
        billable: requests that count against the hourly limit.
        milliseconds: from the first request to the record.
        changed: pages that changed since the last list; 0 if that is unknown.
        changed_pages: the mean of that, the expected cost of the next sweep, for suspects are queried once.
        flaw: why the list proves no absence; empty when it is complete.
        confirm_at: when suspects are due for confirmation (epoch seconds).
        left: calls left until the reset, up to the share that sweeps may use.
        next_in: seconds from this sweep to the next.
        at_rest: True if no runner gives a plan anything to do.
        repeats: how many sweeps, this one included, kept the judgement of an earlier one (`health.settled`).
    """

    org: str
    runners: int
    suspects: int
    calls: int
    billable: int
    milliseconds: float
    changed: int = 0
    changed_pages: float = 0.0
    flaw: str = ""
    confirm_at: tuple[float, ...] = ()
    left: int = 0
    next_in: float = 0.0
    at_rest: bool = False
    repeats: int = 0


async def sweep(installation_id: int) -> None:
    """The job of the previous version: one sweep."""
    async with open_context(configured()) as context:
        await sweep_installation(context, installation_id)


async def sweep_installation(
    context: JobContext,
    installation_id: int,
    *,
    act: bool = True,
    progress: Progress = lambda _done, _of: None,
    patience_seconds: float = OUTLIVING_SECONDS,
    due_at: float | None = None,
) -> SweepResult | None:
    """Sweeps once; returns None if the installation is unknown or another process sweeps it.

    With `act` false the sweep records everything and enqueues nothing. `patience_seconds` is the time to wait for
    another process that sweeps it, `due_at` when the schedule had the sweep due (epoch seconds).
    """
    async with context.locks.acquire("sweep", installation_id, patience_seconds) as acquired:
        installation = await context.installations.one(installation_id)
        if not acquired or installation is None:
            return None
        began, seen = context.clock(), None
        survey, settled = await gather(context.runners.survey(installation_id), context.settled.of(installation_id))
        try:
            if installation.suspended:
                raise InstallationSuspendedError(f"{installation.org} suspended the App")
            observation = await _observe(context, installation, progress)
            if settled is not None and holds(settled, observation.digest, began):
                swept = await _keep(context, installation, observation, survey, settled, began)
            else:
                swept, seen = await _record(context, installation, observation, survey, began, act=act)
        except GitHubError as error:
            reason = await _reason(context, installation, error)
            log.warning(
                "sweep failed", installation=installation_id, org=installation.org, reason=reason, why=str(error)
            )
            await context.runners.save_survey(installation_id, absence.survey_after_failure(survey, reason, began))
            took = (context.clock() - began) * 1000
            swept = SweepResult(installation.org, 0, 0, 0, 0, took, changed_pages=survey.changed_pages, flaw=reason)
        swept = await _finish(context, installation, swept, began, due_at)
        if not swept.repeats:
            await _record_history(context, installation, seen, began)
    if act:
        ask_to_confirm(context, installation_id, swept.confirm_at)
        await plan_after_sweep(context, installation, at_rest=swept.at_rest)
    return swept


async def _observe(context: JobContext, installation: Installation, progress: Progress) -> ListResult:
    """Lists the runners; after a denied list, once more with a new token.

    The old token lacks permissions that were granted after it was issued.
    """
    concurrency = context.settings.of(installation.org).sweep.concurrency
    installation_client = await context.installation_client(installation, Purpose.SWEEP)
    try:
        return await list_runners(installation_client, context.pages, concurrency, progress)
    except PermissionMissingError as error:
        if not await installation_client.forget_token():
            raise
        log.info("token renewed", installation=installation.id, org=installation.org, why=str(error))
    return await list_runners(
        await context.installation_client(installation, Purpose.SWEEP), context.pages, concurrency, progress
    )


async def _reason(context: JobContext, installation: Installation, error: GitHubError) -> Reason:
    """Returns why a sweep failed. After a 404 of the list itself, GitHub is queried for the installation."""
    if not isinstance(error, NotFoundError):
        return FAILURES.get(type(error), Reason.GITHUB_UNAVAILABLE)
    try:
        now = await context.github.installation(installation.id)
    except GitHubError as why:
        return FAILURES.get(type(why), Reason.GITHUB_UNAVAILABLE)
    now = await context.installations.put(now)  # the next sweep uses its new name
    if now.called != installation.called:
        warn_of_name(context, now)
        return Reason.ORGANIZATION_RENAMED
    return Reason.INSTALLATION_SUSPENDED if now.suspended else Reason.PERMISSION_MISSING


async def _keep(
    context: JobContext,
    installation: Installation,
    observation: ListResult,
    survey: Survey,
    settled: Settled,
    began: float,
) -> SweepResult:
    """Records that the list and the records are those that an earlier sweep of this step judged; reads no record."""
    after = absence.survey_after(survey, observation.runner_list, began, observation.changed)
    after = replace(after, repeats=survey.repeats + 1)
    await context.runners.save_survey(installation.id, after)
    return SweepResult(
        org=installation.org,
        runners=len(observation.runners),
        suspects=0,
        calls=observation.calls,
        billable=observation.billable,
        milliseconds=(context.clock() - began) * 1000,
        changed=observation.changed or 0,
        changed_pages=after.changed_pages,
        at_rest=settled.at_rest,
        repeats=after.repeats,
    )


async def _record(
    context: JobContext, installation: Installation, observation: ListResult, survey: Survey, began: float, *, act: bool
) -> tuple[SweepResult, HistorySample | None]:
    """Records the listed and the missing runners, queries GitHub for each suspect, and confirms those that are due.

    Returns:
        What was found, and what it adds to the history; None if the list is not complete.
    """
    policy = context.settings.of(installation.org)
    await context.settled.begin(installation.id)
    known = await context.runners.all(installation.id)
    listed = absence.allow_for_churn(observation.runner_list)
    if absence.is_doubtful(listed, known, policy.fuse.floor):
        sampled = absence.sample(known)
        listed = absence.usable(listed, sampled, await _get_alone(context, installation, sampled))
    after = absence.survey_after(survey, listed, began, observation.changed)
    records = {
        **known,
        **await context.runners.revise(installation.id, absence.folds_of_list(listed, known, survey, began), known),
    }
    listed_at = context.clock()  # listing took time, and the watch's views may be newer than its start
    records |= await _read_cluster(context, installation, records.values(), listed_at)
    suspects = absence.not_yet_queried(records.values(), after, began, policy.evidence)
    hidden = absence.possibly_hidden(records.values(), listed, began)
    soon = listed_at + absence.AHEAD_SECONDS
    due = absence.due_in_sweep(records.values(), listed, after, began, soon, policy.evidence) if act else {}
    answers, _ = await gather(
        _get_alone(context, installation, suspects + hidden), prepare_confirmation(context, installation, due.values())
    )
    at = context.clock()  # of GitHub's answers
    records |= await context.runners.revise(
        installation.id, {runner_id: absence.folds_of_get(*result) for runner_id, result in answers.items()}, records
    )
    await context.runners.save_survey(installation.id, after)
    records |= await confirm_listed(context, installation, due, listed)
    records |= await count_heals(context, installation, records.values(), at)
    jobs = await _forget(context, installation, records, after, at, policy.evidence)
    rules = context.settings.pools_of(installation.org)
    seen = None
    if listed.flaw is None:
        seen = sample(records.values(), jobs, after, policy.evidence, rules, began, survey.swept_at)
        seen = seen._replace(repeats=survey.repeats, repeated_at=survey.swept_at or began)
    missing = absence.suspects(records.values(), after, at, policy.evidence)
    swept = SweepResult(
        org=installation.org,
        runners=len(listed.runners),
        suspects=len(missing),
        calls=observation.calls + len(answers),
        billable=observation.billable + len(answers),
        milliseconds=(context.clock() - began) * 1000,
        changed=observation.changed or 0,
        changed_pages=after.changed_pages,
        flaw=listed.flaw or "",
        confirm_at=tuple(absence.confirm_at(missing, after, at, policy.evidence)),
        at_rest=are_at_rest(records.values()),
    )
    is_complete = listed.flaw is None and not listed.churned
    if (
        is_complete
        and is_settled(records.values(), after, began, policy.evidence)
        and not by_namespace(_still_in_cluster(records.values()), rules)
    ):
        await context.settled.keep(installation.id, Settled(began, observation.digest, swept.at_rest))
    return swept, seen


async def _read_cluster(
    context: JobContext, installation: Installation, records: Iterable[Evidence], now: float
) -> dict[int, Evidence]:
    """Records what the watch shows of absent runners, and what GitHub answers about the jobs that the cluster names.

    A runner without remaining objects is not looked up again.
    """
    folds = await observe_remains(context, installation, _still_in_cluster(records), now)
    if not folds:
        return {}
    seen_there = await context.runners.revise(installation.id, folds)
    await look_up_jobs(context, installation, seen_there.values())
    return await context.runners.some(installation.id, seen_there)


def _still_in_cluster(records: Iterable[Evidence]) -> list[Evidence]:
    """Returns the absent runners whose objects the cluster may still have."""
    return [
        each
        for each in records
        if is_absent(each) and not (each.remains is not None and each.remains.kind is RemainsKind.NOTHING)
    ]


async def _get_alone(context: JobContext, installation: Installation, runner_ids: list[int]) -> dict[int, GetResult]:
    if not runner_ids:
        return {}
    installation_client = await context.installation_client(installation, Purpose.ACT)
    concurrency = context.settings.of(installation.org).sweep.concurrency
    return await get_each(installation_client, runner_ids, concurrency, context.clock)


async def _forget(
    context: JobContext,
    installation: Installation,
    records: dict[int, Evidence],
    survey: Survey,
    now: float,
    limits: Limits,
) -> list[Job]:
    """Deletes records of runners that left a day ago, and of jobs that must be over; returns the jobs that are not."""

    def fold(evidence: Evidence | None) -> Evidence | None:
        if evidence is None or may_be_forgotten(evidence, judge(evidence, survey, now, limits), now):
            return None
        return evidence

    old = [each for each in records.values() if not each.listed and fold(each) is None]
    await record_deleted(context, installation, old, now)
    await context.runners.revise(installation.id, dict.fromkeys((each.id for each in old), fold))
    jobs = await context.demand.all(installation.id)
    await context.demand.forget(installation.id, [job for job in jobs if is_over(job, now)])
    return [job for job in jobs if not is_over(job, now)]


async def _finish(
    context: JobContext, installation: Installation, swept: SweepResult, began: float, due_at: float | None
) -> SweepResult:
    """Counts the cost of the sweep, and schedules the next one."""
    org, policy = installation.org, context.settings.of(installation.org)
    allowance = await context.budget.left(installation.id, context.clock())
    interval = policy.sweep.interval_seconds
    wait = next_sweep_in(interval, swept.changed, swept.changed_pages, allowance, policy.budget)
    await context.schedule.due_at(installation.id, next_sweep_at(began, due_at, wait))
    swept = replace(swept, left=left(allowance, policy.budget), next_in=wait)
    log.info("swept", installation=installation.id, **_public(swept))
    counters = context.counters.batch()
    counters.add("ghapp_sweeps_total", org=org, outcome=swept.flaw or "complete")
    counters.add("ghapp_sweep_calls_total", swept.calls, org=org)
    counters.add("ghapp_sweep_billable_calls_total", swept.billable, org=org)
    counters.add("ghapp_sweep_seconds_total", swept.milliseconds / 1000, org=org)
    await counters.send()
    return swept


async def _record_history(
    context: JobContext, installation: Installation, seen: HistorySample | None, began: float
) -> None:
    """Records the sample in the history; what Redis refuses is logged, because confirmations and remediation follow."""
    try:
        await context.history.record(installation.id, seen, began)
    except StoreRefusedError as error:
        log.warning("history not recorded", installation=installation.id, org=installation.org, why=error.why)


def _public(swept: SweepResult) -> dict[str, object]:
    return {
        "org": swept.org,
        "runners": swept.runners,
        "suspects": swept.suspects,
        "calls": swept.calls,
        "billable": swept.billable,
        "milliseconds": round(swept.milliseconds),
        "flaw": swept.flaw,
        "left": swept.left,
        "next_in": round(swept.next_in),
    }
