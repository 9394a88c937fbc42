"""A runner that dies under its job, for stories."""

from __future__ import annotations

import copy
from dataclasses import replace

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import Death
from ghapp.store.deaths import Deaths, identity
from jobs.postmortem import look_into
from tests.stories.conftest import POOL

UID = "0b5f6a1e-1111-4222-8333-944455556666"


def ask_logs_of(it, url):
    """From now on `GHAPP_LOKI_URL` is this."""
    it.house = replace(it.house, settings=replace(it.house.settings, loki_url=url))


async def a_job_runs(it):
    """A job of acme/api runs on some runner, and GitHub has told of it."""
    it.listen()
    (job_id,) = it.sandbox.control.queue("acme", labels=[POOL], repository="api")
    await it.receive(2)
    return it.sandbox.world.orgs["acme"].fleet.jobs[job_id]


async def its_runner_dies(it, job, **changes):
    """Killed on its host a moment ago; `ghapp watch` has kept it."""
    worst = Death(
        runner_name=job.runner_name,
        pod=job.runner_name,
        node="node-1",
        at=it.clock(),
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
    await Deaths(it.house.redis, it.clock).record(it.installation, death)
    return death


async def look(it, job, number=0):
    return await look_into(it.house, it.installation, identity(await kept(it, job)), number)


async def kept(it, job):
    return await Deaths(it.house.redis, it.clock).of(it.installation, job.runner_name)


def check_runs(it, repository="api"):
    return copy.deepcopy(it.sandbox.world.orgs["acme"].repositories[repository].check_runs)


def lease_is_over(it, job):
    """GitHub gives the job up: it failed, no step of it did, and a note says why."""
    it.sandbox.control.finish("acme", job_id=job.id, lost=True)
