"""ARC's runners: the object is deleted, and ARC makes another. Never its pod, never its status, never more than that.

What ARC (`actions.github.com/v1alpha1`) makes of each of these was paid for by others: deleting the pod makes it start
a spent runner again (its issue 4588), a `Failed` status counts as capacity, and a registration that is gone before
its object leaves the object Terminating for ever (4484, 4585), up to ARC 0.14.2.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from ghapp.cluster.api import Cluster
from ghapp.health.pods.blockers import Blocker
from ghapp.health.pods.deletion_decision import DeletionDecision, DeletionVerdict, Preconditions
from ghapp.health.pods.deletion_guards import REGISTRATION_FINALIZER, may_delete_object
from ghapp.health.pods.pod import EphemeralRunner, Pod
from ghapp.health.runner.evidence import Evidence


async def look(cluster: Cluster, namespace: str, evidence: Evidence, circumstances: Preconditions) -> DeletionDecision:
    """Read the runner's object and its pod, and rule on them. Nothing is changed.

    Raises:
        ClusterError: no answer; it says nothing of the object.
    """
    candidates = await _objects(cluster, namespace, evidence.name, circumstances.borne_by)
    if len(candidates) > 1:
        return DeletionDecision(namespace, evidence.name, DeletionVerdict.REFUSE, Blocker.SEVERAL_OBJECTS)
    pod_name = candidates[0].name if candidates else evidence.name
    pod = await cluster.pod(namespace, pod_name)
    # The object is read last: it is what is deleted, as of that version.
    found = await cluster.ephemeral_runner(namespace, candidates[0].name) if candidates else None
    ruling, doubt = may_delete_object(evidence, found, pod, circumstances)
    return DeletionDecision(
        namespace,
        evidence.name,
        ruling,
        because=doubt.because if doubt else None,
        after_seconds=doubt.after_seconds if doubt else None,
        uid=found.uid if found else "",
        said=_said(found, pod) if found else f"no EphemeralRunner of its name in {namespace}",
        object=found,
        pod=pod,
    )


async def require_leave(cluster: Cluster, namespace: str) -> None:
    """Nothing: the registration is never removed before the object is gone."""


async def act(cluster: Cluster, finding: DeletionDecision) -> None:
    """Do what was ruled: have the object deleted, or its stuck finalizer taken away. One that is gone is success.

    Raises:
        ConflictError: it is not what it was when it was read: look again.
        ClusterError: no answer; it may have been done or not.
    """
    found = finding.object
    if found is None:
        return
    if finding.ruling is DeletionVerdict.DELETE:
        await cluster.delete_ephemeral_runner(found.namespace, found.name, found.uid, found.version)
    elif finding.ruling is DeletionVerdict.FREE:
        await cluster.free_finalizer(found, REGISTRATION_FINALIZER)


async def _objects(
    cluster: Cluster, namespace: str, name: str, borne_by: Collection[str] | None
) -> list[EphemeralRunner]:
    """The object of that name, unless it says that its runner is called otherwise; else those whose runner is.

    What those are called the watch has seen, and each is read here; only where it sees nothing all are listed.
    """
    namesake = await cluster.ephemeral_runner(namespace, name)
    if namesake is not None and namesake.runner_name in ("", name):
        return [namesake]
    if borne_by is None:
        found = (await cluster.ephemeral_runners(namespace)).items
    else:
        read = [await cluster.ephemeral_runner(namespace, each) for each in borne_by]
        found = [each for each in read if each is not None]
    return [each for each in found if each.runner_name == name]


def _said(found: EphemeralRunner, pod: Pod | None) -> str:
    """Its fingerprint: by what one could tell later that this one, and in this state, was deleted."""
    words = [
        f"EphemeralRunner {found.namespace}/{found.name} ({found.uid}, version {found.version})",
        found.phase or "no phase",
        f"runner id {found.runner_id}" if found.runner_id is not None else "no runner id",
        f"job {found.job_id or found.workflow_run_id}" if found.job_id or found.workflow_run_id else "no job",
    ]
    return ", ".join([*words, said_of(pod)])


def said_of(pod: Pod | None) -> str:
    """What its pod is like, for people."""
    if pod is None:
        return "no pod"
    since = None if pod.runner is None else pod.runner.running_since
    where = f" on {pod.node}" if pod.node else ""
    if since is None:
        return f"pod {pod.phase or 'without a phase'}{where}, its container does not run"
    return (
        f"pod {pod.phase}{where}, its container has run since {datetime.fromtimestamp(since, UTC):%Y-%m-%dT%H:%M:%SZ}"
    )
