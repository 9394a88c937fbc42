"""The watch's caches: the objects of ARC, and the cluster's clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import httpx2
import pytest
from structlog.testing import capture_logs

from ghapp.cluster import failure_grace, watch
from ghapp.cluster.api import Cluster
from ghapp.cluster.watch import cancel_tasks
from ghapp.cluster.watch_events import Listed, WatchChange, WatchFailure
from ghapp.decoding import LeftOut
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ResourceMissingError, StoreUnavailableError
from ghapp.pods.degraded_sources import changes_source, objects_source
from ghapp.pods.store import DegradedSources, Pods
from ghapp.sandbox.cluster.rbac import RbacRule
from ghapp.settings import PoolSettings, Settings
from ghapp.store.stores import stores_over
from jobs.pods.ephemeralrunner_cache import EphemeralRunnerCache
from jobs.pods.namespace_cache import ClusterClock
from tests.support.cluster import SteeredCluster
from tests.support.policy import replace_pools

NS = "runners"
NOW = 1_790_000_000.0
ARC = PoolSettings("acme", "linux", replacer="arc", namespace=NS)


@pytest.fixture
def api():
    with SteeredCluster() as server:
        server.control.namespace(NS)
        yield server


@asynccontextmanager
async def cluster_of_user(api, user="admin"):
    headers = {"Authorization": f"Bearer {api.token(user)}"}
    async with httpx2.AsyncClient(base_url=api.url, headers=headers, trust_env=False) as client:
        yield Cluster(client)


@pytest.fixture
async def cluster(api):
    async with cluster_of_user(api) as found:
        yield found


def view_of(cluster, redis, *pools, leads=lambda: True, clock=time.time, namespace=NS):
    settings = Settings.read({})
    replace_pools(settings, pools or (ARC,))
    return EphemeralRunnerCache(namespace, settings, cluster, stores_over(redis), leads, clock)


@asynccontextmanager
async def watching(cluster, redis, **how):
    """Runs the cache with an empty list of pods, so that a view exists."""
    await Pods(redis).replace_pods(NS, [], time.time())
    task = asyncio.create_task(view_of(cluster, redis, **how).run())
    try:
        yield
    finally:
        await cancel_tasks([task])


async def until(holds):
    async with asyncio.timeout(20):
        while not (found := await holds()):  # noqa: ASYNC110 - Redis sends no notice
            await asyncio.sleep(0.01)
        return found


async def shown(redis, api):
    """Waits until the view equals the cluster's objects."""

    async def same():
        there = {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in api.control.objects("ephemeralrunners")
        }
        view = await Pods(redis).all(NS)
        return view is not None and {name: each.version for name, each in view.objects.items()} == there

    await until(same)


def asked(api, verb):
    return [each for each in api.control.calls() if (each.verb, each.resource) == (verb, "ephemeralrunners")]


async def test_objects_are_listed_once_and_then_watched(api, cluster, redis):
    for number in range(3):
        api.control.ephemeral_runner(NS, f"linux-{number}")
    async with watching(cluster, redis):
        await shown(redis, api)
        api.control.set_status("ephemeralrunners", NS, "linux-0", jobId="8f-a1")
        api.control.ephemeral_runner(NS, "linux-3")
        api.control.delete("ephemeralrunners", NS, "linux-1")
        api.control.release("ephemeralrunners", NS, "linux-1")
        await shown(redis, api)
        view = await Pods(redis).all(NS)
    assert set(view.objects) == {"linux-0", "linux-2", "linux-3"}
    assert view.objects["linux-0"].job_id == "8f-a1"
    assert len(asked(api, "list")) == 1, (
        "lists are expensive: each has every pod's template, and a fleet changes constantly"
    )


@pytest.mark.parametrize("how", ["orderly", "broken", "reset", "half", "expired"])
async def test_a_watch_that_is_interrupted_after_every_event_stays_correct(api, cluster, redis, how):
    api.control.ephemeral_runner(NS, "linux-0")
    async with watching(cluster, redis):
        await shown(redis, api)
        api.control.cut_watches_after(1, how, times=None)
        for number in range(1, 4):
            api.control.ephemeral_runner(NS, f"linux-{number}")
            api.control.set_status("ephemeralrunners", NS, f"linux-{number - 1}", jobId=f"{number}")
        await shown(redis, api)


async def test_without_arc_the_view_has_no_objects_and_stays_fresh(api, cluster, redis):
    api.control.uninstall("ephemeralrunners")
    async with watching(cluster, redis):
        view = await until(lambda: Pods(redis).all(NS))
    assert view.objects == {}


async def test_without_the_right_to_watch_objects_are_listed_repeatedly(api, redis, monkeypatch):
    """A Role from before objects were watched has only the right to list."""
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.01)
    api.control.user("old", [RbacRule(("list",), ("actions.github.com",), ("ephemeralrunners",), (NS,))])
    api.control.ephemeral_runner(NS, "linux-0")
    with capture_logs() as logs:
        async with cluster_of_user(api, "old") as cluster, watching(cluster, redis):
            await shown(redis, api)
            api.control.ephemeral_runner(NS, "linux-1")
            await shown(redis, api)
            await until(lambda: _listed_often(api))
    (line,) = logs
    assert "RBAC lacks watch on ephemeralrunners" in line["why"]


async def _listed_often(api):
    return len(asked(api, "list")) > 5


FORBIDDEN = {verb: ClusterForbiddenError("no", verb=verb, resource="ephemeralrunners") for verb in ("list", "watch")}
AWAY = ClusterUnavailableError("away")
NO_CRD = ResourceMissingError("no CRD")
ELSEWHERE = PoolSettings("acme", "gpu", replacer="pods", namespace=NS)


@pytest.mark.parametrize(
    ("error", "pool", "has_none", "is_missed"),
    [
        (FORBIDDEN["list"], ARC, False, True),
        (FORBIDDEN["list"], ELSEWHERE, True, False),
        (FORBIDDEN["watch"], ELSEWHERE, False, True),
        (AWAY, ELSEWHERE, False, True),
        (NO_CRD, ARC, True, True),
        (NO_CRD, ELSEWHERE, True, False),
    ],
    ids=[
        "list forbidden with arc",
        "list forbidden without arc",
        "watch forbidden",
        "unavailable",
        "no CRD with arc",
        "no CRD without arc",
    ],
)
async def test_an_unreadable_resource_ages_and_does_not_count_as_deleted(redis, error, pool, has_none, is_missed):
    arc_elsewhere = PoolSettings("acme", "arc", replacer="arc", namespace="elsewhere")
    view = view_of(None, redis, pool, arc_elsewhere, clock=lambda: NOW)
    await Pods(redis).replace_pods(NS, [], NOW)
    with capture_logs() as logs:
        for _ in range(3):
            await view.record(WatchFailure(error))
    assert (await Pods(redis).seen_at(NS) is not None) is has_none
    assert [each["event"] for each in logs] == (["watch failed"] if is_missed else []), (
        "logged once until the failure is over"
    )


async def test_a_bookmark_refreshes_the_view_and_ends_a_failure(redis):
    view = view_of(None, redis, clock=lambda: NOW)
    await Pods(redis).replace_pods(NS, [], NOW)
    await Pods(redis).replace_objects(NS, [], NOW - 100)
    with capture_logs() as logs:
        for _ in range(2):
            await view.record(WatchFailure(AWAY))
            await view.record(WatchChange("bookmark", None, "9"))
    assert await Pods(redis).seen_at(NS) == NOW
    assert len(logs) == 2


async def test_an_object_that_cannot_be_read_stays_as_it_was_known(api, cluster, redis):
    for number in range(2):
        api.control.ephemeral_runner(NS, f"linux-{number}")
    objects = (await cluster.ephemeral_runners(NS)).items
    view = view_of(None, redis, clock=lambda: NOW)
    await Pods(redis).replace_pods(NS, [], NOW)
    await Pods(redis).replace_objects(NS, objects, NOW)
    odd = LeftOut(
        "ephemeral-runner", "items[0].metadata", "odd", is_row=True, row={"metadata": {"uid": objects[0].uid}}
    )
    await view.record(Listed([], "9", None, (odd,)))
    assert (await Pods(redis).all(NS)).objects.keys() == {objects[0].name}


async def test_a_watch_without_the_lock_records_nothing(api, cluster, redis):
    api.control.ephemeral_runner(NS, "linux-0")
    await view_of(cluster, redis, leads=lambda: False).run()
    await Pods(redis).replace_pods(NS, [], NOW)
    assert await Pods(redis).all(NS) is None


async def test_a_temporary_redis_outage_loses_nothing(api, cluster, redis, monkeypatch):
    monkeypatch.setattr("jobs.pods.namespace_cache.WAIT_SECONDS", 0.01)
    await Pods(redis).replace_pods(NS, [], NOW)
    replace, calls = Pods.replace_objects, []

    async def away_once(self, *what, **how):
        calls.append(what)
        if len(calls) == 1:
            raise StoreUnavailableError
        await replace(self, *what, **how)

    monkeypatch.setattr(Pods, "replace_objects", away_once)
    api.control.ephemeral_runner(NS, "linux-0")
    task = asyncio.create_task(view_of(cluster, redis).keep())
    await shown(redis, api)
    await cancel_tasks([task])


async def test_a_view_records_the_clock_offset_of_the_cluster(redis):
    view = view_of(None, redis, clock=lambda: NOW)
    await Pods(redis).replace_pods(NS, [], NOW)
    await view.record(Listed([], "7", server_time=NOW + 300))
    assert (await Pods(redis).all(NS)).ahead == pytest.approx(300.0, abs=5.0)


def test_the_clusters_clock_is_independent_of_jumps_of_ours():
    ours, beat = [NOW], [50.0]
    clock = ClusterClock(lambda: ours[0], lambda: beat[0])
    assert clock.ahead() == 0.0
    clock.update(NOW - 300)
    assert clock.ahead() == -300.0
    beat[0], ours[0] = 60.0, NOW + 10
    assert clock.ahead() == -300.0
    ours[0] += 3600
    assert clock.ahead() == -3900.0
    clock.update(None)
    assert clock.ahead() == 0.0


class TestDegradedSourcesForTheReport:
    PLACE = "ephemeralrunners in runners"

    async def kept(self, redis):
        return await DegradedSources(redis).of([self.PLACE])

    async def test_a_missing_crd_that_a_pool_needs_is_reported(self, cluster, redis):
        missing = WatchFailure(ResourceMissingError("install its CRD"))
        await view_of(cluster, redis).record(missing)
        assert await self.kept(redis) == {self.PLACE: "install its CRD"}

    async def test_a_missing_crd_is_not_reported_for_other_pools(self, cluster, redis):
        missing = WatchFailure(ResourceMissingError("install its CRD"))
        await view_of(cluster, redis, PoolSettings("acme", "linux", replacer="pods", namespace=NS)).record(missing)
        assert await self.kept(redis) == {}

    async def test_an_unavailable_cluster_is_reported_by_the_age_of_the_view_alone(self, cluster, redis):
        await view_of(cluster, redis).record(WatchFailure(ClusterUnavailableError("503")))
        assert await self.kept(redis) == {}

    async def test_a_degraded_source_is_cleared_by_the_first_success_even_of_another_leader(self, cluster, redis):
        lacks = ClusterForbiddenError("RBAC lacks list", verb="list", resource="ephemeralrunners")
        await view_of(cluster, redis).record(WatchFailure(lacks))
        assert await self.kept(redis) == {self.PLACE: "RBAC lacks list"}
        await view_of(cluster, redis).record(WatchChange("bookmark", None, "1"))
        assert await self.kept(redis) == {}


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_each_verb_that_is_refused_hides_the_objects_by_name_until_it_is_permitted(
    api, cluster, redis, monkeypatch, verb
):
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.05)
    place = {"list": objects_source(NS), "watch": changes_source(NS)}[verb]
    with api.control.fails(403, verbs=[verb], resources=["ephemeralrunners"]):
        async with watching(cluster, redis):
            degraded = await until(lambda: DegradedSources(redis).of([objects_source(NS), changes_source(NS)]))
            assert [*degraded] == [place]
            assert degraded[place].startswith(f"{verb} ephemeralrunners.actions.github.com {NS}: forbidden: ")
            api.control.all_is_well()
            api.control.ephemeral_runner(NS, "linux-1")
            await shown(redis, api)
            api.control.set_status("ephemeralrunners", NS, "linux-1", jobId="8f-a1")
            await until(lambda: _is_over(redis, place))


async def _is_over(redis, place):
    return await DegradedSources(redis).of([place]) == {}


@pytest.mark.parametrize(
    ("event", "lists"), [(Listed([], "7"), True), (WatchFailure(ResourceMissingError("no CRD")), False)]
)
async def test_a_view_records_whether_objects_can_be_listed(redis, event, lists):
    """Without the CRD, an object missing from the view is not known to be deleted."""
    await Pods(redis).replace_pods(NS, [], NOW)
    await view_of(None, redis, clock=lambda: NOW).record(event)
    assert (await Pods(redis).all(NS)).lists_objects is lists


@pytest.mark.parametrize(("seconds", "is_reported"), [(59.9, False), (60.0, True)])
async def test_an_outage_is_reported_only_if_it_lasts_and_a_refusal_at_once(redis, seconds, is_reported):
    """While an API server restarts, it does not answer."""
    now, place = [0.0], objects_source(NS)
    view = view_of(None, redis, clock=lambda: NOW)
    view._failures._grace = failure_grace.FailureGrace(lambda: now[0])
    await view.record(WatchFailure(AWAY))
    now[0] = seconds
    await view.record(WatchFailure(AWAY))
    assert bool(await DegradedSources(redis).of([place])) is is_reported
    await view.record(WatchFailure(FORBIDDEN["list"]))
    assert await DegradedSources(redis).of([place]) == {place: "no"}


async def test_a_success_between_failures_restarts_the_grace_time(redis):
    now = [0.0]
    view = view_of(None, redis, clock=lambda: NOW)
    view._failures._grace = failure_grace.FailureGrace(lambda: now[0])
    await view.record(WatchFailure(AWAY))
    await view.record(WatchChange("bookmark", None, "9"))
    now[0] = 70.0
    await view.record(WatchFailure(AWAY))
    assert await DegradedSources(redis).of([objects_source(NS)]) == {}
