"""The reaper: the pods that it reads, its decisions, deletions and reports, and crashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from ghapp.cluster.access import NEAR_RUNNERS
from ghapp.cluster.api import Cluster
from ghapp.deaths.store import Deaths
from ghapp.errors import ClusterForbiddenError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks import store
from ghapp.leaks.doctor import of_tick
from ghapp.leaks.reaper_status import ReaperStatus
from ghapp.leaks.store import Leaks
from ghapp.notifications.event_store import Events
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.degraded_sources import leaks_source
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import FuseLimits
from ghapp.remediation.pause import Pause
from ghapp.runners.evidence import Evidence
from ghapp.runners.observations import job_ended, job_started
from ghapp.runners.store import Runners
from ghapp.store import keys
from ghapp.workflow_jobs.job import Job
from jobs.deaths.death_recorder import DeathRecorder
from jobs.leaks import github_status
from jobs.leaks.reap import reap_installation
from jobs.pods.cluster_summary import leaks_of
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.leaks.leak_story import NAMESPACE, leaking

GLOBEX = Installation(99, "globex", 990, {"organization_self_hosted_runners": "write"})
SHARED = f"""
        [[pools]]
        org = "globex"
        name = "theirs"
        labels = ["theirs"]
        namespace = "{NAMESPACE}"
        """

ELSEWHERE = """
        [[pools]]
        org = "acme"
        name = "other"
        labels = ["other"]
        namespace = "elsewhere"
        """


@pytest.fixture
def leak_cluster(story, tmp_path):
    """Opens a story in a cluster: `async with leak_cluster(runners=12) as at:`."""

    def opened(**changes):
        return leaking(story, tmp_path, **changes)

    return opened


async def prepare_leaks(at):
    """Creates a hung pod for each runner, unclaimed for one minute less than the limit, and one claimed pod."""
    for name in at.runners:
        at.make_pod(name)
    await at.hang()
    at.make_pod("busy")
    await at.claim("busy", seconds=36_000)
    await at.tick()
    await at.minutes(4)
    assert at.deletions() == []
    return set(at.runners)


async def unfinished_deletions(at):
    return await Leaks(at.app.context.redis).unfinished(at.app.installation)


async def reaper_status_of(at):
    installation = await at.app.context.installations.one(at.app.installation)
    return await leaks_of(at.app.context, installation, at.app.clock())


async def test_a_reaped_pod_is_published_with_its_evidence_and_counted_and_logged(leak_cluster):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        unclaimed_since = at.app.clock() - 240
        uid = at.api.control.object("pods", NAMESPACE, name)["metadata"]["uid"]
        with capture_logs() as logs:
            (tick,) = await at.minutes(1)
        assert (tick.stamped, tick.reaped, tick.deferred, tick.would_reap, tick.trouble) == (2, 1, 0, 0, "")
        (data,) = await at.app.sent_events("pod.orphaned")
        assert {key: data[key] for key in ("org", "namespace", "pod", "pod_uid", "node", "runner_name", "pool")} == {
            "org": "acme",
            "namespace": NAMESPACE,
            "pod": name,
            "pod_uid": uid,
            "node": "node-1",
            "runner_name": name,
            "pool": "in-cluster",
        }
        by_source = {each["source"]: each for each in data["evidence"]}
        assert data["unclaimed_since"] == by_source["claim"]["at"]
        assert by_source["list"]["text"] == "GitHub lists no runner of its name"
        assert [each["at"] for each in data["evidence"]] == sorted(each["at"] for each in data["evidence"])
        assert await at.counted("reaped") == 1
        (line,) = [each for each in logs if each["event"] == "orphan reaped"]
        assert (line["pod"], line["org"], line["unclaimed_seconds"]) == (name, "acme", 300)
        assert unclaimed_since < at.app.clock() - 299
        assert await unfinished_deletions(at) == []


async def test_the_pods_service_account_is_deleted_and_the_namespaces_default_account_stays(leak_cluster):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        at.make_pod("default")
        at.end_containers("default")
        await at.minutes(6)
        assert set(at.deletions()) == {name, "default"}
        assert at.deletions("serviceaccounts") == [name]
        assert "default" in at.api.control.names("serviceaccounts", NAMESPACE)


async def test_an_already_deleted_service_account_counts_as_success(leak_cluster):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        for name in leaks:
            at.api.control.delete("serviceaccounts", NAMESPACE, name)
        (tick,) = await at.minutes(1)
        assert (tick.reaped, tick.trouble) == (len(leaks), "")
        assert await unfinished_deletions(at) == []


class CrashError(BaseException):
    """Simulates a crash of the process."""


async def crashes(*_args, **_kwargs):
    raise CrashError


STEPS = [
    (Leaks, "begin"),
    (Cluster, "delete_pod"),
    (Events, "append"),
    (Cluster, "delete_service_account"),
    (Leaks, "done"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
async def test_a_crash_between_any_two_steps_is_recovered_a_minute_later(leak_cluster, monkeypatch, owner, step, when):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        original = getattr(owner, step)

        async def crashes_then(self, *args, **kwargs):
            if when == "after":
                await original(self, *args, **kwargs)
            raise CrashError

        with monkeypatch.context() as patched:
            patched.setattr(owner, step, crashes_then)
            with pytest.raises(CrashError):
                await at.minutes(1)
        await at.minutes(1)
        assert sorted(at.deletions()) == sorted(await at.published()) == sorted(leaks)
        assert (at.pods(), at.accounts()) == ({"busy"}, {"busy"})
        assert await unfinished_deletions(at) == []
        assert len(leaks) - 1 <= await at.counted("reaped") <= len(leaks)
        assert (await reaper_status_of(at)).reaped == len(leaks)


async def test_repeated_crashes_keep_the_unclaimed_times(leak_cluster, monkeypatch):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)

        with monkeypatch.context() as patched:
            patched.setattr(Leaks, "begin", crashes)
            for _ in range(3):
                with pytest.raises(CrashError):
                    await at.minutes(1)
        await at.minutes(1)
        assert set(at.deletions()) == leaks


async def test_while_another_worker_holds_the_lock_nothing_is_read(leak_cluster):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        await at.app.pass_(60)
        at.api.control.forget_calls()
        async with at.app.context.locks.acquire("reap", at.app.installation) as mine:
            assert mine
            assert await at.reap() is None
        assert at.api.control.calls() == []


async def test_pods_are_read_before_claims_for_all_pods_and_again_before_each_deletion(leak_cluster, monkeypatch):
    async with leak_cluster(runners=1) as at:
        await prepare_leaks(at)
        order = []

        def change(owner, method, what):
            original = getattr(owner, method)

            async def called(self, *args, **kwargs):
                order.append(what)
                return await original(self, *args, **kwargs)

            monkeypatch.setattr(owner, method, called)

        change(Cluster, "pods", "all pods")
        change(Cluster, "pod", "the pod")
        change(Cluster, "delete_pod", "deletion")
        change(PodClaims, "stored", "claims")
        change(Runners, "all", "runners")
        change(Runners, "some", "its runner")
        await at.app.pass_(60)
        await sweep_installation(at.app.context, at.app.installation)
        order.clear()  # the remediation plan reads claims, too
        await at.reap()
        first = order.index("all pods")
        assert order[first : first + 3] == ["all pods", "claims", "runners"]
        assert "claims" not in order[:first]
        last = order[order.index("the pod") : order.index("deletion")]
        assert last == ["the pod", "claims", "its runner"]


async def test_a_pod_that_another_client_deletes_just_before_counts_as_no_deletion_of_ours(leak_cluster):
    async with leak_cluster(runners=1) as at:
        await prepare_leaks(at)
        delete = at.cluster.delete_pod

        async def vanish_and_delete(namespace, name, *which):
            at.api.control.vanish(namespace, name)
            return await delete(namespace, name, *which)

        at.cluster.delete_pod = vanish_and_delete
        (tick,) = await at.minutes(1)
        assert (tick.trouble, await unfinished_deletions(at), await at.published()) == ("", [], [])
        assert at.accounts() == {"busy"}


async def test_a_pod_that_changed_since_the_list_is_read_again_and_deleted(leak_cluster):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        read = at.cluster.pod

        async def changed_and_read(namespace, name):
            at.api.control.set_labels("pods", namespace, name, touched="yes")
            return await read(namespace, name)

        at.cluster.pod = changed_and_read
        await at.minutes(1)
        assert at.deletions() == [name]


async def test_after_a_crash_a_pod_that_was_not_deleted_is_checked_again(leak_cluster, monkeypatch):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)

        with monkeypatch.context() as patched:
            patched.setattr(Cluster, "delete_pod", crashes)
            with pytest.raises(CrashError):
                await at.minutes(1)
        assert [each.pod for each in await unfinished_deletions(at)] == [name]
        await at.claim(name, seconds=36_000)
        await at.minutes(10)
        assert (at.deletions(), at.deletions("serviceaccounts"), await unfinished_deletions(at)) == ([], [], [])


@pytest.mark.parametrize(
    ("owner", "step"), [(Events, "append"), (Cluster, "delete_service_account")], ids=["not published yet", "change"]
)
async def test_after_a_crash_the_successors_service_account_is_left_alone(leak_cluster, monkeypatch, owner, step):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)

        with monkeypatch.context() as patched:
            patched.setattr(owner, step, crashes)
            with pytest.raises(CrashError):
                await at.minutes(1)
        at.api.control.vanish(NAMESPACE, name)
        at.make_pod(name, age_seconds=0)
        await at.minutes(1)
        assert name in at.accounts()
        assert await at.published() == [name]
        assert await unfinished_deletions(at) == []


async def test_after_a_crash_the_service_account_of_a_terminating_successor_is_left_alone(leak_cluster, monkeypatch):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        with monkeypatch.context() as patched:
            patched.setattr(Cluster, "delete_service_account", crashes)
            with pytest.raises(CrashError):
                await at.minutes(1)
        at.api.control.kubelet_deletes_after(None)
        at.api.control.vanish(NAMESPACE, name)
        at.make_pod(name, age_seconds=0)
        at.api.control.delete("pods", NAMESPACE, name)  # by its controller, which deletes the ServiceAccount, too
        await at.minutes(1)
        assert name in at.accounts()
        assert await unfinished_deletions(at) == []


async def test_after_a_crash_a_slowly_terminating_pod_is_published_and_its_service_account_deleted(
    leak_cluster, monkeypatch
):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        at.api.control.kubelet_deletes_after(None)
        with monkeypatch.context() as patched:
            patched.setattr(Events, "append", crashes)
            with pytest.raises(CrashError):
                await at.minutes(1)
        await at.minutes(1)
        assert at.api.control.object("pods", NAMESPACE, name) is not None
        assert (await at.published(), at.accounts(), await unfinished_deletions(at)) == ([name], {"busy"}, [])


@pytest.mark.parametrize("resource", ["pods", "serviceaccounts"])
async def test_without_the_right_to_delete_both_neither_is_deleted_and_one_line_is_logged(
    leak_cluster, monkeypatch, resource
):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        may = Cluster.may

        async def lacks(self, verb, asked, *args):
            return asked != resource and await may(self, verb, asked, *args)

        monkeypatch.setattr(Cluster, "may", lacks)
        with capture_logs() as logs:
            ticks = await at.minutes(3)
        assert (at.deletions(), at.deletions("serviceaccounts")) == ([], [])
        assert all(resource in tick.trouble for tick in ticks)
        assert [each["event"] for each in logs if "reaper" in each["event"]] == ["reaper failing"]
        assert ticks[0].trouble_since == ticks[-1].trouble_since == at.app.clock() - 120


async def test_a_service_account_that_cannot_be_deleted_is_retried_and_its_pod_published_once(leak_cluster):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        with at.api.control.fails(500, verbs=("delete",), resources=("serviceaccounts",)):
            (first, second) = await at.minutes(2)
        assert (first.reaped, second.reaped) == (len(leaks), 0)
        assert first.trouble
        assert sorted(await at.published()) == sorted(leaks)
        assert {each.pod for each in await unfinished_deletions(at)} == leaks
        await at.minutes(1)
        assert at.accounts() == {"busy"}
        assert await unfinished_deletions(at) == []


async def test_beyond_the_limit_of_unfinished_deletions_no_other_is_begun(leak_cluster, monkeypatch):
    monkeypatch.setattr(store, "MOST_BEGUN", 2)
    async with leak_cluster() as at:
        await prepare_leaks(at)
        with at.api.control.fails(500, verbs=("delete",), resources=("serviceaccounts",)):
            (tick,) = await at.minutes(1)
            assert (tick.reaped, tick.trouble) == (
                2,
                "too many deletions were begun and are not finished",
            )
        await at.minutes(2)
        assert len(at.deletions()) == 4


async def test_a_skipped_tick_is_logged_once_and_counted_each_time(leak_cluster):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        with capture_logs() as logs:
            with at.api.control.fails(500, verbs=("list",)):
                await at.minutes(2)
            await at.minutes(1)
        by_source = [each["event"] for each in logs if "reaper" in each["event"]]
        assert by_source == ["reaper failing", "reaper recovered"]
        assert await at.counted("skipped") == 2


async def test_reaped_pods_are_reported_for_a_day(leak_cluster):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        await at.minutes(1)
        assert await reaper_status_of(at) == ReaperStatus(reaped=len(leaks))
        at.app.clock.pass_(86_399)
        assert await reaper_status_of(at) == ReaperStatus(reaped=len(leaks))
        at.app.clock.pass_(1)
        assert await reaper_status_of(at) == ReaperStatus()


async def test_a_lasting_failure_is_reported_with_its_start_until_it_ends(leak_cluster):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        with at.api.control.fails(500, verbs=("list",)):
            await at.minutes(4)
            assert (await reaper_status_of(at)).held_up_since is None
            since = at.app.clock() - 180
            await at.minutes(1)
            assert await reaper_status_of(at) == ReaperStatus(held_up_since=since)
        await at.minutes(1)
        assert (await reaper_status_of(at)).held_up_since is None


@pytest.mark.parametrize("unlistable", [NAMESPACE, "elsewhere"])
async def test_while_one_namespace_may_not_be_listed_the_pods_of_the_other_are_reaped(leak_cluster, unlistable):
    async with leak_cluster(pools=ELSEWHERE) as at:
        at.make_pod("there", "elsewhere", age_seconds=3600)
        at.end_containers("there", namespace="elsewhere")
        leaks, listed = await prepare_leaks(at), at.cluster.pods

        async def listed_but_one(namespace, label):
            if namespace == unlistable:
                raise ClusterForbiddenError(f"RBAC lacks list on pods in {namespace}", verb="list", resource="pods")
            return await listed(namespace, label)

        at.cluster.pods = listed_but_one
        ticks = await at.minutes(3)
        assert ticks[0].trouble == f"RBAC lacks list on pods in {unlistable}"
        readable = {"there"} if unlistable == NAMESPACE else leaks
        assert set(at.deletions()) == readable
        assert (await reaper_status_of(at)).held_up_since is None
        places = [leaks_source(NAMESPACE), leaks_source("elsewhere")]
        degraded = await at.app.context.degraded_sources.of(places)
        assert degraded == {leaks_source(unlistable): f"RBAC lacks list on pods in {unlistable}"}
        at.cluster.pods = listed
        ticks = await at.minutes(5)
        assert set(at.deletions()) == readable, "what was not read has to be unclaimed for the grace again"
        (tick,) = await at.minutes(1)
        assert (tick.trouble, set(at.deletions())) == ("", {*leaks, "there"})
        assert await at.app.context.degraded_sources.of(places) == {}


async def test_a_pod_that_a_policy_protects_is_left_alone_and_the_others_are_reaped(leak_cluster):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        protected = min(leaks)
        with at.api.control.fails(403, verbs=["delete"], resources=["pods"], names=[protected]):
            ticks = await at.minutes(3)
        assert set(at.deletions()) == leaks - {protected}
        assert ticks[-1].trouble == f"delete pods {NAMESPACE}/{protected}: forbidden: forbidden: injected fault"


async def test_while_every_namespace_may_not_be_listed_nothing_is_judged(leak_cluster):
    async with leak_cluster(pools=ELSEWHERE) as at:
        await prepare_leaks(at)
        at.api.control.fails(403, verbs=("list",))
        (tick,) = await at.minutes(1)
        assert (tick.reaped, at.deletions()) == (0, [])
        assert tick.trouble
        places = [leaks_source(NAMESPACE), leaks_source("elsewhere")]
        for _ in range(2):
            degraded = await at.app.context.degraded_sources.of(places)
            assert degraded == {
                leaks_source(each): f"list pods {each}: forbidden: forbidden: injected fault"
                for each in (NAMESPACE, "elsewhere")
            }, "in each one's own words"
            await at.minutes(1)


async def test_leaks_that_two_ticks_in_a_row_get_no_answer_about_are_not_seen(leak_cluster):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        place = leaks_source(NAMESPACE)
        with at.api.control.fails(500, verbs=("list",)):
            await at.minutes(1)
            assert await at.app.context.degraded_sources.of([place]) == {}, "an API server may just restart"
            await at.minutes(1)
            assert [*await at.app.context.degraded_sources.of([place])] == [place]
        await at.minutes(1)
        assert await at.app.context.degraded_sources.of([place]) == {}


@pytest.mark.parametrize("unlistable", [None, "elsewhere"])
async def test_a_claim_is_remembered_of_a_pod_whose_namespace_may_not_be_listed_meanwhile(leak_cluster, unlistable):
    """Its runner has another name, by its claim, and is online."""
    async with leak_cluster(
        runners=2, pools=ELSEWHERE.replace('"elsewhere"', '"elsewhere"\nrunner_name = "pod"')
    ) as at:
        at.api.control.namespace("elsewhere")
        first, _ = at.runners
        at.make_pod("there", "elsewhere", age_seconds=0)
        await at.claim("there", runner_name=first)
        await at.minutes(2)
        await at.release("there")
        await at.minutes(8)
        listed = at.cluster.pods

        async def listed_but_one(namespace, label):
            if namespace == unlistable:
                raise ClusterForbiddenError("RBAC lacks list", verb="list", resource="pods")
            return await listed(namespace, label)

        at.cluster.pods = listed_but_one
        await at.minutes(5)
        at.cluster.pods = listed
        ticks = await at.minutes(15)
        assert (at.deletions(), ticks[-1].kept) == ([], {"SessionOpen": 1})


async def test_pods_of_two_namespaces_are_reaped(leak_cluster):
    async with leak_cluster(pools=ELSEWHERE) as at:
        at.api.control.namespace("elsewhere")
        at.make_pod("there", "elsewhere", age_seconds=3600)
        at.end_containers("there", namespace="elsewhere")
        leaks = await prepare_leaks(at)
        (tick,) = await at.minutes(1)
        assert (tick.reaped, tick.stamped) == (len(leaks) + 1, len(leaks) + 2)
        assert set(await at.published()) == {*leaks, "there"}


async def test_a_missing_cluster_is_reported_and_nothing_else_stops(story):
    async with story(config=f'[[pools]]\norg = "acme"\nname = "k"\nlabels = ["k"]\nnamespace = "{NAMESPACE}"\n') as app:
        tick = await reap_installation(app.context, app.installation)
        assert tick.trouble.startswith("KUBECONFIG")


@pytest.mark.parametrize(
    ("pool", "reaped"),
    [(ALL_POOLS, False), ("in-cluster", False), (POOL, True)],
    ids=["the org", "the pool", "another pool"],
)
async def test_pods_of_a_paused_pool_are_not_reaped(leak_cluster, pool, reaped):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        await at.app.context.fuses.pause(at.app.installation, pool, Pause("ada", "maintenance", at.app.clock()))
        await at.minutes(2)
        assert set(at.deletions()) == (leaks if reaped else set())


async def test_after_a_pause_a_known_leak_is_reaped_even_if_its_runner_record_is_deleted(leak_cluster):
    async with leak_cluster() as at:
        leaks, context = await prepare_leaks(at), at.app.context
        await context.fuses.pause(at.app.installation, "in-cluster", Pause("ada", "maintenance", at.app.clock()))
        (tick,) = await at.minutes(1)
        assert (tick.stamped, tick.kept["Paused"], tick.deferred) == (len(leaks) + 1, len(leaks) + 1, 0)
        known = await context.runners.all(at.app.installation)
        forgotten = [each.id for each in known.values() if each.name in leaks]
        await context.runners.revise(at.app.installation, dict.fromkeys(forgotten, lambda _: None))
        await at.minutes(1)
        assert at.deletions() == []
        installation = await context.installations.one(at.app.installation)
        await context.fuses.resume(installation, None, "ada", at.app.clock(), FuseLimits())
        await at.minutes(1)
        assert set(at.deletions()) == leaks


async def test_dry_run_reports_in_one_line_and_begins_no_deletion(leak_cluster):
    async with leak_cluster(more='[leaks]\nmode = "dry-run"\nper_tick = 3') as at:
        await prepare_leaks(at)
        with capture_logs() as logs:
            (tick,) = await at.minutes(1)
        (line,) = [each for each in logs if each["event"] == "leaks deferred"]
        assert (line["would_reap"], line["deferred"]) == (tick.would_reap, tick.deferred) == (3, 1)
        assert await reaper_status_of(at) == ReaperStatus(reaped=0, deferred=1, would_reap=3)
        assert await at.published() == []


class TestRunnersKnownFromDeliveries:
    async def record_runner(self, at, name, **changes):
        """Records a runner that GitHub never listed, such as a runner of a repository."""
        known = Evidence(777, name, at.app.clock())._replace(**changes)
        await at.app.context.runners.revise(at.app.installation, {777: lambda _: known})

    async def with_a_pod(self, at, **changes):
        await self.record_runner(at, "repo-1", **changes)
        at.make_pod("repo-1", age_seconds=3600)
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)

    async def test_a_job_in_progress_keeps_its_pod(self, leak_cluster):
        async with leak_cluster() as at:
            await self.with_a_pod(at, job_id=5, job_started_at=at.app.clock())
            await at.minutes(30, every=2)
            assert at.deletions() == []

    async def test_leaks_are_reaped_if_github_reports_jobs_and_no_controller_has_claims(self, leak_cluster):
        async with leak_cluster() as at:
            await self.record_runner(at, "repo-1", job_id=5, job_started_at=at.app.clock())
            at.make_pod("repo-1")
            for name in at.runners:
                at.make_pod(name)
            await at.hang()
            ticks = await at.minutes(6)
            assert set(at.deletions()) == set(at.runners)
            assert [each.trouble for each in ticks] == [""] * 6

    @pytest.mark.parametrize("claimed", [True, False])
    async def test_a_long_job_is_queried_periodically_unless_its_pod_is_claimed(self, leak_cluster, claimed):
        async with leak_cluster() as at:
            now = at.app.clock()
            await self.with_a_pod(at, job_id=5, job_started_at=now)
            await at.app.context.demand.record(
                at.app.installation, [Job(5, "running", (POOL,), "acme/api", now, 777, "repo-1", now)]
            )
            if claimed:
                await at.claim("repo-1", seconds=36_000)
            await at.minutes(170, every=5)
            asked = [made["total"] for path, made in at.app.account()["calls"].items() if "/actions/jobs/" in path]
            assert asked == ([] if claimed else [2]), "at 80 and at 160 minutes"
            assert at.deletions() == []

    async def test_a_job_whose_last_delivery_was_lost_gets_its_end_from_github(self, leak_cluster):
        async with leak_cluster() as at:
            (job_id,) = at.app.sandbox.control.queue("acme", labels=[POOL], repository="api")
            known = at.app.sandbox.world.orgs["acme"].fleet.jobs[job_id]
            began = at.app.clock()
            at.app.sandbox.control.finish("acme", job_id=job_id)
            await self.with_a_pod(at, job_id=job_id, job_started_at=began)
            job = Job(job_id, "running", (POOL,), "acme/api", began, 777, "repo-1", began)
            await at.app.context.demand.record(at.app.installation, [job])
            await at.minutes(90, every=10)
            evidence = (await at.app.context.runners.all(at.app.installation))[777]
            assert evidence.running_job is None
            assert evidence.job_ended_at == pytest.approx(known.completed_at, abs=1)
            assert evidence.job_ended_at < at.app.clock() - 4800

    async def test_without_the_permission_actions_no_job_is_queried_and_the_pod_is_kept(self, leak_cluster):
        async with leak_cluster() as at:
            installation = await at.app.context.installations.one(at.app.installation)
            granted = {name: level for name, level in installation.permissions.items() if name != "actions"}
            await at.app.context.installations.put(replace(installation, permissions=granted))
            now = at.app.clock()
            await self.with_a_pod(at, job_id=5, job_started_at=now)
            job = Job(5, "running", (POOL,), "acme/api", now, 777, "repo-1", now)
            await at.app.context.demand.record(at.app.installation, [job])
            with capture_logs() as logs:
                ticks = await at.minutes(90, every=10)
            assert not [path for path in at.app.account()["calls"] if "/actions/jobs/" in path]
            assert not [each for each in logs if each["event"] == "GitHub unavailable, leaks deferred"]
            assert (at.deletions(), ticks[-1].trouble) == ([], "")
            for name in at.runners:
                at.make_pod(name)
            await at.hang()
            await at.minutes(6)
            assert set(at.deletions()) == set(at.runners), "other pods are still reaped"

    async def test_a_job_known_only_by_its_runners_name_keeps_its_pod(self, leak_cluster):
        async with leak_cluster() as at:
            at.make_pod("linux-9", age_seconds=3600)
            at.make_pod("busy")
            await at.claim("busy", seconds=36_000)
            now = at.app.clock()
            job = Job(77, "running", (POOL,), "acme/nowhere", now, 9, "linux-9", now)
            await at.app.context.demand.record(at.app.installation, [job])
            await at.minutes(30, every=2)
            assert at.deletions() == []

    async def test_an_unlisted_runner_is_not_queried_and_its_pod_is_kept(self, leak_cluster):
        async with leak_cluster() as at:
            await self.with_a_pod(at)
            await at.minutes(7)
            before = at.app.account()["calls"]
            await at.reap()
            assert (at.app.account()["calls"], at.deletions()) == (before, [])

    async def test_the_pod_is_kept_until_its_job_is_over_for_15_minutes_and_its_container_exited(self, leak_cluster):
        async with leak_cluster() as at:
            started = at.app.clock()
            ended = job_ended(job_started(Evidence(777, "repo-1", started), 5, started), 5, started + 1)
            await self.with_a_pod(at, **{key: value for key, value in ended._asdict().items() if key.startswith("job")})
            await at.minutes(30, every=2)
            assert at.deletions() == [], "the runner may wait for another job"
            at.app.sandbox.control.fault(match="/orgs/", status=503)
            at.end_containers("repo-1")
            await at.minutes(6)
            assert at.deletions() == []
            at.app.sandbox.control.no_faults()
            await at.minutes(1)
            assert at.deletions() == ["repo-1"]
            (data,) = await at.app.sent_events("pod.orphaned")
            assert (data["pool"], data["evidence"][-1]["text"]) == (
                "in-cluster",
                "GitHub did not answer about its runner, and its job has been over for 15 minutes",
            )


async def test_a_pod_whose_claim_named_another_runner_is_kept_while_that_runner_is_busy(leak_cluster):
    async with leak_cluster() as at:
        for name in at.runners:
            await at.claim(f"pod-of-{name}", name, seconds=60)
            at.make_pod(f"pod-of-{name}", age_seconds=3600)
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)
        await at.tick()
        kept = min(at.runners)
        at.app.sandbox.control.busy("acme", ids=[at.runners[kept].id])
        await at.hang(*(at.runners.keys() - {kept}))
        await at.minutes(20)
        assert at.pods() == {"busy", f"pod-of-{kept}"}


async def test_a_pod_with_an_online_runner_is_not_reaped_even_if_never_claimed(leak_cluster):
    async with leak_cluster() as at:
        for name in at.runners:
            at.make_pod(name, age_seconds=36_000)
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)
        await at.minutes(20)
        assert at.pods() == {"busy", *at.runners}
        first, *others = sorted(at.runners)
        await at.hang(first)
        await at.minutes(4)
        assert at.pods() == {"busy", *at.runners}, "a registration may return after a short absence"
        await at.minutes(1)
        assert at.pods() == {"busy", *others}


async def test_the_github_queries_of_one_tick_are_bounded(leak_cluster, monkeypatch):
    monkeypatch.setattr(github_status, "MOST_RUNNERS", 3)
    async with leak_cluster(runners=10) as at:
        await prepare_leaks(at)
        (tick,) = await at.minutes(1)
        assert (tick.reaped, tick.deferred) == (3, 7)
        ticks = await at.minutes(3)
        assert [each.reaped for each in ticks] == [3, 3, 1]


class TestASharedNamespace:
    async def with_globex(self, at, knows=(), claims=()):
        await at.app.context.installations.put(GLOBEX)
        records = {number: Evidence(number, name, at.app.clock()) for number, name in enumerate(knows, 1)}
        await at.app.context.runners.revise(
            GLOBEX.id, {each.id: lambda _, each=each: each for each in records.values()}
        )
        for claim in claims:
            await at.app.context.pod_claims.claim(GLOBEX.id, claim.pod, claim.runner_name, None, claim.expires_at)

    async def test_a_pod_is_reaped_only_by_the_org_of_its_runner(self, leak_cluster):
        async with leak_cluster(pools=SHARED) as at:
            at.make_pod("unknown-pod", age_seconds=3600)
            theirs = sorted(at.runners)[:2]
            later = at.app.clock() + 36_000
            await self.with_globex(at, [theirs[0]], [PodClaim(theirs[1], theirs[1], None, later)])
            leaks = await prepare_leaks(at)
            (tick,) = await at.minutes(1)
            assert set(at.deletions()) == leaks - set(theirs)
            assert tick.without_owner == 3

    async def test_the_pods_of_ours_are_reaped_although_the_other_org_is_not_installed(self, leak_cluster):
        async with leak_cluster(pools=SHARED) as at:
            leaks = await prepare_leaks(at)
            at.make_pod("unknown-pod", age_seconds=3600)
            await at.minutes(7)
            assert set(at.deletions()) == leaks

    async def test_a_claim_of_the_other_org_just_before_the_deletion_keeps_the_pod(self, leak_cluster):
        async with leak_cluster(pools=SHARED) as at:
            await self.with_globex(at)
            leaks = await prepare_leaks(at)
            claimed_pod, read = min(leaks), at.cluster.pod

            async def read_and_claimed(namespace, name):
                pod = await read(namespace, name)
                await at.app.context.pod_claims.claim(GLOBEX.id, claimed_pod, claimed_pod, None, at.app.clock() + 600)
                return pod

            at.cluster.pod = read_and_claimed
            await at.minutes(1)
            assert set(at.deletions()) == leaks - {claimed_pod}


async def test_a_short_claim_just_before_the_deletion_restarts_the_unclaimed_time(leak_cluster):
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        claimed_pod, read = min(leaks), at.cluster.pod

        async def claimed_and_read(namespace, name):
            if name == claimed_pod:
                await at.claim(claimed_pod, seconds=30)
            return await read(namespace, name)

        at.cluster.pod = claimed_and_read
        await at.minutes(1)
        assert set(at.deletions()) == leaks - {claimed_pod}
        at.cluster.pod = read
        await at.minutes(5)
        assert set(at.deletions()) == leaks - {claimed_pod}, "unclaimed for four minutes"
        await at.minutes(1)
        assert set(at.deletions()) == leaks


async def test_a_suspended_installation_is_not_reaped(leak_cluster):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        installation = await at.app.context.installations.one(at.app.installation)
        await at.app.context.installations.put(replace(installation, suspended=True))
        await at.app.pass_(60)
        assert await at.reap() is None
        assert at.deletions() == []


async def test_the_reapers_state_expires_a_day_after_the_last_tick(leak_cluster):
    async with leak_cluster() as at:
        await prepare_leaks(at)
        ttl = await at.app.context.redis.ttl(keys.leaks(at.app.installation))
        assert store.KEPT_SECONDS - 60 < ttl <= store.KEPT_SECONDS


async def test_the_reaper_records_an_exit_missed_by_the_watch_before_it_deletes_the_pod(leak_cluster):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        at.end_containers(name)
        with capture_logs() as logs:
            await at.minutes(1)
        assert at.deletions() == [name]
        (line,) = [each for each in logs if each["event"] == "runner pod terminated"]
        assert (line["pod"], line["exitCode"], line["reason"], line["by_ghapp"]) == (name, 137, "Error", False)
        assert (await Deaths(at.app.context.redis).of(at.app.installation, name)).exit_code == 137


async def test_an_exit_recorded_by_the_watch_is_not_logged_again(leak_cluster):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        at.end_containers(name)
        context = at.app.context
        recorder = DeathRecorder(context.settings, at.cluster, context, context.queue_redis, context.clock)
        await recorder.record_end(await at.cluster.pod(NAMESPACE, name))
        with capture_logs() as logs:
            await at.minutes(1)
        assert at.deletions() == [name]
        assert [each for each in logs if each["event"] == "runner pod terminated"] == []


async def test_a_runner_whose_pod_was_reaped_is_logged_and_not_recorded_as_a_death(leak_cluster):
    async with leak_cluster(runners=1) as at:
        (name,) = await prepare_leaks(at)
        context = at.app.context
        recorder = DeathRecorder(context.settings, at.cluster, context, context.queue_redis, context.clock)
        await at.minutes(1)
        assert at.deletions() == [name]
        at.end_containers(name)
        with capture_logs() as logs:
            await recorder.record_end(await at.cluster.pod(NAMESPACE, name))
        assert [each["by_ghapp"] for each in logs if each["event"] == "runner pod terminated"] == [True]
        assert await Deaths(context.redis).of(at.app.installation, name) is None


@pytest.mark.parametrize(
    ("verb", "resource"),
    [(each.verb, each.rbac_resource) for each in NEAR_RUNNERS if each.role == "worker" and not each.replacers],
)
async def test_each_verb_that_the_reaper_is_refused_is_named_until_it_is_permitted(leak_cluster, verb, resource):
    """No leak stays for a reason that is not shown."""
    async with leak_cluster() as at:
        leaks = await prepare_leaks(at)
        with at.api.control.fails(403, verbs=[verb], resources=[resource]):
            await at.minutes(1)
            is_seen = await at.app.context.degraded_sources.of([leaks_source(NAMESPACE)]) == {}
            assert is_seen is ((verb, resource) != ("list", "pods"))
            ticks = await at.minutes(2)
        assert f"{verb} {resource}" in ticks[-1].trouble
        installation = await at.app.context.installations.one(at.app.installation)
        finding = of_tick(installation.org, ticks[-1], at.app.clock())
        assert finding.status == "warning"
        assert f"{verb} {resource}" in finding.text
        ticks = await at.minutes(6)
        assert ticks[-1].trouble == ""
        assert set(at.deletions()) == leaks
