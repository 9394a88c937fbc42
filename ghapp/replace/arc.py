"""Replaces ARC's runners by deleting their EphemeralRunner; ARC creates another. Leaves pod and status alone.

ARC's behaviour (`actions.github.com/v1alpha1`, up to 0.14.2) rules out alternatives: after a deletion of the pod it
starts a used runner again (its issue 4588), a `Failed` status counts as capacity, and if the registration is deleted
before the object, the object stays Terminating forever (4484, 4585).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import (
    REGISTRATION_FINALIZER,
    DeletionDecision,
    DeletionVerdict,
    Preconditions,
    may_delete_object,
)
from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.runners.evidence import Evidence


async def find(cluster: Cluster, namespace: str, evidence: Evidence, preconditions: Preconditions) -> DeletionDecision:
    """Reads the runner's object and pod, and decides about the deletion. Changes nothing.

    Raises:
        ClusterError: no answer, which says nothing about the object.
    """
    candidates = await _objects(cluster, namespace, evidence.name, preconditions.object_names)
    if len(candidates) > 1:
        return DeletionDecision(namespace, evidence.name, DeletionVerdict.REFUSE, Blocker.SEVERAL_OBJECTS)
    pod_name = candidates[0].name if candidates else evidence.name
    pod = await cluster.pod(namespace, pod_name)
    # The object is read last, because it is deleted as of this version.
    found = await cluster.ephemeral_runner(namespace, candidates[0].name) if candidates else None
    verdict, doubt = may_delete_object(evidence, found, pod, preconditions)
    return DeletionDecision(
        namespace,
        evidence.name,
        verdict,
        blocker=doubt.blocker if doubt else None,
        after_seconds=doubt.after_seconds if doubt else None,
        uid=found.uid if found else "",
        text=_description(found, pod) if found else f"no EphemeralRunner of its name in {namespace}",
        object=found,
        pod=pod,
    )


async def require_permissions(cluster: Cluster, namespace: str) -> None:
    """Does nothing: with ARC the registration is never removed before the object."""


async def delete(cluster: Cluster, decision: DeletionDecision) -> bool:
    """Deletes the object; returns False if it no longer existed.

    Raises:
        ConflictError: the object changed since it was read; read it again.
        ClusterError: no answer; the request may or may not have had an effect.
    """
    found = decision.object
    if found is None:
        return False
    return await cluster.delete_ephemeral_runner(found.namespace, found.name, found.uid, found.version)


async def finish(cluster: Cluster, decision: DeletionDecision) -> None:
    """Removes the object's stuck finalizer, if that was decided. A missing object is success.

    Raises:
        ConflictError, ClusterError: as `delete`.
    """
    if decision.object is not None and decision.verdict is DeletionVerdict.FREE:
        await cluster.free_finalizer(decision.object, REGISTRATION_FINALIZER)


async def _objects(
    cluster: Cluster, namespace: str, name: str, object_names: Collection[str] | None
) -> list[EphemeralRunner]:
    """Returns the object of that name, unless its status names another runner; else the objects of that runner.

    Their names are known from the watch, and each object is read again here; without a watch all objects are listed.
    """
    namesake = await cluster.ephemeral_runner(namespace, name)
    if namesake is not None and namesake.runner_name in ("", name):
        return [namesake]
    if object_names is None:
        listed = await cluster.ephemeral_runners(namespace)
        if listed.left_out:
            raise ClusterUnavailableError(f"an EphemeralRunner in {namespace} cannot be read; it may be the runner's")
        found = listed.items
    else:
        read = [await cluster.ephemeral_runner(namespace, each) for each in object_names]
        found = [each for each in read if each is not None]
    return [each for each in found if each.runner_name == name]


def _description(found: EphemeralRunner, pod: Pod | None) -> str:
    """Describes the object exactly enough to identify the deleted object, and its state, later."""
    parts = [
        f"EphemeralRunner {found.namespace}/{found.name} ({found.uid}, version {found.version})",
        found.phase or "no phase",
        f"runner id {found.runner_id}" if found.runner_id is not None else "no runner id",
        f"job {found.job_id or found.workflow_run_id}" if found.job_id or found.workflow_run_id else "no job",
    ]
    return ", ".join([*parts, describe_pod(pod)])


def describe_pod(pod: Pod | None) -> str:
    """Describes a pod for people."""
    if pod is None:
        return "no pod"
    since = None if pod.runner is None else pod.runner.running_since
    where = f" on {pod.node}" if pod.node else ""
    if since is None:
        return f"pod {pod.phase or 'without a phase'}{where}, its container does not run"
    return (
        f"pod {pod.phase}{where}, its container has run since {datetime.fromtimestamp(since, UTC):%Y-%m-%dT%H:%M:%SZ}"
    )
