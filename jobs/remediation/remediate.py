"""Remediates one lost runner: lock, query GitHub again, remove, request the replacement, record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ghapp.errors import BudgetSpentError, GitHubError, RateLimitedError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import rule_named, runner_pool
from ghapp.log import logger
from ghapp.remediation.steps import is_open
from ghapp.report.metrics import REMEDIATIONS
from ghapp.runners import observations
from ghapp.runners.evidence import Evidence
from ghapp.runners.failed_calls import failed_calls, may_call
from ghapp.runners.verdict import runs_a_job
from jobs.context import JobContext, configured, open_context
from jobs.events.publish import publish_replacement_request
from jobs.failed_calls import record_failed_calls
from jobs.remediation.cluster_replacement import REPLACERS, replace_in_cluster
from jobs.remediation.job_lookup import look_up_known_job
from jobs.remediation.progress import RemediationOutcome
from jobs.remediation.steps import fold, if_known, look_again, may_act_now, may_still_act, remove

log = logger(__name__)

Outcome = TypeVar("Outcome")


async def remediate(installation_id: int, runner_id: int) -> None:
    """The job: remediates one runner that the plan granted."""
    async with open_context(configured()) as context:
        await remediate_runner(context, installation_id, runner_id)


async def remediate_runner(context: JobContext, installation_id: int, runner_id: int) -> RemediationOutcome:
    """Remediates once, however often it is called; returns the outcome.

    After a call that GitHub refused, the next try is not before `failed_calls.retry_at`.
    """
    async with context.locks.acquire(
        "runner", f"{installation_id}:{runner_id}", context.locks.outliving_seconds
    ) as acquired:
        installation = await context.installations.one(installation_id)
        evidence = (await context.runners.some(installation_id, [runner_id])).get(runner_id)
        if not acquired or installation is None or evidence is None:
            return RemediationOutcome.HELD
        view, now = await context.org_view(installation), context.clock()
        is_callable = may_call(evidence, now)
        if evidence.granted_at is not None and evidence.replaced_at is not None and not is_open(evidence):
            if is_callable:  # `…/alive` has it asked for
                await _or_wait(context, installation, evidence, look_again)
            return RemediationOutcome.HELD
        if not may_act_now(context, installation, view, evidence, now):
            if view.claim_on((evidence.name,), now) is not None:
                await fold(context, installation, evidence, if_known(observations.grant_released))
            elif runs_a_job(evidence, now):  # reported after the removal: the delivery of its end may be lost
                await look_up_known_job(context, installation, evidence)
            return RemediationOutcome.HELD
        if not is_callable:
            return RemediationOutcome.HELD
        outcome = await _or_wait(context, installation, evidence, _act)
    if outcome is RemediationOutcome.STILL_WAITING:
        return outcome
    await context.counters.add(REMEDIATIONS, org=installation.org, outcome=outcome.value)
    log.info(
        "remediated", installation=installation_id, org=installation.org, runner=evidence.name, outcome=outcome.value
    )
    return outcome


async def _or_wait(
    context: JobContext,
    installation: Installation,
    evidence: Evidence,
    step: Callable[[JobContext, Installation, Evidence], Awaitable[Outcome]],
) -> Outcome | RemediationOutcome:
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
        is_first = failed is None or failed.times == 1
        return RemediationOutcome.WAITING if is_first else RemediationOutcome.STILL_WAITING


async def _act(context: JobContext, installation: Installation, evidence: Evidence) -> RemediationOutcome:
    rules = context.settings.pools_of(installation.org)
    rule = rule_named(runner_pool(evidence, rules), rules)
    if rule is not None and rule.replacer in REPLACERS:
        return await replace_in_cluster(context, installation, evidence, rule)
    if evidence.replaced_at is not None:
        return (
            RemediationOutcome.HELD
        )  # its deletion in the cluster was accepted, and its pool has another replacer since
    names = {evidence.name}
    outcome = await look_again(context, installation, evidence)
    if outcome is not None:
        return outcome
    if evidence.removed_at is None:
        if await may_still_act(context, installation, evidence, names) is None:
            return RemediationOutcome.HELD
        removed = await remove(context, installation, evidence)
        if removed is None:
            return RemediationOutcome.BUSY
        evidence = removed
    view = await may_still_act(context, installation, evidence, names)
    if view is None:
        return RemediationOutcome.HELD
    is_new = await publish_replacement_request(context, installation, view, evidence, context.clock())
    if not is_new:  # it waits in the outbox, which asked for this look
        return RemediationOutcome.STILL_WAITING
    return RemediationOutcome.REPLACED
