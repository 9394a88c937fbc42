"""The steps that all remediations share: whether it may go on, one more query of GitHub, the registration's removal."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Callable
from functools import partial

from ghapp.github.installation_client import Removal
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.remediation.fuse import fuse_of_runner
from ghapp.remediation.steps import RemediationStep, may_act, present, step_after, successor_of
from ghapp.report.org_view import OrgView
from ghapp.runners import absence, observations
from ghapp.runners.evidence import Evidence, Fold
from ghapp.runners.failed_calls import call_answered
from jobs.context import JobContext
from jobs.remediation.progress import RemediationOutcome


async def look_again(context: JobContext, installation: Installation, evidence: Evidence) -> RemediationOutcome | None:
    """Queries GitHub for the runner once more, by id and by name; returns the outcome if nothing is left to do.

    That is before the removal, and again before a request that has waited. `step_after` judges the answers. Returns
    None if the next step may follow.
    """
    installation_client = await context.installation_client(installation, Purpose.ACT)
    await installation_client.settle()
    answer, same_name = await gather(
        installation_client.runner(evidence.id), installation_client.runners_named(evidence.name)
    )
    match step_after(evidence, answer, same_name):
        case RemediationStep.RECORD_RETURN:
            back = present(evidence, answer, same_name)
            await fold(context, installation, evidence, absence.folds_of_get(back, context.clock()))
            return RemediationOutcome.RETURNED
        case RemediationStep.RECORD_SUCCESSOR:
            successor = successor_of(evidence, same_name) or 0
            await fold(context, installation, evidence, if_known(partial(observations.reregistered, as_id=successor)))
            return RemediationOutcome.RETURNED
        case RemediationStep.CALL_OFF:
            await fold(context, installation, evidence, if_known(observations.grant_revoked))
            return RemediationOutcome.CALLED_OFF
    at = context.clock()

    def looked_again(known: Evidence | None) -> Evidence | None:
        is_removed = known is not None and known.removed_at is not None
        known = call_answered(known) if is_removed else known  # else the DELETE that follows may fail once more
        return None if known is None else observations.looked_again(known, at)

    await fold(context, installation, evidence, looked_again)
    return None


async def remove(context: JobContext, installation: Installation, evidence: Evidence) -> Evidence | None:
    """Deletes its registration; returns None if GitHub answers that the runner is busy."""
    installation_client = await context.installation_client(installation, Purpose.ACT)
    removal = await installation_client.remove_runner(evidence.id)
    at = context.clock()
    if removal is Removal.BUSY:
        await fold(context, installation, evidence, if_known(partial(observations.busy_after_all, at=at)))
        return None
    was_deleted = removal is Removal.REMOVED

    def removed(known: Evidence | None) -> Evidence | None:
        known = call_answered(known)
        return None if known is None else observations.removed(known, at, granted=evidence, was_deleted=was_deleted)

    return await fold(context, installation, evidence, removed)


async def may_still_act(
    context: JobContext, installation: Installation, evidence: Evidence, names: set[str]
) -> OrgView | None:
    """Returns the org's view if nothing prevents the next step, else None.

    The runner, the view and the clock are read again: GitHub or the cluster was queried between two steps, and a pause,
    a fuse, a job or a claim counts until the last moment.
    """
    fresh = (await context.runners.some(installation.id, [evidence.id])).get(evidence.id)
    view = await context.org_view(installation)
    may = fresh is not None and may_act_now(context, installation, view, fresh, context.clock(), names)
    return view if may else None


def may_act_now(
    context: JobContext,
    installation: Installation,
    view: OrgView,
    evidence: Evidence,
    now: float,
    names: set[str] | None = None,
) -> bool:
    """True if mode, pause, fuse and claims (on these names; default: the runner's) permit the next step now."""
    if not installation.may_remove_runners():
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


async def fold(context: JobContext, installation: Installation, evidence: Evidence, fold: Fold) -> Evidence:
    """Changes the runner's record by compare-and-set, and returns it."""
    return (await context.runners.revise(installation.id, {evidence.id: fold}))[evidence.id]


def if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    """Returns a fold that changes a record if there is one."""
    return lambda evidence: None if evidence is None else change(evidence)
