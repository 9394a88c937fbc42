"""Look after look at what the watch and the sweeps have stored, and what is told of it."""

from __future__ import annotations

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.health.cluster.clusterside import Unseen
from ghapp.health.cluster.pod import Container, Pod
from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import Death
from ghapp.store.clusterside import ClusterSides
from ghapp.store.deaths import Deaths
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from jobs.clusterside import EVERY_SECONDS, look_at_cluster, not_seen
from jobs.report import Outcome, ask_for_report, report_installation
from jobs.sweep import sweep_installation
from tests.stories.conftest import POOL

PLACED = f'[[pools]]\norg = "acme"\nname = "placed"\nlabels = ["{POOL}"]\nnamespace = "runners"\n'
REPORTED = '[report]\nrepository = "acme/.github"\n'


def stranger(it, name="ghost"):
    """A pod that has run for a day, and that GitHub does not know."""
    day = it.clock() - 86_400
    return Pod("runners", name, f"uid-{name}", "1", day, "Running", runner=Container("runner", running_since=day))


async def see(it, *pods):
    await Pods(it.house.redis).replace_all("runners", pods, [], it.clock())


async def installed(it):
    return await it.house.installations.one(it.installation)


async def looked(it):
    return await look_at_cluster(it.house, await installed(it), it.clock())


async def live(it, *pods, minutes=4):
    """Sweeps, a watch that sees these pods, and looks, for some minutes."""
    for _ in range(2 * minutes):
        await it.pass_(30)
        await sweep_installation(it.house, it.installation)
        await see(it, *pods)
        await report_installation(it.house, it.installation)


def text(it):
    (run,) = it.sandbox.world.orgs["acme"].repositories[".github"].check_runs.values()
    return run["output"]["text"]


async def test_a_phantom_that_lasts_is_in_the_report_and_stays_there_unchanged(story):
    async with story(config=REPORTED + PLACED) as it:
        ghost = stranger(it)
        await live(it, ghost, minutes=1)
        assert "Phantoms" not in text(it)
        await live(it, ghost)
        assert "| pod-unknown-to-github | NotRegistered | 1 | `runners/ghost` |" in text(it)
        await it.pass_(60)
        await sweep_installation(it.house, it.installation)
        await see(it, ghost)
        assert await report_installation(it.house, it.installation) is Outcome.NOTHING_TO_DO
        await live(it)
        assert "Phantoms" not in text(it)


async def test_a_pool_whose_runner_has_a_pod_in_its_namespace_is_known_to_be_there(story):
    async with story(config=PLACED) as it:
        await sweep_installation(it.house, it.installation)
        await see(it, stranger(it))
        await looked(it)
        assert await Places(it.house.redis).all(it.installation) == set()
        name = next(iter((await it.house.runners.all(it.installation)).values())).name
        await see(it, stranger(it, name))
        it.clock.pass_(EVERY_SECONDS)
        await looked(it)
        assert await Places(it.house.redis).all(it.installation) == {("placed", "runners")}


async def test_a_view_that_nobody_keeps_is_in_the_report_and_its_phantoms_are_not(story):
    async with story(config=REPORTED + PLACED) as it:
        ghost = stranger(it)
        await live(it, ghost)
        for _ in range(5):
            await it.pass_(30)
            await sweep_installation(it.house, it.installation)
            await report_installation(it.house, it.installation)
        assert "- Namespace `runners` of the cluster was last seen at " in text(it)
        assert "Phantoms" not in text(it)
        await it.pass_(60)
        await sweep_installation(it.house, it.installation)
        assert await report_installation(it.house, it.installation) is Outcome.NOTHING_TO_DO


async def test_deaths_of_the_last_day_are_in_the_report(story):
    async with story(config=REPORTED + PLACED) as it:
        deaths, at = Deaths(it.house.redis, it.clock), it.clock()
        for number, cause in enumerate([Cause.HOST_OOM, Cause.HOST_OOM, Cause.CLEAN_EXIT]):
            said = Death(f"r{number}", f"r{number}", "", at - number, 1, None, "", cause, "", "runners", f"u{number}")
            await deaths.record(it.installation, said)
        await live(it, minutes=1)
        assert "| `host-oom` | 2 | `r0`, `r1` |" in text(it)
        assert "clean-exit" not in text(it)


async def test_without_a_report_s_repository_it_is_looked_all_the_same_and_nothing_is_posted(story):
    async with story(config=PLACED) as it:
        await live(it, stranger(it))
        side = await ClusterSides(it.house.redis).of(it.installation)
        assert [each.subject for each in side.phantoms] == ["ghost"]
        assert await report_installation(it.house, it.installation) is Outcome.NOTHING_TO_DO


@pytest.mark.parametrize(("config", "asked"), [(PLACED, 1), (REPORTED, 1), ("", 0)], ids=["pods", "report", "neither"])
async def test_whoever_has_pods_or_a_report_is_looked_at(story, config, asked):
    async with story(config=config) as it:
        ask_for_report(it.house, await installed(it))
        assert Queue("report", connection=it.house.desk, serializer=JSONSerializer).count == asked


async def test_where_no_pool_says_where_its_pods_are_nothing_is_read(story):
    async with story() as it:
        assert await looked(it) is None
        assert await not_seen(it.house, await installed(it), it.clock()) == []
        assert await ClusterSides(it.house.redis).of(it.installation) is None


async def test_looks_are_no_closer_than_they_need_to_be(story):
    async with story(config=PLACED) as it:
        first = await looked(it)
        it.clock.pass_(EVERY_SECONDS - 1)
        assert (await looked(it)).at == first.at
        it.clock.pass_(1)
        assert (await looked(it)).at == it.clock()


async def test_a_namespace_that_was_never_seen_is_named(story):
    async with story(config=PLACED) as it:
        assert await not_seen(it.house, await installed(it), it.clock()) == [Unseen("runners", None)]
        await see(it)
        assert await not_seen(it.house, await installed(it), it.clock()) == []
