"""The stored summary of a cluster, read by the next run."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import BRIDGED_SECONDS, ClusterSummary, DeathSummary
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason
from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.pods.store import Pods
from ghapp.store import keys

NOW = 1_790_000_000.25
FULL = ClusterSummary(
    at=NOW,
    since={"failed-object/runners/a": NOW - 300},
    phantoms=(
        Phantom(
            PhantomKind.FAILED_OBJECT,
            "a",
            PhantomReason.POD_LOST,
            ADVICE[PhantomReason.POD_LOST],
            "linux",
            "set",
            "runners",
        ),
    ),
    deaths=(DeathSummary("b", NOW - 5, Cause.HOST_OOM, "OOMKilled", has_job=False, advice="Raise it."),),
)


async def test_a_summary_is_read_back_unchanged(redis):
    await ClusterSummaries(redis).keep(7, FULL)
    assert await ClusterSummaries(redis).of(7) == FULL
    assert await ClusterSummaries(redis).of(8) is None


async def test_a_summary_expires(redis):
    await ClusterSummaries(redis).keep(7, FULL)
    assert 0 < await redis.ttl(keys.cluster_summary(7)) <= BRIDGED_SECONDS


@pytest.mark.parametrize("first", ["pods", "objects"])
async def test_a_view_requires_pods_and_objects_and_has_the_age_of_the_older_list(redis, first):
    pods = Pods(redis)
    halves = {
        "pods": lambda at: pods.replace_pods("runners", [Pod("runners", "a", "u", "1", NOW)], at),
        "objects": lambda at: pods.replace_objects("runners", [EphemeralRunner("runners", "a", "u", "1", NOW)], at),
    }
    (second,) = halves.keys() - {first}
    assert await pods.seen_at("runners") is None
    await halves[first](NOW)
    assert await pods.seen_at("runners") is None
    await halves[second](NOW + 1)
    assert await pods.seen_at("runners") == NOW == (await pods.all("runners")).seen_at
