"""Pods that a controller of the fleet's own makes: pod and ServiceAccount are deleted, and it makes others."""

from __future__ import annotations

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterForbiddenError
from ghapp.health.pods.deletion_decision import DeletionDecision, DeletionVerdict, Preconditions
from ghapp.health.pods.deletion_guards import may_delete_pod
from ghapp.health.runner.evidence import Evidence
from ghapp.replace.arc import said_of

SHARED_ACCOUNT = "default"
"""Every namespace has it; it is nobody's own."""


async def look(cluster: Cluster, namespace: str, evidence: Evidence, circumstances: Preconditions) -> DeletionDecision:
    """Read the runner's pod, and rule on it. Nothing is changed.

    Raises:
        ClusterError: no answer; it says nothing of the pod.
    """
    pod = await cluster.pod(namespace, evidence.name)
    ruling, doubt = may_delete_pod(evidence, pod, circumstances)
    return DeletionDecision(
        namespace,
        evidence.name,
        ruling,
        because=doubt.because if doubt else None,
        after_seconds=doubt.after_seconds if doubt else None,
        uid=pod.uid if pod else "",
        said=f"{namespace}/{evidence.name} ({pod.uid}, version {pod.version}), {said_of(pod)}"
        if pod
        else f"no pod of its name in {namespace}",
        pod=pod,
    )


async def require_leave(cluster: Cluster, namespace: str) -> None:
    """See that the deletion will not fail for want of a right, when the registration is gone for it.

    Raises:
        ClusterForbiddenError: it would.
    """
    for resource in ("pods", "serviceaccounts"):
        if not await cluster.may("delete", resource, namespace):
            raise ClusterForbiddenError(
                f"RBAC lacks delete on {resource} in namespace {namespace}", verb="delete", resource=resource
            )


async def act(cluster: Cluster, finding: DeletionDecision) -> None:
    """Have the pod deleted, and then the ServiceAccount of its name. What is gone is success.

    A crash between the two is healed by the next look: it finds no pod, or one that is Terminating, and an account.

    Raises:
        ConflictError: the pod is not what it was when it was read: look again.
        ClusterError: no answer; it may have been done or not.
    """
    pod = finding.pod
    if finding.ruling is not DeletionVerdict.DELETE:
        return
    if pod is not None and pod.deleting_since is None:
        await cluster.delete_pod(pod.namespace, pod.name, pod.uid, pod.version)
    await delete_account(cluster, finding.namespace, finding.name, finding.uid)


async def delete_account(cluster: Cluster, namespace: str, pod_name: str, pod_uid: str | None = None) -> None:
    """Have the ServiceAccount of a pod's name deleted, once the pod is: none is success.

    Args:
        cluster: where it is.
        namespace: of both.
        pod_name: of the pod, and of its account.
        pod_uid: of the pod whose account it was, empty for one that is gone: where another bears its name by now, the
            account is that one's. None: whoever calls has seen to it.

    Raises:
        ClusterError: no answer, or it was changed this very moment; it may have been done or not.
    """
    if pod_name == SHARED_ACCOUNT:
        return
    if pod_uid is not None:
        successor = await cluster.pod(namespace, pod_name)
        if successor is not None and successor.uid != pod_uid:
            return
    await cluster.delete_service_account(namespace, pod_name)
