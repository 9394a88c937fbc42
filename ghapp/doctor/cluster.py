"""The cluster: whether there is one where a pool needs it, whether it answers, and what of ours is in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial

from ghapp.cluster.api import Cluster
from ghapp.cluster.connection import is_configured, open_cluster
from ghapp.doctor import log_store, pod_locations, rbac, reaper, watch
from ghapp.doctor.finding import Finding, FindingStatus, ok, warning, wrong
from ghapp.doctor.probe import probe
from ghapp.errors import ClusterForbiddenError, GhappError, ResourceMissingError
from ghapp.health.pods.pod import RUNNER_CONTAINER, Pod
from ghapp.log import redact
from ghapp.settings import PoolSettings, Settings

GROUP = "cluster"
IN_CLUSTER = ("arc", "pods")
"""Replacers that act in a cluster."""

SKEW_WARNING, SKEW_WRONG = 30.0, 60.0
"""In seconds. A death is joined to its job by times that may differ by a minute."""

AWAY = "check KUBECONFIG and that this machine reaches the API server; in a cluster, the pod's service account"


async def look(settings: Settings, url: str | None) -> list[Finding]:
    """Everything of the cluster side, each on its own: what fails hides nothing else.

    Args:
        settings: names pools, and how the cluster is reached.
        url: of Redis; None when it is not known.
    """
    found = await asyncio.gather(
        _of_cluster(settings),
        watch.of_views(settings, url),
        pod_locations.look(settings, url),
        reaper.look(settings, url),
        log_store.look(settings),
    )
    return [each for part in found for each in part]


async def _of_cluster(settings: Settings) -> list[Finding]:
    found = of_configuration(settings.pools, is_configured=is_configured(settings.cluster))
    if not settings.namespaces or not is_configured(settings.cluster):
        return found
    try:
        async with open_cluster(settings.cluster) as cluster:
            return found + await _asked(settings, cluster)
    except (GhappError, OSError) as error:
        return [*found, wrong(GROUP, "connection", redact(str(error)), AWAY)]


async def _asked(settings: Settings, cluster: Cluster) -> list[Finding]:
    """What the API server says; nothing more when it does not even tell its version."""
    found = await probe(GROUP, "answers", partial(_version, cluster), AWAY)
    if found[0].status is FindingStatus.WRONG:
        return found
    looks = [
        probe(GROUP, "rights", partial(rbac.look, cluster, settings.pools), AWAY),
        watch.of_leader(cluster, settings.redis_url),
    ]
    for namespace in settings.namespaces:
        pools = [pool for pool in settings.pools if pool.namespace == namespace]
        labels = _owner_labels(settings, pools)
        looks.append(probe(GROUP, f"pods in {namespace}", partial(_pods, cluster, namespace, labels), AWAY))
        if any(pool.replacer == "arc" for pool in pools):
            looks.append(probe(GROUP, f"ARC in {namespace}", partial(_arc, cluster, namespace), AWAY))
    return found + [each for part in await asyncio.gather(*looks) for each in part]


async def _version(cluster: Cluster) -> list[Finding]:
    version, told_at = await cluster.version(), await cluster.clock()
    return [ok(GROUP, "answers", f"Kubernetes {version}"), of_clock(None if told_at is None else told_at - time.time())]


async def _arc(cluster: Cluster, namespace: str) -> list[Finding]:
    """Whether ARC is installed, where a pool is replaced by it."""
    name = f"ARC in {namespace}"
    try:
        objects = (await cluster.ephemeral_runners(namespace)).items
    except ResourceMissingError as error:
        fix = 'install ARC\'s CRDs, or give its pools another replacer than "arc"'
        return [wrong(GROUP, name, str(error), fix)]
    except ClusterForbiddenError:
        return []  # the rights say so
    return [ok(GROUP, name, f"{len(objects)} EphemeralRunners")]


async def _pods(cluster: Cluster, namespace: str, labels: Iterable[str]) -> list[Finding]:
    try:
        pods = (await cluster.pods(namespace)).items
    except ClusterForbiddenError:
        return []  # the rights say so
    found = [ok(GROUP, f"pods in {namespace}", f"{len(pods)}")]
    return found + [finding for label in labels for finding in of_label(namespace, label, pods)]


def of_configuration(pools: Sequence[PoolSettings], *, is_configured: bool) -> list[Finding]:
    """Whether there is a cluster, if any pool has its pods in one."""
    placed = [pool for pool in pools if pool.namespace]
    if is_configured:
        said = "the environment names one" + ("" if placed else "; no pool has a namespace, so nothing is asked of it")
        return [ok(GROUP, "configuration", said)]
    fix = "set KUBECONFIG to the path of a kubeconfig, or run the roles in the cluster with their service accounts"
    if acting := [pool.name for pool in placed if pool.replacer in IN_CLUSTER]:
        said = f"none is configured, and lost runners of {', '.join(acting)} cannot be replaced without it"
        return [wrong(GROUP, "configuration", said, fix)]
    if placed:
        said = f"none is configured: pods of {', '.join(pool.name for pool in placed)} are seen by nobody here"
        return [warning(GROUP, "configuration", said, fix)]
    return []


def of_clock(ahead: float | None) -> Finding:
    """The cluster's clock, which is ahead of ours by so many seconds; None where its answers tell no time."""
    if ahead is None:
        said = "its answers have no Date: how old pods and objects are is not known, and none is replaced or reaped"
        return wrong(
            GROUP, "clock", said, "have whatever stands before the API server let the Date of its answers pass"
        )
    off = abs(ahead)
    said = f"our clock is {off:.0f} s {'behind' if ahead > 0 else 'ahead of'} the cluster's"
    fix = "run NTP here and on the cluster's machines: ages are told by its clock alone, deaths and their jobs by both"
    if off > SKEW_WRONG:
        return wrong(GROUP, "clock", said, fix)
    if off > SKEW_WARNING:
        return warning(GROUP, "clock", said, fix)
    return ok(GROUP, "clock", f"within {max(1, round(off))} s of the cluster's")


def of_label(namespace: str, label: str, pods: Sequence[Pod]) -> list[Finding]:
    """Whether pods bear the label by which leaks are known, and whether it means there what we take it to mean."""
    name = f"label {label} in {namespace}"
    borne = [pod for pod in pods if label in pod.labels]
    if not borne:
        if not pods:
            return []
        fix = 'have the pods\' template bear it, name yours by [leaks] owner_label, or set [leaks] mode = "off"'
        return [warning(GROUP, name, "no pod bears it: leaks are not seen", fix)]
    others = [pod.name for pod in borne if pod.runner is not None and pod.runner.name != RUNNER_CONTAINER]
    if others:
        said = f"{len(others)} of {len(borne)} pods with it have no container called {RUNNER_CONTAINER}: {others[0]}, …"
        fix = "if it means something else there, name another by [leaks] owner_label: pods with it are reaped"
        return [warning(GROUP, name, said, fix)]
    return [ok(GROUP, name, f"on {len(borne)} of {len(pods)} pods")]


def _owner_labels(settings: Settings, pools: Iterable[PoolSettings]) -> list[str]:
    """The labels by which the leaks of these pools' orgs are known; none where nothing is reaped."""
    policies = [settings.of(pool.org).leaks for pool in pools]
    return sorted({leaks.owner_label for leaks in policies if leaks.mode != "off"})
