"""Reads what is not seen of the cluster and the log store now, and why. Every surface shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from ghapp.deaths.cluster_summary import StaleNamespace, namespaces_of, stale_namespaces
from ghapp.pods.degraded_sources import DegradedSource, sources_of
from ghapp.pods.reconcile import NamespaceRule
from ghapp.store.stores import Stores


class Unseen(NamedTuple):
    """What is not seen now.

    Attributes:
        namespaces: those whose snapshot is old or missing.
        sources: those that cannot be read, or of which a part cannot.
    """

    namespaces: list[StaleNamespace]
    sources: list[DegradedSource]


async def load_unseen(stores: Stores, rules: Iterable[NamespaceRule], now: float, *, has_log_store: bool) -> Unseen:
    """Returns what is not seen of the namespaces of these pools; of the log store, if one is configured.

    Args:
        stores: all stores.
        rules: the pools.
        now: epoch seconds.
        has_log_store: True if a log store is configured; without a namespace, none is asked.
    """
    names = namespaces_of(rules)
    places = sources_of(names, has_log_store=has_log_store and bool(names))
    times = await asyncio.gather(*map(stores.pods.seen_at, names))
    degraded = await stores.degraded_sources.of(places)
    seen_at = dict(zip(names, times, strict=True))
    return Unseen(stale_namespaces(seen_at, now), [DegradedSource(*each) for each in degraded.items()])
