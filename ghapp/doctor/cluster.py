"""Checks the cluster: its configuration, its API server, its clock, and our pods and ARC objects in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial

from ghapp.cluster.api import Cluster
from ghapp.cluster.connection import is_configured, open_cluster
from ghapp.doctor import rbac
from ghapp.doctor.finding import Finding, FindingStatus, ok, probe, warning, wrong
from ghapp.errors import ClusterForbiddenError, GhappError, ResourceMissingError
from ghapp.log import redact
from ghapp.pods.pod import RUNNER_CONTAINER, Pod
from ghapp.settings import PoolSettings, Settings

GROUP = "cluster"
IN_CLUSTER = ("arc", "pods")
"""Replacers that act in a cluster."""

SKEW_WARNING, SKEW_WRONG = 30.0, 60.0
"""Seconds. A death is matched to its job by times that may differ by up to a minute."""

UNREACHABLE = "check KUBECONFIG and that this machine reaches the API server; in a cluster, the pod's service account"


async def check(settings: Settings) -> list[Finding]:
    """Checks the configuration, and asks the API server; the failure of one check hides no other."""
    found = of_configuration(settings.pools, is_configured=is_configured(settings.cluster))
    if not settings.namespaces or not is_configured(settings.cluster):
        return found
    try:
        async with open_cluster(settings.cluster) as cluster:
            return found + await _of_api_server(settings, cluster)
    except (GhappError, OSError) as error:
        return [*found, wrong(GROUP, "connection", redact(str(error)), UNREACHABLE)]


async def _of_api_server(settings: Settings, cluster: Cluster) -> list[Finding]:
    """Checks the API server; returns only the failure when not even its version can be read."""
    found = await probe(GROUP, "answers", partial(_version, cluster), UNREACHABLE)
    if found[0].status is FindingStatus.WRONG:
        return found
    checks = [probe(GROUP, "rights", partial(rbac.check, cluster, settings.pools), UNREACHABLE)]
    for namespace in settings.namespaces:
        pools = [pool for pool in settings.pools if pool.namespace == namespace]
        labels = _owner_labels(settings, pools)
        checks.append(probe(GROUP, f"pods in {namespace}", partial(_pods, cluster, namespace, labels), UNREACHABLE))
        if any(pool.replacer == "arc" for pool in pools):
            checks.append(probe(GROUP, f"ARC in {namespace}", partial(_arc, cluster, namespace), UNREACHABLE))
    return found + [each for part in await asyncio.gather(*checks) for each in part]


async def _version(cluster: Cluster) -> list[Finding]:
    version, date = await cluster.version(), await cluster.clock()
    return [ok(GROUP, "answers", f"Kubernetes {version}"), of_clock(None if date is None else date - time.time())]


async def _arc(cluster: Cluster, namespace: str) -> list[Finding]:
    """Checks that ARC is installed in the namespace of a pool that ARC replaces."""
    name = f"ARC in {namespace}"
    try:
        objects = (await cluster.ephemeral_runners(namespace)).items
    except ResourceMissingError as error:
        fix = 'install ARC\'s CRDs, or give its pools a replacer other than "arc"'
        return [wrong(GROUP, name, str(error), fix)]
    except ClusterForbiddenError as error:
        return of_refusal(name, error)
    return [ok(GROUP, name, f"{len(objects)} EphemeralRunners")]


async def _pods(cluster: Cluster, namespace: str, labels: Iterable[str]) -> list[Finding]:
    try:
        pods = (await cluster.pods(namespace)).items
    except ClusterForbiddenError as error:
        return of_refusal(f"pods in {namespace}", error)
    found = [ok(GROUP, f"pods in {namespace}", f"{len(pods)}")]
    return found + [finding for label in labels for finding in of_label(namespace, label, pods)]


def of_refusal(name: str, error: ClusterForbiddenError) -> list[Finding]:
    """Reports a 403 in the server's words, unless the check of RBAC reports it."""
    if error.by_rbac:
        return []
    return [wrong(GROUP, name, redact(str(error)), "RBAC permits it: ask the cluster's admin about what forbids it")]


def of_configuration(pools: Sequence[PoolSettings], *, is_configured: bool) -> list[Finding]:
    """Checks that a cluster is configured if any pool has its pods in one."""
    placed = [pool for pool in pools if pool.namespace]
    if is_configured:
        text = "the environment names a cluster" + (
            "" if placed else "; it is not used, because no pool has a namespace"
        )
        return [ok(GROUP, "configuration", text)]
    fix = "set KUBECONFIG to the path of a kubeconfig, or run the roles in the cluster with their service accounts"
    if acting := [pool.name for pool in placed if pool.replacer in IN_CLUSTER]:
        text = f"no cluster is configured, so lost runners of {', '.join(acting)} cannot be replaced"
        return [wrong(GROUP, "configuration", text, fix)]
    if placed:
        text = f"no cluster is configured, so pods of {', '.join(pool.name for pool in placed)} are not watched"
        return [warning(GROUP, "configuration", text, fix)]
    return []


def of_clock(ahead: float | None) -> Finding:
    """Judges the cluster's clock; `ahead` is its lead over ours in seconds, None when answers have no Date."""
    if ahead is None:
        text = "the API server's answers have no Date: the age of pods is unknown, so no pod is replaced or reaped"
        fix = "have the proxy in front of the API server pass the Date header of its answers"
        return wrong(GROUP, "clock", text, fix)
    off = abs(ahead)
    text = f"our clock is {off:.0f} s {'behind' if ahead > 0 else 'ahead of'} the cluster's"
    fix = "run NTP here and on the nodes: ages use the cluster's clock, matching deaths to jobs uses both"
    if off > SKEW_WRONG:
        return wrong(GROUP, "clock", text, fix)
    if off > SKEW_WARNING:
        return warning(GROUP, "clock", text, fix)
    return ok(GROUP, "clock", f"within {max(1, round(off))} s of the cluster's")


def of_label(namespace: str, label: str, pods: Sequence[Pod]) -> list[Finding]:
    """Checks that pods have the label that marks leaks, and that the label is used for runners only."""
    name = f"label {label} in {namespace}"
    labelled = [pod for pod in pods if label in pod.labels]
    if not labelled:
        if not pods:
            return []
        fix = 'set it in the pod template, name yours in [leaks] owner_label, or set [leaks] mode = "off"'
        return [warning(GROUP, name, "no pod has it: leaks are not detected", fix)]
    others = [pod.name for pod in labelled if pod.runner is not None and pod.runner.name != RUNNER_CONTAINER]
    if others:
        text = f"{len(others)} of {len(labelled)} pods with it have no container {RUNNER_CONTAINER}: {others[0]}, …"
        fix = "if it has another meaning there, name another label in [leaks] owner_label: pods with it are reaped"
        return [warning(GROUP, name, text, fix)]
    return [ok(GROUP, name, f"on {len(labelled)} of {len(pods)} pods")]


def _owner_labels(settings: Settings, pools: Iterable[PoolSettings]) -> list[str]:
    """Returns the owner labels of these pools' orgs, without those of orgs whose leak mode is off."""
    policies = [settings.of(pool.org).leaks for pool in pools]
    return sorted({leaks.owner_label for leaks in policies if leaks.mode != "off"})
