"""What looks at the cluster have left, kept for the next one."""

from __future__ import annotations

import pytest

from ghapp.health.cluster.clusterside import BRIDGED_SECONDS, ClusterSide, Passing
from ghapp.health.cluster.misfit import ADVICE, Because, Kind, Phantom
from ghapp.health.cluster.pod import EphemeralRunner, Pod
from ghapp.health.deaths.cause import Cause
from ghapp.store import keys
from ghapp.store.clusterside import ClusterSides
from ghapp.store.pods import Pods

NOW = 1_790_000_000.25
FULL = ClusterSide(
    at=NOW,
    since={"failed-object/runners/a": NOW - 300},
    phantoms=(Phantom(Kind.FAILED_OBJECT, "a", Because.POD_LOST, ADVICE[Because.POD_LOST], "linux", "set", "runners"),),
    deaths=(Passing("b", NOW - 5, Cause.HOST_OOM, "OOMKilled"),),
)


async def test_a_look_comes_back_as_it_was(redis):
    await ClusterSides(redis).keep(7, FULL)
    assert await ClusterSides(redis).of(7) == FULL
    assert await ClusterSides(redis).of(8) is None


async def test_a_look_that_no_other_follows_is_forgotten(redis):
    await ClusterSides(redis).keep(7, FULL)
    assert 0 < await redis.ttl(keys.cluster_side(7)) <= BRIDGED_SECONDS


@pytest.mark.parametrize("first", ["pods", "objects"])
async def test_a_view_is_as_old_as_its_older_half_and_none_before_it_has_both(redis, first):
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
