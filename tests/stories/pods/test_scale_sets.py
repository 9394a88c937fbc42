"""A scale set that wants too many runners, from a simulated cluster to the report."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import httpx2

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.scale_sets import IDLE_SECONDS
from ghapp.pods.store import Pods
from ghapp.runners.delivery_lag import DeliveryArrivals, LateArrival
from ghapp.sandbox.cluster.shapes import AssignedJob
from jobs.pods import scale_sets
from jobs.pods.scale_sets import keep_scale_sets, record_scale_sets
from jobs.reports.health_report import report_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.support.cluster import SteeredCluster
from tests.support.snapshots import record_snapshot

NS = "runners"
CONFIG = (
    f'[report]\nrepository = "acme/.github"\n[[pools]]\norg = "acme"\nname = "placed"\nlabels = ["{POOL}"]\n'
    f'namespace = "{NS}"\nreplacer = "arc"\n'
)


@asynccontextmanager
async def cluster():
    with SteeredCluster() as api:
        api.control.namespace(NS)
        headers = {"Authorization": f"Bearer {api.token('admin')}"}
        async with httpx2.AsyncClient(base_url=api.url, headers=headers, trust_env=False) as client:
            yield api, Cluster(client)


async def live(app, watched, minutes, *, late=()):
    """Sweeps, reads of the cluster as the watch makes them, deliveries in time, and reports."""
    for _ in range(2 * minutes):
        await app.pass_(30)
        await sweep_installation(app.context, app.installation)
        arrivals = DeliveryArrivals(app.clock(), late)
        await app.context.delivery_status.save_arrivals({app.installation: arrivals})
        objects = (await watched.ephemeral_runners(NS)).items
        await record_snapshot(Pods(app.context.redis), NS, (await watched.pods(NS)).items, objects, app.clock())
        await record_scale_sets(NS, watched, app.context)
        await report_installation(app.context, app.installation)


def text(app):
    (run,) = app.sandbox.world.orgs["acme"].repositories[".github"].check_runs.values()
    return run["output"]["text"]


def runner(api, name, **changes):
    api.control.pod(NS, name)
    api.control.ephemeral_runner(NS, name, scale_set=POOL, age_seconds=1, **changes)


SETTLED_MINUTES = int(IDLE_SECONDS / 60) + 4


async def test_a_set_that_wants_more_runners_than_its_jobs_need_is_in_the_report_until_it_is_created_again(story):
    async with story(config=CONFIG) as app, cluster() as (api, watched):
        api.control.autoscaling_runner_set(NS, POOL, min_runners=1, replicas=6)
        for number in range(2):
            runner(api, f"busy-{number}", job=AssignedJob("7", 7, repository="acme/api"))
        for number in range(4):
            runner(api, f"idle-{number}")
        await live(app, watched, SETTLED_MINUTES)
        row = next(line for line in text(app).splitlines() if "demand-inflated" in line)
        assert "DemandInflated: `at least 2 more than its jobs and minRunners need`" in row
        assert f"`{NS}/{POOL}`" in row
        assert "delete the AutoscalingRunnerSet" in row
        (owned,) = api.control.objects("ephemeralrunnersets", NS)
        api.control.change(
            "ephemeralrunnersets", NS, owned["metadata"]["name"], lambda each: each["spec"].update(replicas=3)
        )
        await live(app, watched, 2)
        assert "demand-inflated" not in text(app)


async def test_while_deliveries_are_late_no_demand_counts_as_inflated(story):
    async with story(config=CONFIG) as app, cluster() as (api, watched):
        api.control.autoscaling_runner_set(NS, POOL, replicas=4)
        for number in range(4):
            runner(api, f"idle-{number}")
        await live(app, watched, SETTLED_MINUTES, late=(LateArrival(app.clock(), 600.0),))
        assert "demand-inflated" not in text(app)


async def test_a_failed_object_is_a_runner_too_few_and_never_one_too_many(story):
    async with story(config=CONFIG) as app, cluster() as (api, watched):
        api.control.autoscaling_runner_set(NS, POOL, replicas=3)
        for number in range(3):
            api.control.ephemeral_runner(NS, f"failed-{number}", scale_set=POOL, phase="Failed")
        await live(app, watched, SETTLED_MINUTES)
        assert "| failed-object | FailedCountsAsCapacity | 3 |" in text(app)
        assert "its scale set has one too few" in text(app)
        assert "demand-inflated" not in text(app)


async def test_only_the_leader_records_and_a_refusal_ends_nothing(story, monkeypatch):
    monkeypatch.setattr(scale_sets, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(scale_sets, "WAIT_SECONDS", 0.01)
    leads, asked, asked_often = [False], [], asyncio.Event()

    class Refusing:
        async def scale_sets(self, _namespace):
            asked.append(leads[0])
            if len(asked) == 3:
                asked_often.set()
            raise ClusterUnavailableError("no answer")

    async with story(config=CONFIG) as app:
        keeping = asyncio.create_task(keep_scale_sets(NS, Refusing(), app.context, lambda: leads[0]))
        await asyncio.sleep(0.1)
        assert asked == []
        leads[0] = True
        await asked_often.wait()
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        assert await app.context.scale_sets.get(NS) == ()
