"""The documented rights of the roles are those that their calls need."""

from __future__ import annotations

import pytest

from ghapp.cluster.access import NEAR_RUNNERS, needed_near
from ghapp.cluster.api import Cluster
from ghapp.sandbox.cluster.rbac import RbacRule
from tests.cluster.conftest import client


def rule(access, namespace):
    return RbacRule((access.verb,), (access.group,), (access.rbac_resource,), (namespace,))


def asked(replacers):
    return {(each.role, each.rbac_resource) for each in needed_near(replacers)}


@pytest.mark.parametrize("replacers", [["cloudevents"], ["pods"], ["none"], []])
def test_without_arc_nothing_of_arc_s_is_needed(replacers):
    assert {group for _, _, group, *_ in needed_near(replacers)} == {""}
    assert {("watch", "pods"), ("watch", "pods/log"), ("worker", "pods")} <= asked(replacers)


def test_with_arc_everything_is_needed():
    assert needed_near(["pods", "arc"]) == list(NEAR_RUNNERS)


async def test_what_the_watch_needs_near_runners_is_enough_to_see(api):
    api.control.user("watch", [rule(each, "runners") for each in NEAR_RUNNERS if each.role == "watch"])
    api.control.pod("runners", "linux-0")
    api.control.ephemeral_runner("runners", "linux-0")
    async with client(api, "watch") as found:
        cluster = Cluster(found)
        listed = await cluster.pods("runners")
        assert len((await cluster.ephemeral_runners("runners")).items) == 1
        await cluster.log(listed.items[0])
        api.control.pod("runners", "linux-1")
        changes = cluster.watch_pods("runners", listed.version)
        assert (await anext(changes)).found.name == "linux-1"
        await changes.aclose()
    assert {call.code for call in api.control.calls("watch")} <= {200, 101}


async def test_what_the_worker_needs_near_runners_is_enough_to_act(api):
    api.control.user("worker", [rule(each, "runners") for each in NEAR_RUNNERS if each.role == "worker"])
    api.control.pod("runners", "linux-0", service_account="linux-0")
    api.control.ephemeral_runner("runners", "linux-0")
    async with client(api, "worker") as found:
        cluster = Cluster(found)
        (pod,) = (await cluster.pods("runners")).items
        (runner,) = (await cluster.ephemeral_runners("runners")).items
        assert await cluster.delete_ephemeral_runner("runners", runner.name, runner.uid, runner.version)
        stuck = await cluster.ephemeral_runner("runners", runner.name)
        assert await cluster.free_finalizer(stuck, stuck.finalizers[0])
        pod = await cluster.pod("runners", pod.name)
        assert await cluster.delete_pod("runners", pod.name, pod.uid, pod.version)
        assert await cluster.delete_service_account("runners", "linux-0")
