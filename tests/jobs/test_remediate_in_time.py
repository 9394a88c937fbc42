"""What comes between the grant and the deletion, and what the cluster says that is not so: nothing that works goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghapp.health.cluster.pod import Pod
from ghapp.health.evidence import Registration
from ghapp.health.fuse import Fuse, Position
from ghapp.health.installation import Installation
from ghapp.health.seen import registration_seen
from ghapp.settings import PoolSettings
from ghapp.store.fuses import WHOLE_ORG, Pause
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from tests.health.cluster.builders import NAMESPACE
from tests.jobs.test_remediate_cluster import fleet, offline_for_too_long, standing

OTHER = 4711


async def a_claim(it):
    await it.it.house.pod_claims.claim(it.it.installation, it.name, it.name, None, it.it.clock() + 600)


async def a_claim_by_another_name(it):
    await it.it.house.pod_claims.claim(it.it.installation, "some-pod", it.name, None, it.it.clock() + 600)


async def a_pause(it):
    await it.it.house.fuses.pause(it.it.installation, WHOLE_ORG, Pause("ada", "stop", it.it.clock()))


async def a_stopped_fuse(it):
    fuses = it.it.house.fuses
    before = (await fuses.all(it.it.installation)).get("in-cluster")
    assert await fuses.save(it.it.installation, "in-cluster", before, Fuse(position=Position.STOPPED))


async def a_sight(it):
    """A sweep that another process makes shows its registration."""
    known = await it.evidence()
    shown = Registration(it.lost, it.name, "linux", True, False, known.labels, known.custom_labels, ephemeral=False)
    at = it.it.clock() + 1
    fold = {it.lost: lambda before: registration_seen(before, shown, at, listed=True)}
    await it.it.house.runners.revise(it.it.installation, fold)


COMES_BETWEEN = pytest.mark.parametrize(
    "comes", [a_claim, a_claim_by_another_name, a_pause, a_stopped_fuse, a_sight], ids=lambda it: it.__name__
)


def during(it, comes, method):
    """Have something happen while the cluster answers that call."""
    answer = getattr(it.cluster, method)

    async def meanwhile(*args, **more):
        said = await answer(*args, **more)
        setattr(it.cluster, method, answer)
        await comes(it)
        return said

    setattr(it.cluster, method, meanwhile)


@COMES_BETWEEN
@pytest.mark.parametrize(
    ("replacer", "method"), [("pods", "pod"), ("pods", "may"), ("arc", "pod"), ("arc", "ephemeral_runner")]
)
async def test_whoever_stops_it_after_the_grant_is_heeded_until_the_last_moment(story, replacer, method, comes):
    async with fleet(story, replacer) as it:
        during(it, comes, method)
        tries = it.deletes()
        assert await it.remediate() == "held"
        assert (it.cluster.done, it.deletes()) == ([], tries)


@COMES_BETWEEN
async def test_whoever_stops_it_between_a_conflict_and_the_next_look_is_heeded(story, comes):
    async with fleet(story, "arc") as it:

        def changes():
            it.cluster.before_delete = lambda: None
            it.cluster.objects[it.name] = it.cluster.objects[it.name]._replace(version="72")

        it.cluster.before_delete = changes
        delete = it.cluster.delete_ephemeral_runner

        async def conflict(*args):
            await comes(it)
            return await delete(*args)

        it.cluster.delete_ephemeral_runner = conflict
        assert await it.remediate() in ("held", "called-off")
        assert it.cluster.done == []


async def test_a_claim_that_comes_while_its_registration_is_removed_holds_the_pod_until_it_is_given_back(story):
    async with fleet(story, "pods") as it:
        await offline_for_too_long(it)
        it.cluster.found_pods[it.name] = standing("pods", it.name, it.it.clock())[0]
        tenant = await it.it.house.github.tenant(await it.it.house.installations.one(it.it.installation))
        remove = type(tenant).remove_runner

        async def claimed_meanwhile(self, runner_id):
            said = await remove(self, runner_id)
            await a_claim(it)
            return said

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(tenant), "remove_runner", claimed_meanwhile)
            assert await it.remediate() == "held"
        assert it.cluster.done == []
        await it.it.house.pod_claims.give_back(it.it.installation, it.name)
        it.it.clock.pass_(130)
        assert await it.remediate() == "replaced"
        assert it.cluster.done[0] == f"delete pod {it.name}"


@COMES_BETWEEN
async def test_a_finalizer_stays_when_somebody_stops_it_while_the_object_is_looked_at(story, comes):
    async with fleet(story, "arc") as it:
        await it.remediate()
        it.it.clock.pass_(125)
        during(it, comes, "ephemeral_runner")
        assert await it.remediate() in ("held", "waiting")
        assert len(it.cluster.done) == 1


def empty(it):
    it.cluster.found_pods, it.cluster.objects = {}, {}


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_a_namespace_in_which_nothing_of_its_pool_was_ever_seen_proves_nothing(story, replacer):
    async with fleet(story, replacer) as it:
        empty(it)
        assert await it.remediate() == "called-off"
        evidence = await it.evidence()
        assert (evidence.granted_at, evidence.replaced_at) == (None, None)
        assert evidence.deletion.waits_for == "PoolNeverSeenThere"
        assert it.cluster.done == [], "not even an account"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_an_offline_runner_keeps_its_registration_where_its_pool_was_never_seen(story, replacer):
    async with fleet(story, replacer) as it:
        await offline_for_too_long(it)
        empty(it)
        tries = it.deletes()
        assert await it.remediate() == "called-off"
        assert it.deletes() == tries


async def seen_by_the_watch(it):
    """One of the pool's runners, which is not the lost one, had a pod when the watch looked last, long ago."""
    known = (await it.it.house.runners.all(it.it.installation)).values()
    other = next(each.name for each in known if each.id != it.lost)
    theirs = Pod(NAMESPACE, other, "uid-other", "9", it.it.clock() - 90_000)
    await Pods(it.it.house.redis).replace_all(NAMESPACE, [theirs], [], it.it.clock() - 80_000)


async def seen_by_an_earlier_look(it):
    await Places(it.it.house.redis).seen(it.it.installation, [("in-cluster", NAMESPACE)], it.it.clock() - 80_000)


async def seen_when_it_was_its_turn_itself(it):
    it.cluster.found_pods = {it.name: standing("pods", it.name, it.it.clock())[-1]}
    it.cluster.found_pods[it.name] = it.cluster.found_pods[it.name]._replace(runner=None)
    assert await it.remediate() == "called-off"
    it.it.clock.pass_(60)
    await it.decide()
    assert (await it.evidence()).granted_at is not None


@pytest.mark.parametrize(
    "seen", [seen_by_the_watch, seen_by_an_earlier_look, seen_when_it_was_its_turn_itself], ids=lambda it: it.__name__
)
async def test_where_its_pool_was_seen_nothing_left_is_nothing_left(story, seen):
    async with fleet(story, "pods") as it:
        await seen(it)
        empty(it)
        assert await it.remediate() == "replaced"


@pytest.mark.parametrize("place", [("another-pool", NAMESPACE), ("in-cluster", "elsewhere")])
async def test_another_pool_or_another_namespace_proves_nothing(story, place):
    async with fleet(story, "pods") as it:
        await Places(it.it.house.redis).seen(it.it.installation, [place], it.it.clock())
        empty(it)
        assert await it.remediate() == "called-off"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
@pytest.mark.parametrize("how", ["runner", "claim"])
async def test_a_pod_that_may_be_another_organization_s_is_left_alone(story, replacer, how):
    """Both have pods in one namespace, and each a runner of that name: one is lost, the other works."""
    async with fleet(story, replacer) as it:
        house = it.it.house
        await house.installations.put(Installation(OTHER, "umbrella", 2))
        shared = PoolSettings("umbrella", "theirs", replacer=replacer, namespace=NAMESPACE)
        it.it.house = replace(house, settings=replace(house.settings, pools=(*house.settings.pools, shared)))
        if how == "runner":
            shown = Registration(1, it.name, "linux", True, True, ("linux",), ("linux",))
            fold = {1: lambda _: registration_seen(None, shown, it.it.clock(), listed=True)}
            await house.runners.revise(OTHER, fold)
        else:
            await house.pod_claims.claim(OTHER, it.name, it.name, None, it.it.clock() + 60)
        assert await it.remediate() == "called-off"
        assert (it.cluster.done, (await it.evidence()).deletion.waits_for) == ([], "OfAnotherOrg")


async def test_a_claim_takes_the_grant_back_so_that_no_batch_waits_for_it(story):
    async with fleet(story, "pods") as it:
        await a_claim(it)
        assert await it.remediate() == "held"
        assert (await it.evidence()).granted_at is None
        await it.decide()
        assert (await it.evidence()).granted_at is None
        await it.it.house.pod_claims.give_back(it.it.installation, it.name)
        await it.decide()
        assert (await it.evidence()).granted_at is not None
        assert await it.remediate() == "replaced"


async def test_a_pause_leaves_the_grant_as_it_is(story):
    async with fleet(story, "pods") as it:
        await a_pause(it)
        assert await it.remediate() == "held"
        assert (await it.evidence()).granted_at is not None
