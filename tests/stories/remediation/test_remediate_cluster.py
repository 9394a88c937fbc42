"""Remediation by deletions in a cluster: the conditions, the order, and the guards."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer

from ghapp.cluster.api_errors import RefusedError
from ghapp.errors import (
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConfigurationError,
    ConflictError,
    ResourceMissingError,
)
from ghapp.github.installation_client import InstallationClient, Removal
from ghapp.installations.installation import repository_scope
from ghapp.pods.deletion_guards import REGISTRATION_FINALIZER
from ghapp.pods.store import PodLocations, Pods
from ghapp.remediation.pause import Pause
from ghapp.runners.evidence import Registration
from ghapp.runners.observations import SeenBy, job_started, registration_seen
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import State
from ghapp.settings import Settings
from ghapp.workflow_jobs.job import Job
from jobs.context import open_context
from jobs.remediation.plan_remediation import plan_remediation
from jobs.remediation.remediate import remediate_runner
from tests.replace.cluster import FakeCluster
from tests.rules.pods.builders import NAMESPACE, container, pod, pod_of_object, runner_object
from tests.stories.conftest import POOL
from tests.stories.runners.test_main_job import lose_and_confirm, state_of, sweep
from tests.support.cluster import SteeredCluster


def config(replacer, more=""):
    return f"""
        {more}
        [[pools]]
        org = "acme"
        name = "in-cluster"
        labels = ["{POOL}"]
        replacer = "{replacer}"
        namespace = "{NAMESPACE}"
        replace_offline_after_seconds = 600
        """


class Fleet:
    """A story whose runner 1 is lost, with its objects in the cluster."""

    def __init__(self, app, lost, evidence, cluster):
        self.app, self.lost, self.name, self.cluster = app, lost, evidence.name, cluster

    async def remediate(self):
        return await remediate_runner(self.app.context, self.app.installation, self.lost)

    async def evidence(self):
        return (await self.app.context.runners.some(self.app.installation, [self.lost]))[self.lost]

    async def change(self, fold):
        await self.app.context.runners.revise(self.app.installation, {self.lost: fold})

    async def decide(self):
        await plan_remediation(self.app.context, await self.app.context.installations.one(self.app.installation))

    async def counted(self, outcome):
        counted = await self.app.context.counters.all()
        return counted.get(f'ghapp_remediations_total{{org="acme",outcome="{outcome}"}}', 0)

    def asked(self):
        """Removes the queued and delayed remediations, and returns their keys."""
        urgent = Queue("urgent", connection=self.app.context.queue_redis, serializer=JSONSerializer)
        later = ScheduledJobRegistry(queue=urgent)
        keys = [each for each in [*urgent.job_ids, *later.get_job_ids()] if each.startswith("remediate")]
        urgent.empty()
        for key in later.get_job_ids():
            later.remove(key, delete_job=True)
        return keys

    def deletes(self):
        """The number of registrations that ghapp deleted at GitHub or tried to."""
        calls = self.app.account()["calls"]
        return sum(made["total"] for operation, made in calls.items() if operation.startswith("DELETE "))


def standing(replacer, name, now):
    """The runner's objects: a day old, and running."""
    old = {"created_at": now - 86_400, "name": name}
    run = {"runner": container(running_since=now - 86_000)}
    if replacer == "pods":
        return [pod(**old, **run)]
    return [runner_object(**old, runner_name=name), pod_of_object(**old, **run)]


@asynccontextmanager
async def fleet(story, replacer, more=""):
    async with story(config=config(replacer, more), ephemeral=False) as app:
        (lost,) = await lose_and_confirm(app)
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]
        cluster = FakeCluster(
            *standing(replacer, evidence.name, app.clock()), accounts=(evidence.name,), clock=app.clock
        )

        async def opened():
            return cluster

        app.context = replace(app.context, cluster=opened)
        found = Fleet(app, lost, evidence, cluster)
        found.asked()
        yield found


async def test_a_lost_arc_runner_is_replaced_by_deleting_only_its_object(story):
    async with fleet(story, "arc") as app:
        assert await app.remediate() == "replaced"
        assert app.cluster.done == [f"delete object {app.name}"]
        evidence = await app.evidence()
        assert evidence.replaced_at is not None
        assert evidence.deletion.uid == "object-1"
        assert evidence.deletion.is_under_way
        assert app.asked() == [f"remediate-{app.app.installation}-{app.lost}-gone"]
        assert await app.app.replacements() == [], "no event requests a replacement"
        assert await state_of(app.app, app.lost) is State.INVALIDATED


@pytest.mark.parametrize(
    ("seen", "listed"),
    [
        pytest.param(0, 0, id="current-view"),
        pytest.param(119, 0, id="recent-view"),
        pytest.param(120, 1, id="old-view"),
        pytest.param(None, 1, id="no-view"),
    ],
)
async def test_an_object_with_another_name_is_found_in_the_watchs_view(story, seen, listed):
    """Without a recent view all objects are listed; in both cases the object is read just before its deletion."""
    await _replaced_by_another_name(story, seen, listed, after_seconds=200)


async def test_a_view_from_before_the_loss_is_not_used(story):
    await _replaced_by_another_name(story, 119, 1, after_seconds=0)


async def _replaced_by_another_name(story, seen, listed, after_seconds):
    """`seen`: age of the view in seconds; `after_seconds`: time since the confirmation."""
    async with fleet(story, "arc") as app:
        await app.app.pass_(after_seconds)
        now, calls = app.app.clock(), []
        other = app.cluster.objects.pop(app.name)._replace(name="arc-1")
        app.cluster.objects["arc-1"] = other
        app.cluster.found_pods["arc-1"] = app.cluster.found_pods.pop(app.name)._replace(name="arc-1")
        list_all = app.cluster.ephemeral_runners

        async def counted(namespace):
            calls.append(namespace)
            return await list_all(namespace)

        app.cluster.ephemeral_runners = counted
        if seen is not None:
            await Pods(app.app.context.redis).replace_objects(NAMESPACE, [other], now - seen)
        assert await app.remediate() == "replaced"
        assert app.cluster.done == ["delete object arc-1"]
        assert len(calls) == listed


async def test_the_age_of_an_object_uses_the_clusters_clock(story):
    """The cluster's clock is five minutes behind ours, and the object was made a minute ago."""
    async with fleet(story, "arc") as app:
        theirs = app.app.clock() - 300
        app.cluster.clock = lambda: app.app.clock() - 300
        found = app.cluster.objects[app.name]
        app.cluster.objects[app.name] = found._replace(created_at=theirs - 60)
        assert await app.remediate() == "called-off"
        assert (await app.evidence()).deletion.waits_for == "WithinGrace"
        assert app.cluster.done == []


async def test_a_lost_pod_is_replaced_by_deleting_the_pod_and_its_account(story):
    async with fleet(story, "pods") as app:
        assert await app.remediate() == "replaced"
        assert app.cluster.done == [f"delete pod {app.name}", f"delete account {app.name}"]
        assert not (await app.evidence()).deletion.is_under_way
        assert await app.remediate() == "held"
        await app.decide()
        assert app.asked() == []


async def test_a_stuck_finalizer_is_removed_after_two_minutes_and_another_404(story):
    async with fleet(story, "arc") as app:
        await app.remediate()
        app.cluster.objects[app.name] = app.cluster.objects[app.name]._replace(deleting_since=app.app.clock())
        app.asked()
        app.app.clock.pass_(119)
        assert await app.remediate() == "waiting"
        app.app.clock.pass_(1)
        assert await app.remediate() == "freed"
        assert app.cluster.done[1:] == [f"free {app.name} of {REGISTRATION_FINALIZER}"]
        del app.cluster.objects[app.name], app.cluster.found_pods[app.name]
        app.app.clock.pass_(60)
        assert await app.remediate() == "gone"
        assert await app.remediate() == "held"


async def test_a_finalizer_is_not_removed_when_the_registration_is_back(story):
    async with fleet(story, "arc") as app:
        await app.remediate()
        app.app.sandbox.control.restore("acme", ids=[app.lost])
        app.app.clock.pass_(3600)
        assert await app.remediate() == "waiting"
        assert app.cluster.done == [f"delete object {app.name}"]


async def test_a_lost_delayed_job_is_enqueued_again(story):
    async with fleet(story, "arc") as app:
        await app.remediate()
        app.asked()  # the delayed job is lost
        await app.decide()
        assert app.asked() == [], "not before two minutes"
        app.app.clock.pass_(125)
        await app.decide()
        assert app.asked() == [f"remediate-{app.app.installation}-{app.lost}"]
        assert await app.remediate() == "freed"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_crash_after_the_deletion_is_recovered_by_the_next_run(story, replacer):
    async with fleet(story, replacer) as app:
        before = await app.evidence()
        await app.remediate()
        done = await app.evidence()
        crashed = before._replace(deletion=done.deletion._replace(accepted_at=None, over_at=None, look_at=None))
        await app.app.context.runners.revise(app.app.installation, {app.lost: lambda _: crashed})
        changes = list(app.cluster.done)
        app.asked()
        await app.decide()
        assert app.asked() == [f"remediate-{app.app.installation}-{app.lost}"]
        assert await app.remediate() == "replaced"
        assert app.cluster.done == changes
        assert (await app.evidence()).deletion.uid == done.deletion.uid


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_after_a_crash_a_successor_of_the_same_name_is_left_alone(story, replacer):
    async with fleet(story, replacer) as app:
        before = await app.evidence()
        await app.remediate()
        recorded = (await app.evidence()).deletion._replace(accepted_at=None, over_at=None, look_at=None)
        await app.app.context.runners.revise(
            app.app.installation, {app.lost: lambda _: before._replace(deletion=recorded)}
        )
        again = [each._replace(uid=f"new-{each.uid}") for each in standing(replacer, app.name, app.app.clock())]
        app.cluster.found_pods = {app.name: again[-1]}
        app.cluster.objects = {app.name: again[0]} if replacer == "arc" else {}
        changes = list(app.cluster.done)
        assert await app.remediate() == "replaced"
        assert app.cluster.done == changes


@pytest.mark.parametrize(
    ("error", "because"),
    [
        (ClusterUnavailableError("away"), "ClusterUnavailable"),
        (ClusterForbiddenError("no", verb="get", resource="pods"), "ClusterForbidden"),
        (ClusterForbiddenError("no", verb="get", resource="pods", by_rbac=False), "PolicyForbids"),
        (ResourceMissingError("no CRD"), "ResourceMissing"),
        (ConfigurationError("KUBECONFIG: not set"), "ClusterUnconfigured"),
    ],
    ids=["unavailable", "forbidden", "a policy", "no CRD", "not configured"],
)
@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_without_an_answer_of_the_cluster_the_replacement_waits_and_github_is_not_called(
    story, replacer, error, because
):
    async with fleet(story, replacer) as app:
        app.cluster.fails["pod"] = error
        calls = app.app.account()["calls"]
        assert await app.remediate() == "waiting"
        assert await app.remediate() == "still-waiting"
        assert app.app.account()["calls"] == calls
        evidence = await app.evidence()
        assert (evidence.removed_at, evidence.replaced_at, evidence.deletion.waits_for) == (None, None, because)
        assert evidence.deletion.words == str(error)
        assert await app.counted("waiting") == 1
        app.cluster.fails.clear()
        assert await app.remediate() == "replaced"
        deletion = (await app.evidence()).deletion
        assert (deletion.waits_for, deletion.words) == ("", "")


async def test_a_waiting_replacement_is_retried_with_growing_pauses(story):
    async with fleet(story, "arc") as app:
        app.cluster.fails["pod"] = ClusterUnavailableError("away")
        asked = []
        for _ in range(40):
            await app.decide()
            asked.append(bool(app.asked()))
            if asked[-1]:
                await app.remediate()
            app.app.clock.pass_(30)
    times = [index * 30 for index, each in enumerate(asked) if each]
    assert times == [0, 30, 60, 120, 240, 480, 960]


async def test_a_pod_that_may_be_of_a_repository_s_runner_of_that_name_is_left_alone(story):
    async with fleet(story, "pods", '[[scopes]]\nrepository = "acme/api"') as at:
        context = at.app.context
        org = await context.installations.one(at.app.installation)
        api = repository_scope(org, 800_001, "api", "acme/api")
        await context.installations.put_scopes(org.id, [api])
        seen = Registration(5, at.name, "Linux", online=True, busy=True, labels=(), custom_labels=())
        online = registration_seen(None, seen, at.app.clock(), by=SeenBy.LIST)
        await context.runners.revise(api.id, {5: lambda _: online})
        await at.remediate()
        assert at.cluster.done == []


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_conflict_is_retried_with_a_new_read(story, replacer):
    async with fleet(story, replacer) as app:
        deletion = "delete_ephemeral_runner" if replacer == "arc" else "delete_pod"
        app.cluster.fails[deletion] = [ConflictError("409")]
        assert await app.remediate() == "replaced"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_409_for_a_recreated_pod_is_not_recorded_as_an_accepted_deletion(story, replacer):
    async with fleet(story, replacer) as app:
        kept = app.cluster.objects if replacer == "arc" else app.cluster.found_pods

        def recreate():
            app.cluster.before_delete = lambda: None
            kept[app.name] = kept[app.name]._replace(uid="successor", created_at=app.app.clock(), version="90")

        app.cluster.before_delete = recreate
        assert await app.remediate() == "replaced"
        evidence = await app.evidence()
        assert evidence.deletion.already_deleted
        assert kept[app.name].uid == "successor"


async def test_an_accepted_deletion_is_recorded_as_accepted(story):
    async with fleet(story, "pods") as app:
        assert await app.remediate() == "replaced"
        assert not (await app.evidence()).deletion.already_deleted


async def test_a_job_that_starts_during_the_deletion_revokes_the_grant(story):
    async with fleet(story, "arc") as app:

        def takes_a_job():
            app.cluster.before_delete = lambda: None
            app.cluster.objects[app.name] = app.cluster.objects[app.name]._replace(job_id="8f", version="72")

        app.cluster.before_delete = takes_a_job
        assert await app.remediate() == "called-off"
        assert app.cluster.done == []
        evidence = await app.evidence()
        assert (evidence.granted_at, evidence.deletion.waits_for) == (None, "JobUnknown")


async def test_a_pod_that_changes_on_each_attempt_waits(story):
    async with fleet(story, "pods") as app:
        app.cluster.fails["delete_pod"] = ConflictError("409")
        assert await app.remediate() == "waiting"
        assert (await app.evidence()).deletion.waits_for == "ObjectChanged"


async def test_a_revoked_replacement_is_planned_again_after_a_pause(story):
    async with fleet(story, "pods") as app:
        app.cluster.found_pods[app.name] = app.cluster.found_pods[app.name]._replace(
            runner=container(running_since=None)
        )
        assert await app.remediate() == "called-off"
        await app.decide()
        assert (await app.evidence()).granted_at is None
        app.app.clock.pass_(30)
        await app.decide()
        assert (await app.evidence()).granted_at is not None
        assert await app.remediate() == "still-waiting"
        assert await app.counted("called-off") == 1


async def test_a_claimed_pod_is_left_alone(story):
    async with fleet(story, "pods") as app:
        ends = app.app.clock() + 600
        await app.app.context.pod_claims.claim(app.app.installation, app.name, app.name, None, ends)
        assert await app.remediate() == "held"
        assert app.cluster.done == []


async def test_a_running_job_with_the_runners_name_revokes_the_grant(story):
    async with fleet(story, "arc") as app:
        at = app.app.clock()
        job = Job(77, "running", (POOL,), "acme/api", at, 99_999, app.name, at)
        await app.app.context.demand.record(app.app.installation, [job])
        assert await app.remediate() == "called-off"
        assert (await app.evidence()).deletion.waits_for == "JobInProgress"


@pytest.mark.parametrize("is_back", [True, False], ids=["online again", "not registered any more"])
async def test_a_runner_granted_for_being_offline_that_is_not_offline_any_more_is_called_off(story, is_back):
    async with fleet(story, "arc") as app:
        if is_back:
            app.app.sandbox.control.restore("acme", ids=[app.lost])
        offline = {
            "offline_since": app.app.clock() - 3600,
            "online": False,
            "listed": True,
            "observed_at": app.app.clock(),
        }
        present = dict.fromkeys(("absent_since", "absent_of", "first_404_at", "confirmed_at", "last_shown_at"))
        await app.change(lambda known: known._replace(**offline, **present))
        assert await app.remediate() == "called-off"
        assert (await app.evidence()).granted_at is None
        assert app.cluster.done == []


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_returned_registration_keeps_the_objects_in_the_cluster(story, replacer):
    async with fleet(story, replacer) as app:
        app.app.sandbox.control.restore("acme", ids=[app.lost])
        assert await app.remediate() == "returned"
        assert app.cluster.done == []


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_pause_defers_the_replacement(story, replacer):
    async with fleet(story, replacer) as app:
        await app.app.context.fuses.pause(
            app.app.installation, "in-cluster", Pause("ada", "maintenance", app.app.clock())
        )
        assert await app.remediate() == "held"
        assert app.cluster.done == []


async def test_in_dry_run_nothing_is_deleted(story):
    async with fleet(story, "pods", more='[remediation]\nmode = "dry-run"') as app:
        assert await app.remediate() == "held"
        assert app.cluster.done == []


def in_dry_run(environ):
    """The same settings in the mode dry-run."""
    policy = Path(environ["GHAPP_CONFIG"])
    policy.write_text(policy.read_text().replace('mode = "act"', 'mode = "dry-run"'))
    return Settings.read(environ)


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_grant_from_before_dry_run_deletes_nothing(story, replacer):
    async with fleet(story, replacer) as app:
        acting = app.app.context
        app.app.context = replace(acting, settings=in_dry_run(app.app.environ))
        assert await app.remediate() == "held"
        assert app.cluster.done == []
        app.app.context = acting
        assert await app.remediate() == "replaced"


async def offline_for_too_long(app):
    """Makes another runner, which is registered, offline until its replacement is granted."""
    known = (await app.app.context.runners.all(app.app.installation)).values()
    other = next(each for each in known if each.id != app.lost and each.listed)
    app.app.sandbox.control.take_offline("acme", ids=[other.id])
    await sweep(app.app)
    for _ in range(3):  # only time covered by complete lists counts towards the offline limit
        await app.app.pass_(240)
        await sweep(app.app)
    app.lost, app.name = other.id, other.name
    assert (await app.evidence()).granted_at is not None


async def test_an_offline_arc_runner_loses_its_object_and_arc_deletes_the_registration(story):
    async with fleet(story, "arc") as app:
        await offline_for_too_long(app)
        for each in standing("arc", app.name, app.app.clock()):
            (app.cluster.found_pods if hasattr(each, "node") else app.cluster.objects)[app.name] = each
        tries = app.deletes()
        assert await app.remediate() == "replaced"
        assert app.cluster.done == [f"delete object {app.name}"]
        assert app.deletes() == tries, "the object is deleted first, and ARC deletes the registration"


async def test_an_offline_runner_without_an_object_loses_its_registration(story):
    async with fleet(story, "arc") as app:
        await PodLocations(app.app.context.redis).seen(
            app.app.installation, [("in-cluster", NAMESPACE)], app.app.clock()
        )
        await offline_for_too_long(app)
        tries = app.deletes()
        assert await app.remediate() == "replaced"
        assert app.cluster.done == []
        assert app.deletes() == tries + 1


async def test_an_offline_pod_keeps_its_registration_if_its_deletion_is_forbidden(story):
    async with fleet(story, "pods") as app:
        await offline_for_too_long(app)
        app.cluster.found_pods[app.name] = standing("pods", app.name, app.app.clock())[0]
        app.cluster.lacks = ("pods",)
        tries = app.deletes()
        assert await app.remediate() == "waiting"
        assert app.deletes() == tries
        app.cluster.lacks = ()
        assert await app.remediate() == "replaced"
        assert app.deletes() == tries + 1


async def test_a_pod_whose_runner_is_busy_at_its_removal_is_left_alone(story, monkeypatch):
    async with fleet(story, "pods") as app:
        await offline_for_too_long(app)
        app.cluster.found_pods[app.name] = standing("pods", app.name, app.app.clock())[0]

        async def busy_after_all(_tenant, _runner_id):
            return Removal.BUSY

        monkeypatch.setattr(InstallationClient, "remove_runner", busy_after_all)
        assert await app.remediate() == "busy"
        assert app.cluster.done == []
        evidence = await app.evidence()
        assert (evidence.granted_at, evidence.removed_at, evidence.busy) == (None, None, True)


async def test_the_finalizer_of_an_offline_runner_requires_two_404s(story):
    async with fleet(story, "arc") as app:
        await offline_for_too_long(app)
        for each in standing("arc", app.name, app.app.clock()):
            (app.cluster.found_pods if hasattr(each, "node") else app.cluster.objects)[app.name] = each
        await app.remediate()
        app.app.clock.pass_(125)
        assert await app.remediate() == "waiting"
        assert (await app.evidence()).deletion.waits_for == "StillRegistered"
        app.app.sandbox.control.lose("acme", ids=[app.lost])
        app.app.clock.pass_(30)
        assert await app.remediate() == "waiting"
        assert (await app.evidence()).deletion.waits_for == "AwaitingConfirmation"
        app.app.clock.pass_(29)
        assert await app.remediate() == "still-waiting"
        app.app.clock.pass_(1)
        assert await app.remediate() == "freed"
        assert app.cluster.done[1:] == [f"free {app.name} of {REGISTRATION_FINALIZER}"]


async def test_a_finalizer_is_not_removed_if_the_installation_lost_permissions(story):
    async with fleet(story, "arc") as app:
        await app.remediate()
        app.app.clock.pass_(125)
        app.app.sandbox.control.permissions("acme", permissions={"metadata": "read"})
        assert await app.remediate() == "waiting"
        assert len(app.cluster.done) == 1


async def test_a_pod_that_registers_again_during_its_deletion_is_kept(story):
    async with fleet(story, "pods") as app:
        app.cluster.fails["delete_pod"] = ClusterUnavailableError("away")
        assert await app.remediate() == "waiting"
        evidence = await app.evidence()
        assert evidence.removed_at is not None
        app.cluster.fails.clear()
        installation_client = await app.app.context.github.installation_client(
            await app.app.context.installations.one(app.app.installation)
        )
        request = {"name": app.name, "runner_group_id": 1, "labels": [POOL]}
        answer = await installation_client.send("POST", "/orgs/acme/actions/runners/generate-jitconfig", json=request)
        assert answer.status == 201
        assert await app.remediate() == "returned"
        assert app.cluster.done == []
        assert await app.remediate() == "held"


async def test_the_context_opens_the_cluster_of_its_settings(story, tmp_path):
    with SteeredCluster() as server:
        async with fleet(story, "pods") as app:
            server.control.pod(NAMESPACE, app.name, service_account=app.name)
            path = server.kubeconfig(tmp_path / "kubeconfig")
            settings = Settings.read(app.app.environ | {"KUBECONFIG": str(path)})
            async with open_context(settings, app.app.clock) as app.app.context:
                app.app.clock.pass_(600)
                assert server.control.calls() == [], "the cluster is opened on first use"
                assert await app.remediate() == "replaced"
        metadata = server.control.object("pods", NAMESPACE, app.name)["metadata"]
        assert "deletionTimestamp" in metadata
        assert server.control.object("serviceaccounts", NAMESPACE, app.name) is None


async def test_without_a_cluster_the_replacement_waits(story):
    async with fleet(story, "arc") as app, open_context(app.app.settings, app.app.clock) as app.app.context:
        assert await app.remediate() == "waiting"
        assert (await app.evidence()).deletion.waits_for == "ClusterUnconfigured"


async def test_a_job_reported_just_before_the_deletion_defers_the_replacement(story):
    async with fleet(story, "arc") as app:
        at = app.app.clock() + 1
        look = app.cluster.ephemeral_runner

        async def reported_meanwhile(namespace, name):
            await app.app.context.runners.revise(
                app.app.installation, {app.lost: lambda known: job_started(known, 77, at)}
            )
            return await look(namespace, name)

        app.cluster.ephemeral_runner = reported_meanwhile
        assert await app.remediate() == "held"
        assert app.cluster.done == []


class TestObjectDeletedByAnotherClient:
    """The object's finalizer treats a 404 as a failure. The watch has seen the object Terminating for five minutes."""

    @pytest.fixture
    def stuck(self, story):
        @asynccontextmanager
        async def opened(**found):
            async with fleet(story, "arc") as app:
                now = app.app.clock()
                changes = {"deleting_since": now - 300, **found}
                app.cluster.objects[app.name] = app.cluster.objects[app.name]._replace(**changes)
                seen = Remains(RemainsKind.TERMINATING, now - 300, now)
                await app.change(lambda known: known._replace(remains=seen))
                yield app

        return opened

    async def test_the_object_is_freed_and_counts_as_replaced(self, stuck):
        async with stuck() as app:
            assert (await app.evidence()).deletion is None
            assert await app.remediate() == "freed"
            assert app.cluster.done == [f"free {app.name} of {REGISTRATION_FINALIZER}"]
            evidence = await app.evidence()
            assert evidence.deletion.uid == "object-1"
            assert None not in (evidence.replaced_at, evidence.deletion.freed_at, evidence.deletion.accepted_at)
            del app.cluster.objects[app.name], app.cluster.found_pods[app.name]
            app.app.clock.pass_(60)
            assert await app.remediate() == "gone"

    async def test_the_object_is_not_freed_when_the_registration_is_back(self, stuck):
        async with stuck() as app:
            app.app.sandbox.control.restore("acme", ids=[app.lost])
            assert await app.remediate() == "waiting"
            assert app.cluster.done == []
            assert (await app.evidence()).replaced_at is None

    async def test_the_object_is_not_freed_if_the_installation_lost_permissions(self, stuck):
        async with stuck() as app:
            app.app.sandbox.control.permissions("acme", permissions={"metadata": "read"})
            assert await app.remediate() == "waiting"
            assert app.cluster.done == []

    async def test_the_object_is_not_freed_during_a_pause(self, stuck):
        async with stuck() as app:
            look = app.cluster.ephemeral_runner

            async def paused_meanwhile(namespace, name):
                await app.app.context.fuses.pause(app.app.installation, "*", Pause("ann", "look", app.app.clock()))
                return await look(namespace, name)

            app.cluster.ephemeral_runner = paused_meanwhile
            assert await app.remediate() == "held"
            assert app.cluster.done == []

    async def test_the_object_is_not_freed_while_its_runner_may_have_a_job(self, stuck):
        async with stuck(job_id="8f-a1") as app:
            assert await app.remediate() == "called-off"
            assert (await app.evidence()).deletion.waits_for == "JobUnknown"
            assert app.cluster.done == []

    async def test_a_crash_after_the_object_was_freed_is_recovered_by_the_next_run(self, stuck):
        async with stuck() as app:
            before = await app.evidence()
            await app.remediate()
            await app.change(lambda _: before)
            assert await app.remediate() == "replaced"
            assert len(app.cluster.done) == 1


class TestJobWithoutDeliveries:
    """ARC's object names the workflow run; ghapp reads the jobs of that run from GitHub."""

    @pytest.fixture
    def with_a_run(self, story):
        @asynccontextmanager
        async def opened():
            async with fleet(story, "arc") as app:
                (job_id,) = app.app.sandbox.control.queue("acme", labels=[POOL], repository="api")
                job = app.app.sandbox.world.orgs["acme"].fleet.jobs[job_id]
                job.runner_id, job.runner_name = app.lost, app.name
                named = {"job_id": "8f-a1", "workflow_run_id": job.run_id, "repository": "acme/api"}
                app.cluster.objects[app.name] = app.cluster.objects[app.name]._replace(**named)
                yield app, job

        return opened

    def over(self, app, job):
        job.status, job.conclusion, job.completed_at = "completed", "failure", app.app.clock() - 300

    async def test_a_finished_job_is_read_from_github_and_the_replacement_continues(self, with_a_run):
        async with with_a_run() as (app, job):
            self.over(app, job)
            assert await app.remediate() == "called-off"
            evidence = await app.evidence()
            assert (evidence.job_id, evidence.running_job, evidence.deletion.waits_for) == (job.id, None, "JobUnknown")
            assert evidence.job_ended_at == pytest.approx(job.completed_at, abs=1)
            app.app.clock.pass_(30)
            await app.decide()
            assert await app.remediate() == "replaced"
            assert app.cluster.done == [f"delete object {app.name}"]

    async def test_a_running_job_makes_the_runner_suspect_and_defers_the_replacement(self, with_a_run):
        async with with_a_run() as (app, job):
            assert await app.remediate() == "called-off"
            assert (await app.evidence()).running_job == job.id
            assert await state_of(app.app, app.lost) is State.SUSPECT
            (result,) = [each for each in await app.app.context.demand.all(app.app.installation) if each.id == job.id]
            assert (result.status, result.repository) == ("running", "acme/api"), (
                "the stored job has its repository for later queries"
            )
            app.app.clock.pass_(3600)
            await app.decide()
            assert await app.remediate() == "held"
            assert app.cluster.done == []

    async def test_an_unavailable_github_revokes_the_grant(self, with_a_run):
        async with with_a_run() as (app, job):
            self.over(app, job)
            app.app.sandbox.control.fault(match=".*/actions/runs/.*", status=500)
            assert await app.remediate() == "called-off"
            assert (await app.evidence()).job_id is None

    async def test_a_job_of_another_runner_is_ignored(self, with_a_run):
        async with with_a_run() as (app, job):
            self.over(app, job)
            job.runner_name = "another"
            assert await app.remediate() == "called-off"
            assert (await app.evidence()).job_id is None


TARGETS = {"arc": ("object-1", "objects", "delete_ephemeral_runner"), "pods": ("pod-1", "found_pods", "delete_pod")}
"""By replacer: the uid of what is deleted, where the cluster has it, and the call."""


@pytest.mark.parametrize("replacer", TARGETS)
class TestWhoseDeletionItWas:
    async def is_own(self, app, uid):
        return await app.app.context.own_deletions.has_any(app.app.installation, [uid])

    async def test_an_accepted_deletion_stays_ours_though_the_registration_returns(self, story, replacer):
        uid, *_ = TARGETS[replacer]
        async with fleet(story, replacer) as app:
            assert not await self.is_own(app, uid)
            assert await app.remediate() == "replaced"
            at = app.app.clock() + 60
            labels = ("self-hosted", POOL)
            back = Registration(app.lost, app.name, "linux", True, False, labels, (POOL,), ephemeral=False)
            await app.change(lambda known: registration_seen(known, back, at, by=SeenBy.LIST))
            assert (await app.evidence()).deletion is None
            assert await self.is_own(app, uid)

    async def test_a_deletion_without_an_answer_may_be_ours(self, story, replacer):
        uid, _, call = TARGETS[replacer]
        async with fleet(story, replacer) as app:
            app.cluster.fails[call] = ClusterUnavailableError("no answer")
            assert await app.remediate() == "waiting"
            assert await self.is_own(app, uid)

    @pytest.mark.parametrize(
        "refusal",
        [
            ConflictError("409"),
            ClusterForbiddenError("no", verb="delete", resource="pods", by_rbac=False),
            RefusedError("422", code=422),
        ],
        ids=["changed", "forbidden", "invalid"],
    )
    async def test_a_refused_deletion_is_not_ours(self, story, replacer, refusal):
        uid, _, call = TARGETS[replacer]
        async with fleet(story, replacer) as app:
            app.cluster.fails[call] = refusal
            await app.remediate()
            assert not await self.is_own(app, uid)

    async def test_a_deletion_for_which_another_client_was_faster_is_not_ours(self, story, replacer):
        uid, where, _ = TARGETS[replacer]
        async with fleet(story, replacer) as app:
            app.cluster.before_delete = lambda: getattr(app.cluster, where).pop(app.name, None)
            assert await app.remediate() == "replaced"
            assert not await self.is_own(app, uid)
            assert (await app.evidence()).deletion.already_deleted

    async def test_an_attempt_that_sends_no_deletion_claims_none(self, story, replacer):
        """A pause comes after the object was read; another client deletes it later."""
        uid, *_ = TARGETS[replacer]
        async with fleet(story, replacer) as app:
            await app.app.context.fuses.pause(app.app.installation, "in-cluster", Pause("mona", "no", app.app.clock()))
            assert await app.remediate() != "replaced"
            assert not await self.is_own(app, uid)


async def test_a_crash_after_the_deletion_of_a_pod_leaves_it_ours(story):
    async with fleet(story, "pods") as app:
        app.cluster.fails["delete_service_account"] = ClusterForbiddenError("no", verb="delete", resource="pods")
        assert await app.remediate() == "waiting"
        assert await app.app.context.own_deletions.has_any(app.app.installation, ["pod-1"])
