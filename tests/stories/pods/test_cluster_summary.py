"""Summaries of the data stored by the watch and the sweeps, and their part of the health report."""

from __future__ import annotations

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import StaleNamespace
from ghapp.deaths.death import Death
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.deaths.store import Deaths
from ghapp.loading.views import Unseen, load_unseen
from ghapp.pods.degraded_sources import HOST_LINES, DegradedSource
from ghapp.pods.pod import Container, EphemeralRunner, Pod
from ghapp.pods.store import PodLocations, Pods
from jobs.checks.publisher import CheckRunOutcome
from jobs.pods.cluster_summary import EVERY_SECONDS, summarize_cluster
from jobs.reports.health_report import enqueue_report_if_wanted, report_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.support.snapshots import record_snapshot

PLACED = f'[[pools]]\norg = "acme"\nname = "placed"\nlabels = ["{POOL}"]\nnamespace = "runners"\n'
REPORTED = '[report]\nrepository = "acme/.github"\n'


def stranger(app, name="ghost"):
    """A pod that has been running for a day, without a registration at GitHub."""
    day = app.clock() - 86_400
    return Pod("runners", name, f"uid-{name}", "1", day, "Running", runner=Container("runner", running_since=day))


async def record_view(app, *pods):
    await record_snapshot(Pods(app.context.redis), "runners", pods, [], app.clock())


async def unseen(app, *, has_log_store=False):
    rules = app.context.settings.pools_of("acme")
    return await load_unseen(app.context, rules, app.clock(), has_log_store=has_log_store)


async def installed(app):
    return await app.context.installations.one(app.installation)


async def summarize(app):
    return await summarize_cluster(app.context, await installed(app), app.clock())


async def live(app, *pods, minutes=4):
    """Runs sweeps, a watch that sees these pods, and summaries for the given minutes."""
    for _ in range(2 * minutes):
        await app.pass_(30)
        await sweep_installation(app.context, app.installation)
        await record_view(app, *pods)
        await report_installation(app.context, app.installation)


def text(app):
    (run,) = app.sandbox.world.orgs["acme"].repositories[".github"].check_runs.values()
    return run["output"]["text"]


async def test_a_lasting_phantom_is_in_the_report_until_it_is_deleted(story):
    async with story(config=REPORTED + PLACED) as app:
        ghost = stranger(app)
        await live(app, ghost, minutes=1)
        assert "Phantoms" not in text(app)
        await live(app, ghost)
        assert "| pod-unknown-to-github | NotRegistered | 1 | `runners/ghost` |" in text(app)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        await record_view(app, ghost)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO
        await live(app)
        assert "Phantoms" not in text(app)


async def test_the_death_of_a_pod_that_left_a_phantom_has_its_step_also_after_it_was_deleted(story):
    async with story(config=PLACED) as app:
        at = app.clock()
        gone = Death("ghost", "ghost", "", at, None, None, "PodGone", Cause.VANISHED, "", "runners", "u", pool="placed")
        await app.context.deaths.record(app.installation, gone)
        left = EphemeralRunner("runners", "ghost", "u-object", "1", at - 86_400, "Running", org="acme")

        async def advice():
            found, summary = await app.context.deaths.of(app.installation, "ghost"), await summarize(app)
            (listed,) = summary.deaths
            return {found.advice, listed.advice_now}

        for objects in ([left], []):
            for _ in range(8):
                await app.pass_(30)
                await sweep_installation(app.context, app.installation)
                now = app.clock()
                await record_snapshot(
                    app.context.pods, "runners", [], [each._replace(read_at=now) for each in objects], now
                )
                await summarize(app)
            (text,) = await advice()
            assert "delete the EphemeralRunner so that ARC creates another" in text


async def test_a_pool_with_a_runners_pod_in_its_namespace_gets_a_stored_location(story):
    async with story(config=PLACED) as app:
        await sweep_installation(app.context, app.installation)
        await record_view(app, stranger(app))
        await summarize(app)
        assert await PodLocations(app.context.redis).all(app.installation) == set()
        name = next(iter((await app.context.runners.all(app.installation)).values())).name
        await record_view(app, stranger(app, name))
        app.clock.pass_(EVERY_SECONDS)
        await summarize(app)
        assert await PodLocations(app.context.redis).all(app.installation) == {("placed", "runners")}


async def test_an_outdated_view_is_in_the_report_without_its_phantoms(story):
    async with story(config=REPORTED + PLACED) as app:
        ghost = stranger(app)
        await live(app, ghost)
        for _ in range(5):
            await app.pass_(30)
            await sweep_installation(app.context, app.installation)
            await report_installation(app.context, app.installation)
        assert "- Namespace `runners` of the cluster was last read at " in text(app)
        assert "Phantoms" not in text(app)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO


async def test_deaths_of_the_last_day_are_in_the_report(story):
    async with story(config=REPORTED + PLACED) as app:
        deaths, at = Deaths(app.context.redis, app.clock), app.clock()
        for number, cause in enumerate([Cause.HOST_OOM, Cause.HOST_OOM, Cause.CLEAN_EXIT]):
            expected = Death(
                f"r{number}", f"r{number}", "", at - number, 1, None, "", cause, "", "runners", f"u{number}"
            )
            await deaths.record(app.installation, expected)
        await live(app, minutes=1)
        assert "| `host-oom` | 2 | `r0`, `r1` |" in text(app)
        assert "clean-exit" not in text(app)


@pytest.mark.parametrize("config", [REPORTED + PLACED, REPORTED], ids=["with a cluster", "without a cluster"])
async def test_common_properties_of_the_deaths_of_a_week_are_in_the_report(story, config):
    async with story(config=config) as app:
        deaths, at = Deaths(app.context.redis, app.clock), app.clock()
        worst = Death("r", "r", "node-7", at, 137, 9, "OOMKilled", Cause.HOST_OOM, "", "runners", "u", pool="placed")
        for number, ago in enumerate((6 * 86_400, 2000, 1000, 0)):
            await deaths.record(app.installation, worst._replace(pod_uid=f"u{number}", at=at - ago))
        await live(app, minutes=1)
        assert "| `host-oom` | 3 |" in text(app), "the table covers one day"
        assert "- All 4 deaths within seven days are on node `node-7`." in text(app)
        assert "- All 3 deaths since " in text(app)


async def test_without_a_report_repository_the_summary_is_stored_and_not_posted(story):
    async with story(config=PLACED) as app:
        await live(app, stranger(app))
        side = await ClusterSummaries(app.context.redis).of(app.installation)
        assert [each.subject for each in side.phantoms] == ["ghost"]
        assert await report_installation(app.context, app.installation) is CheckRunOutcome.NOTHING_TO_DO


@pytest.mark.parametrize(("config", "asked"), [(PLACED, 1), (REPORTED, 1), ("", 0)], ids=["pods", "report", "neither"])
async def test_orgs_with_pods_or_a_report_are_reported(story, config, asked):
    async with story(config=config) as app:
        enqueue_report_if_wanted(app.context, await installed(app))
        assert Queue("report", connection=app.context.queue_redis, serializer=JSONSerializer).count == asked


async def test_without_a_pool_namespace_nothing_is_read(story):
    async with story() as app:
        assert await summarize(app) is None
        assert await unseen(app) == Unseen([], [])
        assert await ClusterSummaries(app.context.redis).of(app.installation) is None


async def test_summaries_have_a_minimum_interval(story):
    async with story(config=PLACED) as app:
        first = await summarize(app)
        app.clock.pass_(EVERY_SECONDS - 1)
        assert (await summarize(app)).at == first.at
        app.clock.pass_(1)
        assert (await summarize(app)).at == app.clock()


async def test_a_namespace_that_was_never_listed_is_reported(story):
    async with story(config=PLACED) as app:
        assert await unseen(app) == Unseen([StaleNamespace("runners", None)], [])
        await record_view(app)
        assert await unseen(app) == Unseen([], [])


async def test_each_source_that_cannot_be_read_is_reported_with_its_reason(story):
    async with story(config=PLACED) as app:
        await record_view(app)
        for place in ("pods/log in runners", "pods in elsewhere", HOST_LINES):
            await app.context.degraded_sources.record(place, "no")
        assert (await unseen(app)).sources == [DegradedSource("pods/log in runners", "no")]
        found = (await unseen(app, has_log_store=True)).sources
        assert found == [DegradedSource("pods/log in runners", "no"), DegradedSource(HOST_LINES, "no")]
