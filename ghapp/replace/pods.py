"""Replaces pods of a fleet's own controller: deletes the pod and its ServiceAccount; the controller creates others."""

from __future__ import annotations

from ghapp.cluster.api import Cluster
from ghapp.cluster.request import PODS, SERVICE_ACCOUNTS, ClusterRequest
from ghapp.pods.deletion_guards import DeletionDecision, DeletionVerdict, Preconditions, may_delete_pod
from ghapp.replace.arc import describe_pod
from ghapp.runners.evidence import Evidence

SHARED_ACCOUNT = "default"
"""Exists in every namespace, and is shared by its pods."""


async def find(cluster: Cluster, namespace: str, evidence: Evidence, preconditions: Preconditions) -> DeletionDecision:
    """Reads the runner's pod, and decides about the deletion. Changes nothing.

    Raises:
        ClusterError: no answer, which says nothing about the pod.
    """
    pod = await cluster.pod(namespace, evidence.name)
    verdict, doubt = may_delete_pod(evidence, pod, preconditions)
    return DeletionDecision(
        namespace,
        evidence.name,
        verdict,
        blocker=doubt.blocker if doubt else None,
        after_seconds=doubt.after_seconds if doubt else None,
        uid=pod.uid if pod else "",
        text=f"{namespace}/{evidence.name} ({pod.uid}, version {pod.version}), {describe_pod(pod)}"
        if pod
        else f"no pod of its name in {namespace}",
        pod=pod,
    )


async def require_permissions(cluster: Cluster, namespace: str) -> None:
    """Checks the permissions to delete, before the registration is removed.

    Raises:
        ClusterForbiddenError: a permission is missing.
    """
    for resource in (PODS, SERVICE_ACCOUNTS):
        await cluster.require(ClusterRequest("delete", resource, namespace))


async def delete(cluster: Cluster, decision: DeletionDecision) -> bool:
    """Deletes the pod; returns False if it no longer existed.

    Raises:
        ConflictError: the pod changed since it was read; read it again.
        ClusterError: no answer; the request may or may not have had an effect.
    """
    pod = decision.pod
    return pod is not None and await cluster.delete_pod(pod.namespace, pod.name, pod.uid, pod.version)


async def finish(cluster: Cluster, decision: DeletionDecision) -> None:
    """Deletes the ServiceAccount of the pod's name, after the pod. A missing account is success.

    After a crash between the two, the next attempt finds no pod, or a terminating one, and deletes the account.

    Raises:
        ConflictError, ClusterError: as `delete`.
    """
    if decision.verdict is DeletionVerdict.DELETE:
        await delete_account(cluster, decision.namespace, decision.name, decision.uid)


async def delete_account(cluster: Cluster, namespace: str, pod_name: str, pod_uid: str | None = None) -> None:
    """Deletes the ServiceAccount of a pod's name, after the pod; a missing account is success.

    Args:
        cluster: the cluster.
        namespace: of pod and account.
        pod_name: name of the pod, and of its account.
        pod_uid: uid of the account's pod, empty if the pod was missing: if another pod has the name by now, the account
            belongs to that pod, and is kept. None: the caller has checked this.

    Raises:
        ClusterError: no answer, or a concurrent change; the request may or may not have had an effect.
    """
    if pod_name == SHARED_ACCOUNT:
        return
    if pod_uid is not None:
        successor = await cluster.pod(namespace, pod_name)
        if successor is not None and successor.uid != pod_uid:
            return
    await cluster.delete_service_account(namespace, pod_name)
