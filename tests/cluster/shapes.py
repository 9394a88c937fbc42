"""The API server's JSON as it is really seen, shortened; each builder gives a whole object that can be changed."""

from __future__ import annotations

import copy
import json
from typing import Any

NAMESPACE = "runners"
CREATED = "2026-11-20T12:00:00Z"
CREATED_AT = 1_795_176_000.0

RUNNING = {"running": {"startedAt": "2026-11-20T12:00:05Z"}}
KILLED = {
    "terminated": {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": "2026-11-20T12:00:05Z",
        "finishedAt": "2026-11-20T12:30:00Z",
        "containerID": "containerd://4c0d",
    }
}

POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "linux-4vcpu-x7k2p-runner-abcde",
        "namespace": NAMESPACE,
        "uid": "0a1b",
        "resourceVersion": "412",
        "creationTimestamp": CREATED,
        "labels": {"actions.github.com/scale-set-name": "linux-4vcpu"},
        "annotations": {"actions.github.com/patch-id": "1"},
        "ownerReferences": [
            {
                "apiVersion": "actions.github.com/v1alpha1",
                "kind": "EphemeralRunner",
                "name": "linux-4vcpu-x7k2p-runner-abcde",
                "uid": "9f8e",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
    },
    "spec": {
        "containers": [{"name": "runner", "image": "ghcr.io/actions/actions-runner:2.336.0", "command": ["/run.sh"]}],
        "nodeName": "node-1",
        "serviceAccountName": "linux-4vcpu-gha-rs-no-permission",
        "restartPolicy": "Never",
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None, "reason": "x"}],
        "containerStatuses": [{"name": "runner", "state": RUNNING, "lastState": {}, "ready": True, "restartCount": 0}],
        "qosClass": "Burstable",
    },
}

EPHEMERAL_RUNNER: dict[str, Any] = {
    "apiVersion": "actions.github.com/v1alpha1",
    "kind": "EphemeralRunner",
    "metadata": {
        "name": "linux-4vcpu-x7k2p-runner-abcde",
        "namespace": NAMESPACE,
        "uid": "9f8e",
        "resourceVersion": "409",
        "generation": 1,
        "creationTimestamp": CREATED,
        "labels": {
            "actions.github.com/organization": "acme",
            "actions.github.com/scale-set-name": "linux-4vcpu",
            "actions.github.com/scale-set-namespace": NAMESPACE,
        },
        "finalizers": [
            "ephemeralrunner.actions.github.com/finalizer",
            "ephemeralrunner.actions.github.com/runner-registration-finalizer",
        ],
        "ownerReferences": [
            {
                "apiVersion": "actions.github.com/v1alpha1",
                "kind": "EphemeralRunnerSet",
                "name": "linux-4vcpu-x7k2p",
                "uid": "7d6c",
                "controller": True,
            }
        ],
    },
    "spec": {"githubConfigUrl": "https://github.com/acme", "runnerScaleSetId": 3, "spec": {"containers": []}},
    "status": {
        "phase": "Running",
        "ready": True,
        "runnerId": 4242,
        "runnerName": "linux-4vcpu-x7k2p-runner-abcde",
        "jobRequestId": 77,
        "jobId": "8c5e0b0e-1",
        "jobRepositoryName": "acme/shop",
        "workflowRunId": 9_123_456_789,
        "failures": {"0a1b": "2026-11-20T11:59:00Z"},
    },
}


def pod(**parts: Any) -> dict[str, Any]:
    """`POD`, with parts of `metadata`, `spec` or `status` replaced; None takes one away."""
    return changed(POD, parts)


def ephemeral_runner(**parts: Any) -> dict[str, Any]:
    """`EPHEMERAL_RUNNER`, the same way."""
    return changed(EPHEMERAL_RUNNER, parts)


def changed(whole: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(whole)
    for part, values in parts.items():
        if values is None:
            del made[part]
            continue
        for key, value in values.items():
            made[part].pop(key, None)
            if value is not None:
                made[part][key] = value
    return made


def listed(items: list[dict[str, Any]], version: str = "500", token: str = "", kind: str = "PodList") -> dict[str, Any]:
    """A list, or a part of one."""
    meta = {"resourceVersion": version, **({"continue": token} if token else {})}
    return {"kind": kind, "apiVersion": "v1", "metadata": meta, "items": items}


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    """A refusal's body."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()
