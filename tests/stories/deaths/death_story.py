"""A runner that dies under its job, for stories."""

from __future__ import annotations

import copy
from dataclasses import replace

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.deaths.store import Deaths, identity
from jobs.deaths.post_mortem import look_into
from tests.stories.conftest import POOL

UID = "0b5f6a1e-1111-4222-8333-944455556666"


def ask_logs_of(app, url):
    """From now on `GHAPP_LOKI_URL` is this."""
    app.context = replace(app.context, settings=replace(app.context.settings, loki_url=url))


async def a_job_runs(app):
    """A job of acme/api runs on a runner, and a delivery reported it."""
    app.listen()
    (job_id,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
    await app.receive(2)
    return app.sandbox.world.orgs["acme"].fleet.jobs[job_id]


async def its_runner_dies(app, job, **changes):
    """Killed on its host a moment ago; `ghapp watch` has kept it."""
    worst = Death(
        runner_name=job.runner_name,
        pod=job.runner_name,
        node="node-1",
        at=app.clock(),
        exit_code=137,
        signal=9,
        reason="OOMKilled",
        cause=Cause.HOST_OOM,
        advice="Raise `resources.limits.memory`.",
        namespace="runners",
        pod_uid=UID,
        runner_log=("[RUNNER 2026-11-20 12:00:00Z INFO JobDispatcher] Running job: test",),
    )
    death = worst._replace(**changes)
    await Deaths(app.context.redis, app.clock).record(app.installation, death)
    return death


async def look(app, job, number=0):
    return await look_into(app.context, app.installation, identity(await kept(app, job)), number)


async def kept(app, job):
    return await Deaths(app.context.redis, app.clock).of(app.installation, job.runner_name)


def check_runs(app, repository="api"):
    return copy.deepcopy(app.sandbox.world.orgs["acme"].repositories[repository].check_runs)


def lease_is_over(app, job):
    """GitHub fails the job without a failed step, and annotates the reason."""
    app.sandbox.control.finish("acme", job_id=job.id, lost=True)
