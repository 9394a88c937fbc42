"""Remediation where something is deleted in a cluster: when, in which order, and what is never done."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer

from ghapp.errors import (
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConfigurationError,
    ConflictError,
    ResourceMissingError,
)
from ghapp.github.tenant import Removal, Tenant
from ghapp.health.cluster.deletable import REGISTRATION_FINALIZER
from ghapp.health.cluster.remains import Remains, RemainsKind
from ghapp.health.demand import Job
from ghapp.health.seen import job_started
from ghapp.health.verdict import State
from ghapp.sandbox.cluster.server import ClusterServer
from ghapp.settings import Settings
from ghapp.store.fuses import Pause
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from jobs.decide import decide
from jobs.house import open_house
from jobs.remediate import remediate_runner
from tests.health.cluster.builders import NAMESPACE, container, pod, pod_of_object, runner_object
from tests.replace.cluster import FakeCluster
from tests.stories.conftest import POOL
from tests.stories.test_main_job import lose_and_confirm, state_of, sweep


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
    """A story whose runner 1 is lost, and what stands in the cluster for it."""

    def __init__(self, it, lost, evidence, cluster):
        self.it, self.lost, self.name, self.cluster = it, lost, evidence.name, cluster

    async def remediate(self):
        return await remediate_runner(self.it.house, self.it.installation, self.lost)

    async def evidence(self):
        return (await self.it.house.runners.some(self.it.installation, [self.lost]))[self.lost]

    async def change(self, fold):
        await self.it.house.runners.revise(self.it.installation, {self.lost: fold})

    async def decide(self):
        await decide(self.it.house, await self.it.house.installations.one(self.it.installation))

    async def counted(self, outcome):
        counted = await self.it.house.counters.all()
        return counted.get(f'ghapp_remediations_total{{org="acme",outcome="{outcome}"}}', 0)

    def asked(self):
        """The keys of the remediations that wait or are due later; they are taken away."""
        urgent = Queue("urgent", connection=self.it.house.desk, serializer=JSONSerializer)
        later = ScheduledJobRegistry(queue=urgent)
        keys = [each for each in [*urgent.job_ids, *later.get_job_ids()] if each.startswith("remediate")]
        urgent.empty()
        for key in later.get_job_ids():
            later.remove(key, delete_job=True)
        return keys

    def deletes(self):
        """How many registrations we took away at GitHub, or tried to."""
        calls = self.it.account()["calls"]
        return sum(made["total"] for operation, made in calls.items() if operation.startswith("DELETE "))


def standing(replacer, name, now):
    """A day old, and running."""
    old = {"created_at": now - 86_400, "name": name}
    run = {"runner": container(running_since=now - 86_000)}
    if replacer == "pods":
        return [pod(**old, **run)]
    return [runner_object(**old, runner_name=name), pod_of_object(**old, **run)]


@asynccontextmanager
async def fleet(story, replacer, more=""):
    async with story(config=config(replacer, more), ephemeral=False) as it:
        (lost,) = await lose_and_confirm(it)
        evidence = (await it.house.runners.some(it.installation, [lost]))[lost]
        cluster = FakeCluster(*standing(replacer, evidence.name, it.clock()), accounts=(evidence.name,), clock=it.clock)

        async def opened():
            return cluster

        it.house = replace(it.house, cluster=opened)
        found = Fleet(it, lost, evidence, cluster)
        found.asked()
        yield found


async def test_a_lost_runner_of_arcs_is_replaced_by_deleting_its_object_alone(story):
    async with fleet(story, "arc") as it:
        assert await it.remediate() == "replaced"
        assert it.cluster.done == [f"delete object {it.name}"]
        evidence = await it.evidence()
        assert evidence.replaced_at is not None
        assert evidence.deletion.uid == "object-1"
        assert evidence.deletion.is_under_way
        assert it.asked() == [f"remediate-{it.it.installation}-{it.lost}-gone"]
        assert await it.it.replacements() == [], "nobody else is asked to replace it"
        assert await state_of(it.it, it.lost) is State.INVALIDATED


@pytest.mark.parametrize(
    ("seen", "listed"),
    [
        pytest.param(0, 0, id="a-view-of-this-moment"),
        pytest.param(119, 0, id="one-of-a-moment-ago"),
        pytest.param(120, 1, id="an-old-one"),
        pytest.param(None, 1, id="none"),
    ],
)
async def test_an_object_of_another_name_is_known_by_what_the_watch_saw_since(story, seen, listed):
    """Else all are listed; whichever it is, what is deleted was read just before."""
    await _replaced_by_another_name(story, seen, listed, after_seconds=200)


async def test_a_view_from_before_the_runner_was_lost_does_not_know_it(story):
    await _replaced_by_another_name(story, 119, 1, after_seconds=0)


async def _replaced_by_another_name(story, seen, listed, after_seconds):
    """`seen`: so many seconds ago; `after_seconds`: of its confirmation."""
    async with fleet(story, "arc") as it:
        await it.it.pass_(after_seconds)
        now, calls = it.it.clock(), []
        other = it.cluster.objects.pop(it.name)._replace(name="arc-1")
        it.cluster.objects["arc-1"] = other
        it.cluster.found_pods["arc-1"] = it.cluster.found_pods.pop(it.name)._replace(name="arc-1")
        list_all = it.cluster.ephemeral_runners

        async def counted(namespace):
            calls.append(namespace)
            return await list_all(namespace)

        it.cluster.ephemeral_runners = counted
        if seen is not None:
            await Pods(it.it.house.redis).replace_objects(NAMESPACE, [other], now - seen)
        assert await it.remediate() == "replaced"
        assert it.cluster.done == ["delete object arc-1"]
        assert len(calls) == listed


async def test_a_skew_of_minutes_makes_no_object_older_than_it_is(story):
    """The cluster's clock is five minutes behind ours, and the object was made a minute ago."""
    async with fleet(story, "arc") as it:
        theirs = it.it.clock() - 300
        it.cluster.clock = lambda: it.it.clock() - 300
        found = it.cluster.objects[it.name]
        it.cluster.objects[it.name] = found._replace(created_at=theirs - 60)
        assert await it.remediate() == "called-off"
        assert (await it.evidence()).deletion.waits_for == "WithinGrace"
        assert it.cluster.done == []


async def test_a_lost_pod_is_replaced_by_deleting_it_and_its_account(story):
    async with fleet(story, "pods") as it:
        assert await it.remediate() == "replaced"
        assert it.cluster.done == [f"delete pod {it.name}", f"delete account {it.name}"]
        assert not (await it.evidence()).deletion.is_under_way
        assert await it.remediate() == "held"
        await it.decide()
        assert it.asked() == []


async def test_a_stuck_finalizer_goes_after_two_minutes_and_another_404(story):
    async with fleet(story, "arc") as it:
        await it.remediate()
        it.cluster.objects[it.name] = it.cluster.objects[it.name]._replace(deleting_since=it.it.clock())
        it.asked()
        it.it.clock.pass_(119)
        assert await it.remediate() == "waiting"
        it.it.clock.pass_(1)
        assert await it.remediate() == "freed"
        assert it.cluster.done[1:] == [f"free {it.name} of {REGISTRATION_FINALIZER}"]
        del it.cluster.objects[it.name], it.cluster.found_pods[it.name]
        it.it.clock.pass_(60)
        assert await it.remediate() == "gone"
        assert await it.remediate() == "held"


async def test_a_finalizer_is_not_freed_when_the_registration_is_back(story):
    async with fleet(story, "arc") as it:
        await it.remediate()
        it.it.sandbox.control.restore("acme", ids=[it.lost])
        it.it.clock.pass_(3600)
        assert await it.remediate() == "waiting"
        assert it.cluster.done == [f"delete object {it.name}"]


async def test_a_lost_delayed_job_does_not_leave_it_terminating_for_ever(story):
    async with fleet(story, "arc") as it:
        await it.remediate()
        it.asked()  # the delayed one is lost
        await it.decide()
        assert it.asked() == [], "not before two minutes"
        it.it.clock.pass_(125)
        await it.decide()
        assert it.asked() == [f"remediate-{it.it.installation}-{it.lost}"]
        assert await it.remediate() == "freed"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_crash_after_the_deletion_is_healed_by_the_next_try(story, replacer):
    async with fleet(story, replacer) as it:
        before = await it.evidence()
        await it.remediate()
        done = await it.evidence()
        crashed = before._replace(deletion=done.deletion._replace(accepted_at=None, over_at=None, look_at=None))
        await it.it.house.runners.revise(it.it.installation, {it.lost: lambda _: crashed})
        changes = list(it.cluster.done)
        it.asked()
        await it.decide()
        assert it.asked() == [f"remediate-{it.it.installation}-{it.lost}"]
        assert await it.remediate() == "replaced"
        assert it.cluster.done == changes
        assert (await it.evidence()).deletion.uid == done.deletion.uid


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_after_a_crash_a_successor_of_the_same_name_is_left_alone(story, replacer):
    async with fleet(story, replacer) as it:
        before = await it.evidence()
        await it.remediate()
        recorded = (await it.evidence()).deletion._replace(accepted_at=None, over_at=None, look_at=None)
        await it.it.house.runners.revise(it.it.installation, {it.lost: lambda _: before._replace(deletion=recorded)})
        again = [each._replace(uid=f"new-{each.uid}") for each in standing(replacer, it.name, it.it.clock())]
        it.cluster.found_pods = {it.name: again[-1]}
        it.cluster.objects = {it.name: again[0]} if replacer == "arc" else {}
        changes = list(it.cluster.done)
        assert await it.remediate() == "replaced"
        assert it.cluster.done == changes


@pytest.mark.parametrize(
    ("error", "because"),
    [
        (ClusterUnavailableError("away"), "ClusterUnavailable"),
        (ClusterForbiddenError("no", verb="get", resource="pods"), "ClusterForbidden"),
        (ResourceMissingError("no CRD"), "ResourceMissing"),
        (ConfigurationError("KUBECONFIG: not set"), "ClusterUnconfigured"),
    ],
    ids=["away", "forbidden", "no CRD", "not configured"],
)
@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_without_an_answer_of_the_cluster_it_waits_and_github_is_not_asked(story, replacer, error, because):
    async with fleet(story, replacer) as it:
        it.cluster.fails["pod"] = error
        calls = it.it.account()["calls"]
        assert await it.remediate() == "waiting"
        assert await it.remediate() == "still-waiting"
        assert it.it.account()["calls"] == calls
        evidence = await it.evidence()
        assert (evidence.removed_at, evidence.replaced_at, evidence.deletion.waits_for) == (None, None, because)
        assert await it.counted("waiting") == 1
        it.cluster.fails.clear()
        assert await it.remediate() == "replaced"
        assert (await it.evidence()).deletion.waits_for == ""


async def test_one_that_waits_is_asked_for_again_with_pauses_that_grow(story):
    async with fleet(story, "arc") as it:
        it.cluster.fails["pod"] = ClusterUnavailableError("away")
        asked = []
        for _ in range(40):
            await it.decide()
            asked.append(bool(it.asked()))
            if asked[-1]:
                await it.remediate()
            it.it.clock.pass_(30)
    times = [index * 30 for index, each in enumerate(asked) if each]
    assert times == [0, 30, 60, 120, 240, 480, 960]


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_conflict_means_look_again(story, replacer):
    async with fleet(story, replacer) as it:
        deletion = "delete_ephemeral_runner" if replacer == "arc" else "delete_pod"
        it.cluster.fails[deletion] = [ConflictError("409")]
        assert await it.remediate() == "replaced"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_409_by_one_that_is_born_again_is_not_told_as_a_deletion_that_was_accepted(story, replacer):
    async with fleet(story, replacer) as it:
        kept = it.cluster.objects if replacer == "arc" else it.cluster.found_pods

        def is_born_again():
            it.cluster.before_delete = lambda: None
            kept[it.name] = kept[it.name]._replace(uid="successor", created_at=it.it.clock(), version="90")

        it.cluster.before_delete = is_born_again
        assert await it.remediate() == "replaced"
        evidence = await it.evidence()
        assert evidence.deletion.gone_already
        assert kept[it.name].uid == "successor"


async def test_a_deletion_that_the_cluster_accepted_is_told_as_such(story):
    async with fleet(story, "pods") as it:
        assert await it.remediate() == "replaced"
        assert not (await it.evidence()).deletion.gone_already


async def test_a_job_that_begins_under_our_hands_calls_it_off(story):
    async with fleet(story, "arc") as it:

        def takes_a_job():
            it.cluster.before_delete = lambda: None
            it.cluster.objects[it.name] = it.cluster.objects[it.name]._replace(job_id="8f", version="72")

        it.cluster.before_delete = takes_a_job
        assert await it.remediate() == "called-off"
        assert it.cluster.done == []
        evidence = await it.evidence()
        assert (evidence.granted_at, evidence.deletion.waits_for) == (None, "JobUnknown")


async def test_one_that_changes_for_ever_waits(story):
    async with fleet(story, "pods") as it:
        it.cluster.fails["delete_pod"] = ConflictError("409")
        assert await it.remediate() == "waiting"
        assert (await it.evidence()).deletion.waits_for == "ObjectChanged"


async def test_what_is_called_off_is_planned_for_again_when_that_may_have_changed(story):
    async with fleet(story, "pods") as it:
        it.cluster.found_pods[it.name] = it.cluster.found_pods[it.name]._replace(runner=container(running_since=None))
        assert await it.remediate() == "called-off"
        await it.decide()
        assert (await it.evidence()).granted_at is None
        it.it.clock.pass_(30)
        await it.decide()
        assert (await it.evidence()).granted_at is not None
        assert await it.remediate() == "still-waiting"
        assert await it.counted("called-off") == 1


async def test_a_claimed_pod_is_left_alone(story):
    async with fleet(story, "pods") as it:
        ends = it.it.clock() + 600
        await it.it.house.pod_claims.claim(it.it.installation, it.name, it.name, None, ends)
        assert await it.remediate() == "held"
        assert it.cluster.done == []


async def test_a_job_under_its_name_keeps_it(story):
    async with fleet(story, "arc") as it:
        at = it.it.clock()
        job = Job(77, "running", (POOL,), "acme/api", at, 99_999, it.name, at)
        await it.it.house.demand.tell(it.it.installation, [job])
        assert await it.remediate() == "called-off"
        assert (await it.evidence()).deletion.waits_for == "JobInProgress"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_registration_that_is_back_spares_what_stands_in_the_cluster(story, replacer):
    async with fleet(story, replacer) as it:
        it.it.sandbox.control.restore("acme", ids=[it.lost])
        assert await it.remediate() == "returned"
        assert it.cluster.done == []


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_pause_holds_it(story, replacer):
    async with fleet(story, replacer) as it:
        await it.it.house.fuses.pause(it.it.installation, "in-cluster", Pause("ada", "maintenance", it.it.clock()))
        assert await it.remediate() == "held"
        assert it.cluster.done == []


async def test_in_dry_run_nothing_is_deleted(story):
    async with fleet(story, "pods", more='[remediation]\nmode = "dry-run"') as it:
        assert await it.remediate() == "held"
        assert it.cluster.done == []


def in_dry_run(environ):
    """The same settings, but for the mode."""
    policy = Path(environ["GHAPP_CONFIG"])
    policy.write_text('[remediation]\nmode = "dry-run"\n' + policy.read_text())
    return Settings.read(environ)


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_grant_from_before_dry_run_deletes_nothing(story, replacer):
    async with fleet(story, replacer) as it:
        acting = it.it.house
        it.it.house = replace(acting, settings=in_dry_run(it.it.environ))
        assert await it.remediate() == "held"
        assert it.cluster.done == []
        it.it.house = acting
        assert await it.remediate() == "replaced"


async def offline_for_too_long(it):
    """Another one, which is registered, and silent."""
    known = (await it.it.house.runners.all(it.it.installation)).values()
    other = next(each for each in known if each.id != it.lost and each.listed)
    it.it.sandbox.control.take_offline("acme", ids=[other.id])
    await sweep(it.it)
    for _ in range(3):  # only time that complete lists cover counts for a patience
        await it.it.pass_(240)
        await sweep(it.it)
    it.lost, it.name = other.id, other.name
    assert (await it.evidence()).granted_at is not None


async def test_an_offline_runner_of_arcs_loses_its_object_and_arc_its_registration(story):
    async with fleet(story, "arc") as it:
        await offline_for_too_long(it)
        for each in standing("arc", it.name, it.it.clock()):
            (it.cluster.found_pods if hasattr(each, "node") else it.cluster.objects)[it.name] = each
        tries = it.deletes()
        assert await it.remediate() == "replaced"
        assert it.cluster.done == [f"delete object {it.name}"]
        assert it.deletes() == tries, "its object goes first, and ARC takes the registration away"


async def test_an_offline_runner_without_an_object_loses_its_registration(story):
    async with fleet(story, "arc") as it:
        await Places(it.it.house.redis).seen(it.it.installation, [("in-cluster", NAMESPACE)], it.it.clock())
        await offline_for_too_long(it)
        tries = it.deletes()
        assert await it.remediate() == "replaced"
        assert it.cluster.done == []
        assert it.deletes() == tries + 1


async def test_an_offline_pod_keeps_its_registration_where_its_deletion_would_be_refused(story):
    async with fleet(story, "pods") as it:
        await offline_for_too_long(it)
        it.cluster.found_pods[it.name] = standing("pods", it.name, it.it.clock())[0]
        it.cluster.lacks = ("pods",)
        tries = it.deletes()
        assert await it.remediate() == "waiting"
        assert it.deletes() == tries
        it.cluster.lacks = ()
        assert await it.remediate() == "replaced"
        assert it.deletes() == tries + 1


async def test_a_pod_whose_runner_github_calls_busy_at_its_removal_is_left_alone(story, monkeypatch):
    async with fleet(story, "pods") as it:
        await offline_for_too_long(it)
        it.cluster.found_pods[it.name] = standing("pods", it.name, it.it.clock())[0]

        async def busy_after_all(_tenant, _runner_id):
            return Removal.BUSY

        monkeypatch.setattr(Tenant, "remove_runner", busy_after_all)
        assert await it.remediate() == "busy"
        assert it.cluster.done == []
        evidence = await it.evidence()
        assert (evidence.granted_at, evidence.removed_at, evidence.busy) == (None, None, True)


async def test_the_finalizer_of_an_offline_runner_waits_for_two_404s_of_its_own(story):
    async with fleet(story, "arc") as it:
        await offline_for_too_long(it)
        for each in standing("arc", it.name, it.it.clock()):
            (it.cluster.found_pods if hasattr(each, "node") else it.cluster.objects)[it.name] = each
        await it.remediate()
        it.it.clock.pass_(125)
        assert await it.remediate() == "waiting"
        assert (await it.evidence()).deletion.waits_for == "StillRegistered"
        it.it.sandbox.control.lose("acme", ids=[it.lost])
        it.it.clock.pass_(30)
        assert await it.remediate() == "waiting"
        assert (await it.evidence()).deletion.waits_for == "AwaitingConfirmation"
        it.it.clock.pass_(29)
        assert await it.remediate() == "still-waiting"
        it.it.clock.pass_(1)
        assert await it.remediate() == "freed"
        assert it.cluster.done[1:] == [f"free {it.name} of {REGISTRATION_FINALIZER}"]


async def test_a_finalizer_is_not_freed_on_the_word_of_an_installation_that_is_not_what_it_was(story):
    async with fleet(story, "arc") as it:
        await it.remediate()
        it.it.clock.pass_(125)
        it.it.sandbox.control.permissions("acme", permissions={"metadata": "read"})
        assert await it.remediate() == "waiting"
        assert len(it.cluster.done) == 1


async def test_a_pod_that_registered_anew_while_its_deletion_was_tried_is_left_alone(story):
    async with fleet(story, "pods") as it:
        it.cluster.fails["delete_pod"] = ClusterUnavailableError("away")
        assert await it.remediate() == "waiting"
        evidence = await it.evidence()
        assert evidence.removed_at is not None
        it.cluster.fails.clear()
        tenant = await it.it.house.github.tenant(await it.it.house.installations.one(it.it.installation))
        request = {"name": it.name, "runner_group_id": 1, "labels": [POOL]}
        answer = await tenant.send("POST", "/orgs/acme/actions/runners/generate-jitconfig", json=request)
        assert answer.status == 201
        assert await it.remediate() == "returned"
        assert it.cluster.done == []
        assert await it.remediate() == "held"


async def test_the_house_opens_the_cluster_that_its_settings_name(story, tmp_path):
    with ClusterServer() as server:
        async with fleet(story, "pods") as it:
            server.control.pod(NAMESPACE, it.name, service_account=it.name)
            path = server.kubeconfig(tmp_path / "kubeconfig")
            settings = Settings.read(it.it.environ | {"KUBECONFIG": str(path)})
            async with open_house(settings, it.it.clock) as it.it.house:
                it.it.clock.pass_(600)
                assert server.control.calls() == [], "not before it is needed"
                assert await it.remediate() == "replaced"
        metadata = server.control.object("pods", NAMESPACE, it.name)["metadata"]
        assert "deletionTimestamp" in metadata
        assert server.control.object("serviceaccounts", NAMESPACE, it.name) is None


async def test_without_a_cluster_it_waits(story):
    async with fleet(story, "arc") as it, open_house(it.it.settings, it.it.clock) as it.it.house:
        assert await it.remediate() == "waiting"
        assert (await it.evidence()).deletion.waits_for == "ClusterUnconfigured"


async def test_a_job_that_a_delivery_tells_of_in_the_last_moment_holds_it(story):
    async with fleet(story, "arc") as it:
        at = it.it.clock() + 1
        look = it.cluster.ephemeral_runner

        async def told_meanwhile(namespace, name):
            await it.it.house.runners.revise(it.it.installation, {it.lost: lambda known: job_started(known, 77, at)})
            return await look(namespace, name)

        it.cluster.ephemeral_runner = told_meanwhile
        assert await it.remediate() == "held"
        assert it.cluster.done == []


class TestAnObjectThatSomebodyElseDeleted:
    """Its finalizer takes a 404 for a failure. The watch has seen it Terminating for five minutes."""

    @pytest.fixture
    def stuck(self, story):
        @asynccontextmanager
        async def opened(**found):
            async with fleet(story, "arc") as it:
                now = it.it.clock()
                changes = {"deleting_since": now - 300, **found}
                it.cluster.objects[it.name] = it.cluster.objects[it.name]._replace(**changes)
                seen = Remains(RemainsKind.TERMINATING, now - 300, now)
                await it.change(lambda known: known._replace(remains=seen))
                yield it

        return opened

    async def test_is_freed_and_counts_as_replaced(self, stuck):
        async with stuck() as it:
            assert (await it.evidence()).deletion is None
            assert await it.remediate() == "freed"
            assert it.cluster.done == [f"free {it.name} of {REGISTRATION_FINALIZER}"]
            evidence = await it.evidence()
            assert evidence.deletion.uid == "object-1"
            assert None not in (evidence.replaced_at, evidence.deletion.freed_at, evidence.deletion.accepted_at)
            del it.cluster.objects[it.name], it.cluster.found_pods[it.name]
            it.it.clock.pass_(60)
            assert await it.remediate() == "gone"

    async def test_is_not_freed_when_the_registration_is_back(self, stuck):
        async with stuck() as it:
            it.it.sandbox.control.restore("acme", ids=[it.lost])
            assert await it.remediate() == "waiting"
            assert it.cluster.done == []
            assert (await it.evidence()).replaced_at is None

    async def test_is_not_freed_on_the_word_of_an_installation_that_is_not_what_it_was(self, stuck):
        async with stuck() as it:
            it.it.sandbox.control.permissions("acme", permissions={"metadata": "read"})
            assert await it.remediate() == "waiting"
            assert it.cluster.done == []

    async def test_is_not_freed_while_it_is_paused(self, stuck):
        async with stuck() as it:
            look = it.cluster.ephemeral_runner

            async def paused_meanwhile(namespace, name):
                await it.it.house.fuses.pause(it.it.installation, "*", Pause("ann", "look", it.it.clock()))
                return await look(namespace, name)

            it.cluster.ephemeral_runner = paused_meanwhile
            assert await it.remediate() == "held"
            assert it.cluster.done == []

    async def test_is_not_finished_while_it_may_work(self, stuck):
        async with stuck(job_id="8f-a1") as it:
            assert await it.remediate() == "called-off"
            assert (await it.evidence()).deletion.waits_for == "JobUnknown"
            assert it.cluster.done == []

    async def test_a_crash_after_it_was_freed_is_healed_by_the_next_try(self, stuck):
        async with stuck() as it:
            before = await it.evidence()
            await it.remediate()
            await it.change(lambda _: before)
            assert await it.remediate() == "replaced"
            assert len(it.cluster.done) == 1


class TestAJobThatNobodyToldOf:
    """ARC's object names its workflow run; GitHub knows the jobs of that."""

    @pytest.fixture
    def with_a_run(self, story):
        @asynccontextmanager
        async def opened():
            async with fleet(story, "arc") as it:
                (job_id,) = it.it.sandbox.control.queue("acme", labels=[POOL], repository="api")
                job = it.it.sandbox.world.orgs["acme"].fleet.jobs[job_id]
                job.runner_id, job.runner_name = it.lost, it.name
                named = {"job_id": "8f-a1", "workflow_run_id": job.run_id, "repository": "acme/api"}
                it.cluster.objects[it.name] = it.cluster.objects[it.name]._replace(**named)
                yield it, job

        return opened

    def over(self, it, job):
        job.status, job.conclusion, job.completed_at = "completed", "failure", it.it.clock() - 300

    async def test_is_asked_for_and_then_it_goes_on(self, with_a_run):
        async with with_a_run() as (it, job):
            self.over(it, job)
            assert await it.remediate() == "called-off"
            evidence = await it.evidence()
            assert (evidence.job_id, evidence.running_job, evidence.deletion.waits_for) == (job.id, None, "JobUnknown")
            assert evidence.job_ended_at == pytest.approx(job.completed_at, abs=1)
            it.it.clock.pass_(30)
            await it.decide()
            assert await it.remediate() == "replaced"
            assert it.cluster.done == [f"delete object {it.name}"]

    async def test_that_still_runs_vouches_for_it(self, with_a_run):
        async with with_a_run() as (it, job):
            assert await it.remediate() == "called-off"
            assert (await it.evidence()).running_job == job.id
            assert await state_of(it.it, it.lost) is State.SUSPECT
            (told,) = [each for each in await it.it.house.demand.all(it.it.installation) if each.id == job.id]
            assert (told.status, told.repository) == ("running", "acme/api"), "so that somebody knows where to ask"
            it.it.clock.pass_(3600)
            await it.decide()
            assert await it.remediate() == "held"
            assert it.cluster.done == []

    async def test_of_which_github_gives_no_answer_holds_it(self, with_a_run):
        async with with_a_run() as (it, job):
            self.over(it, job)
            it.it.sandbox.control.fault(match=".*/actions/runs/.*", status=500)
            assert await it.remediate() == "called-off"
            assert (await it.evidence()).job_id is None

    async def test_that_is_another_runners_by_now_says_nothing(self, with_a_run):
        async with with_a_run() as (it, job):
            self.over(it, job)
            job.runner_name = "another"
            assert await it.remediate() == "called-off"
            assert (await it.evidence()).job_id is None
