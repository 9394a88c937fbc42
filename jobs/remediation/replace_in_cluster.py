"""Deletes the object or pod of a lost runner: read it, query GitHub again, record, delete, record."""

from __future__ import annotations

from ghapp.errors import (
    ClusterError,
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConfigurationError,
    ConflictError,
    ResourceMissingError,
)
from ghapp.installations.installation import Installation
from ghapp.log import logger
from ghapp.pods.blockers import Blocker
from ghapp.replace import arc, pods
from ghapp.runners.evidence import Evidence
from ghapp.settings import PoolSettings
from jobs.context import JobContext
from jobs.remediation.cluster_replacement import ClusterReplacement, Replacer
from jobs.remediation.outcome import RemediationOutcome

log = logger(__name__)

LOOKS = 3
"""How often the object is read again immediately when it changed between read and delete."""

REPLACERS = {
    "arc": Replacer(arc.find, arc.require_permissions, arc.delete, arc.finish),
    "pods": Replacer(pods.find, pods.require_permissions, pods.delete, pods.finish),
}
"""By the pool's `replacer`. Other pools get an event."""


async def replace_in_cluster(
    context: JobContext, installation: Installation, evidence: Evidence, rule: PoolSettings
) -> RemediationOutcome:
    """Replaces a runner that `may_act` allowed, however often it is called; returns the outcome."""
    replacement = ClusterReplacement(context, installation, rule, REPLACERS[rule.replacer])
    try:
        for _ in range(LOOKS):
            try:
                return await replacement.run(evidence)
            except ConflictError as conflict:
                log.info("object changed, retrying", runner=evidence.name, why=str(conflict))
            fresh = (await context.runners.some(installation.id, [evidence.id])).get(evidence.id)
            if fresh is None or fresh.granted_at is None:
                return RemediationOutcome.HELD
            evidence = fresh
        return await replacement.progress.waits(evidence, Blocker.OBJECT_CHANGED)
    except (ClusterError, ConfigurationError) as error:
        return await replacement.progress.waits(evidence, _because(error), why=str(error), words=str(error))


def _because(error: ClusterError | ConfigurationError) -> Blocker:
    match error:
        case ConfigurationError():
            return Blocker.CLUSTER_UNCONFIGURED
        case ClusterUnavailableError():
            return Blocker.CLUSTER_UNAVAILABLE
        case ClusterForbiddenError(by_rbac=True):
            return Blocker.CLUSTER_FORBIDDEN
        case ClusterForbiddenError():
            return Blocker.POLICY_FORBIDS
        case ResourceMissingError():
            return Blocker.RESOURCE_MISSING
        case _:
            return Blocker.CLUSTER_REFUSED
