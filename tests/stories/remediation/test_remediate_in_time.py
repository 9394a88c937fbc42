"""Events between the grant and the deletion, and missing or ambiguous data of the cluster: no working runner is deleted."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from ghapp.github.installation_client import InstallationClient
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.pods.pod import Pod
from ghapp.pods.store import PodLocations, Pods
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.pause import Pause
from ghapp.runners.evidence import Registration
from ghapp.runners.observations import SeenBy, registration_seen
from ghapp.settings import PoolSettings
from tests.rules.pods.builders import NAMESPACE
from tests.stories.remediation.test_remediate_cluster import fleet, offline_for_too_long, standing
from tests.support.snapshots import record_snapshot

OTHER = 4711


async def a_claim(app):
    await app.app.context.pod_claims.claim(app.app.installation, app.name, app.name, None, app.app.clock() + 600)


async def a_claim_by_another_name(app):
    await app.app.context.pod_claims.claim(app.app.installation, "some-pod", app.name, None, app.app.clock() + 600)


async def a_pause(app):
    await app.app.context.fuses.pause(app.app.installation, ALL_POOLS, Pause("ada", "stop", app.app.clock()))


async def a_stopped_fuse(app):
    fuses = app.app.context.fuses
    before = (await fuses.all(app.app.installation)).get("in-cluster")
    assert await fuses.save(app.app.installation, "in-cluster", before, Fuse(position=Position.STOPPED))


async def a_registration_seen(app):
    """A sweep of another process sees the registration."""
    known = await app.evidence()
    shown = Registration(app.lost, app.name, "linux", True, False, known.labels, known.custom_labels, ephemeral=False)
    at = app.app.clock() + 1
    fold = {app.lost: lambda before: registration_seen(before, shown, at, by=SeenBy.LIST)}
    await app.app.context.runners.revise(app.app.installation, fold)


COMES_BETWEEN = pytest.mark.parametrize(
    "comes",
    [a_claim, a_claim_by_another_name, a_pause, a_stopped_fuse, a_registration_seen],
    ids=lambda app: app.__name__,
)


def during(app, comes, method):
    """Runs `comes` while the cluster answers the call `method`."""
    answer = getattr(app.cluster, method)

    async def answer_and_run(*args, **more):
        text = await answer(*args, **more)
        setattr(app.cluster, method, answer)
        await comes(app)
        return text

    setattr(app.cluster, method, answer_and_run)


@COMES_BETWEEN
@pytest.mark.parametrize(
    ("replacer", "method"), [("pods", "pod"), ("pods", "require"), ("arc", "pod"), ("arc", "ephemeral_runner")]
)
async def test_a_stop_after_the_grant_is_obeyed_until_the_deletion(story, replacer, method, comes):
    async with fleet(story, replacer) as app:
        during(app, comes, method)
        tries = app.deletes()
        assert await app.remediate() == "held"
        assert (app.cluster.done, app.deletes()) == ([], tries)


@COMES_BETWEEN
async def test_a_stop_between_a_conflict_and_the_next_read_is_obeyed(story, comes):
    async with fleet(story, "arc") as app:

        def changes():
            app.cluster.before_delete = lambda: None
            app.cluster.objects[app.name] = app.cluster.objects[app.name]._replace(version="72")

        app.cluster.before_delete = changes
        delete = app.cluster.delete_ephemeral_runner

        async def conflict(*args):
            await comes(app)
            return await delete(*args)

        app.cluster.delete_ephemeral_runner = conflict
        assert await app.remediate() in ("held", "called-off")
        assert app.cluster.done == []


@contextmanager
def during_the_removal_of_the_registration(app, comes):
    """Runs `comes` while GitHub answers our DELETE."""
    remove = InstallationClient.remove_runner

    async def remove_and_run(self, runner_id):
        removal = await remove(self, runner_id)
        await comes(app)
        return removal

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(InstallationClient, "remove_runner", remove_and_run)
        yield


async def test_a_runner_that_github_returns_while_it_answers_404_to_our_removal_is_not_replaced(story):
    async with fleet(story, "pods") as app:
        with during_the_removal_of_the_registration(app, a_registration_seen):
            assert await app.remediate() == "held"
        evidence = await app.evidence()
        assert (evidence.granted_at, evidence.confirmed_at, evidence.removed_at) == (None, None, None)
        assert app.cluster.done == []


async def test_a_claim_during_the_removal_of_the_registration_keeps_the_pod_until_its_release(story):
    async with fleet(story, "pods") as app:
        await offline_for_too_long(app)
        app.cluster.found_pods[app.name] = standing("pods", app.name, app.app.clock())[0]
        with during_the_removal_of_the_registration(app, a_claim):
            assert await app.remediate() == "held"
        assert app.cluster.done == []
        await app.app.context.pod_claims.release(app.app.installation, app.name)
        app.app.clock.pass_(130)
        assert await app.remediate() == "replaced"
        assert app.cluster.done[0] == f"delete pod {app.name}"


@COMES_BETWEEN
async def test_a_finalizer_stays_if_remediation_is_stopped_during_the_read_of_the_object(story, comes):
    async with fleet(story, "arc") as app:
        await app.remediate()
        app.app.clock.pass_(125)
        during(app, comes, "ephemeral_runner")
        assert await app.remediate() in ("held", "waiting")
        assert len(app.cluster.done) == 1


def empty(app):
    app.cluster.found_pods, app.cluster.objects = {}, {}


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_an_empty_namespace_where_the_pool_was_never_seen_revokes_the_grant(story, replacer):
    async with fleet(story, replacer) as app:
        empty(app)
        assert await app.remediate() == "called-off"
        evidence = await app.evidence()
        assert (evidence.granted_at, evidence.replaced_at) == (None, None)
        assert evidence.deletion.waits_for == "PoolNeverSeenThere"
        assert app.cluster.done == [], "no account was deleted"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
async def test_an_offline_runner_keeps_its_registration_if_its_pool_was_never_seen(story, replacer):
    async with fleet(story, replacer) as app:
        await offline_for_too_long(app)
        empty(app)
        tries = app.deletes()
        assert await app.remediate() == "called-off"
        assert app.deletes() == tries


async def seen_by_the_watch(app):
    """Another runner of the pool had a pod in the last, old view of the watch."""
    known = (await app.app.context.runners.all(app.app.installation)).values()
    other = next(each.name for each in known if each.id != app.lost)
    theirs = Pod(NAMESPACE, other, "uid-other", "9", app.app.clock() - 90_000)
    await record_snapshot(Pods(app.app.context.redis), NAMESPACE, [theirs], [], app.app.clock() - 80_000)


async def seen_by_an_earlier_run(app):
    await PodLocations(app.app.context.redis).seen(
        app.app.installation, [("in-cluster", NAMESPACE)], app.app.clock() - 80_000
    )


async def seen_by_its_own_remediation(app):
    app.cluster.found_pods = {app.name: standing("pods", app.name, app.app.clock())[-1]}
    app.cluster.found_pods[app.name] = app.cluster.found_pods[app.name]._replace(runner=None)
    assert await app.remediate() == "called-off"
    app.app.clock.pass_(60)
    await app.decide()
    assert (await app.evidence()).granted_at is not None


@pytest.mark.parametrize(
    "seen", [seen_by_the_watch, seen_by_an_earlier_run, seen_by_its_own_remediation], ids=lambda app: app.__name__
)
async def test_a_runner_without_remains_counts_as_replaced_if_its_pool_was_seen(story, seen):
    async with fleet(story, "pods") as app:
        await seen(app)
        empty(app)
        assert await app.remediate() == "replaced"


@pytest.mark.parametrize("place", [("another-pool", NAMESPACE), ("in-cluster", "elsewhere")])
async def test_a_location_of_another_pool_or_another_namespace_does_not_count(story, place):
    async with fleet(story, "pods") as app:
        await PodLocations(app.app.context.redis).seen(app.app.installation, [place], app.app.clock())
        empty(app)
        assert await app.remediate() == "called-off"


@pytest.mark.parametrize("replacer", ["arc", "pods"])
@pytest.mark.parametrize("how", ["runner", "claim"])
async def test_a_pod_that_may_belong_to_another_organization_is_left_alone(story, replacer, how):
    """Both orgs have pods in one namespace, and each has a runner of that name: one is lost, the other is working."""
    async with fleet(story, replacer) as app:
        context = app.app.context
        await context.installations.put(Installation(OTHER, "umbrella", 2))
        shared = PoolSettings("umbrella", "theirs", replacer=replacer, namespace=NAMESPACE)
        app.app.context = replace(context, settings=replace(context.settings, pools=(*context.settings.pools, shared)))
        if how == "runner":
            shown = Registration(1, app.name, "linux", True, True, ("linux",), ("linux",))
            fold = {1: lambda _: registration_seen(None, shown, app.app.clock(), by=SeenBy.LIST)}
            await context.runners.revise(OTHER, fold)
        else:
            await context.pod_claims.claim(OTHER, app.name, app.name, None, app.app.clock() + 60)
        assert await app.remediate() == "called-off"
        assert (app.cluster.done, (await app.evidence()).deletion.waits_for) == ([], "OfAnotherOrg")


async def test_a_claim_returns_the_grant_so_that_it_blocks_no_batch(story):
    async with fleet(story, "pods") as app:
        await a_claim(app)
        assert await app.remediate() == "held"
        assert (await app.evidence()).granted_at is None
        await app.decide()
        assert (await app.evidence()).granted_at is None
        await app.app.context.pod_claims.release(app.app.installation, app.name)
        await app.decide()
        assert (await app.evidence()).granted_at is not None
        assert await app.remediate() == "replaced"


async def test_a_pause_keeps_the_grant(story):
    async with fleet(story, "pods") as app:
        await a_pause(app)
        assert await app.remediate() == "held"
        assert (await app.evidence()).granted_at is not None
