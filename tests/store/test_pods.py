"""Views of namespaces, kept by a watch that may be late, cut off, or not alone."""

from __future__ import annotations

import pytest

from ghapp.health.pods.pod import Container, Ended, EphemeralRunner, Owner, Pod
from ghapp.store import keys
from ghapp.store.pods import KEPT_SECONDS, Pods
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


async def test_a_view_comes_back_as_it_was_seen(redis):
    await record_snapshot(Pods(redis), NS, [FULL_POD, pod("b")], [FULL_RUNNER], NOW)
    assert await Pods(redis).all(NS) == ({"a": FULL_POD, "b": pod("b")}, {"a": FULL_RUNNER}, NOW, 0.0, True)
    assert await Pods(redis).all("elsewhere") is None


async def test_before_the_first_list_there_is_no_view_and_no_event_makes_one(redis):
    pods = Pods(redis)
    assert await pods.put(NS, pod()) is False
    assert await pods.touch_pods(NS, NOW) is False
    assert await pods.drop(NS, "a", "uid-a") is False
    assert await pods.all(NS) is None


async def test_an_empty_namespace_is_a_view_too(redis):
    await record_snapshot(Pods(redis), NS, [], [], NOW)
    assert await Pods(redis).all(NS) == ({}, {}, NOW, 0.0, True)


async def test_what_a_complete_list_lacks_is_gone(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod("a"), pod("b")], [runner("a"), runner("b")], NOW)
    await record_snapshot(pods, NS, [pod("b")], [runner("c")], NOW + 1)
    view = await pods.all(NS)
    assert (set(view.pods), set(view.objects), view.seen_at) == ({"b"}, {"c"}, NOW + 1)


@pytest.mark.parametrize("count", [0, 1, 10_000])
async def test_a_list_of_any_length_is_recorded_whole(redis, count):
    await record_snapshot(Pods(redis), NS, [pod(f"p{each}") for each in range(count)], [], NOW)
    assert len((await Pods(redis).all(NS)).pods) == count


async def test_the_view_is_as_old_as_its_older_half(redis):
    pods = Pods(redis)
    await pods.replace_pods(NS, [pod()], NOW)
    assert await pods.all(NS) is None, "nobody has listed the objects yet"
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


async def test_one_that_is_gone_goes_and_its_successor_and_namesake_stay(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod("a"), pod("b")], [runner("a")], NOW)
    await pods.put(NS, pod("b", uid="uid-new", version="101"))
    assert await pods.drop(NS, "b", "uid-a") is False, "that was its predecessor"
    assert await pods.drop(NS, "a", "uid-a") is True
    assert await pods.drop(NS, "a", "uid-a") is False
    view = await pods.all(NS)
    assert (set(view.pods), set(view.objects)) == ({"b"}, {"a"})
    assert await pods.drop(NS, "a", "uid-o") is True
    assert (await pods.all(NS)).objects == {}


async def test_a_bookmark_says_that_the_view_is_still_true(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod()], [], NOW)
    await pods.replace_objects(NS, [], NOW + 90)
    assert await pods.touch_pods(NS, NOW + 60) is True
    assert (await pods.all(NS)).seen_at == NOW + 60
    await pods.touch_pods(NS, NOW + 30)
    assert (await pods.all(NS)).seen_at == NOW + 30, "a clock that had jumped ahead is not believed for ever"


async def test_a_view_that_is_not_refreshed_expires(redis):
    pods = Pods(redis)
    await record_snapshot(pods, NS, [pod()], [], NOW)
    assert KEPT_SECONDS - 5 < await redis.ttl(keys.pods(NS)) <= KEPT_SECONDS
    await redis.expire(keys.pods(NS), 5)
    await pods.put(NS, pod("b"))
    assert await redis.ttl(keys.pods(NS)) <= 5
    await pods.touch_pods(NS, NOW)
    assert await redis.ttl(keys.pods(NS)) > 5


async def test_how_far_the_clusters_clock_is_ahead_is_kept_with_the_view(redis):
    pods = Pods(redis)
    await pods.replace_pods(NS, [pod()], NOW, ahead=-300.0)
    await pods.replace_objects(NS, [], NOW, ahead=-299.5)
    assert (await pods.all(NS)).ahead == -299.5
    await pods.touch_objects(NS, NOW + 5, ahead=-301.0)
    assert (await pods.all(NS)).ahead == -301.0


async def test_objects_are_refreshed_by_themselves(redis):
    pods = Pods(redis)
    assert await pods.touch_objects(NS, NOW) is False
    await pods.replace_pods(NS, [], NOW)
    assert await pods.put(NS, runner()) is False, "without a list of them there is nothing to add one to"
    await pods.replace_objects(NS, [], NOW)
    assert await pods.put(NS, runner()) is True
    await pods.touch_pods(NS, NOW + 60)
    assert await pods.touch_objects(NS, NOW + 30) is True
    assert await pods.seen_at(NS) == NOW + 30


class TestBearers:
    """Objects that are not called as their runners are."""

    async def test_nothing_is_known_without_a_list_or_by_one_that_has_none(self, redis):
        pods = Pods(redis)
        assert await pods.objects_of_runner(NS, "linux-1") is None
        await pods.replace_objects(NS, [], NOW)
        assert await pods.objects_of_runner(NS, "linux-1") is None

    async def test_one_that_is_called_as_its_runner_needs_no_word(self, redis):
        await Pods(redis).replace_objects(NS, [runner("a", runner_name="a"), runner("b")], NOW)
        assert await Pods(redis).objects_of_runner(NS, "a") == ((), NOW)

    async def test_others_are_found_by_their_runners_name(self, redis):
        pods = Pods(redis)
        await pods.replace_objects(NS, [runner(each, f"uid-{each}", runner_name="linux-1") for each in "ab"], NOW)
        await pods.put(NS, runner("ab", "uid-ab", runner_name="linux-1"))
        await pods.put(NS, runner("ab", "uid-ab", "101", runner_name="linux-1"))
        await pods.put(NS, runner("c", "uid-c", runner_name="linux-2"))
        assert await pods.objects_of_runner(NS, "linux-1") == (("a", "b", "ab"), NOW)
        assert await pods.objects_of_runner(NS, "linux-2") == (("c",), NOW)
        assert await pods.objects_of_runner(NS, "linux-3") == ((), NOW)

    async def test_a_list_forgets_those_that_are_gone_and_one_of_pods_does_not(self, redis):
        pods = Pods(redis)
        await pods.replace_objects(NS, [runner(runner_name="linux-1"), runner("b", "uid-b")], NOW)
        await pods.replace_pods(NS, [pod()], NOW)
        assert await pods.objects_of_runner(NS, "linux-1") == (("a",), NOW)
        await pods.replace_objects(NS, [runner("b", "uid-b")], NOW + 1)
        assert await pods.objects_of_runner(NS, "linux-1") == ((), NOW + 1)
        assert set((await pods.all(NS)).pods) == {"a"}


async def test_a_part_of_the_view_holds_these_runners_and_the_objects_that_bear_them(redis):
    pods, bearer = Pods(redis), runner("arc-1", runner_name="linux-1")
    pod_of_bearer = pod("arc-1", uid="uid-b")
    await record_snapshot(pods, NS, [FULL_POD, pod("b"), pod_of_bearer], [FULL_RUNNER, runner("c"), bearer], NOW)
    found = await pods.some(NS, ["a", "linux-1", "unknown"])
    assert found == ({"a": FULL_POD, "arc-1": pod_of_bearer}, {"a": FULL_RUNNER, "arc-1": bearer}, NOW, 0.0, True)
    assert await pods.some("elsewhere", ["a"]) is None


@pytest.mark.parametrize("served", [True, False])
async def test_a_view_says_whether_objects_could_be_listed(redis, served):
    pods = Pods(redis)
    await pods.replace_pods(NS, [], NOW)
    await pods.replace_objects(NS, [], NOW, served=served)
    assert (await pods.some(NS, [])).lists_objects is (await pods.all(NS)).lists_objects is served


async def test_a_view_of_a_version_that_did_not_say_so_lists_objects_where_it_has_any(redis):
    pods = Pods(redis)
    for objects in ([], [FULL_RUNNER]):
        await record_snapshot(pods, NS, [], objects, NOW)
        await redis.hdel(keys.pods(NS), "objects-served")
        assert (await pods.some(NS, [])).lists_objects is bool(objects)
