"""Plans remediation: read the lost runners, decide, record, and enqueue the jobs that act."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import NamedTuple

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS, rule_named, runner_pool
from ghapp.log import logger
from ghapp.queue.jobs import enqueue_remediation
from ghapp.remediation.decision import Decision, FuseChange, by_pool, counts_for, decide, is_as_planned
from ghapp.remediation.fuse import Fuse, FuseCounts, Position, has_stepped, is_long_closed
from ghapp.remediation.plan import Plan
from ghapp.remediation.steps import (
    REPLACE,
    awaits_remediation,
    is_open,
    replacement_path,
    request_id,
)
from ghapp.report.metrics import REMEDIATIONS
from ghapp.runners import observations
from ghapp.runners.evidence import Evidence
from jobs.context import JobContext
from jobs.events.publish import may_be_unpublished, publish_fuse, publish_fuse_changes, publish_runners
from jobs.history.incidents import record_incidents
from jobs.remediation.family import PlannedScope, decide_in_family
from jobs.remediation.plan_inputs import load_inputs
from jobs.reports.health_report import enqueue_report_if_wanted

log = logger(__name__)


async def plan_remediation(context: JobContext, installation: Installation) -> Plan:
    """Plans for one installation or scope, one process at a time: two could each release a first batch.

    The lock is that of the whole family, which has one fuse `*` (`jobs.remediation.family`).
    """
    async with context.locks.acquire("plan", installation.caller, context.locks.outliving_seconds) as acquired:
        if not acquired:
            return Plan()
        now = context.clock()
        policy, rules = context.settings.of(installation.org), context.settings.pools_of(installation.org)
        view = await context.org_view(installation)  # first, so that the runners are not older than its survey
        runners = await context.runners.all(installation.id)
        pools = by_pool(runners.values(), view.survey, rules, now, policy.evidence)
        await publish_runners(context, installation, view, chain.from_iterable(pools.values()), now)
        inputs = await load_inputs(context, installation, view, runners, now)
        await publish_fuse_changes(
            context, installation, view.fuses, counts_for(pools, view.fuses, rules, policy.fuse, inputs), now
        )
        paused = [pool for pool in pools if view.is_paused(pool)]
        decision = decide(pools, view.fuses, paused, rules, policy.fuse, policy.remediation, inputs)
        scope = PlannedScope(installation, view, rules, runners, pools, inputs)
        decision, others = await decide_in_family(context, scope, view.fuses, decision, now)
        changes = await _carry_out(context, installation, decision, runners, now)
        for other in others if ALL_POOLS not in changes.overtaken else ():
            await _carry_out(context, other.installation, other.decision, other.runners, now)
            enqueue_report_if_wanted(context, other.installation)
        await _ask_again(context, installation, runners.values(), now)
        await record_incidents(context, installation, view, changes.runners, changes.changed_fuses, now)
        old = {name: fuse for name, fuse in view.fuses.items() if name not in pools and is_long_closed(fuse, now)}
        await context.fuses.forget(installation.id, old)
    enqueue_report_if_wanted(context, installation)
    return changes.plan


class _Changes(NamedTuple):
    """What was recorded of a decision.

    Attributes:
        plan: the plan, without pools where an admin changed the fuse meanwhile.
        runners: all runners, as they are now.
        changed_fuses: the fuses that were changed, each with the counts that changed it.
        overtaken: the pools where an admin changed the fuse meanwhile.
    """

    plan: Plan
    runners: dict[int, Evidence]
    changed_fuses: dict[str, tuple[Fuse, FuseCounts]]
    overtaken: list[str]


async def _carry_out(
    context: JobContext, installation: Installation, decision: Decision, runners: dict[int, Evidence], now: float
) -> _Changes:
    """Records the decision for one scope, fuses first, and enqueues the jobs that act."""
    overtaken = await _save_fuses(context, installation, decision.fuse_changes, now)
    decision = decision.without(overtaken)
    runners = runners | await _write_off(context, installation, decision, runners, now)
    runners |= await _need_again(context, installation, decision, runners)
    if context.settings.of(installation.org).remediation.mode == "act":
        runners |= await _grant(context, installation, decision, runners, now)
    else:
        runners |= await _record_dry_run(context, installation, decision, runners, now)
    changed_fuses = {
        each.pool: (each.after, each.counted) for each in decision.fuse_changes if each.pool not in overtaken
    }
    return _Changes(decision.plan, runners, changed_fuses, overtaken)


async def plan_after_sweep(context: JobContext, installation: Installation, *, at_rest: bool) -> None:
    """Plans after a sweep, unless its runners are at rest (see `are_at_rest`) and its fuses are closed.

    Such a plan would change nothing, and read and judge all runners once more.
    """
    now, fuses = context.clock(), await context.fuses.all(installation.id)
    if at_rest and all(
        each.position is Position.CLOSED and not may_be_unpublished(each, now) for each in fuses.values()
    ):
        enqueue_report_if_wanted(context, installation)
    else:
        await plan_remediation(context, installation)


async def _write_off(
    context: JobContext, installation: Installation, decision: Decision, known: dict[int, Evidence], now: float
) -> dict[int, Evidence]:
    """Records lost runners that their pool does not need any more, as after a scale-down; returns their evidence."""

    def fold(evidence: Evidence | None, planned: Evidence) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return observations.not_needed(evidence, now)

    folds = {runner_id: partial(fold, planned=known[runner_id]) for runner_id in decision.not_needed}
    revised = await context.runners.revise(installation.id, folds)
    for evidence in revised.values():
        if evidence.not_needed_at == now:
            log.info("loss written off", installation=installation.id, org=installation.org, runner=evidence.name)
    return revised


async def _need_again(
    context: JobContext, installation: Installation, decision: Decision, known: dict[int, Evidence]
) -> dict[int, Evidence]:
    """Takes back that losses were written off, because jobs wait for such runners; returns their evidence."""

    def fold(evidence: Evidence | None, planned: Evidence) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return observations.needed_again(evidence)

    folds = {runner_id: partial(fold, planned=known[runner_id]) for runner_id in decision.needed}
    revised = await context.runners.revise(installation.id, folds)
    needed = [each for each in revised.values() if each.not_needed_at is None]
    if needed:
        names = sorted(each.name for each in needed)
        log.info(
            "written-off runners are needed again", installation=installation.id, org=installation.org, runners=names
        )
    return revised


async def _save_fuses(
    context: JobContext, installation: Installation, fuse_changes: tuple[FuseChange, ...], now: float
) -> list[str]:
    """Records and publishes each fuse change.

    Returns:
        The pools where an admin changed the fuse meanwhile; the next plan decides for them.
    """
    overtaken = []
    for pool, before, after, counted in fuse_changes:
        if await context.fuses.save(installation.id, pool, before, after):
            if has_stepped(before or Fuse(), after):
                await publish_fuse(context, installation, pool, after, counted, now)
        else:
            overtaken.append(pool)
    return overtaken


async def _grant(
    context: JobContext, installation: Installation, decision: Decision, known: dict[int, Evidence], now: float
) -> dict[int, Evidence]:
    """Records the grants, and enqueues the jobs that act; returns the evidence of the granted runners."""

    def fold(evidence: Evidence | None, planned: Evidence) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return observations.granted(evidence, now, request_id(installation.id, evidence))

    plan = decision.plan
    folds = {runner_id: partial(fold, planned=known[runner_id]) for runner_id in plan.chosen}
    revised = await context.runners.revise(installation.id, folds)
    for runner_id, evidence in revised.items():
        if evidence.granted_at is not None:
            enqueue_remediation(context.queue_redis, installation.id, runner_id)
    if plan.chosen or plan.deferred:
        log.info(
            "planned",
            installation=installation.id,
            org=installation.org,
            now=len(plan.chosen),
            deferred=len(plan.deferred),
            because=sorted({reason.value for reason in plan.deferred.values()}),
        )
    return revised


async def _record_dry_run(
    context: JobContext, installation: Installation, decision: Decision, known: dict[int, Evidence], now: float
) -> dict[int, Evidence]:
    """Dry-run: records, logs and counts what remediation would have done, once for each loss; returns the evidence."""

    def fold(evidence: Evidence | None, planned: Evidence) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return observations.would_remediate(evidence, now)

    folds = {runner_id: partial(fold, planned=known[runner_id]) for runner_id in decision.plan.chosen}
    revised = await context.runners.revise(installation.id, folds)
    for evidence in revised.values():
        if evidence.would_remediate_at == now:
            log.info("would remediate", installation=installation.id, org=installation.org, runner=evidence.name)
            await context.counters.add(REMEDIATIONS, org=installation.org, outcome="dry-run")
    return revised


async def _ask_again(context: JobContext, installation: Installation, known: Iterable[Evidence], now: float) -> None:
    """Enqueues remediation that a crash lost between record and queue, and remediation that had to wait.

    So it does for runners whose pool has another replacer since they were granted. A waiting job keeps its key, so that
    it is not enqueued twice.
    """
    granted = {each.event_id: each for each in known if each.event_id is not None and is_open(each)}
    if not granted:
        return
    unsent = await context.events.unsent_of(granted)
    unpublished = await context.events.missing(installation.id, REPLACE, list(granted))
    rules = context.settings.pools_of(installation.org)
    for event_id, evidence in granted.items():
        path = replacement_path(rule_named(runner_pool(evidence, rules), rules))
        is_unsent, is_published = event_id in unsent, event_id not in unpublished
        if awaits_remediation(evidence, path, now, is_unsent=is_unsent, is_published=is_published):
            enqueue_remediation(context.queue_redis, installation.id, evidence.id)
