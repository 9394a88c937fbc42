"""The little that is done to a cluster: exactly once, to exactly what was read."""

from __future__ import annotations

import pytest

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ConflictError

OURS = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
ARC_S = "ephemeralrunner.actions.github.com/finalizer"


def made(api, kind: str, name: str = "linux-0"):
    create = {"pods": api.control.pod, "ephemeralrunners": api.control.ephemeral_runner}[kind]
    meta = create("runners", name, finalizers=())["metadata"]
    return meta["uid"], meta["resourceVersion"]


def deleting(cluster: Cluster, kind: str):
    return {"pods": cluster.delete_pod, "ephemeralrunners": cluster.delete_ephemeral_runner}[kind]


KINDS = pytest.mark.parametrize("kind", ["pods", "ephemeralrunners"])


@KINDS
async def test_an_object_is_deleted_in_the_version_that_was_read(api, cluster, kind):
    api.control.kubelet_deletes_after(0)
    uid, version = made(api, kind)
    assert await deleting(cluster, kind)("runners", "linux-0", uid, version) is True
    assert api.control.names(kind, "runners") == []


@KINDS
async def test_the_deletion_of_an_absent_object_succeeds(api, cluster, kind):
    assert await deleting(cluster, kind)("runners", "linux-0", "uid", "1") is False


@KINDS
async def test_an_object_changed_since_it_was_read_is_not_deleted(api, cluster, kind):
    uid, version = made(api, kind)
    api.control.set_labels(kind, "runners", "linux-0", since="changed")
    with pytest.raises(ConflictError):
        await deleting(cluster, kind)("runners", "linux-0", uid, version)
    assert api.control.names(kind, "runners") == ["linux-0"]


@KINDS
async def test_another_of_the_same_name_is_not_deleted(api, cluster, kind):
    _, version = made(api, kind)
    with pytest.raises(ConflictError):
        await deleting(cluster, kind)("runners", "linux-0", "another", version)
    assert api.control.names(kind, "runners") == ["linux-0"]


@KINDS
@pytest.mark.parametrize("name", ["", "..", "linux-0/../linux-1"])
async def test_an_invalid_name_deletes_nothing(api, cluster, kind, name):
    made(api, kind)
    api.control.forget_calls()
    assert await deleting(cluster, kind)("runners", name, "uid", "1") is False
    assert api.control.calls() == []
    assert api.control.names(kind, "runners") == ["linux-0"]


@KINDS
async def test_a_deletion_whose_answer_was_lost_may_be_repeated(api, cluster, kind):
    api.control.kubelet_deletes_after(0)
    uid, version = made(api, kind)
    api.control.loses_answers(times=1)
    with pytest.raises(ClusterUnavailableError):
        await deleting(cluster, kind)("runners", "linux-0", uid, version)
    assert await deleting(cluster, kind)("runners", "linux-0", uid, version) is False


@KINDS
async def test_a_deletion_is_sent_only_once_whatever_its_result(api, cluster, kind):
    uid, version = made(api, kind)
    api.control.fails(503)
    api.control.forget_calls()
    with pytest.raises(ClusterUnavailableError):
        await deleting(cluster, kind)("runners", "linux-0", uid, version)
    assert [call.verb for call in api.control.calls()] == ["delete"]


async def test_a_deleted_pod_is_shown_as_terminating_until_it_is_deleted(api, cluster):
    uid, version = made(api, "pods")
    await cluster.delete_pod("runners", "linux-0", uid, version)
    pod = await cluster.pod("runners", "linux-0")
    now = api.cluster.clock()
    assert now - 60 < pod.deleting_since <= now
    assert await cluster.delete_pod("runners", "linux-0", uid, pod.version) is True


async def test_a_service_account_is_deleted_in_its_current_version(api, cluster):
    api.control.service_account("runners", "linux-0")
    assert await cluster.delete_service_account("runners", "linux-0") is True
    assert await cluster.delete_service_account("runners", "linux-0") is False
    assert api.control.names("serviceaccounts", "runners") == ["default"]


async def test_a_service_account_that_is_created_again_meanwhile_stays(api, cluster):
    api.control.service_account("runners", "linux-0")
    send = cluster.transport.send

    async def send_late(call, **how):
        if call.verb == "delete":
            api.control.delete("serviceaccounts", "runners", "linux-0")
            api.control.service_account("runners", "linux-0")
        return await send(call, **how)

    cluster.transport.send = send_late
    with pytest.raises(ConflictError):
        await cluster.delete_service_account("runners", "linux-0")
    assert "linux-0" in api.control.names("serviceaccounts", "runners")


@pytest.fixture
async def stuck(api, cluster):
    """A runner object whose deletion waits for its finalizers."""
    api.control.ephemeral_runner("runners", "linux-0", finalizers=(ARC_S, OURS))
    api.control.delete("ephemeralrunners", "runners", "linux-0")
    return await cluster.ephemeral_runner("runners", "linux-0")


def finalizers(api) -> list[str]:
    return api.control.object("ephemeralrunners", "runners", "linux-0")["metadata"].get("finalizers", [])


async def test_one_finalizer_is_freed_and_the_other_stays(api, cluster, stuck):
    assert stuck.deleting_since is not None
    assert await cluster.free_finalizer(stuck, OURS) is True
    assert finalizers(api) == [ARC_S]


async def test_a_finalizer_is_taken_by_a_json_patch_that_tests_whose_and_which_it_is(cluster, stuck):
    send, sent = cluster.transport.send, []

    async def recorded_send(call, **how):
        sent.append((call.verb, call.rbac_resource, how))
        return await send(call, **how)

    cluster.transport.send = recorded_send
    await cluster.free_finalizer(stuck, OURS)
    ((verb, resource, how),) = sent
    assert (verb, resource) == ("patch", "ephemeralrunners.actions.github.com"), "never its status"
    assert how["content_type"] == "application/json-patch+json"
    assert how["json"] == [
        {"op": "test", "path": "/metadata/uid", "value": stuck.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": stuck.version},
        {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


async def test_releasing_the_last_finalizer_removes_the_object(api, cluster, stuck):
    api.control.release("ephemeralrunners", "runners", "linux-0", ARC_S)
    assert await cluster.free_finalizer(await cluster.ephemeral_runner("runners", "linux-0"), OURS) is True
    assert api.control.names("ephemeralrunners", "runners") == []


async def test_an_object_without_finalizers_is_absent(api, cluster, stuck):
    await cluster.free_finalizer(stuck, OURS)
    assert await cluster.free_finalizer(await cluster.ephemeral_runner("runners", "linux-0"), OURS) is False


@pytest.mark.parametrize(
    ("order", "released", "left"),
    [
        pytest.param((ARC_S, OURS), ARC_S, OURS, id="its-place-is-empty"),
        pytest.param((OURS, ARC_S), OURS, ARC_S, id="its-place-is-another-s"),
    ],
)
async def test_a_finalizer_that_moved_in_the_list_is_found_and_the_others_stay(api, cluster, order, released, left):
    api.control.ephemeral_runner("runners", "linux-0", finalizers=order)
    api.control.delete("ephemeralrunners", "runners", "linux-0")
    read = await cluster.ephemeral_runner("runners", "linux-0")
    api.control.release("ephemeralrunners", "runners", "linux-0", released)
    with pytest.raises(ConflictError):
        await cluster.free_finalizer(read, OURS)
    assert finalizers(api) == [left]


async def test_another_object_of_the_same_name_keeps_its_finalizers(api, cluster, stuck):
    with pytest.raises(ConflictError):
        await cluster.free_finalizer(stuck._replace(uid="another"), OURS)
    assert finalizers(api) == [ARC_S, OURS]


async def test_an_object_that_changed_since_it_was_read_keeps_its_finalizers(api, cluster, stuck):
    """Its finalizers are what they were, and something else is not: look again."""
    api.control.set_status("ephemeralrunners", "runners", "linux-0", jobId="8f-a1")
    with pytest.raises(ConflictError):
        await cluster.free_finalizer(stuck, OURS)
    assert finalizers(api) == [ARC_S, OURS]


async def test_releasing_a_finalizer_of_an_absent_object_succeeds(api, cluster, stuck):
    api.control.release("ephemeralrunners", "runners", "linux-0")
    assert await cluster.free_finalizer(stuck, OURS) is False


async def test_no_finalizer_of_an_object_that_is_not_being_deleted_is_released(api, cluster):
    api.control.ephemeral_runner("runners", "linux-0", finalizers=(ARC_S, OURS))
    with pytest.raises(ConflictError, match="not being deleted"):
        await cluster.free_finalizer(await cluster.ephemeral_runner("runners", "linux-0"), OURS)
    assert finalizers(api) == [ARC_S, OURS]


async def test_releasing_a_finalizer_needs_permission(worker, stuck):
    with pytest.raises(ClusterForbiddenError) as denied:
        await worker.free_finalizer(stuck, OURS)
    assert (denied.value.verb, denied.value.resource) == ("patch", "ephemeralrunners.actions.github.com")
