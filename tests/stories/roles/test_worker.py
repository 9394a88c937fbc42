"""A real worker: failures are logged once, without secrets, and block nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from ghapp.errors import ConfigurationError
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.settings import Settings
from ghapp.store import keys
from jobs.worker import run
from tests.stories.processes import Role
from tests.support.commands import inherited
from tests.support.waiting import wait_for

TRIES = 1 + len(jobs.AT_ONCE)
POOL = """
[[pools]]
org = "acme"
name = "strange"
labels = ["strange"]
replacer = "cloudevents"
url = "%s"
secret_env = "CONTROLLER_SECRET"
"""
SECRET = "ghs_" + "A1b2C3d4" * 5


async def until(condition):
    """Waits until `condition` is true, and returns its value; the sandbox and the story continue."""
    return await asyncio.to_thread(wait_for, condition)


def failures(role):
    whole_lines = role.log.rpartition("\n")[0].splitlines()
    return [line for line in map(json.loads, whole_lines) if line["event"] == "job failed"]


def times_failed(queue_redis, job):
    return float(queue_redis.hget(keys.COUNTERS, f'ghapp_jobs_failed_total{{work="{job}"}}') or 0)


async def test_a_failing_job_logs_one_line_per_attempt_without_secrets_and_releases_its_key(story, tmp_path):
    async with story() as app:
        queue_redis = app.context.queue_redis
        with Role("worker", app.environ, tmp_path) as worker:
            jobs.enqueue(
                queue_redis, JobName.INSTALLATIONS, SECRET, key="discover", retry=False
            )  # it takes no argument
            assert await until(lambda: times_failed(queue_redis, "discover") == TRIES), worker.log
            assert await until(lambda: jobs.enqueue(queue_redis, JobName.INSTALLATIONS, key="discover", retry=False))
            assert await until(lambda: not Job.exists("discover", connection=queue_redis)), (
                "the job succeeded and was deleted"
            )
    lines = failures(worker)
    assert len(lines) == TRIES
    for line in lines:
        assert (line["job"], line["work"], line["error"]) == ("discover", "jobs.installations.discover", "TypeError")
        assert "exception" in line, "an unexpected error is logged with its traceback"
    assert SECRET not in worker.log


async def test_an_expected_error_is_logged_without_a_traceback_and_retried_later(story, tmp_path):
    async with story() as app:
        queue_redis = app.context.queue_redis
        app.sandbox.control.fault(match="/app/installations", status=502)
        with Role("worker", app.environ, tmp_path) as worker:
            jobs.enqueue(queue_redis, JobName.INSTALLATIONS, key="installations")
            assert await until(lambda: failures(worker)), worker.log
            (line,) = failures(worker)
            assert line["error"] == "GitHubUnavailableError"
            assert "exception" not in line
            job = Job.fetch("installations", connection=queue_redis, serializer=JSONSerializer)
            assert await until(lambda: job.get_status() == "scheduled"), "the job is rescheduled after the log line"


async def test_the_urgent_queue_has_every_second_turn_and_the_other_queues_share_the_rest(story, tmp_path):
    async with story() as app:
        order = [JobName.REMEDIATE, JobName.INBOX, JobName.SWEEP, JobName.CHECK]
        for each in reversed(order):  # no function takes three arguments: each job fails and is logged
            jobs.enqueue(app.context.queue_redis, each, 1, 2, 3, retry=False)
        with Role("worker", app.environ, tmp_path) as worker:
            assert await until(lambda: len(failures(worker)) == TRIES * len(order)), worker.log
        urgent, *others = order
        first, second, third = others
        turns = [urgent, first, urgent, second, urgent, third, *others, *others]
        assert [line["work"] for line in failures(worker)] == turns


IMPORTS_OF_A_JOB = """
import asyncio, os, sys
from ghapp.errors import ConfigurationError
from ghapp.settings import Settings
from jobs.context import configure, open_context
from jobs.installations.discover import discover
from jobs.worker import import_libraries

settings = Settings.read(os.environ)
configure(settings)
import_libraries(settings)
before = set(sys.modules)
asyncio.run(discover())

async def open_the_cluster():
    async with open_context(settings) as context:
        try:
            await context.cluster()
        except ConfigurationError:
            pass  # there is none

asyncio.run(open_the_cluster())
assert "httpcore" in before, "the job sends requests"
print(f"imported: {sorted(set(sys.modules) - before)}")
"""


async def test_a_job_imports_nothing_after_the_fork(story):
    async with story() as app:
        environ = {**inherited(), **app.environ}
        command = [sys.executable, "-c", IMPORTS_OF_A_JOB]
        ended = await asyncio.to_thread(subprocess.run, command, env=environ, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1:] == ["imported: []"], ended.stderr


def test_a_worker_without_a_redis_names_the_missing_variable():
    with pytest.raises(ConfigurationError, match="GHAPP_REDIS_URL"):
        run(Settings.read({}))
