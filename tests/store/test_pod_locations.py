"""The namespaces in which the pods of each pool were seen."""

from ghapp.pods.pod import EphemeralRunner, Pod
from ghapp.pods.store import LOCATIONS_KEPT_SECONDS, PodLocations, Pods
from ghapp.store import keys
from tests.support.snapshots import record_snapshot

NOW = 1_790_000_000.0


async def test_a_location_is_stored_by_pool_and_namespace(redis):
    places = PodLocations(redis)
    await places.seen(7, [("linux", "a"), ("with space, 4vcpu", "b")], NOW)
    assert await places.all(7) == {("linux", "a"), ("with space, 4vcpu", "b")}
    asked = [(7, "linux", "a"), (7, "linux", "b"), (7, "mac", "a"), (8, "linux", "a")]
    assert [await places.is_known(*each) for each in asked] == [True, False, False, False]


async def test_a_location_expires_after_a_month_and_an_empty_list_stores_none(redis):
    await PodLocations(redis).seen(7, [], NOW)
    assert await redis.exists(keys.places(7)) == 0
    await PodLocations(redis).seen(7, [("linux", "a")], NOW)
    assert 0 < await redis.ttl(keys.places(7)) <= LOCATIONS_KEPT_SECONDS


async def test_a_view_is_searched_for_pods_and_objects_by_name(redis):
    pods = Pods(redis)
    assert await pods.shows_any("runners", ["a"]) is False
    objects = [EphemeralRunner("runners", "b", "u", "1", NOW)]
    await record_snapshot(pods, "runners", [Pod("runners", "a", "u", "1", NOW)], objects, NOW)
    asked = [["a"], ["x", "b"], ["x"], []]
    assert [await pods.shows_any("runners", each) for each in asked] == [True, True, False, False]
    assert await pods.shows_any("elsewhere", ["a"]) is False
    assert await pods.shows_any("runners", [f"n{number}" for number in range(20_000)] + ["a"]) is True
