"""What else must be known before anything is deleted in a cluster: claims, jobs, and whose runners have pods there."""

from __future__ import annotations

from ghapp.health.cluster.finding import Circumstances, Finding
from ghapp.health.cluster.podclaim import by_name
from ghapp.health.demand import is_fresh
from ghapp.health.evidence import Evidence
from ghapp.health.installation import Installation
from ghapp.health.pools import pool_of
from ghapp.health.verdict import gone_since, is_absent
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from jobs.house import House


async def circumstances(house: House, installation: Installation, evidence: Evidence, namespace: str) -> Circumstances:
    """As of now. A job of which GitHub said that it is over is over, even where no delivery said so."""
    now = house.clock()
    claims = await house.pod_claims.all(installation.id, now)
    over = evidence.job_id if evidence.job_ended_at is not None else None
    jobs = await house.demand.all(installation.id)
    return Circumstances(
        now=now,
        grace_seconds=house.settings.of(installation.org).evidence.startup_seconds,
        org=installation.org,
        claimed=frozenset(by_name(claims)),
        at_work=frozenset(
            each.runner_name for each in jobs if each.status == "running" and each.runner_name and each.id != over
        ),
        known_elsewhere=await _is_known_elsewhere(house, installation, evidence.name, namespace),
        borne_by=await _borne_by(house, evidence, namespace, now),
    )


async def _borne_by(house: House, evidence: Evidence, namespace: str, now: float) -> tuple[str, ...] | None:
    """What the watch saw after the runner was lost; before that its object bore its name for as long as it lived."""
    bearers = await Pods(house.redis).bearers(namespace, evidence.name)
    if bearers is None or not is_fresh(bearers.seen_at, now):
        return None
    is_later = not is_absent(evidence) or bearers.seen_at >= gone_since(evidence)
    return bearers.names if is_later else None


async def is_place_of(house: House, installation: Installation, evidence: Evidence, finding: Finding) -> bool:
    """Whether what is found, or not found, in its pool's namespace says anything of a runner.

    Where something of its name is or was found, yes. Else only if something of its pool was ever seen there, by an
    earlier look or by the watch: a namespace that is wrong may exist, and hold nothing of its name.
    """
    rules, places = house.settings.pools_of(installation.org), Places(house.redis)
    pool = pool_of(evidence.labels, evidence.custom_labels, rules)
    if finding.is_bare:
        if evidence.deletion is not None and evidence.deletion.uid:
            return True
        if await places.is_known(installation.id, pool, finding.namespace):
            return True
        everyone = (await house.runners.all(installation.id)).values()
        names = {each.name for each in everyone if pool_of(each.labels, each.custom_labels, rules) == pool}
        if not await Pods(house.redis).shows_any(finding.namespace, names):
            return False
    await places.seen(installation.id, [(pool, finding.namespace)], house.clock())
    return True


async def _is_known_elsewhere(house: House, installation: Installation, name: str, namespace: str) -> bool:
    """Whether another organization with pods in that namespace has a runner of that name, or a claim on one."""
    others = {pool.org.lower() for pool in house.settings.pools if pool.namespace == namespace}
    for org in sorted(others - {installation.org.lower()}):
        other = await house.installations.of(org)
        if other is None:
            continue
        claimed = by_name(await house.pod_claims.kept(other.id))
        if name in claimed or name in await house.runners.ids_of(other.id, [name]):
            return True
    return False
