"""ARC's scale sets, as the API server answers: what each keeps, and how many runners it wants."""

from __future__ import annotations

import pytest

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterForbiddenError
from ghapp.pods.scale_sets import ScaleSet
from ghapp.sandbox.cluster.rbac import RbacRule
from tests.cluster.conftest import client

NS = "runners"


async def read(api):
    async with client(api) as found:
        return await Cluster(found).scale_sets(NS)


async def test_what_a_set_keeps_and_wants_is_read_from_two_kinds_of_objects(api):
    api.control.autoscaling_runner_set(NS, "linux", min_runners=5, replicas=39)
    api.control.autoscaling_runner_set(NS, "windows", replicas=0)
    assert await read(api) == [ScaleSet(NS, "linux", "linux", 5, 39), ScaleSet(NS, "windows", "windows", 0, 0)]


async def test_while_a_set_is_updated_both_of_its_sets_count_and_one_that_is_deleted_does_not(api):
    api.control.autoscaling_runner_set(NS, "linux", replicas=3)
    owner = api.control.object("autoscalingrunnersets", NS, "linux")
    for name, replicas in (("linux-new", 2), ("linux-old", 9)):
        value = {"metadata": {"name": name, "namespace": NS, "finalizers": ["arc"]}, "spec": {"replicas": replicas}}
        api.control.create("ephemeralrunnersets", value, owner=owner)
    api.control.delete("ephemeralrunnersets", NS, "linux-old")
    api.control.ephemeral_runner_set(NS, "of-nobody", replicas=99)
    assert [each.replicas for each in await read(api)] == [5]


@pytest.mark.parametrize(
    ("spec", "label", "least"),
    [
        ({"runnerScaleSetName": "gpu", "minRunners": 2}, "gpu", 2),
        ({"runnerScaleSetName": 7, "minRunners": "many"}, "linux", 0),
        ({"minRunners": -1}, "linux", 0),
        ({"minRunners": True}, "linux", 0),
        ({}, "linux", 0),
    ],
)
async def test_odd_fields_cost_themselves_alone(api, spec, label, least):
    api.control.create("autoscalingrunnersets", {"metadata": {"name": "linux", "namespace": NS}, "spec": spec})
    assert await read(api) == [ScaleSet(NS, "linux", label, least, 0)]


async def test_without_the_right_to_list_them_there_is_no_answer(api):
    api.control.user("watch", [RbacRule(("list",), ("actions.github.com",), ("ephemeralrunners",), (NS,))])
    async with client(api, "watch") as found:
        with pytest.raises(ClusterForbiddenError):
            await Cluster(found).scale_sets(NS)
