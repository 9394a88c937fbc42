"""The pods and objects that remain of runners whose registration is deleted."""

from __future__ import annotations

import pytest

from ghapp.pods.store import PodLocations, Pods
from ghapp.runners import observations
from ghapp.runners.remains import Remains, RemainsKind
from jobs.pods.remains import observe_remains
from tests.rules.builders import lost, online
from tests.rules.pods.builders import NAMESPACE, pod_of_object, runner_object
from tests.stories.conftest import POOL
from tests.stories.remediation.test_remediate_cluster import config
from tests.support.snapshots import record_snapshot

IN_CLUSTER = "in-cluster"


@pytest.fixture
def observing(story):
    return lambda: story(config=config("arc"))


async def folded(app, *absent):
    """The remains of these runners after the folds, by id."""
    installation = await app.context.installations.one(app.installation)
    folds = await observe_remains(app.context, installation, absent, app.clock())
    return {each.id: folds[each.id](each).remains for each in absent if each.id in folds}


def absent(app, runner_id, **changes):
    deleted_at = app.clock() - 60
    return lost(
        runner_id, absent_since=deleted_at, first_404_at=deleted_at, labels=(POOL,), custom_labels=(POOL,), **changes
    )


async def test_only_the_records_of_absent_runners_are_read_in_one_call(observing, monkeypatch):
    async with observing() as app:
        now, read = app.clock(), []
        await record_snapshot(Pods(app.context.redis), NAMESPACE, [pod_of_object()], [runner_object()], now)
        some = Pods.some

        async def counted(self, namespace, names):
            read.append((namespace, sorted(names)))
            return await some(self, namespace, names)

        async def everything(*_):
            raise AssertionError("the whole view")

        monkeypatch.setattr(Pods, "some", counted)
        monkeypatch.setattr(Pods, "all", everything)
        found = await folded(app, absent(app, 1), absent(app, 2), online(3, labels=(POOL,)))
        assert read == [(NAMESPACE, ["linux-1", "linux-2"])]
        assert found == {1: Remains(RemainsKind.RUNNING, now, now), 2: Remains(RemainsKind.NOTHING, now, now)}
        assert await PodLocations(app.context.redis).all(app.installation) == {(IN_CLUSTER, NAMESPACE)}, (
            "the pool's location is stored"
        )


async def test_without_a_stored_location_of_the_pool_no_remains_are_reported(observing):
    async with observing() as app:
        await record_snapshot(Pods(app.context.redis), NAMESPACE, [], [], app.clock())
        assert await folded(app, absent(app, 1)) == {}
        await PodLocations(app.context.redis).seen(app.installation, [(IN_CLUSTER, NAMESPACE)], app.clock())
        assert (await folded(app, absent(app, 1)))[1].kind is RemainsKind.NOTHING


@pytest.mark.parametrize(("age", "is_used"), [(59, True), (61, False), (120, False)])
async def test_a_view_from_before_the_deletion_of_the_registration_is_not_used(observing, age, is_used):
    async with observing() as app:
        await record_snapshot(
            Pods(app.context.redis), NAMESPACE, [pod_of_object()], [runner_object()], app.clock() - age
        )
        found = await folded(app, absent(app, 1))
        assert (found.get(1) is not None) is is_used


async def test_a_runner_that_returned_has_no_remains(observing):
    async with observing() as app:
        await record_snapshot(Pods(app.context.redis), NAMESPACE, [pod_of_object()], [runner_object()], app.clock())
        installation = await app.context.installations.one(app.installation)
        folds = await observe_remains(app.context, installation, [absent(app, 1)], app.clock())
        back = online(1)
        assert folds[1](back) is back
        assert folds[1](None) is None


async def test_without_a_watch_nothing_is_reported(observing):
    async with observing() as app:
        assert await folded(app, absent(app, 1)) == {}
        assert observations.remains_seen(absent(app, 1), RemainsKind.RUNNING, 0.0).remains is None
