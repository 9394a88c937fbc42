"""A pod and the ServiceAccount of its name."""

import pytest

from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ConflictError
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import DeletionVerdict
from ghapp.replace import pods
from tests.replace.cluster import FakeCluster, execute
from tests.rules.builders import NOW, lost
from tests.rules.pods.builders import NAMESPACE, container, pod, pod_of_object, preconditions

BOTH = ["delete pod linux-1", "delete account linux-1"]


async def look(cluster, evidence=None):
    return await pods.find(cluster, NAMESPACE, evidence or lost(), preconditions())


async def look_and_act(cluster, evidence=None):
    await execute(pods, cluster, await look(cluster, evidence))


async def test_the_pod_goes_and_then_its_account():
    cluster = FakeCluster(pod(), accounts=("linux-1", "linux-2", "default"))
    await look_and_act(cluster)
    assert cluster.done == BOTH


async def test_a_crash_between_the_two_is_healed_by_the_next_try():
    cluster = FakeCluster(pod(), accounts=("linux-1",))
    cluster.fails["delete_service_account"] = [ClusterUnavailableError("away")]
    with pytest.raises(ClusterUnavailableError):
        await look_and_act(cluster)
    assert cluster.done == BOTH[:1]
    await look_and_act(cluster)
    assert cluster.done == BOTH


async def test_a_pod_that_is_terminating_is_not_asked_to_go_again_and_its_account_goes():
    cluster = FakeCluster(pod(deleting_since=NOW, runner=None), accounts=("linux-1",))
    await look_and_act(cluster)
    assert cluster.done == BOTH[1:]


async def test_a_deleted_pod_is_success():
    cluster = FakeCluster()
    decision = await look(cluster)
    assert decision.text == "no pod of its name in runners"
    await execute(pods, cluster, decision)
    assert cluster.done == []


async def test_the_account_that_every_namespace_has_belongs_to_no_pod():
    cluster = FakeCluster(pod(name="default"), accounts=("default",))
    await look_and_act(cluster, lost(name="default"))
    assert cluster.done == ["delete pod default"]


async def test_another_pod_of_the_same_name_is_left_alone():
    cluster = FakeCluster(pod(), accounts=("linux-1",))
    decision = await look(cluster)
    cluster.found_pods["linux-1"] = pod(uid="pod-2")
    with pytest.raises(ConflictError):
        await execute(pods, cluster, decision)
    assert cluster.done == []


@pytest.mark.parametrize("there", [(), (pod(),), (pod(deleting_since=NOW),)], ids=["gone", "there", "Terminating"])
async def test_an_account_is_left_to_a_pod_that_has_come_under_its_name_meanwhile(there):
    cluster = FakeCluster(*there, accounts=("linux-1",))
    decision = await look(cluster)

    async def comes_back(*_):
        cluster.found_pods["linux-1"] = pod(uid="pod-2")
        return False  # the intended pod no longer existed

    if there and there[0].deleting_since is None:
        cluster.delete_pod = comes_back
    else:
        await comes_back()
    await execute(pods, cluster, decision)
    assert cluster.accounts == {"linux-1"}


@pytest.mark.parametrize(
    ("found", "blocker"),
    [
        (pod_of_object(), Blocker.POD_OF_ARC),
        (pod(runner=container(running_since=None)), Blocker.NOT_RUNNING),
        (pod(created_at=NOW), Blocker.WITHIN_GRACE),
    ],
    ids=["ARC's", "not running", "young"],
)
async def test_a_pod_that_may_not_go_is_left_alone(found, blocker):
    cluster = FakeCluster(found, accounts=("linux-1",))
    decision = await look(cluster)
    assert (decision.verdict, decision.blocker) == (DeletionVerdict.REFUSE, blocker)
    await execute(pods, cluster, decision)
    assert cluster.done == []


@pytest.mark.parametrize("resource", ["pods", "serviceaccounts"])
async def test_leave_is_asked_for_before_the_registration_goes(resource):
    await pods.require_permissions(FakeCluster(), NAMESPACE)
    with pytest.raises(ClusterForbiddenError) as lacks:
        await pods.require_permissions(FakeCluster(lacks=(resource,)), NAMESPACE)
    assert (lacks.value.verb, lacks.value.resource) == ("delete", resource)
