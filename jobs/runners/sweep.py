"""Sweeps an installation: list all runners, judge, record, and enqueue confirmations of missing ones."""

from __future__ import annotations

import asyncio
from asyncio import gather
from dataclasses import replace
from functools import partial

from ghapp.errors import (
    BudgetSpentError,
    GhappError,
    GitHubError,
    InstallationMissingError,
    InstallationSuspendedError,
    NotFoundError,
    PermissionMissingError,
    SpentLimit,
    StoreRefusedError,
)
from ghapp.github.installation_client import InstallationClient
from ghapp.github.response import PER_PAGE
from ghapp.github.runner_list import ListResult, Progress, list_runners
from ghapp.incidents.history import LATEST_SECONDS, HistorySample, sample_without_list
from ghapp.incidents.interruptions import pause_spans
from ghapp.incidents.settled import holds
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose, least_interval, left, next_sweep_at, next_sweep_in
from ghapp.loading.views import load_remaining_losses, pause_changes
from ghapp.log import logger
from ghapp.report.metrics import SWEEP_BILLABLE_CALLS, SWEEP_CALLS, SWEEP_SECONDS, SWEEPS
from ghapp.runners import absence
from ghapp.runners.evidence import Survey
from ghapp.runners.verdict import Reason
from ghapp.store.presses import JOINED, SWEEP_TOPIC, Press
from jobs.context import JobContext
from jobs.failed_calls import reason_of_failure
from jobs.installations.discover import list_repositories_again
from jobs.installations.enrol import present_state, warn_of_name
from jobs.installations.forget import forget_unswept
from jobs.remediation.plan_remediation import plan_after_sweep
from jobs.runners.confirm import ask_to_confirm
from jobs.runners.record_list import SweepResult, keep_judgement, record_list

log = logger(__name__)

POINTS_SPENT = "as many calls were sent as GitHub permits in this minute"

RECORDING_SECONDS = 2.0
"""Seconds of a job that are left for the record when a list takes too long."""

RECENT_CHANGES = 200
"""Entries of the audit log that a sweep reads, for pauses that ended in the last two hours."""

FORGET_SECONDS = 600.0
"""While no list can be read, one sweep in so many seconds deletes what deliveries have left behind."""


async def sweep_installation(
    context: JobContext,
    installation_id: int,
    *,
    act: bool = True,
    progress: Progress = lambda _done, _of: None,
    patience_seconds: float | None = None,
    due_at: float | None = None,
    ends: float | None = None,
    with_losses: bool = False,
) -> SweepResult | None:
    """Sweeps once; returns None if the installation is unknown or another process sweeps it.

    With `act` false the sweep records everything and enqueues nothing. `patience_seconds` is the time to wait for
    another process that sweeps it (None: until that one has ended or crashed), `due_at` when the schedule had the sweep
    due (epoch seconds), `ends` when its job ends (by the clock of the event loop): a longer list fails before that, so
    that its failure can be recorded. `with_losses` has the result count the runners that remain lost.
    """
    patience_seconds = context.locks.outliving_seconds if patience_seconds is None else patience_seconds
    async with context.locks.acquire("sweep", installation_id, patience_seconds) as acquired:
        installation = await context.installations.one(installation_id)
        if not acquired or installation is None:
            return None
        began = context.clock()
        list_ends = None if ends is None else ends - RECORDING_SECONDS
        swept, seen = await _list_and_record(context, installation, began, due_at, progress, list_ends, act=act)
        if swept.deferred:
            next_at = context.clock() + swept.next_in
            await context.presses.wait(installation_id, SWEEP_TOPIC, POINTS_SPENT, next_at)
            return swept
        swept = await _finish(context, installation, swept, began, due_at)
        if not swept.repeats:
            await _record_history(context, installation, seen, began)
    try:
        if act:
            ask_to_confirm(context, installation_id, swept.confirm_at)
            async with context.all_records(swept.runners):
                await plan_after_sweep(context, installation, at_rest=swept.at_rest)
    finally:
        swept = await _conclude(context, installation, swept, began, with_losses=with_losses)
    return swept


async def _conclude(
    context: JobContext, installation: Installation, swept: SweepResult, began: float, *, with_losses: bool
) -> SweepResult:
    """Records the outcome of presses after the plan, which decides what happens next to the lost; returns the result.

    The losses are read only if that is asked for: that costs as much as a plan.
    """
    is_awaited = await context.presses.is_awaited(installation.id, SWEEP_TOPIC)
    if is_awaited or with_losses:
        async with context.all_records(swept.runners):
            losses = await load_remaining_losses(context, installation, context.settings, context.clock())
        swept = replace(swept, losses=losses)
    if is_awaited:
        outcome_of = partial(_outcome, swept=swept, began=began)
        await context.presses.conclude(installation.id, SWEEP_TOPIC, outcome_of, swept.losses, context.clock())
    return swept


def _outcome(press: Press, swept: SweepResult, began: float) -> str:
    """Returns the outcome of a press of "Sweep now": one that came while the sweep ran joined it."""
    return f"{JOINED if press.entry.at > began else ''}{swept.outcome}"


async def _list_and_record(
    context: JobContext,
    installation: Installation,
    began: float,
    due_at: float | None,
    progress: Progress,
    ends: float | None,
    *,
    act: bool,
) -> tuple[SweepResult, HistorySample | None]:
    """Returns what was found, and what it adds to the history. The list is freed before the plan reads the runners.

    An error of GitHub or of `ghapp` itself is recorded in the survey, which keeps the last complete list.
    """
    survey, settled = await gather(context.runners.survey(installation.id), context.settled.of(installation.id))
    clients = list[InstallationClient]()
    try:
        async with asyncio.timeout_at(ends):
            observation = await _list(context, installation, progress, clients)
        if settled is not None and holds(settled, observation.digest, began):
            return await keep_judgement(context, installation, observation, survey, settled, began, due_at), None
        async with context.all_records(len(observation.runner_list.runners)):
            return await record_list(context, installation, observation, survey, began, due_at, act=act)
    except Exception as error:
        if isinstance(error, GhappError) and not isinstance(error, GitHubError):
            raise  # Redis is unavailable or the lock is lost, so that nothing can be recorded
        if isinstance(error, BudgetSpentError) and error.limit is SpentLimit.TURN:
            return await _defer(context, installation, survey, error, began), None
        reason = await _reason(context, installation, error)
        log.warning(
            "sweep failed",
            installation=installation.id,
            org=installation.org,
            reason=reason,
            error=type(error).__name__,
            why=str(error) or "the list took longer than a sweep may",
            exc_info=error if reason is Reason.INTERNAL_ERROR else None,
        )
        after = absence.survey_after_failure(survey, reason, began)
        await context.runners.save_survey(installation.id, after)
        if began % FORGET_SECONDS < context.settings.of(installation.org).sweep.interval_seconds:
            await forget_unswept(context, installation)
        took = (context.clock() - began) * 1000
        calls = sum(each.sent for each in clients) or int(_asked_for_token(error))
        failed = SweepResult(installation.org, 0, 0, calls, 0, took, changed_pages=survey.changed_pages, flaw=reason)
        return failed, sample_without_list(after, began)


async def _defer(
    context: JobContext, installation: Installation, survey: Survey, error: BudgetSpentError, began: float
) -> SweepResult:
    """Has the sweep wait for its turn: after a start, tokens of all installations need more than a minute."""
    now, limits = context.clock(), context.settings.of(installation.org).budget
    log.info(
        "sweep deferred",
        installation=installation.id,
        org=installation.org,
        reason=Reason.RATE_LIMITED,
        after_seconds=round(error.after_seconds, 1),
        why=str(error),
    )
    await context.runners.save_survey(installation.id, absence.survey_after_deferral(survey, began))
    await context.schedule.due_at(installation.id, now + error.after_seconds)
    await context.counters.add(SWEEPS, org=installation.org, outcome="deferred")
    return SweepResult(
        installation.org,
        *(0, 0, 0, 0, (now - began) * 1000),
        flaw=Reason.RATE_LIMITED,
        left=left(await context.budget.left(installation.caller, now), limits),
        next_in=error.after_seconds,
        deferred=True,
    )


def _asked_for_token(error: Exception) -> bool:
    """True if GitHub was asked before the list, for a token, and gave none."""
    is_own = isinstance(error, BudgetSpentError | InstallationSuspendedError)
    return isinstance(error, GitHubError) and not is_own


async def _list(
    context: JobContext, installation: Installation, progress: Progress, clients: list[InstallationClient]
) -> ListResult:
    """Lists the runners; after a denied list, once more with a new token. Adds the clients that it used.

    The old token lacks permissions that were granted after it was issued.

    Raises:
        InstallationSuspendedError: nothing was sent.
        GitHubError: GitHub gave no usable answer.
    """
    if installation.suspended:
        raise InstallationSuspendedError(f"{installation.org} suspended the App")
    concurrency = context.settings.of(installation.org).sweep.concurrency
    clients.append(installation_client := await context.installation_client(installation, Purpose.SWEEP))
    try:
        return await list_runners(installation_client, context.pages, concurrency, progress)
    except PermissionMissingError as error:
        if not await installation_client.forget_token():
            raise
        log.info("token renewed", installation=installation.id, org=installation.org, why=str(error))
    clients.append(await context.installation_client(installation, Purpose.SWEEP))
    return await list_runners(clients[-1], context.pages, concurrency, progress)


async def _reason(context: JobContext, installation: Installation, error: Exception) -> Reason:
    """Returns why a sweep failed. After a 404 of the list itself, GitHub is queried for the installation."""
    if isinstance(error, TimeoutError):
        return Reason.GITHUB_UNAVAILABLE
    if not isinstance(error, GitHubError):
        return Reason.INTERNAL_ERROR
    if isinstance(error, BudgetSpentError):
        return Reason.BUDGET_SPENT if error.limit is SpentLimit.SHARE else Reason.RATE_LIMITED
    if not isinstance(error, NotFoundError):
        return reason_of_failure(error)
    try:
        now = await present_state(context, installation)
    except GitHubError as why:
        if installation.parent and isinstance(why, InstallationMissingError):
            await list_repositories_again(context, installation.parent)
        return reason_of_failure(why)
    if installation.parent:
        return Reason.INSTALLATION_SUSPENDED if now.suspended else Reason.PERMISSION_MISSING
    now = await context.installations.put(now)  # the next sweep uses its new name
    if now.called != installation.called:
        warn_of_name(context, now)
        return Reason.ORGANIZATION_RENAMED
    return Reason.INSTALLATION_SUSPENDED if now.suspended else Reason.PERMISSION_MISSING


async def _finish(
    context: JobContext, installation: Installation, swept: SweepResult, began: float, due_at: float | None
) -> SweepResult:
    """Counts the cost of the sweep, and schedules the next one."""
    org, policy = installation.org, context.settings.of(installation.org)
    allowance = await context.budget.left(installation.caller, context.clock())
    interval = max(policy.sweep.interval_seconds, least_interval(-(-swept.runners // PER_PAGE)))
    others = await _calls_of_others(context, installation, 3600 * swept.changed_pages / interval)
    wait = next_sweep_in(interval, swept.changed, swept.changed_pages, allowance, policy.budget, others)
    await context.schedule.due_at(installation.id, next_sweep_at(began, due_at, wait))
    swept = replace(swept, left=left(allowance, policy.budget), next_in=wait)
    log.info("swept", installation=installation.id, **swept.logged())
    counters = context.counters.batch()
    counters.add(SWEEPS, org=org, outcome=swept.flaw or "complete")
    counters.add(SWEEP_CALLS, swept.calls, org=org)
    counters.add(SWEEP_BILLABLE_CALLS, swept.billable, org=org)
    counters.add(SWEEP_SECONDS, swept.milliseconds / 1000, org=org)
    await counters.send()
    return swept


async def _calls_of_others(context: JobContext, installation: Installation, calls_an_hour: float) -> float:
    """Returns the calls an hour that other scopes with the same limit need for sweeps: none may spend all of it."""
    if not context.settings.scopes:
        return 0.0
    now = context.clock()
    return await context.budget.share_with_others(installation.caller, installation.id, calls_an_hour, now)


async def _record_history(
    context: JobContext, installation: Installation, seen: HistorySample | None, began: float
) -> None:
    """Records the sample in the history; what Redis refuses is logged, because confirmations and remediation follow."""
    try:
        if seen is not None:
            pauses, entries = await gather(
                context.fuses.pauses(installation.id), context.audit.latest(installation.id, RECENT_CHANGES)
            )
            spans = pause_spans(pause_changes(entries), pauses, began - LATEST_SECONDS, began)
            seen = seen._replace(pauses=spans)
        await context.history.record(installation.id, seen, began)
    except StoreRefusedError as error:
        log.warning("history not recorded", installation=installation.id, org=installation.org, why=error.why)
