"""Views of namespaces, written by watches that may be late, interrupted or concurrent."""

from __future__ import annotations

import pytest

from ghapp.pods.end_store import PodEnd, PodEnds
from ghapp.pods.pod import Container, Ended, EphemeralRunner, Owner, Pod
from ghapp.pods.store import SNAPSHOT_KEPT_SECONDS, PodChange, Pods
from ghapp.store import keys
from ghapp.store.quarantine import Quarantine
from tests.support.snapshots import record_snapshot

NOW = 1_790_000_000.25
NS = "runners"


def pod(name="a", uid="uid-a", version="100", **changes):
    return Pod(NS, name, uid, version, NOW - 60)._replace(**changes)


def runner(name="a", uid="uid-o", version="100", **changes):
    return EphemeralRunner(NS, name, uid, version, NOW - 60)._replace(**changes)


FULL_POD = pod(
    phase="Running",
    node="node-1",
    labels={"app": "runner"},
    owners=(Owner("EphemeralRunner", "a", "uid-o"),),
    service_account="a",
    reason="Evicted",
    message="low on memory",
    disruption="PreemptionByScheduler",
    deleting_since=NOW,
    runner=Container("runner", ended=Ended(137, 9, "OOMKilled", "", NOW - 50, NOW), last_ended=Ended(0), restarts=2),
)
FULL_RUNNER = runner(
    phase="Running", runner_id=3, runner_name="a", job_id="42", finalizers=("x", "y"), failures=1, org="acme"
)


async def test_a_view_is_read_back_unchanged(redis):
    await record_snapshot(Pods(redis), NS, [FULL_POD, pod("b")], [FULL_RUNNER], NOW)
    assert await Pods(redis).all(NS) == ({"a": FULL_POD, "b": pod("b")}, {"a": FULL_RUNNER}, NOW, 0.0, True)
    assert await Pods(redis).all("elsewhere") is None


async def test_before_the_first_list_there_is_no_view_and_an_event_creates_none(redis):
    pods = Pods(redis)
    assert await pods.put(NS, pod()) is False
    assert await pods.touch_pods(NS, NOW) is False
    assert await pods.drop(NS, "a", "uid-a") is False
    assert await pods.all(NS) is None


async def test_an_empty_namespace_has_a_view(redis):
    await record_snapshot(Pods(redis), NS, [], [], NOW)
    assert await Pods(redis).all(NS) == ({}, {}, NOW, 0.0, True)


async def test_pods_missing_from_a_complete_list_are_removed(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod("a"), pod("b")], [runner("a"), runner("b")], NOW)
    await record_snapshot(pods, NS, [pod("b")], [runner("c")], NOW + 1)
    view = await pods.all(NS)
    assert (set(view.pods), set(view.objects), view.seen_at) == ({"b"}, {"c"}, NOW + 1)


@pytest.mark.parametrize("count", [0, 1, 10_000])
async def test_a_list_of_any_length_is_recorded_whole(redis, count):
    await record_snapshot(Pods(redis), NS, [pod(f"p{each}") for each in range(count)], [], NOW)
    assert len((await Pods(redis).all(NS)).pods) == count


async def test_the_view_has_the_age_of_its_older_list(redis):
    pods = Pods(redis)
    await pods.replace_pods(NS, [pod()], NOW)
    assert await pods.all(NS) is None, "the objects were not listed yet"
    assert await pods.known(NS) == [pod()]
    await pods.replace_objects(NS, [runner()], NOW + 1)
    assert (await pods.all(NS)).seen_at == NOW
    await pods.touch_pods(NS, NOW + 5)
    view = await pods.all(NS)
    assert (view.seen_at, set(view.pods), set(view.objects)) == (NOW + 1, {"a"}, {"a"})


@pytest.mark.parametrize(
    ("version", "taken"),
    [("99", False), ("100", True), ("101", True), ("1000", True), ("9", False), ("opaque", True)],
)
async def test_a_late_event_does_not_undo_a_later_one(redis, version, taken):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod()], [runner()], NOW)
    for result in (pod(version=version, phase="Failed"), runner(version=version, phase="Failed")):
        assert await pods.put(NS, result) is taken
    view = await pods.all(NS)
    assert (view.pods["a"].phase == "Failed") is (view.objects["a"].phase == "Failed") is taken


async def test_an_event_adds_and_changes_one_and_leaves_the_rest(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod("a"), pod("b")], [runner("a")], NOW)
    changed, added = pod("a", version="101", phase="Running"), pod("c")
    for result in (changed, added):
        assert await pods.put(NS, result) is True
    assert await pods.all(NS) == ({"a": changed, "b": pod("b"), "c": added}, {"a": runner("a")}, NOW, 0.0, True)


async def test_a_deletion_removes_one_uid_and_keeps_successors_and_objects_of_the_same_name(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod("a"), pod("b")], [runner("a")], NOW)
    await pods.put(NS, pod("b", uid="uid-new", version="101"))
    assert await pods.drop(NS, "b", "uid-a") is False, "the uid is of the predecessor"
    assert await pods.drop(NS, "a", "uid-a") is True
    assert await pods.drop(NS, "a", "uid-a") is False
    view = await pods.all(NS)
    assert (set(view.pods), set(view.objects)) == ({"b"}, {"a"})
    assert await pods.drop(NS, "a", "uid-o") is True
    assert (await pods.all(NS)).objects == {}


async def test_changes_are_stored_in_order_with_the_ends_that_they_show(redis):
    pods, ends = Pods(redis), PodEnds(redis)
    await record_snapshot(pods, NS, [pod("a"), pod("b")], [], NOW)
    ended, vanished = PodEnd(FULL_POD), PodEnd(pod("b"), vanished=True)
    changes = [
        PodChange(pod("a", version="101"), end=ended),
        PodChange(pod("a", version="101"), deleted=True),
        PodChange(pod("a", "uid-new", "102")),
        PodChange(pod("b"), deleted=True, end=vanished),
    ]
    await pods.record(NS, changes)
    assert (await pods.all(NS)).pods == {"a": pod("a", "uid-new", "102")}
    assert [each.end for each in await ends.unrecorded(NS, None, 9)] == [ended, vanished]
    assert SNAPSHOT_KEPT_SECONDS - 5 < await redis.ttl(keys.pod_ends(NS)) <= SNAPSHOT_KEPT_SECONDS


async def test_a_list_is_stored_with_the_ends_that_it_shows(redis):
    await Pods(redis).replace_pods(NS, [FULL_POD], NOW, ends=[PodEnd(FULL_POD)])
    assert await Pods(redis).known(NS) == [FULL_POD]
    assert [each.end for each in await PodEnds(redis).unrecorded(NS, None, 9)] == [PodEnd(FULL_POD)]


async def test_ends_are_read_in_order_and_deleted_one_by_one(redis):
    pods, ends = Pods(redis), PodEnds(redis)
    await pods.record(NS, [PodChange(pod(each), end=PodEnd(pod(each))) for each in "abc"])
    first, second = await ends.unrecorded(NS, None, 2)
    (third,) = await ends.unrecorded(NS, second.id, 2)
    assert [each.end.pod.name for each in (first, second, third)] == ["a", "b", "c"]
    assert await ends.unrecorded(NS, third.id, 2) == []
    await ends.recorded(NS, second.id)
    assert await ends.unrecorded(NS, None, 9) == [first, third]
    assert (await ends.left(NS), await ends.left("elsewhere")) == (2, 0)


async def test_an_unreadable_end_is_set_aside_and_does_not_hide_the_next_one(redis):
    await redis.xadd(keys.pod_ends(NS), {"end": b"garbage"})
    await redis.xadd(keys.pod_ends(NS), {"other": b""})
    await Pods(redis).record(NS, [PodChange(pod(), end=PodEnd(pod()))])
    (found,) = await PodEnds(redis).unrecorded(NS, None, 2)
    assert found.end == PodEnd(pod())
    assert await PodEnds(redis).left(NS) == 1
    assert {each.row for each in await Quarantine(redis).all()} == {b"garbage", b""}


async def test_a_bookmark_refreshes_the_age_of_the_view(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod()], [], NOW)
    await pods.replace_objects(NS, [], NOW + 90)
    assert await pods.touch_pods(NS, NOW + 60) is True
    assert (await pods.all(NS)).seen_at == NOW + 60
    await pods.touch_pods(NS, NOW + 30)
    assert (await pods.all(NS)).seen_at == NOW + 30, "a time from a clock that had jumped ahead is corrected"


async def test_a_view_that_is_not_refreshed_expires(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod()], [], NOW)
    assert SNAPSHOT_KEPT_SECONDS - 5 < await redis.ttl(keys.pods(NS)) <= SNAPSHOT_KEPT_SECONDS
    await redis.expire(keys.pods(NS), 5)
    await pods.put(NS, pod("b"))
    assert await redis.ttl(keys.pods(NS)) <= 5
    await pods.touch_pods(NS, NOW)
    assert await redis.ttl(keys.pods(NS)) > 5


async def test_the_clock_offset_of_the_cluster_is_stored_with_the_view(redis):
    pods = Pods(redis)
    await pods.replace_pods(NS, [pod()], NOW, ahead=-300.0)
    await pods.replace_objects(NS, [], NOW, ahead=-299.5)
    assert (await pods.all(NS)).ahead == -299.5
    await pods.touch_objects(NS, NOW + 5, ahead=-301.0)
    assert (await pods.all(NS)).ahead == -301.0


async def test_objects_are_refreshed_separately_from_pods(redis):
    pods = Pods(redis)
    assert await pods.touch_objects(NS, NOW) is False
    await pods.replace_pods(NS, [], NOW)
    assert await pods.put(NS, runner()) is False, "an event is dropped before the first list of objects"
    await pods.replace_objects(NS, [], NOW)
    assert await pods.put(NS, runner()) is True
    await pods.touch_pods(NS, NOW + 60)
    assert await pods.touch_objects(NS, NOW + 30) is True
    assert await pods.seen_at(NS) == NOW + 30


class TestObjectsOfRunners:
    """Objects whose name differs from the name of their runner."""

    async def test_without_a_list_with_runner_names_the_answer_is_unknown(self, redis):
        pods = Pods(redis)
        assert await pods.objects_of_runner(NS, "linux-1") is None
        await pods.replace_objects(NS, [], NOW)
        assert await pods.objects_of_runner(NS, "linux-1") is None

    async def test_an_object_with_the_name_of_its_runner_is_not_indexed(self, redis):
        await Pods(redis).replace_objects(NS, [runner("a", runner_name="a"), runner("b")], NOW)
        assert await Pods(redis).objects_of_runner(NS, "a") == ((), NOW)

    async def test_other_objects_are_found_by_the_name_of_their_runner(self, redis):
        pods = Pods(redis)
        await pods.replace_objects(NS, [runner(each, f"uid-{each}", runner_name="linux-1") for each in "ab"], NOW)
        await pods.put(NS, runner("ab", "uid-ab", runner_name="linux-1"))
        await pods.put(NS, runner("ab", "uid-ab", "101", runner_name="linux-1"))
        await pods.put(NS, runner("c", "uid-c", runner_name="linux-2"))
        assert await pods.objects_of_runner(NS, "linux-1") == (("a", "b", "ab"), NOW)
        assert await pods.objects_of_runner(NS, "linux-2") == (("c",), NOW)
        assert await pods.objects_of_runner(NS, "linux-3") == ((), NOW)

    async def test_a_list_of_objects_removes_deleted_objects_and_a_list_of_pods_does_not(self, redis):
        pods = Pods(redis)
        await pods.replace_objects(NS, [runner(runner_name="linux-1"), runner("b", "uid-b")], NOW)
        await pods.replace_pods(NS, [pod()], NOW)
        assert await pods.objects_of_runner(NS, "linux-1") == (("a",), NOW)
        await pods.replace_objects(NS, [runner("b", "uid-b")], NOW + 1)
        assert await pods.objects_of_runner(NS, "linux-1") == ((), NOW + 1)
        assert set((await pods.all(NS)).pods) == {"a"}


async def test_a_partial_read_has_the_named_runners_and_their_objects(redis):
    pods, named_object = Pods(redis), runner("arc-1", runner_name="linux-1")
    pod_of_named_object = pod("arc-1", uid="uid-b")
    await record_snapshot(
        pods, NS, [FULL_POD, pod("b"), pod_of_named_object], [FULL_RUNNER, runner("c"), named_object], NOW
    )
    found = await pods.some(NS, ["a", "linux-1", "unknown"])
    assert found == (
        {"a": FULL_POD, "arc-1": pod_of_named_object},
        {"a": FULL_RUNNER, "arc-1": named_object},
        NOW,
        0.0,
        True,
    )
    assert await pods.some("elsewhere", ["a"]) is None


@pytest.mark.parametrize("served", [True, False])
async def test_a_view_records_whether_objects_could_be_listed(redis, served):
    pods = Pods(redis)
    await pods.replace_pods(NS, [], NOW)
    await pods.replace_objects(NS, [], NOW, served=served)
    assert (await pods.some(NS, [])).lists_objects is (await pods.all(NS)).lists_objects is served


async def test_a_view_of_an_earlier_version_lists_objects_if_it_has_any(redis):
    pods = Pods(redis)
    for objects in ([], [FULL_RUNNER]):
        await record_snapshot(pods, NS, [], objects, NOW)
        await redis.hdel(keys.pods(NS), "objects-served")
        assert (await pods.some(NS, [])).lists_objects is bool(objects)
