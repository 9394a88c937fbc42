"""Preconditions of a deletion in the cluster: claims, jobs, and which orgs have pods in the namespace."""

from __future__ import annotations

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import runner_pool
from ghapp.pods.deletion_guards import DeletionDecision, Preconditions
from ghapp.pods.pod import is_fresh
from ghapp.pods.pod_claim import by_name
from ghapp.runners.evidence import Evidence, is_absent, missing_since
from jobs.context import JobContext
from jobs.shared_machines import known_in_other_scopes


async def preconditions(
    context: JobContext, installation: Installation, evidence: Evidence, namespace: str
) -> Preconditions:
    """Returns the preconditions as of now. GitHub's answer that a job is over counts without a delivery, too."""
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
    """Returns the object names that the watch saw after the runner was lost; None if it has not looked since then.

    Before that, the runner's object had the runner's name.
    """
    objects = await context.pods.objects_of_runner(namespace, evidence.name)
    if objects is None or not is_fresh(objects.seen_at, now):
        return None
    is_later = not is_absent(evidence) or objects.seen_at >= missing_since(evidence)
    return objects.names if is_later else None


async def confirm_place(
    context: JobContext, installation: Installation, evidence: Evidence, decision: DeletionDecision
) -> bool:
    """Returns True, and remembers it, if the pool's namespace, as configured, is where this runner's pod would be.

    That is so if something of the runner's name is or was found there, or if an earlier look or the watch ever saw
    something of its pool there. Otherwise an absent pod proves nothing: a wrong namespace may exist and be empty.
    """
    rules, locations = context.settings.pools_of(installation.org), context.pod_locations
    pool = runner_pool(evidence, rules)
    if decision.is_bare:
        if evidence.deletion is not None and evidence.deletion.uid:
            return True
        if await locations.is_known(installation.id, pool, decision.namespace):
            return True
        everyone = (await context.runners.all(installation.id)).values()
        names = {each.name for each in everyone if runner_pool(each, rules) == pool}
        if not await context.pods.shows_any(decision.namespace, names):
            return False
    await locations.seen(installation.id, [(pool, decision.namespace)], context.clock())
    return True


async def _is_known_elsewhere(context: JobContext, installation: Installation, name: str, namespace: str) -> bool:
    """True if another organization with pods in that namespace has a runner of that name, or a claim on one.

    Of a scope with which it may share machines, a runner of that name suffices.
    """
    if await known_in_other_scopes(context, installation, [name]):
        return True
    others = {pool.org.lower() for pool in context.settings.pools if pool.namespace == namespace}
    for org in sorted(others - {installation.org.lower()}):
        other = await context.installations.of(org)
        if other is None:
            continue
        claimed = by_name(await context.pod_claims.stored(other.id))
        if name in claimed or name in await context.runners.ids_of(other.id, [name]):
            return True
    return False
