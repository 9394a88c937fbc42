"""Remediates one lost runner: lock, query GitHub again, remove, request the replacement, record."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Awaitable, Callable
from functools import partial

from ghapp.errors import BudgetSpentError, GitHubError, RateLimitedError
from ghapp.github.installation_client import Removal
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import rule_named, runner_pool
from ghapp.log import logger
from ghapp.remediation.fuse import fuse_of_runner
from ghapp.remediation.steps import RemediationStep, is_open, may_act, present, step_after, successor_of
from ghapp.report.org_view import OrgView
from ghapp.runners import absence, observations
from ghapp.runners.evidence import Evidence, Fold
from ghapp.runners.failed_calls import call_answered, failed_calls, may_call
from ghapp.runners.verdict import runs_a_job
from jobs.context import JobContext, configured, open_context
from jobs.events.publish import publish_replacement_request
from jobs.remediation.cluster_replacement import RemediationOps
from jobs.remediation.job_lookup import look_up_known_job
from jobs.remediation.progress import STILL_WAITING
from jobs.remediation.replace_in_cluster import REPLACERS, replace_in_cluster
from jobs.runners.failed_calls import record_failed_calls

log = logger(__name__)


async def remediate(installation_id: int, runner_id: int) -> None:
    """The job: remediates one runner that the plan granted."""
    async with open_context(configured()) as context:
        await remediate_runner(context, installation_id, runner_id)


async def remediate_runner(context: JobContext, installation_id: int, runner_id: int) -> str:
    """Remediates once, however often it is called; returns the outcome as it is counted.

    Outcomes: `held` (another process acts, or an admin or the fuse stopped it), `returned` (the runner is registered
    again), `busy` (GitHub answers that it runs a job), `waiting` (GitHub refused a call, or gave no answer: the next
    try is not before `failed_calls.retry_at`), `replaced` (requested now or before); for replacers that delete in a
    cluster, also those of `jobs.remediation.replace_in_cluster`.
    """
    async with context.locks.acquire(
        "runner", f"{installation_id}:{runner_id}", context.locks.outliving_seconds
    ) as acquired:
        installation = await context.installations.one(installation_id)
        evidence = (await context.runners.some(installation_id, [runner_id])).get(runner_id)
        if not acquired or installation is None or evidence is None:
            return "held"
        view, now = await context.org_view(installation), context.clock()
        is_callable = may_call(evidence, now)
        if evidence.granted_at is not None and evidence.replaced_at is not None and not is_open(evidence):
            if is_callable:  # `…/alive` has it asked for
                await _or_wait(context, installation, evidence, _look_again)
            return "held"
        if not _may_act(context, installation, view, evidence, now):
            if view.claim_on((evidence.name,), now) is not None:
                await _fold(context, installation, evidence, _if_known(observations.grant_released))
            elif runs_a_job(evidence, now):  # reported after the removal: the delivery of its end may be lost
                await look_up_known_job(context, installation, evidence)
            return "held"
        if not is_callable:
            return "held"
        outcome = await _or_wait(context, installation, evidence, _act)
    if outcome == STILL_WAITING:
        return outcome
    await context.counters.add("ghapp_remediations_total", org=installation.org, outcome=outcome)
    log.info("remediated", installation=installation_id, org=installation.org, runner=evidence.name, outcome=outcome)
    return outcome


async def _or_wait(
    context: JobContext,
    installation: Installation,
    evidence: Evidence,
    step: Callable[[JobContext, Installation, Evidence], Awaitable[str]],
) -> str:
    """Takes a step, and records a call of it that GitHub refused: each try waits twice as long as the one before.

    Raises:
        GitHubError: the budget or a rate limit holds back all calls.
    """
    try:
        return await step(context, installation, evidence)
    except (BudgetSpentError, RateLimitedError):
        raise
    except GitHubError as error:
        found = (await record_failed_calls(context, installation, {evidence.id: error})).get(evidence.id)
        failed = None if found is None else failed_calls(found)
        log.warning(
            "remediation waits for GitHub",
            org=installation.org,
            runner=evidence.name,
            why=str(error),
            times=0 if failed is None else failed.times,
            error=type(error).__name__,
        )
        return "waiting" if failed is None or failed.times == 1 else STILL_WAITING


async def _act(context: JobContext, installation: Installation, evidence: Evidence) -> str:
    rules = context.settings.pools_of(installation.org)
    rule = rule_named(runner_pool(evidence, rules), rules)
    if rule is not None and rule.replacer in REPLACERS:
        ops = RemediationOps(
            partial(_look_again, context, installation),
            partial(_remove, context, installation),
            partial(_may_still_act, context, installation),
        )
        return await replace_in_cluster(context, installation, evidence, rule, ops)
    if evidence.replaced_at is not None:
        return "held"  # its deletion in the cluster was accepted, and its pool has another replacer since
    names = {evidence.name}
    outcome = await _look_again(context, installation, evidence)
    if outcome:
        return outcome
    if evidence.removed_at is None:
        if await _may_still_act(context, installation, evidence, names) is None:
            return "held"
        removed = await _remove(context, installation, evidence)
        if removed is None:
            return "busy"
        evidence = removed
    view = await _may_still_act(context, installation, evidence, names)
    if view is None:
        return "held"
    is_new = await publish_replacement_request(context, installation, view, evidence, context.clock())
    return "replaced" if is_new else STILL_WAITING  # it waits in the outbox, which asked for this look


async def _look_again(context: JobContext, installation: Installation, evidence: Evidence) -> str:
    """Queries GitHub once more; returns the outcome if nothing is left to do, else an empty string."""
    installation_client = await context.installation_client(installation, Purpose.ACT)
    await installation_client.settle()
    answer, same_name = await gather(
        installation_client.runner(evidence.id), installation_client.runners_named(evidence.name)
    )
    match step_after(evidence, answer, same_name):
        case RemediationStep.RECORD_RETURN:
            back = present(evidence, answer, same_name)
            await _fold(context, installation, evidence, absence.folds_of_get(back, context.clock()))
            return "returned"
        case RemediationStep.RECORD_SUCCESSOR:
            successor = successor_of(evidence, same_name) or 0
            await _fold(context, installation, evidence, _if_known(partial(observations.reregistered, as_id=successor)))
            return "returned"
        case RemediationStep.CALL_OFF:
            await _fold(context, installation, evidence, _if_known(observations.grant_revoked))
            return "returned"
    at = context.clock()

    def looked_again(known: Evidence | None) -> Evidence | None:
        is_removed = known is not None and known.removed_at is not None
        known = call_answered(known) if is_removed else known  # else the DELETE that follows may fail once more
        return None if known is None else observations.looked_again(known, at)

    await _fold(context, installation, evidence, looked_again)
    return ""


async def _remove(context: JobContext, installation: Installation, evidence: Evidence) -> Evidence | None:
    """Deletes its registration; returns None if GitHub answers that the runner is busy."""
    installation_client = await context.installation_client(installation, Purpose.ACT)
    removal = await installation_client.remove_runner(evidence.id)
    at = context.clock()
    if removal is Removal.BUSY:
        await _fold(context, installation, evidence, _if_known(partial(observations.busy_after_all, at=at)))
        return None
    was_deleted = removal is Removal.REMOVED

    def removed(known: Evidence | None) -> Evidence | None:
        known = call_answered(known)
        return None if known is None else observations.removed(known, at, granted=evidence, was_deleted=was_deleted)

    return await _fold(context, installation, evidence, removed)


async def _may_still_act(
    context: JobContext, installation: Installation, evidence: Evidence, names: set[str]
) -> OrgView | None:
    """Returns the org's view if nothing prevents the next step, else None.

    The runner, the view and the clock are read again: GitHub or the cluster was queried between two steps, and a pause,
    a fuse, a job or a claim counts until the last moment.
    """
    fresh = (await context.runners.some(installation.id, [evidence.id])).get(evidence.id)
    view = await context.org_view(installation)
    may = fresh is not None and _may_act(context, installation, view, fresh, context.clock(), names)
    return view if may else None


def _may_act(
    context: JobContext,
    installation: Installation,
    view: OrgView,
    evidence: Evidence,
    now: float,
    names: set[str] | None = None,
) -> bool:
    if not installation.may("organization_self_hosted_runners", "write"):
        return False  # `doctor` and /readyz report it
    pool = view.pool(evidence)
    return may_act(
        evidence,
        view.verdict(evidence, now).state,
        fuse_of_runner(view.fuses, pool, evidence.id),
        context.settings.of(installation.org).remediation.mode,
        now,
        paused=view.is_paused(pool),
        claimed=view.claim_on(names or {evidence.name}, now) is not None,
    )


async def _fold(context: JobContext, installation: Installation, evidence: Evidence, fold: Fold) -> Evidence:
    return (await context.runners.revise(installation.id, {evidence.id: fold}))[evidence.id]


def _if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    return lambda evidence: None if evidence is None else change(evidence)
