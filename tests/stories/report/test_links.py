"""Where the check runs and notifications of ghapp lead: to the page that shows more, if people can reach it."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote_plus

import pytest

from ghapp.deaths.store import identity
from tests.stories.deaths.death_story import a_job_runs, check_runs, its_runner_dies, lease_is_over, look
from tests.stories.gate import test_gate_check
from tests.stories.gate.test_gate import shards  # noqa: F401
from tests.stories.report import test_checks
from tests.stories.workflow_jobs import test_queue

PUBLIC = "https://ghapp.example.com/fleet"
ACME = f"{PUBLIC}/orgs/acme"


def reached(app, url=PUBLIC):
    """From now on `GHAPP_PUBLIC_URL` is this."""
    app.context = replace(app.context, settings=replace(app.context.settings, public_url=url))


def target(run):
    return run.get("details_url")


@pytest.mark.parametrize(("url", "link"), [(PUBLIC, ACME), (None, None)], ids=["public", "not public"])
async def test_runner_health_leads_to_the_overview_and_to_the_page_of_what_is_worst(story, url, link):
    async with story(config=test_checks.CONFIG) as app:
        reached(app, url)
        await test_checks.sweep(app)
        await test_checks.reported(app)
        assert target(test_checks.only(test_checks.check_runs(app))) == link
        await app.context.fuses.save(app.installation, test_checks.POOL, None, test_checks.STOPPED)
        assert target(await test_checks.reported(app)) == (link and f"{link}/incidents")


@pytest.mark.parametrize("url", [PUBLIC, None], ids=["public", "not public"])
async def test_runner_queue_leads_to_its_job_and_with_several_to_the_jobs_of_its_commit(story, url):
    async with story() as app:
        reached(app, url)
        await test_queue.later(app, 0)
        (job,) = await test_queue.queued(app, ["linux-4vpcu"])
        await test_queue.later(app, 300)
        await test_queue.reported(app)
        (run,) = test_queue.check_runs(app)
        assert target(run) == (f"{ACME}/jobs/{job}" if url else None)
        await test_queue.queued(app, ["linux-4vpcu"])
        await test_queue.later(app, 300)
        await test_queue.reported(app)
        (run,) = test_queue.check_runs(app)
        assert target(run) == (f"{ACME}/jobs?text={run['head_sha']}" if url else None)


@pytest.mark.parametrize("url", [PUBLIC, None], ids=["public", "not public"])
async def test_a_post_mortem_leads_to_the_death(story, url):
    async with story() as app:
        reached(app, url)
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.head("acme", repository="api")
        await look(app, job, 2)
        (run,) = check_runs(app).values()
        assert target(run) == (f"{ACME}/deaths/{job.runner_name}?end={quote_plus(identity(death))}" if url else None)


@pytest.mark.parametrize(("url", "link"), [(PUBLIC, f"{ACME}/gate"), (None, None)], ids=["public", "not public"])
async def test_runner_gate_leads_to_the_gates(shards, url, link):  # noqa: F811
    async with shards(pink=0, rows=test_gate_check.HERE) as app:
        reached(app, url)
        await test_gate_check.deploy(app)
        await test_gate_check.look(app)
        assert target(test_gate_check.only(app)) == link
