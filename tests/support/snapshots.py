"""Snapshots of a namespace, as the watch records them after complete lists of both kinds."""

from __future__ import annotations

from collections.abc import Iterable

from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.pods.store import Pods


async def record_snapshot(
    store: Pods, namespace: str, pods: Iterable[Pod], objects: Iterable[EphemeralRunner], at: float
) -> None:
    """Records complete lists as of `at`."""
    await store.replace_objects(namespace, objects, at)
    await store.replace_pods(namespace, pods, at)
