"""Ten thousand pods of runners: when is each change of a burst in the snapshot, and what does the watch need for it?

The watch is a real process with a real Redis. A burst ends the containers of a thousand pods, whose logs the watch reads
and whose deaths it records after the snapshot, and changes a label of a thousand others, all within one second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import yaml

from ghapp.installations.installation import Installation
from ghapp.runners.evidence import Fold, Registration
from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.store.stores import Stores, open_stores
from tests.bench.figure import Figure, middle
from tests.bench.fleet.cluster import NAMESPACE, Burst, Config, Report, name_of
from tests.bench.fleet.github import FIRST_INSTALLATION, POOL
from tests.bench.fleet.place import cpu_seconds_of, redis_process, serving, watched_memory
from tests.bench.places import running
from tests.support.local_redis import embedded_redis

PODS, ENDED, LABELED, BURSTS = 10_000, 1_000, 1_000, 3
LOG_SECONDS = 0.01
"""Until the API server answers with a log: it asks the kubelet of the pod's node."""

MOST_SECONDS, MOST_MEGABYTES = 5.0, 250.0
QUIET_SECONDS = 30.0
SETTLE_SECONDS, PATIENCE_SECONDS, LOOK_SECONDS = 5.0, 120.0, 0.1
POLICY = f"""
[[pools]]
org = "org-0"
name = "{POOL}"
labels = ["{POOL}"]
replacer = "pods"
namespace = "{NAMESPACE}"
"""


@dataclass(frozen=True)
class Watched:
    """What runs: addresses of the cluster and of Redis, the process ids of the watch and of Redis, and the watch's log."""

    cluster: str
    redis_url: str
    watch: int
    redis: int
    log: Path

    def report(self) -> Report:
        """Returns what the cluster was asked."""
        return msgspec.json.decode(httpx.get(f"{self.cluster}/_report", timeout=30).content, type=Report)


def measure(folder: Path) -> list[Figure]:
    """The figures, all of one run."""
    with _running(folder) as watched, watched_memory(watched.watch) as peak:
        seconds, recorded_seconds, first_seconds = asyncio.run(_seconds_of_bursts(watched))
        time.sleep(SETTLE_SECONDS)
        before = cpu_seconds_of(watched.watch), cpu_seconds_of(watched.redis)
        time.sleep(QUIET_SECONDS)
        watch, redis = cpu_seconds_of(watched.watch) - before[0], cpu_seconds_of(watched.redis) - before[1]
        report = watched.report()
        if report.unknown:
            raise RuntimeError(f"unknown paths: {report.unknown}")
    changes = f"{ENDED:,} containers ended and {LABELED:,} labels changed within a second"
    value, spread = middle(seconds)
    recorded, recorded_spread = middle(recorded_seconds)
    return [
        Figure(
            f"{PODS:,} pods, {changes}: from the last change until the snapshot has all",
            f"{value:.1f} s",
            value,
            spread=spread,
            most=MOST_SECONDS,
            unit=" s",
            note=f"{BURSTS} bursts; first snapshot {first_seconds:.1f} s after the start; "
            f"{dict(sorted(report.calls.items()))}",
        ),
        Figure(
            "until each of these ends has its death recorded",
            f"{recorded:.1f} s",
            recorded,
            spread=recorded_spread,
            unit=" s",
            note=f"with its log, {LOG_SECONDS * 1000:.0f} ms a log",
        ),
        Figure("watch, at its peak", f"{peak[0] / 1e6:.0f} MB", peak[0] / 1e6, most=MOST_MEGABYTES, unit=" MB"),
        Figure(
            f"CPU of the watch while nothing changes, {QUIET_SECONDS:.0f} s",
            f"{watch:.2f} s",
            watch / QUIET_SECONDS,
            unit=" cores",
            note=f"Redis {redis:.2f} s",
        ),
    ]


@contextmanager
def _running(folder: Path) -> Iterator[Watched]:
    """Runs the cluster, Redis and the watch until the block ends; yields when the watch has started."""
    log = folder / "watch.log"
    with (
        embedded_redis(folder / "redis", durable=True) as url,
        serving("cluster", folder, Config(PODS, LOG_SECONDS)) as (address, _),
    ):
        asyncio.run(_register(url))
        with running(["-m", "ghapp", "watch"], _environ(folder, address, url), log) as watch:
            yield Watched(address, url, watch.pid, redis_process(url), log)


async def _register(redis_url: str) -> None:
    """Records the installation and its runners, as a sweep does."""
    now = time.time()

    def seen(number: int) -> Fold:
        labels = ("self-hosted", POOL)
        registration = Registration(number, name_of(number), "linux", True, False, labels, (POOL,), True)
        return lambda known: registration_seen(known, registration, now, by=SeenBy.LIST)

    async with open_stores(redis_url) as stores:
        await stores.installations.put(Installation(FIRST_INSTALLATION, "org-0", FIRST_INSTALLATION))
        await stores.runners.revise(FIRST_INSTALLATION, {number: seen(number) for number in range(1, PODS + 1)})


def _environ(folder: Path, cluster: str, redis_url: str) -> dict[str, str]:
    policy, kubeconfig = folder / "ghapp.toml", folder / "kubeconfig"
    policy.write_text(POLICY)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": cluster}}],
        "users": [{"name": "watch", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "watch", "namespace": NAMESPACE}}],
        "current-context": "bench",
    }
    kubeconfig.write_text(yaml.safe_dump(document))
    return {
        "GHAPP_CONFIG": str(policy),
        "GHAPP_REDIS_URL": redis_url,
        "GHAPP_LOG_FORMAT": "json",
        "KUBECONFIG": str(kubeconfig),
    }


async def _seconds_of_bursts(watched: Watched) -> tuple[list[float], list[float], float]:
    """Returns the seconds from the last change of each burst until all are seen, and until all deaths are recorded.

    The third are those from the start to the first snapshot.
    """
    began = time.monotonic()
    async with open_stores(watched.redis_url) as stores, httpx.AsyncClient(timeout=60) as client:
        await _await_snapshot(stores, watched)
        first_seconds, seconds, recorded = time.monotonic() - began, [], []
        for number in range(BURSTS):
            first_ended, first_labeled = number * ENDED + 1, PODS - (number + 1) * LABELED + 1
            ended = range(first_ended, first_ended + ENDED)
            labeled = range(first_labeled, first_labeled + LABELED)
            await asyncio.sleep(SETTLE_SECONDS)
            seen = asyncio.create_task(_all_seen(stores, set(ended), set(labeled), watched))
            burst = msgspec.json.encode(Burst([*ended], [*labeled]))
            answer = await client.post(f"{watched.cluster}/_burst", content=burst)
            sent = answer.raise_for_status().json()
            if sent["seconds"] > 1.1:
                raise RuntimeError(f"the simulated cluster needed {sent['seconds']:.1f} s to send a burst")
            seconds.append(max(0.0, await seen - sent["at"]))
            recorded.append(await _all_recorded(stores, watched) - sent["at"])
        await _require_deaths(stores, watched)
    return seconds, recorded, first_seconds


async def _await_snapshot(stores: Stores, watched: Watched) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while (view := await stores.pods.all(NAMESPACE)) is None or len(view.pods) < PODS:
        if time.monotonic() > ends:
            raise RuntimeError(f"no snapshot of {PODS:,} pods: {watched.log.read_text()[-3000:]}")
        await asyncio.sleep(LOOK_SECONDS)


async def _all_seen(stores: Stores, ended: set[int], labeled: set[int], watched: Watched) -> float:
    """Returns when the snapshot had all of these changes (epoch seconds)."""
    ends = time.monotonic() + PATIENCE_SECONDS
    missing = {name_of(number) for number in ended | labeled}
    are_ended = {name_of(number) for number in ended}
    while missing:
        if time.monotonic() > ends:
            raise RuntimeError(f"{len(missing)} changes were not seen: {watched.log.read_text()[-3000:]}")
        await asyncio.sleep(LOOK_SECONDS)
        view = await stores.pods.some(NAMESPACE, missing)
        pods = {} if view is None else view.pods
        missing -= {
            name
            for name, pod in pods.items()
            if (pod.ended is not None if name in are_ended else pod.labels["busy"] == "true")
        }
    return time.time()


async def _all_recorded(stores: Stores, watched: Watched) -> float:
    """Returns when no end was left to record (epoch seconds)."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while left := await stores.pod_ends.left(NAMESPACE):
        if time.monotonic() > ends:
            raise RuntimeError(f"{left} ends were not recorded: {watched.log.read_text()[-3000:]}")
        await asyncio.sleep(LOOK_SECONDS)
    return time.time()


async def _require_deaths(stores: Stores, watched: Watched) -> None:
    """Raises RuntimeError if an end has no recorded death."""
    found = await stores.deaths.recent(FIRST_INSTALLATION, 0.0, BURSTS * ENDED + 1)
    if len(found) != BURSTS * ENDED:
        raise RuntimeError(f"{len(found)} deaths of {BURSTS * ENDED} are recorded")
    if lacking := [death for death in found if not (death.runner_log and death.runner_id)]:
        raise RuntimeError(f"recorded without a log or a runner: {lacking}: {watched.log.read_text()[-3000:]}")
