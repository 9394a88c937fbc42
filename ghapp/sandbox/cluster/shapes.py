"""Pods and ARC's objects in the shape of a real cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ghapp.sandbox.cluster.kinds import EPHEMERAL_RUNNERS, ObjectKind
from ghapp.sandbox.cluster.store import Obj, random_digits, timestamp

IMAGE = "ghcr.io/actions/actions-runner:2.337.0"
DIGEST = "sha256:5a2d7cd1d9a2b3ad3d9d5b7f0f6b5f9a3a6a1b9b0a4c7e1f2d3c4b5a69788796"
GROUP = EPHEMERAL_RUNNERS.group
FINALIZER = f"ephemeralrunner.{GROUP}/finalizer"
REGISTRATION_FINALIZER = f"ephemeralrunner.{GROUP}/runner-registration-finalizer"


class PodShape(NamedTuple):
    """The properties of a pod; without a node it is not scheduled, and reports no container."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    containers: Sequence[str]
    node: str
    running: bool
    service_account: str
    grace_seconds: int
    finalizers: Sequence[str]


class AssignedJob(NamedTuple):
    """The job in the status of a runner's object."""

    id: str
    workflow_run_id: int
    request_id: int = 1
    repository: str = "acme/api"
    name: str = "build"
    workflow: str = "acme/api/.github/workflows/ci.yml@refs/heads/main"


def pod(shape: PodShape, created_at: float) -> Obj:
    """Returns a pod without the fields that the server adds."""
    meta: Obj = {"name": shape.name, "namespace": shape.namespace}
    for name, part in (("labels", shape.labels), ("annotations", shape.annotations)):
        if part:
            meta[name] = dict(part)
    if shape.finalizers:
        meta["finalizers"] = list(shape.finalizers)
    spec: Obj = {
        "containers": [_container(name) for name in shape.containers],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": shape.grace_seconds,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": shape.service_account,
        "serviceAccount": shape.service_account,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if shape.node:
        spec["nodeName"] = shape.node
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": spec,
        "status": _pod_status(shape, created_at),
    }


def owner_reference(owner: Obj) -> Obj:
    """Returns a reference to the object that controls another."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def runner(kind: ObjectKind, namespace: str, name: str, scale_set: str, org: str) -> Obj:
    """Returns an object of ARC without its status: a runner's, or a set's."""
    labels = {
        f"{GROUP}/organization": org,
        f"{GROUP}/scale-set-name": scale_set,
        f"{GROUP}/scale-set-namespace": namespace,
        "app.kubernetes.io/component": "runner" if kind is EPHEMERAL_RUNNERS else "runner-set",
        "app.kubernetes.io/part-of": "gha-runner-scale-set",
        "app.kubernetes.io/version": "0.13.0",
    }
    template: Obj = {"metadata": {}, "spec": {"containers": [{"name": "runner", "image": IMAGE, "resources": {}}]}}
    runner_spec: Obj = {
        "githubConfigUrl": f"https://github.com/{org}",
        "githubConfigSecret": f"{scale_set}-github-secret",
        "runnerScaleSetId": 1,
        **template,
    }
    spec = runner_spec if kind is EPHEMERAL_RUNNERS else {"replicas": 0, "ephemeralRunnerSpec": runner_spec}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    }


def runner_status(name: str, runner_id: int | None, phase: str, job: AssignedJob | None) -> Obj:
    """Returns the status that ARC writes for a runner; without an id it is not registered yet."""
    status: Obj = {}
    if phase:
        status["phase"] = phase
        status["ready"] = phase == "Running"
    if runner_id is not None:
        status |= {"runnerId": runner_id, "runnerName": name}
    if job is not None:
        status |= {
            "jobRequestId": job.request_id,
            "jobId": job.id,
            "jobRepositoryName": job.repository,
            "jobWorkflowRef": job.workflow,
            "workflowRunId": job.workflow_run_id,
            "jobDisplayName": job.name,
        }
    return status


def _container(name: str) -> Obj:
    return {
        "name": name,
        "image": IMAGE,
        "command": ["/home/runner/run.sh"],
        "resources": {"limits": {"memory": "8Gi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _pod_status(shape: PodShape, created_at: float) -> Obj:
    if not shape.node:
        why = "0/3 nodes are available: 3 Insufficient memory."
        unscheduled = {"reason": "Unschedulable", "message": why}
        return {
            "phase": "Pending",
            "conditions": [_condition("PodScheduled", "False", created_at) | unscheduled],
            "qosClass": "BestEffort",
        }
    ready = "True" if shape.running else "False"
    status: Obj = {
        "phase": "Running" if shape.running else "Pending",
        "conditions": [
            _condition("PodReadyToStartContainers", ready, created_at),
            _condition("Initialized", "True", created_at),
            _condition("Ready", ready, created_at),
            _condition("ContainersReady", ready, created_at),
            _condition("PodScheduled", "True", created_at),
        ],
        "hostIP": "10.0.0.1",
        "startTime": timestamp(created_at),
        "containerStatuses": [
            _container_status(name, created_at, running=shape.running) for name in sorted(shape.containers)
        ],
        "qosClass": "BestEffort",
    }
    if shape.running:
        status["podIP"] = "10.244.0.7"
        status["podIPs"] = [{"ip": "10.244.0.7"}]
    return status


def _container_status(name: str, created_at: float, *, running: bool) -> Obj:
    if not running:
        state: Obj = {"waiting": {"reason": "ContainerCreating"}}
        started = {"imageID": "", "started": False}
    else:
        state = {"running": {"startedAt": timestamp(created_at)}}
        image = f"ghcr.io/actions/actions-runner@{DIGEST}"
        started = {"imageID": image, "containerID": f"containerd://{random_digits(64)}", "started": True}
    return {
        "name": name,
        "state": state,
        "lastState": {},
        "ready": running,
        "restartCount": 0,
        "image": IMAGE,
    } | started


def _condition(name: str, status: str, at: float) -> Obj:
    return {"type": name, "status": status, "lastProbeTime": None, "lastTransitionTime": timestamp(at)}
