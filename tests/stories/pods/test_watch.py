"""Deaths recorded by a watch that is interrupted, killed and replaced, with a strict API server."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import httpx2
import pytest
from structlog.testing import capture_logs

from ghapp.cluster import failure_grace, watch
from ghapp.cluster.access import needed_near
from ghapp.cluster.api import Cluster
from ghapp.cluster.failure_grace import FailureGrace
from ghapp.cluster.watch import cancel_tasks
from ghapp.cluster.watch_events import Listed, WatchChange, WatchFailure
from ghapp.deaths.cause import Cause
from ghapp.deaths.store import Deaths, identity
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ResourceMissingError, StoreUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.notifications.event_ids import death_id
from ghapp.pods.degraded_sources import deaths_source, logs_source, pods_source, sources_of
from ghapp.pods.end_store import OwnDeletions, PodEnd, PodEnds
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.pods.store import DegradedSources, Pods
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Evidence, Registration
from ghapp.runners.observations import SeenBy, job_started, registration_seen
from ghapp.runners.store import Runners
from ghapp.sandbox.cluster.rbac import RbacRule
from ghapp.settings import PoolSettings, Settings
from ghapp.store import keys
from ghapp.store.connect import connect_sync
from ghapp.store.metric_counters import MetricCounters
from ghapp.store.stores import stores_over
from jobs.deaths import death_recorder
from jobs.deaths.death_recorder import DeathRecorder
from jobs.pods import pod_cache
from jobs.pods.pod_cache import PodCache
from tests.support.cluster import SteeredCluster
from tests.support.policy import replace_pools

NS, INSTALLATION = "runners", 7
LINE = "runner pod terminated"


@pytest.fixture
def api():
    with SteeredCluster() as server:
        server.control.namespace(NS)
        yield server


@pytest.fixture
async def cluster(api):
    headers = {"Authorization": f"Bearer {api.token('admin')}"}
    async with httpx2.AsyncClient(base_url=api.url, headers=headers, trust_env=False) as client:
        yield Cluster(client)


@pytest.fixture
async def recorder(redis, redis_url, cluster):
    await Installations(redis).put(Installation(INSTALLATION, "acme", 1))
    settings = Settings.read({})
    replace_pools(settings, (PoolSettings("acme", "linux", namespace=NS),))
    with connect_sync(redis_url) as queue_redis:
        yield DeathRecorder(settings, cluster, stores_over(redis), queue_redis)


@pytest.fixture
def asked(monkeypatch):
    """The jobs that were enqueued."""
    found = []
    monkeypatch.setattr(jobs, "enqueue", lambda _queue_redis, *what, **how: found.append((*what, how["key"])))
    return found


@asynccontextmanager
async def watching(recorder, leads=lambda: True):
    view = PodCache(NS, recorder, leads)
    task = asyncio.create_task(view.run())
    try:
        yield view
    finally:
        await cancel_tasks([task])


async def until(holds):
    async with asyncio.timeout(20):
        while not (found := await holds()):  # noqa: ASYNC110 - Redis sends no notice
            await asyncio.sleep(0.01)
        return found


async def deaths(recorder):
    found = await Deaths(recorder.stores.redis).recent(INSTALLATION, 0.0, 1000)
    return {each.runner_name: each for each in found}


async def seen(recorder, api):
    """Waits until the view equals the cluster's pods, and all ends are recorded."""

    async def same():
        there = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in api.control.objects("pods")}
        known = {each.name: each.version for each in await Pods(recorder.stores.redis).known(NS)}
        return known == there and not await PodEnds(recorder.stores.redis).left(NS)

    await until(same)


async def unrecorded(recorder):
    """The ends that are stored and not recorded yet."""
    return [each.end for each in await PodEnds(recorder.stores.redis).unrecorded(NS, None, 1000)]


async def death_of(recorder, name):
    return await until(lambda: _found(recorder, name))


async def _found(recorder, name):
    return (await deaths(recorder)).get(name)


async def test_the_exit_of_a_runner_is_stored_with_its_last_lines_and_logged_in_one_line(recorder, api, asked, redis):
    labels = ("self-hosted", "linux")
    shown = Registration(42, "linux-1", "linux", True, True, labels, ("linux",), ephemeral=True)
    await Runners(redis).revise(INSTALLATION, {42: lambda _: registration_seen(None, shown, 1.0, by=SeenBy.LIST)})
    api.control.pod(NS, "linux-1", node="node-9")
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
            api.control.container_ends(NS, "linux-1", exit_code=137, reason="OOMKilled", log=["one", "two"])
            death = await death_of(recorder, "linux-1")
            await seen(recorder, api)
    assert (death.cause, death.exit_code, death.reason) == (Cause.HOST_OOM, 137, "OOMKilled")
    assert (death.node, death.namespace, death.pool, death.runner_id) == ("node-9", NS, "linux", 42)
    assert death.runner_log == ("one", "two")
    (line,) = [each for each in logs if each["event"] == LINE]
    assert {key: line[key] for key in ("pod", "exitCode", "signal", "reason", "cause", "runner", "org")} == {
        "pod": "linux-1",
        "exitCode": 137,
        "signal": 9,
        "reason": "OOMKilled",
        "cause": "host-oom",
        "runner": "linux-1",
        "org": "acme",
    }
    key = f"post-mortem-{death_id(Installation(INSTALLATION, 'acme', 1), death)}"
    assert asked == [(JobName.POST_MORTEM, INSTALLATION, identity(death), key)]
    assert await MetricCounters(redis).all() == {'ghapp_deaths_total{cause="host-oom",org="acme",pool="linux"}': 1}


@pytest.mark.parametrize("by_ghapp", [True, False], ids=["deleted by ghapp", "deleted by another client"])
async def test_a_runner_replaced_by_ghapp_is_logged_and_not_recorded_as_a_death(recorder, api, asked, redis, by_ghapp):
    api.control.pod(NS, "linux-1")
    (before,) = (await recorder.cluster.pods(NS)).items
    if by_ghapp:
        await OwnDeletions(redis).record(INSTALLATION, before.uid, time.time())
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
            assert await recorder.cluster.delete_pod(NS, "linux-1", before.uid, before.version)
            api.control.container_ends(NS, "linux-1", exit_code=143, reason="Error")
            api.control.vanish(NS, "linux-1")
            await until(lambda: _is_empty(recorder))
    (line,) = [each for each in logs if each["event"] == LINE]
    assert (line["reason"], line["cause"], line["by_ghapp"]) == ("Error", "terminated", by_ghapp)
    assert line["log_level"] == ("info" if by_ghapp else "warning")
    assert set(await deaths(recorder)) == (set() if by_ghapp else {"linux-1"})
    assert bool(asked) is not by_ghapp
    assert bool(await MetricCounters(redis).all()) is not by_ghapp


async def test_a_clean_exit_is_no_warning_and_not_counted_as_a_death(recorder, api, asked, redis):
    done = "2026-11-20 12:01:00Z: Job build completed with result: Succeeded"
    api.control.pod(NS, "a")
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
            api.control.container_ends(NS, "a", exit_code=0, reason="Completed", log=[done])
            assert (await death_of(recorder, "a")).cause is Cause.CLEAN_EXIT
    assert [each["log_level"] for each in logs if each["event"] == LINE] == ["info"]
    assert await MetricCounters(redis).all() == {'ghapp_clean_exits_total{org="acme",pool="other"}': 1}


async def test_the_line_has_the_kubelets_reason_and_our_cause(recorder, api, asked):
    api.control.pod(NS, "a")
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
            api.control.container_ends(NS, "a", exit_code=0, reason="Completed", log=["Running job: build"])
            death = await death_of(recorder, "a")
    (line,) = [each for each in logs if each["event"] == LINE]
    assert death.reason != "Completed"
    assert (line["reason"], line["classified"]) == ("Completed", death.reason)


async def test_a_restarted_container_has_one_death_for_each_exit(recorder, api, asked):
    api.control.pod(NS, "a")
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
            for code in (1, 2):
                api.control.container_ends(NS, "a", exit_code=code, reason="Error", restart=True, log=[f"end {code}"])
                await until(lambda code=code: _last_code(recorder, code))
            await seen(recorder, api)
    assert [each["exitCode"] for each in logs if each["event"] == LINE] == [1, 2]
    assert len(asked) == 2


async def _last_code(recorder, code):
    found = await Deaths(recorder.stores.redis).of(INSTALLATION, "a")
    return found is not None and found.exit_code == code


async def test_a_pod_that_vanished_is_a_death_only_if_it_was_running(recorder, api, asked):
    api.control.pod(NS, "ran")
    api.control.pod(NS, "waited", running=False)
    async with watching(recorder):
        await seen(recorder, api)
        api.control.vanish(NS, "waited")
        api.control.vanish(NS, "ran")
        death = await death_of(recorder, "ran")
        await seen(recorder, api)
    assert (death.cause, death.exit_code) == (Cause.VANISHED, None)
    assert set(await deaths(recorder)) == {"ran"}


@pytest.mark.parametrize(
    ("source", "dead"),
    [
        pytest.param("online", True, id="online-at-github"),
        pytest.param("job", True, id="job-from-a-delivery"),
        pytest.param("registered", False, id="registered-only"),
        pytest.param("", False, id="unknown-runner"),
    ],
)
async def test_a_pod_that_ran_ended_and_was_deleted_without_a_watch_is_a_death(
    recorder, api, asked, redis, source, dead
):
    """The pod was last seen before its container ran; a pod that never ran has no death."""
    api.control.pod(NS, "a", running=False, owner=api.control.ephemeral_runner(NS, "a"))
    api.control.pod(NS, "b")
    async with watching(recorder):
        await seen(recorder, api)
    now = time.time()
    shown = Registration(42, "a", "linux", source == "online", False, ("self-hosted",), ("linux",), ephemeral=True)

    def fold_runner(_known):
        if source == "job":
            return job_started(Evidence(42, "a", now), 7, now)
        return registration_seen(None, shown, now, by=SeenBy.LIST)

    if source:
        await Runners(redis).revise(INSTALLATION, {42: fold_runner})
    api.control.vanish(NS, "a")
    api.control.vanish(NS, "b")
    async with watching(recorder):
        await death_of(recorder, "b")
        await until(lambda: _is_empty(recorder))
    found = await deaths(recorder)
    assert ("a" in found) is dead
    if dead:
        assert (found["a"].cause, found["a"].exit_code, found["a"].runner_id) == (Cause.VANISHED, None, 42)


async def test_a_pod_that_vanishes_while_it_waits_for_a_restart_has_no_second_death(recorder, api, asked, redis):
    ended = Container("runner", waiting="CrashLoopBackOff", last_ended=Ended(1, finished_at=1_790_000_000.0))
    shown = Registration(42, "a", "linux", True, True, (), ("linux",), ephemeral=True)
    await Runners(redis).revise(
        INSTALLATION, {42: lambda _: registration_seen(None, shown, time.time(), by=SeenBy.LIST)}
    )
    assert await recorder.record_vanished(Pod(NS, "a", "uid", "1", time.time(), runner=ended)) is False
    assert await deaths(recorder) == {}


async def test_pods_without_a_runner_are_ignored(recorder, api, asked):
    api.control.pod(NS, "database", containers=("postgres",))
    api.control.pod(NS, "a")
    async with watching(recorder):
        await until(lambda: Pods(recorder.stores.redis).known(NS))
        api.control.container_ends(NS, "database", exit_code=1, container="postgres")
        api.control.container_ends(NS, "a", exit_code=1)
        await death_of(recorder, "a")
        api.control.vanish(NS, "database")
        api.control.vanish(NS, "a")
        await until(lambda: _is_empty(recorder))
    assert set(await deaths(recorder)) == {"a"}


async def _is_empty(recorder):
    """True if the view has no pod, and all ends are recorded."""
    redis = recorder.stores.redis
    return not await Pods(redis).known(NS) and not await PodEnds(redis).left(NS)


SCRIPT = [
    ("a ends", lambda app: app.container_ends(NS, "a", exit_code=1, reason="Error")),
    ("b vanishes", lambda app: app.vanish(NS, "b")),
    ("d comes", lambda app: app.pod(NS, "d")),
    ("a goes", lambda app: app.vanish(NS, "a")),
    ("c is evicted", lambda app: app.evict(NS, "c")),
    ("a is created again", lambda app: app.pod(NS, "a")),
    ("c goes", lambda app: app.vanish(NS, "c")),
    ("e comes", lambda app: app.pod(NS, "e")),
    ("d ends", lambda app: app.container_ends(NS, "d", exit_code=143, reason="Error")),
]


@pytest.mark.parametrize("back", [0, 2, 4])
@pytest.mark.parametrize("killed", range(len(SCRIPT) + 1))
async def test_a_watch_that_is_killed_between_any_two_events_misses_no_death(recorder, api, asked, killed, back):
    """The watch is killed before event `killed`; another takes over `back` events later, or at the end."""
    for name in "abc":
        api.control.pod(NS, name)
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
            for _, happens in SCRIPT[:killed]:
                happens(api.control)
                await seen(recorder, api)
        for _, happens in SCRIPT[killed : killed + back]:
            happens(api.control)
        async with watching(recorder):
            await seen(recorder, api)
            for _, happens in SCRIPT[killed + back :]:
                happens(api.control)
                await seen(recorder, api)
    source = [each["pod"] for each in logs if each["event"] == LINE]
    assert sorted(source) == ["a", "b", "c", "d"]
    assert set(await deaths(recorder)) == set("abcd")
    assert len(asked) >= 4


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("owner", "step"),
    [(Pods, "record"), (Pods, "replace_pods"), (Deaths, "record"), (PodEnds, "recorded")],
    ids=["change", "list", "death", "end of the record"],
)
async def test_a_watch_that_crashes_within_an_event_misses_no_death(
    recorder, api, asked, monkeypatch, owner, step, when
):
    """One container exits, and one pod vanishes; the watch crashes before or after one of the resulting writes."""

    class CrashError(Exception):
        pass

    original = getattr(owner, step)

    async def crashes(self, *args, **kwargs):
        if when == "after":
            await original(self, *args, **kwargs)
        raise CrashError

    def happens():
        api.control.container_ends(NS, "a", exit_code=137, reason="OOMKilled")
        api.control.vanish(NS, "b")

    for name in "ab":
        api.control.pod(NS, name)
    async with watching(recorder):
        await seen(recorder, api)
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, crashes)
        await until(lambda: _watches(api, 0))
        if step == "replace_pods":
            happens()
        dying = asyncio.create_task(PodCache(NS, recorder, lambda: True).run())
        if step != "replace_pods":
            await until(lambda: _watches(api, 1))
            happens()
        with pytest.raises(CrashError):
            await asyncio.wait_for(dying, 20)
    async with watching(recorder):
        await seen(recorder, api)
    found = await deaths(recorder)
    assert {name: each.cause for name, each in found.items()} == {"a": Cause.HOST_OOM, "b": Cause.VANISHED}


async def _watches(api, count):
    return api.control.watches() == count


@pytest.mark.parametrize("how", ["orderly", "broken", "reset", "half", "expired"])
async def test_a_watch_interrupted_by_the_server_after_every_event_misses_no_death(recorder, api, asked, how):
    for name in "abc":
        api.control.pod(NS, name)
    async with watching(recorder):
        await seen(recorder, api)
        api.control.cut_watches_after(1, how, times=None)
        for _, happens in SCRIPT:
            happens(api.control)
        await seen(recorder, api)
    assert set(await deaths(recorder)) >= set("abcd")


async def test_a_death_recorded_before_a_crash_is_enqueued_by_the_next_watch(recorder, api, asked, monkeypatch, redis):
    class CrashError(Exception):
        pass

    def crash(*_, **__):
        raise CrashError

    api.control.pod(NS, "a")
    api.control.container_ends(NS, "a", exit_code=1)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "enqueue", crash)
        with pytest.raises(CrashError):
            await asyncio.wait_for(PodCache(NS, recorder, lambda: True).run(), 20)
    assert set(await deaths(recorder)) == {"a"}
    api.control.vanish(NS, "a")
    async with watching(recorder):
        await until(lambda: _any(asked))
    assert len(asked) == 1
    await Deaths(redis).mark_published(INSTALLATION, (await deaths(recorder))["a"])
    asked.clear()
    async with watching(recorder):
        await seen(recorder, api)
    assert asked == []


async def _any(found):
    return bool(found)


async def test_a_watch_without_the_lock_records_nothing(recorder, api, asked):
    api.control.pod(NS, "a")
    api.control.container_ends(NS, "a", exit_code=1)
    await asyncio.wait_for(PodCache(NS, recorder, lambda: False).run(), 20)
    assert await deaths(recorder) == {}
    assert await Pods(recorder.stores.redis).known(NS) == []


async def test_a_temporary_redis_outage_loses_nothing(recorder, api, asked, monkeypatch):
    api.control.pod(NS, "a")
    view, calls = PodCache(NS, recorder, lambda: True), []
    keep = Pods.record

    async def away_once(self, *what):
        calls.append(what)
        if len(calls) == 1:
            raise StoreUnavailableError
        return await keep(self, *what)

    monkeypatch.setattr(Pods, "record", away_once)
    monkeypatch.setattr("jobs.pods.namespace_cache.PAUSE_SECONDS", 0.01)
    task = asyncio.create_task(view.keep())
    await seen(recorder, api)
    api.control.container_ends(NS, "a", exit_code=1)
    await seen(recorder, api)
    api.control.vanish(NS, "a")
    await until(lambda: _is_empty(recorder))
    await cancel_tasks([task])
    assert [change.deleted for _, (change,) in calls] == [False, True], "the lost event was read again by a list"
    assert set(await deaths(recorder)) == {"a"}


async def test_in_a_shared_namespace_a_death_belongs_to_the_org_of_its_runner(recorder, api, asked, redis):
    await Installations(redis).put(Installation(8, "other", 2))
    shown = Registration(42, "a", "linux", True, True, (), ("linux",), ephemeral=True)
    await Runners(redis).revise(8, {42: lambda _: registration_seen(None, shown, 1.0, by=SeenBy.LIST)})
    pools = (PoolSettings("acme", "linux", namespace=NS), PoolSettings("other", "linux", namespace=NS))
    replace_pools(recorder.settings, pools)
    for name in ("a", "nobodys"):
        api.control.pod(NS, name)
        api.control.container_ends(NS, name, exit_code=1)
    with capture_logs() as logs:
        async with watching(recorder):
            await seen(recorder, api)
    assert {each["pod"]: each["org"] for each in logs if each["event"] == LINE} == {"a": "other", "nobodys": None}
    assert await Deaths(redis).of(8, "a") is not None
    assert await deaths(recorder) == {}


async def test_a_death_that_may_belong_to_two_orgs_is_recorded_for_neither(recorder, api, asked, redis):
    """Its last lines must not be readable by the other org."""
    pools = (PoolSettings("acme", "linux", namespace=NS), PoolSettings("other", "linux", namespace=NS))
    replace_pools(recorder.settings, pools)
    api.control.pod(NS, "of-one-that-is-not-installed")
    api.control.container_ends(NS, "of-one-that-is-not-installed", exit_code=1)
    async with watching(recorder):
        await seen(recorder, api)
    assert await deaths(recorder) == {}
    await Installations(redis).put(Installation(8, "other", 2))
    shown = Registration(42, "both", "linux", True, True, (), ("linux",), ephemeral=True)
    for installation in (INSTALLATION, 8):
        fold = {42: lambda _: registration_seen(None, shown, 1.0, by=SeenBy.LIST)}
        await Runners(redis).revise(installation, fold)
    labelled = {"actions.github.com/organization": "other"}
    for name, labels in (("both", {}), ("labelled", labelled)):
        api.control.pod(NS, name, labels=labels)
        api.control.container_ends(NS, name, exit_code=1)
    async with watching(recorder):
        await seen(recorder, api)
    assert await deaths(recorder) == {}
    assert [each.runner_name for each in await Deaths(redis).recent(8, 0.0, 9)] == ["labelled"]


async def test_a_death_of_a_repository_s_runner_is_the_repository_s(recorder, api, asked, redis):
    pools = (PoolSettings("acme", "linux", namespace=NS), PoolSettings("acme/api", "linux", namespace=NS))
    replace_pools(recorder.settings, pools)
    scope = Installation(-3, "acme/api", -3, parent=INSTALLATION)
    await Installations(redis).put(scope)
    labels = {"actions.github.com/organization": "acme"}
    for name, more in (("its-own", {}), ("the-repositorys", {"actions.github.com/repository": "api"})):
        api.control.pod(NS, name, labels=labels | more)
        api.control.container_ends(NS, name, exit_code=1)
    async with watching(recorder):
        await seen(recorder, api)
    assert [each.runner_name for each in await Deaths(redis).recent(scope.id, 0.0, 9)] == ["the-repositorys"]
    assert [each.runner_name for each in await Deaths(redis).recent(INSTALLATION, 0.0, 9)] == ["its-own"]


async def test_the_last_lines_of_a_runner_are_stored_without_secrets(recorder, api, asked):
    api.control.pod(NS, "a")
    lines = ["+ ./config.sh --token AABF3JGZDX3P5PMEXLND6TS6FCWO6 --url x", "ghs_1234567890abcdef", "bye"]
    api.control.container_ends(NS, "a", exit_code=1, log=lines)
    async with watching(recorder):
        await seen(recorder, api)
    log = (await death_of(recorder, "a")).runner_log
    assert log == ("+ ./config.sh --token [redacted] --url x", "[redacted]", "bye")


async def test_a_death_with_a_forbidden_log_is_stored_without_it_and_the_missing_right_is_reported(
    recorder, api, asked, monkeypatch
):
    async def is_refused(*_args, **_names):
        return False

    place = logs_source(NS)
    monkeypatch.setattr(Cluster, "may", is_refused)
    for name in ("a", "b"):
        api.control.pod(NS, name)
    async with watching(recorder):
        with api.control.fails(403, resources=["pods/log"]):
            api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
            assert (await death_of(recorder, "a")).runner_log == ()
            assert "pods/log" in (await DegradedSources(recorder.stores.redis).of([place]))[place]
        api.control.container_ends(NS, "b", exit_code=1, log=["bye"])
        assert (await death_of(recorder, "b")).runner_log == ("bye",)
        assert await DegradedSources(recorder.stores.redis).of([place]) == {}


@pytest.mark.parametrize(
    "error",
    [
        ClusterUnavailableError("away"),
        ClusterForbiddenError("no list", verb="list", resource="pods"),
        ResourceMissingError("no namespace runners"),
    ],
    ids=lambda app: type(app).__name__,
)
async def test_a_failed_watch_reports_no_death(recorder, asked, error):
    running = Pod(NS, "a", "uid", "1", time.time(), runner=Container("runner", time.time()), container="runner")
    view = PodCache(NS, recorder, lambda: True)
    await view.record(Listed([running], "1"))
    await view.record(WatchFailure(error))
    assert await unrecorded(recorder) == []
    assert [each.name for each in await Pods(recorder.stores.redis).known(NS)] == ["a"]
    await view.record(Listed([], "2"))
    assert await unrecorded(recorder) == [PodEnd(running, vanished=True)]


async def test_a_failure_is_logged_once_until_it_is_over(recorder):
    view = PodCache(NS, recorder, lambda: True)
    with capture_logs() as logs:
        for _ in range(3):
            await view.record(WatchFailure(ClusterUnavailableError("away")))
    assert json.dumps(logs).count("watch failed") == 1


@pytest.mark.parametrize("is_back", [True, False], ids=["the right is back", "it is still missing"])
async def test_the_report_of_a_missing_right_to_read_logs_is_cleared_when_the_right_is_granted(
    recorder, api, redis, is_back
):
    place = logs_source(NS)
    await DegradedSources(redis).record(place, "RBAC lacks get on pods/log")
    await redis.expire(keys.trouble(place), 30)
    if not is_back:
        sees_as(api, recorder, [RbacRule(("list", "watch"), ("",), ("pods",))])
    assert await recorder.check_log_rights(NS) is not is_back
    assert (await DegradedSources(redis).of([place]) == {}) is is_back
    assert is_back or await redis.ttl(keys.trouble(place)) > 800


async def test_a_degraded_source_expires_after_15_minutes(redis):
    await DegradedSources(redis).record("pods in runners", "RBAC lacks list on pods")
    assert await redis.ttl(keys.trouble("pods in runners")) == 900


def sees_as(api, recorder, rules):
    """The watch's account has these rights from now on."""
    api.control.user("watch", rules)
    recorder.cluster.transport._client.headers.update({"Authorization": f"Bearer {api.token('watch')}"})


EVERY_RIGHT = {
    ("get", "pods"): logs_source(NS),
    ("list", "pods"): pods_source(NS),
    ("watch", "pods"): deaths_source(NS),
    ("get", "pods/log"): logs_source(NS),
}
"""What is not seen without it."""


def test_what_is_not_seen_without_a_right_is_stated_for_each_right_that_the_watch_has_on_pods():
    needed = {(each.verb, each.rbac_resource) for each in needed_near([]) if each.role == "watch"}
    assert needed == EVERY_RIGHT.keys()


def rules_without(verb, resource, namespace=NS):
    """All rights of the watch in all namespaces but one in one."""
    elsewhere = ("others",)
    rules = [
        RbacRule((each,), ("",), (of,), (*elsewhere, NS)) for each, of in EVERY_RIGHT if (each, of) != (verb, resource)
    ]
    return [*rules, RbacRule((verb,), ("",), (resource,), elsewhere)]


@pytest.mark.parametrize("by", ["rbac", "a policy"])
@pytest.mark.parametrize(("verb", "resource"), EVERY_RIGHT)
async def test_each_verb_that_is_refused_hides_its_source_by_name_until_it_is_permitted(
    recorder, api, asked, redis, monkeypatch, verb, resource, by
):
    """… in its namespace alone, in the server's words; and no death after that is lost."""
    monkeypatch.setattr(pod_cache, "RECHECK_SECONDS", 0.01)
    monkeypatch.setattr(pod_cache, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.05)
    hides_logs, place = verb == "get", EVERY_RIGHT[verb, resource]
    places = [*sources_of([NS, "others"], has_log_store=False)]
    policy = api.control.fails(403, verbs=[verb], resources=[resource]) if by == "a policy" else None
    sees_as(api, recorder, rules_without(verb, resource) if policy is None else rules_without("", ""))
    api.control.pod(NS, "a")

    async def degraded():
        return await DegradedSources(redis).of(places)

    async with watching(recorder):
        if hides_logs:
            await seen(recorder, api)
        if policy is not None and hides_logs:  # no access review shows it: the first log does
            api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
        (found,) = (await until(degraded)).items()
        words = "injected fault" if policy is not None else f"RBAC lacks {verb} on {resource}"
        assert found[0] == place
        assert words in found[1]
        assert ("RBAC" in found[1]) is (policy is None)
        if policy is not None:
            policy.end()
        sees_as(api, recorder, rules_without("", ""))
        await seen(recorder, api)
        api.control.pod(NS, "b")
        await seen(recorder, api)
        api.control.container_ends(NS, "b", exit_code=1, log=["bye"])
        assert (await death_of(recorder, "b")).runner_log == ("bye",)
        await until(lambda: _is_over(degraded))


async def _is_over(degraded):
    return await degraded() == {}


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_the_first_refusal_is_named(recorder, api, redis, verb):
    """A pod that comes and ends between two lists has no death, from the first refused watch on."""
    first = api.control.fails(403, verbs=[verb], resources=["pods"], times=1)
    place = EVERY_RIGHT[verb, "pods"]
    async with aclosing(watch.follow(recorder.cluster, NS)) as events:
        view = PodCache(NS, recorder, lambda: True)
        async for event in events:
            await view.record(event)
            if isinstance(event, WatchFailure):
                break
    assert first.affected == 1
    assert [*await DegradedSources(redis).of(sources_of([NS], has_log_store=False))] == [place]


async def test_a_list_ends_what_its_refusal_hid_and_nothing_that_a_watch_alone_shows(recorder, redis):
    view, places = PodCache(NS, recorder, lambda: True), [pods_source(NS), deaths_source(NS)]
    refused = {verb: ClusterForbiddenError(f"no {verb}", verb=verb, resource="pods") for verb in ("list", "watch")}

    async def degraded():
        return [*await DegradedSources(redis).of(places)]

    await view.record(WatchFailure(refused["list"]))
    assert await degraded() == places[:1]
    for _ in range(2):
        await view.record(Listed([], "1"))
        await view.record(WatchFailure(refused["watch"], is_listed=True))
        assert await degraded() == places[1:]
    await view.record(WatchFailure(refused["list"]))
    assert await degraded() == places
    await view.record(WatchChange("bookmark", None, "2"))
    assert await degraded() == []


@pytest.mark.parametrize("answer", ["fails", "hangs"])
async def test_a_watch_that_never_works_is_reported_although_each_list_is_read(
    recorder, api, redis, monkeypatch, answer
):
    monkeypatch.setattr(failure_grace, "OUTAGE_SECONDS", 0.0)
    monkeypatch.setattr(recorder.cluster.transport, "_head_seconds", 0.05)
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.01)
    getattr(api.control, answer)(verbs=["watch"])
    async with watching(recorder):
        degraded = await until(lambda: DegradedSources(redis).of([deaths_source(NS)]))
    assert degraded[deaths_source(NS)].startswith("watch pods runners: ")


async def test_the_text_about_a_failing_source_stays_while_only_its_details_change(recorder, redis, monkeypatch):
    monkeypatch.setattr(failure_grace, "OUTAGE_SECONDS", 0.0)
    view, place = PodCache(NS, recorder, lambda: True), pods_source(NS)
    for why in ("no answer (ConnectError)", "no answer in time"):
        await view.record(WatchFailure(ClusterUnavailableError(why)))
    assert await DegradedSources(redis).of([place]) == {place: "no answer (ConnectError)"}
    await view.record(WatchFailure(ClusterForbiddenError("RBAC lacks list", verb="list", resource="pods")))
    assert await DegradedSources(redis).of([place]) == {place: "RBAC lacks list"}


@pytest.mark.parametrize("by_ghapp", [True, False])
async def test_the_end_of_a_pod_whose_owner_ghapp_deleted_is_its_own_though_the_registration_returned(
    recorder, api, asked, redis, by_ghapp
):
    """The object's finalizer was stuck, and its runner registered again meanwhile: the record of the runner is new."""
    owner = api.control.ephemeral_runner(NS, "linux-1")
    api.control.pod(NS, "linux-1", owner=owner)
    if by_ghapp:
        await OwnDeletions(redis).record(INSTALLATION, owner["metadata"]["uid"], time.time())
    shown = Registration(42, "linux-1", "linux", True, True, (), ("linux",), ephemeral=True)
    await Runners(redis).revise(
        INSTALLATION, {42: lambda _: registration_seen(None, shown, time.time(), by=SeenBy.LIST)}
    )
    async with watching(recorder):
        await seen(recorder, api)
        api.control.delete("pods", NS, "linux-1")
        api.control.container_ends(NS, "linux-1", exit_code=143, reason="Error")
        api.control.vanish(NS, "linux-1")
        await until(lambda: _is_empty(recorder))
    assert set(await deaths(recorder)) == (set() if by_ghapp else {"linux-1"})


async def test_logs_that_no_kubelet_gives_are_reported_until_one_can_be_read(recorder, api, asked, redis, monkeypatch):
    """As where the API server does not reach the kubelets' port; an access review shows nothing of that."""
    monkeypatch.setattr(failure_grace, "OUTAGE_SECONDS", 0.0)
    monkeypatch.setattr(pod_cache, "LOG_PAUSES", (3600.0,))
    place = logs_source(NS)
    for name in ("a", "b"):
        api.control.pod(NS, name)
    async with watching(recorder):
        await seen(recorder, api)
        with api.control.fails(500, resources=["pods/log"]):
            api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
            assert (await death_of(recorder, "a")).runner_log == ()
        assert "500" in (await DegradedSources(redis).of([place]))[place]
        assert await recorder.check_log_rights(NS) is False
        assert await DegradedSources(redis).of([place])
        api.control.container_ends(NS, "b", exit_code=1, log=["bye"])
        assert (await death_of(recorder, "b")).runner_log == ("bye",)
        assert await DegradedSources(redis).of([place]) == {}


def log_requests(api):
    return len([each for each in api.control.calls() if each.subresource == "log"])


@pytest.fixture
def soon(monkeypatch):
    """Logs are asked for again within moments, five times."""
    monkeypatch.setattr(pod_cache, "LOG_PAUSES", (0.01,) * 5)


@pytest.fixture
def much_later(monkeypatch):
    monkeypatch.setattr(pod_cache, "LOG_PAUSES", (3600.0,))


@pytest.mark.parametrize("answer", ["fails", "resets", "hangs"])
async def test_a_log_that_cannot_be_read_once_is_added_to_the_death(recorder, api, asked, soon, monkeypatch, answer):
    """… with the cause that it shows, in the record and in the post-mortem."""
    monkeypatch.setattr(death_recorder, "LOG_SECONDS", 0.5)
    getattr(api.control, answer)(resources=["pods/log"], times=1)
    api.control.pod(NS, "a")
    async with watching(recorder):
        await seen(recorder, api)
        with capture_logs() as logs:
            api.control.container_ends(NS, "a", exit_code=0, reason="Completed", log=["Running job: build"])
            await seen(recorder, api)
    (line,) = [each for each in logs if each["event"] == LINE]
    assert line["cause"] == "clean-exit", "the record does not wait for the log"
    (death,) = (await deaths(recorder)).values()
    assert (death.runner_log, death.cause, death.reason) == (("Running job: build",), Cause.CRASH, "JobUnfinished")
    key = f"post-mortem-{death_id(Installation(INSTALLATION, 'acme', 1), death)}"
    assert [each[-1] for each in asked] == [key, f"{key}-log"]
    assert {each[2] for each in asked} == {identity(death)}


async def test_a_log_that_cannot_be_read_for_long_is_given_up_and_named(recorder, api, asked, soon):
    api.control.pod(NS, "a")
    with capture_logs() as logs, api.control.fails(503, resources=["pods/log"]):
        async with watching(recorder):
            api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
            await death_of(recorder, "a")
            await seen(recorder, api)
    assert [each["pod"] for each in logs if each["event"] == "runner log not read"] == ["a"]
    assert log_requests(api) == 1 + 5
    assert [each.runner_log for each in (await deaths(recorder)).values()] == [()]
    assert len(asked) == 1


async def test_ends_whose_logs_hang_hold_up_no_other_end(recorder, api, asked, much_later, monkeypatch):
    monkeypatch.setattr(death_recorder, "LOG_SECONDS", 0.2)
    names = [f"a{number}" for number in range(2 * pod_cache.AT_ONCE)]
    for name in names:
        api.control.pod(NS, name)
    async with watching(recorder):
        await seen(recorder, api)
        with api.control.hangs(resources=["pods/log"]):
            for name in names:
                api.control.container_ends(NS, name, exit_code=1, log=["bye"])
            await until(lambda: _equals(deaths(recorder), {*names}))
            assert {each.pod.name for each in await unrecorded(recorder)} == {*names}, "what still lacks its log"


async def _equals(reading, names):
    return set(await reading) == names


async def test_with_too_many_deaths_without_a_log_the_next_one_is_recorded_all_the_same(
    recorder, api, asked, much_later, monkeypatch
):
    monkeypatch.setattr(pod_cache, "MOST_LATE_LOGS", 2)
    for name in "abc":
        api.control.pod(NS, name)
    with capture_logs() as logs, api.control.fails(503, resources=["pods/log"]):
        async with watching(recorder):
            await seen(recorder, api)
            for name in "abc":
                api.control.container_ends(NS, name, exit_code=1)
            await until(lambda: _equals(deaths(recorder), {*"abc"}))
            await until(lambda: _any([each for each in logs if each["event"] == "runner log not read"]))
            assert len(await unrecorded(recorder)) == 2


@pytest.mark.parametrize("by", ["rbac", "a policy"])
async def test_a_forbidden_log_is_not_asked_for_again(recorder, api, asked, soon, by):
    policy = api.control.fails(403, resources=["pods/log"]) if by == "a policy" else None
    sees_as(api, recorder, rules_without("get", "pods/log") if policy is None else rules_without("", ""))
    api.control.pod(NS, "a")
    async with watching(recorder):
        await seen(recorder, api)
        api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
        await death_of(recorder, "a")
        await seen(recorder, api)
    assert log_requests(api) == 1
    assert [each.runner_log for each in (await deaths(recorder)).values()] == [()]


@pytest.mark.parametrize("then", ["gone", "replaced", "ended again"])
async def test_the_log_of_another_container_is_never_added(recorder, api, asked, monkeypatch, then):
    monkeypatch.setattr(pod_cache, "LOG_PAUSES", (0.3,) * 3)
    api.control.pod(NS, "a")
    async with watching(recorder):
        await seen(recorder, api)
        with api.control.fails(503, resources=["pods/log"]):
            api.control.container_ends(NS, "a", exit_code=1, log=["bye"], restart=then == "ended again")
            await until(lambda: _any(log_requests(api)))
            if then == "ended again":
                api.control.container_ends(NS, "a", exit_code=2, log=["second"])
            else:
                api.control.vanish(NS, "a")
            if then == "replaced":
                api.control.pod(NS, "a")
                api.control.set_log(NS, "a", ["of the next pod"])
            await until(lambda: _view_is_current(recorder, api))
        await seen(recorder, api)
    found = await Deaths(recorder.stores.redis).recent(INSTALLATION, 0.0, 9)
    logs = {each.exit_code: each.runner_log for each in found}
    assert logs.pop(1) == ()
    assert logs in ({}, {2: ()}, {2: ("bye", "second")}, {2: ("second",)})


async def _view_is_current(recorder, api):
    there = {each["metadata"]["resourceVersion"] for each in api.control.objects("pods")}
    return {each.version for each in await Pods(recorder.stores.redis).known(NS)} == there


async def test_the_log_of_the_next_pod_of_the_name_is_not_added_before_the_watch_has_seen_it(recorder, api, asked):
    api.control.pod(NS, "a")
    api.control.container_ends(NS, "a", exit_code=1)
    (pod,) = (await recorder.cluster.pods(NS)).items
    with api.control.fails(503, resources=["pods/log"]):
        assert (await recorder.record_end(pod)) == (True, True)
        assert await recorder.add_log(pod) is True
    api.control.vanish(NS, "a")
    api.control.pod(NS, "a")
    api.control.set_log(NS, "a", ["of the next pod"])
    assert await recorder.add_log(pod) is False
    assert (await deaths(recorder))["a"].runner_log == ()


async def test_how_often_the_log_of_one_pod_is_asked_for_shows_nothing_of_other_logs(recorder, api, asked):
    now = 0.0
    recorder = replace(recorder, grace=FailureGrace(lambda: now))
    for name in "ab":
        api.control.pod(NS, name)
        api.control.container_ends(NS, name, exit_code=1)
    first, second = (await recorder.cluster.pods(NS)).items
    with api.control.fails(503, resources=["pods/log"]):
        assert (await recorder.record_end(first)).lacks_log
        now = failure_grace.OUTAGE_SECONDS
        assert await recorder.add_log(first)
        assert await DegradedSources(recorder.stores.redis).of([logs_source(NS)]) == {}
        assert (await recorder.record_end(second)).lacks_log
        assert await DegradedSources(recorder.stores.redis).of([logs_source(NS)]), "of two pods, a minute apart"


async def test_a_watch_that_is_killed_before_the_log_was_read_leaves_it_to_the_next_one(
    recorder, api, asked, much_later
):
    api.control.pod(NS, "a")
    with capture_logs() as logs:
        with api.control.fails(503, resources=["pods/log"]):
            async with watching(recorder):
                await seen(recorder, api)
                api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
                assert (await death_of(recorder, "a")).runner_log == ()
                await until(lambda: _view_is_current(recorder, api))
        assert [each.pod.name for each in await unrecorded(recorder)] == ["a"]
        async with watching(recorder):
            await seen(recorder, api)
    assert [each.runner_log for each in (await deaths(recorder)).values()] == [("bye",)]
    assert len([each for each in logs if each["event"] == LINE]) == 1


async def test_a_death_that_a_worker_recorded_before_it_deleted_the_pod_gets_the_log_of_the_watch(recorder, api, asked):
    api.control.pod(NS, "a")
    api.control.container_ends(NS, "a", exit_code=1, log=["bye"])
    (pod,) = (await recorder.cluster.pods(NS)).items
    await recorder.record_before_deletion(pod)
    assert (await deaths(recorder))["a"].runner_log == ()
    for _ in range(2):
        assert await recorder.record_end(pod) == (False, False)
    assert (await deaths(recorder))["a"].runner_log == ("bye",)
    assert [each[-1].endswith("-log") for each in asked] == [False, True]


async def test_what_ghapp_ended_itself_waits_for_no_log(recorder, api, asked, redis):
    api.control.pod(NS, "a")
    (pod,) = (await recorder.cluster.pods(NS)).items
    await OwnDeletions(redis).record(INSTALLATION, pod.uid, time.time())
    api.control.delete("pods", NS, "a")
    api.control.container_ends(NS, "a", exit_code=143, reason="Error")
    with api.control.fails(503, resources=["pods/log"]):
        (pod,) = (await recorder.cluster.pods(NS)).items
        assert await recorder.record_end(pod) == (False, False)
