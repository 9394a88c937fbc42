"""Deletes the object or pod of a lost runner: read it, ask GitHub again, record, delete, record."""

from __future__ import annotations

from ghapp.errors import (
    ClusterError,
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConfigurationError,
    ConflictError,
    ResourceMissingError,
)
from ghapp.health.installation import Installation
from ghapp.health.pods.blockers import Blocker
from ghapp.health.runner.evidence import Evidence
from ghapp.log import logger
from ghapp.replace import arc, pods
from ghapp.settings import PoolSettings
from jobs.context import JobContext
from jobs.remediation.cluster_replacement import ClusterReplacement, RemediationOps, Replacer

log = logger(__name__)

LOOKS = 3
"""How often the object is read again at once, when it changed between read and delete."""

REPLACERS = {
    "arc": Replacer(arc.find, arc.require_permissions, arc.execute),
    "pods": Replacer(pods.find, pods.require_permissions, pods.execute),
}
"""By the pool's `replacer`. Other pools get an event."""


async def replace_in_cluster(
    context: JobContext, installation: Installation, evidence: Evidence, rule: PoolSettings, remedy: RemediationOps
) -> str:
    """Replace one that `may_act` let through, however often it is called; returns the outcome as it is counted.

    Outcomes, beside those of `remediate_runner`: `replaced` (the deletion was accepted, or nothing was there),
    `called-off` (something of its own is in the way; it is planned for again later), `waiting` (the cluster gives no
    answer, or what is Terminating is not gone yet), `freed` (a stuck finalizer was taken away), `gone`.
    """
    errand = ClusterReplacement(context, installation, rule, REPLACERS[rule.replacer], remedy)
    try:
        for _ in range(LOOKS):
            try:
                return await errand.run(evidence)
            except ConflictError as conflict:
                log.info("object changed, retrying", runner=evidence.name, why=str(conflict))
            fresh = (await context.runners.some(installation.id, [evidence.id])).get(evidence.id)
            if fresh is None or fresh.granted_at is None:
                return "held"
            evidence = fresh
        return await errand.ledger.waits(evidence, Blocker.OBJECT_CHANGED)
    except (ClusterError, ConfigurationError) as error:
        return await errand.ledger.waits(evidence, _because(error), why=str(error))


def _because(error: ClusterError | ConfigurationError) -> Blocker:
    match error:
        case ConfigurationError():
            return Blocker.CLUSTER_UNCONFIGURED
        case ClusterUnavailableError():
            return Blocker.CLUSTER_UNAVAILABLE
        case ClusterForbiddenError():
            return Blocker.CLUSTER_FORBIDDEN
        case ResourceMissingError():
            return Blocker.RESOURCE_MISSING
        case _:
            return Blocker.CLUSTER_REFUSED
