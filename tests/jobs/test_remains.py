"""What the watch's views show of runners whose registration is gone, read for those alone."""

from __future__ import annotations

import pytest

from ghapp.health import seen
from ghapp.health.cluster.remains import Remains, RemainsKind
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from jobs.views.remains import observe_remains
from tests.health.builders import lost, online
from tests.health.cluster.builders import NAMESPACE, pod_of_object, runner_object
from tests.jobs.test_remediate_cluster import config
from tests.stories.conftest import POOL

IN_CLUSTER = "in-cluster"


@pytest.fixture
def observing(story):
    return lambda: story(config=config("arc"))


async def folded(it, *absent):
    """What the folds make of these runners, by id."""
    installation = await it.house.installations.one(it.installation)
    folds = await observe_remains(it.house, installation, absent)
    return {each.id: folds[each.id](each).remains for each in absent if each.id in folds}


def absent(it, runner_id, **changes):
    gone = it.clock() - 60
    return lost(runner_id, absent_since=gone, missing_at=gone, labels=(POOL,), custom_labels=(POOL,), **changes)


async def test_of_a_view_only_what_concerns_the_absent_is_read_at_once(observing, monkeypatch):
    async with observing() as it:
        now, read = it.clock(), []
        await Pods(it.house.redis).replace_all(NAMESPACE, [pod_of_object()], [runner_object()], now)
        some = Pods.some

        async def counted(self, namespace, names):
            read.append((namespace, sorted(names)))
            return await some(self, namespace, names)

        async def everything(*_):
            raise AssertionError("the whole view")

        monkeypatch.setattr(Pods, "some", counted)
        monkeypatch.setattr(Pods, "all", everything)
        found = await folded(it, absent(it, 1), absent(it, 2), online(3, labels=(POOL,)))
        assert read == [(NAMESPACE, ["linux-1", "linux-2"])]
        assert found == {1: Remains(RemainsKind.RUNNING, now, now), 2: Remains(RemainsKind.NOTHING, now, now)}
        assert await Places(it.house.redis).all(it.installation) == {(IN_CLUSTER, NAMESPACE)}, "it was seen there"


async def test_where_nothing_of_the_pool_was_ever_seen_nothing_is_missed(observing):
    async with observing() as it:
        await Pods(it.house.redis).replace_all(NAMESPACE, [], [], it.clock())
        assert await folded(it, absent(it, 1)) == {}
        await Places(it.house.redis).seen(it.installation, [(IN_CLUSTER, NAMESPACE)], it.clock())
        assert (await folded(it, absent(it, 1)))[1].kind is RemainsKind.NOTHING


@pytest.mark.parametrize(("age", "is_told"), [(59, True), (61, False), (120, False)])
async def test_a_view_from_before_the_registration_went_says_nothing(observing, age, is_told):
    async with observing() as it:
        await Pods(it.house.redis).replace_all(NAMESPACE, [pod_of_object()], [runner_object()], it.clock() - age)
        found = await folded(it, absent(it, 1))
        assert (found.get(1) is not None) is is_told


async def test_one_that_came_back_meanwhile_has_no_remains(observing):
    async with observing() as it:
        await Pods(it.house.redis).replace_all(NAMESPACE, [pod_of_object()], [runner_object()], it.clock())
        installation = await it.house.installations.one(it.installation)
        folds = await observe_remains(it.house, installation, [absent(it, 1)])
        back = online(1)
        assert folds[1](back) is back
        assert folds[1](None) is None


async def test_without_a_watch_nothing_is_said(observing):
    async with observing() as it:
        assert await folded(it, absent(it, 1)) == {}
        assert seen.remains_seen(absent(it, 1), RemainsKind.RUNNING, 0.0).remains is None
