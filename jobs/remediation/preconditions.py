"""Preconditions of a deletion in the cluster: claims, jobs, and which orgs have pods in the namespace."""

from __future__ import annotations

from ghapp.health.installation import Installation
from ghapp.health.pods.deletion_decision import DeletionDecision, Preconditions
from ghapp.health.pods.pod import is_fresh
from ghapp.health.pods.pod_claim import by_name
from ghapp.health.pool_matching import runner_pool
from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.verdict import is_absent, missing_since
from jobs.context import JobContext


async def preconditions(
    context: JobContext, installation: Installation, evidence: Evidence, namespace: str
) -> Preconditions:
    """The preconditions as of now. GitHub's answer that a job is over counts without a delivery, too."""
    now = context.clock()
    claims = await context.pod_claims.all(installation.id, now)
    over = evidence.job_id if evidence.job_ended_at is not None else None
    jobs = await context.demand.all(installation.id)
    return Preconditions(
        now=now,
        grace_seconds=context.settings.of(installation.org).evidence.startup_seconds,
        org=installation.org,
        claimed=frozenset(by_name(claims)),
        at_work=frozenset(
            each.runner_name for each in jobs if each.status == "running" and each.runner_name and each.id != over
        ),
        known_elsewhere=await _is_known_elsewhere(context, installation, evidence.name, namespace),
        object_names=await _object_names(context, evidence, namespace, now),
    )


async def _object_names(context: JobContext, evidence: Evidence, namespace: str, now: float) -> tuple[str, ...] | None:
    """What the watch saw after the runner was lost; before that its object bore its name for as long as it lived."""
    bearers = await context.pods.bearers(namespace, evidence.name)
    if bearers is None or not is_fresh(bearers.seen_at, now):
        return None
    is_later = not is_absent(evidence) or bearers.seen_at >= missing_since(evidence)
    return bearers.names if is_later else None


async def is_place_of(
    context: JobContext, installation: Installation, evidence: Evidence, finding: DeletionDecision
) -> bool:
    """Whether what is found, or not found, in its pool's namespace says anything of a runner.

    Where something of its name is or was found, yes. Else only if something of its pool was ever seen there, by an
    earlier look or by the watch: a namespace that is wrong may exist, and hold nothing of its name.
    """
    rules, places = context.settings.pools_of(installation.org), context.pod_locations
    pool = runner_pool(evidence, rules)
    if finding.is_bare:
        if evidence.deletion is not None and evidence.deletion.uid:
            return True
        if await places.is_known(installation.id, pool, finding.namespace):
            return True
        everyone = (await context.runners.all(installation.id)).values()
        names = {each.name for each in everyone if runner_pool(each, rules) == pool}
        if not await context.pods.shows_any(finding.namespace, names):
            return False
    await places.seen(installation.id, [(pool, finding.namespace)], context.clock())
    return True


async def _is_known_elsewhere(context: JobContext, installation: Installation, name: str, namespace: str) -> bool:
    """Whether another organization with pods in that namespace has a runner of that name, or a claim on one."""
    others = {pool.org.lower() for pool in context.settings.pools if pool.namespace == namespace}
    for org in sorted(others - {installation.org.lower()}):
        other = await context.installations.of(org)
        if other is None:
            continue
        claimed = by_name(await context.pod_claims.stored(other.id))
        if name in claimed or name in await context.runners.ids_of(other.id, [name]):
            return True
    return False
