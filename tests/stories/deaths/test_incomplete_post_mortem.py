"""Post-mortems with a missing source: each missing source removes only its own part."""

from __future__ import annotations

import asyncio

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from ghapp.deaths.cause import Cause
from ghapp.deaths.rerun import Rerun, RerunState
from ghapp.deaths.store import Deaths, identity
from ghapp.errors import GitHubUnavailableError
from ghapp.installations.installation import NEEDED
from ghapp.pods.degraded_sources import HOST_LINES, RUNNER_LINES
from ghapp.pods.store import DegradedSources
from ghapp.queue.jobs import QUEUE_OF, JobName
from ghapp.store import keys
from jobs.checks.publisher import CheckRunOutcome
from jobs.context import configure
from jobs.deaths.death_context import with_host_lines, with_runner_lines
from jobs.deaths.post_mortem import look_into, post_mortem
from jobs.installations.discover import discover_installations
from tests.stories.deaths.death_story import (
    a_job_runs,
    ask_logs_of,
    check_runs,
    its_runner_dies,
    kept,
    lease_is_over,
    look,
)
from tests.support.loki import Loki

OOM = "Out of memory: Killed process 4242 (Runner.Worker)"


def waiting(app):
    """The delayed post-mortem jobs: arguments and ids."""
    queue = Queue("report", connection=app.context.queue_redis, serializer=JSONSerializer)
    registry = ScheduledJobRegistry(queue=queue)
    jobs = [queue.fetch_job(job_id) for job_id in registry.get_job_ids()]
    return [(job.args, job.id) for job in jobs if job.func_name == JobName.POST_MORTEM]


def events(lines):
    return [line["event"] for line in lines]


async def test_a_post_mortem_is_a_job_in_the_report_queue(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        configure(app.settings)
        await post_mortem(app.installation, identity(death))
        assert QUEUE_OF[JobName.POST_MORTEM] == "report"
        assert len(await app.sent_events("runner.died")) == 1


async def test_the_post_mortem_of_an_unfinished_job_is_delayed_once(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        assert [await look(app, job), await look(app, job)] == [CheckRunOutcome.CREATED, CheckRunOutcome.WAITS]
        ((args, key),) = waiting(app)
        assert list(args) == [app.installation, identity(death), 1]
        assert (key.startswith("post-mortem-"), key.endswith("-1")) == (True, True)


@pytest.mark.parametrize(
    ("installation", "changes"),
    [(1, {}), (0, {"exit_code": 1}), (0, {"pod_uid": "another pod"})],
    ids=["another installation", "another exit", "a later pod"],
)
async def test_a_death_that_is_not_stored_is_ignored(story, installation, changes):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        lease_is_over(app, job)
        which = identity(death._replace(**changes))
        outcome = await look_into(app.context, app.installation + installation, which)
        assert outcome is CheckRunOutcome.NOTHING_TO_DO
        assert (await app.sent_events("runner.died"), check_runs(app)) == ([], {})


@pytest.mark.parametrize(
    ("missing", "conclusion", "waits"),
    [("actions", "", []), ("checks", "failure", [])],
)
async def test_without_a_permission_the_post_mortem_is_incomplete_and_logged_once(story, missing, conclusion, waits):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        granted = {name: level for name, level in NEEDED.items() if name != missing}
        app.sandbox.control.permissions("acme", permissions=granted)
        await discover_installations(app.context)
        with capture_logs() as lines:
            assert [await look(app, job), await look(app, job)] == [CheckRunOutcome.RECORDED] * 2
        assert events(lines) == ["post-mortem incomplete"]
        assert lines[0]["why"] == f"the installation has not granted {missing}: {NEEDED[missing]}"
        found = (await kept(app, job)).job
        assert (found.id, found.repository, found.conclusion) == (job.id, "acme/api", conclusion)
        assert (check_runs(app), waiting(app)) == ({}, waits)
        assert len(await app.sent_events("runner.died")) == 1


@pytest.mark.parametrize("missing", ["actions", "checks"])
@pytest.mark.parametrize("status", [403, 404])
async def test_a_permission_refused_only_by_github_is_handled_the_same(story, missing, status):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.withhold_permission("acme", permission=missing, status=status, admitted=False)
        app.clock.pass_(60)  # a 404 for a new token is not trusted
        with capture_logs() as lines:
            outcomes = [await look(app, job), await look(app, job)]
        assert set(outcomes) == ({CheckRunOutcome.RECORDED} if status == 403 else {CheckRunOutcome.WAITS})
        assert events(lines) == ["post-mortem incomplete"]
        assert check_runs(app) == {}
        assert len(await app.sent_events("runner.died")) == 1


async def test_unreadable_annotations_are_omitted(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.fault(match="annotations", status=403)
        assert await look(app, job) is CheckRunOutcome.CREATED


@pytest.mark.parametrize("match", ["/actions/jobs/", "annotations", "/repos/acme/api$", "check-runs$"])
async def test_an_error_of_github_is_retried_by_the_queue_and_loses_nothing(story, match):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.fault(match=match, status=502)
        with pytest.raises(GitHubUnavailableError):
            await look(app, job)
        assert (await kept(app, job)).job.repository == "acme/api"
        assert len(await app.sent_events("runner.died")) == 1
        assert check_runs(app) == {}
        app.sandbox.control.no_faults()
        assert await look(app, job) is CheckRunOutcome.CREATED


async def test_a_rate_limit_delays_the_next_attempt(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        app.sandbox.control.secondary_limit("acme")
        assert await look(app, job) is CheckRunOutcome.WAITS
        assert [list(args)[-1] for args, _ in waiting(app)] == [1]


async def test_a_crash_between_the_creation_and_its_record_leaves_one_check_run(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        assert await look(app, job) is CheckRunOutcome.CREATED
        (key,) = [each async for each in app.context.redis.scan_iter(match=keys.post_mortem("*"))]
        await app.context.redis.delete(key)
        assert await look(app, job) is CheckRunOutcome.UPDATED
        assert len(check_runs(app)) == 1


async def test_concurrent_runs_post_one_check_run_and_publish_one_event(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        outcomes = await asyncio.gather(*(look(app, job) for _ in range(8)))
        assert sorted(outcomes).count(CheckRunOutcome.CREATED) == 1
        assert len(check_runs(app)) == 1
        assert len(await app.sent_events("runner.died")) == 1


async def test_a_rejected_check_run_is_logged_and_retried(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.fault(match="check-runs$", method="POST", status=422)
        with capture_logs() as lines:
            assert await look(app, job) is CheckRunOutcome.WAITS
        assert lines[0]["why"] == f"acme/api: GitHub does not take a check run for {job.head_sha}"


async def test_logs_are_not_shown_in_a_public_repository(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            await its_runner_dies(app, job)
            lease_is_over(app, job)
            loki.holds(({}, [loki.line(app.clock(), OOM)]))
            public = {"id": 1, "default_branch": "main", "private": False}
            app.sandbox.control.fault(match="/repos/acme/api$", status=200, body=public)
            assert await look(app, job) is CheckRunOutcome.CREATED
            ((_, posted),) = check_runs(app).items()
            text = posted["output"]["text"]
            assert ("node-1" in text, "are not shown in a public one" in text) == (False, True)
            assert any(OOM in line for line in (await kept(app, job)).host_log)


async def test_the_death_of_an_idle_runner_is_published_without_a_job(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job, runner_name="linux-idle", pod="linux-idle", runner_log=())
        assert await look_into(app.context, app.installation, identity(death)) is CheckRunOutcome.WAITS
        (result,) = await app.sent_events("runner.died")
        assert (result["runner_name"], result["job"], result["cause"]) == (death.runner_name, None, "host-oom")


async def test_a_job_with_late_deliveries_is_found_by_a_later_run(story):
    async with story() as app:
        app.listen()
        (job_id,) = app.sandbox.control.queue("acme", labels=["linux-4vcpu"], repository="api")
        job = app.sandbox.world.orgs["acme"].fleet.jobs[job_id]
        await its_runner_dies(app, job)
        assert await look(app, job) is CheckRunOutcome.WAITS
        assert (await kept(app, job)).job is None
        lease_is_over(app, job)
        await app.receive(3)
        assert await look(app, job, 1) is CheckRunOutcome.CREATED


async def test_a_job_of_an_unknown_repository_has_only_its_id(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        await app.context.redis.delete(keys.jobs(app.installation))
        assert await look(app, job) is CheckRunOutcome.WAITS
        assert (await kept(app, job)).job[:2] == (job.id, "")


async def reported_sources(app):
    """The degraded sources that the health report names."""
    return [*await DegradedSources(app.context.redis).of([RUNNER_LINES, HOST_LINES])]


@pytest.mark.parametrize("status", [500, 200], ids=["an error", "no Loki"])
async def test_a_failing_log_store_is_logged_once_and_blocks_nothing(story, status):
    with Loki(status=status, body=b"<html>") as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            death = await its_runner_dies(app, job)
            lease_is_over(app, job)
            with capture_logs() as lines:
                assert await look(app, job) is CheckRunOutcome.CREATED
                assert await look(app, job) is CheckRunOutcome.WAITS
            assert events(lines) == ["post-mortem incomplete", "post-mortem posted"]
            assert lines[0]["why"].startswith(f"the log store at {loki.address} ")
            assert await reported_sources(app) == [RUNNER_LINES, HOST_LINES]
            assert (await kept(app, job)).runner_log == death.runner_log
            assert [list(args)[-1] for args, _ in waiting(app)] == [1], "a later run may find its lines"


async def test_journals_that_are_refused_stay_reported_while_logs_of_runners_are_read(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            await its_runner_dies(app, job)
            lease_is_over(app, job)
            await DegradedSources(app.context.redis).record(HOST_LINES, "no")
            loki.holds()
            await with_runner_lines(app.context, await kept(app, job))
            assert await reported_sources(app) == [HOST_LINES]
            await with_host_lines(app.context, await kept(app, job))
            assert await reported_sources(app) == []


async def test_the_runners_lines_in_the_log_store_can_change_the_cause(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            silent = {"cause": Cause.CLEAN_EXIT, "reason": "CompletedSilently", "exit_code": 0, "signal": None}
            await its_runner_dies(app, job, runner_log=(), **silent)
            words = "The runner registration has been deleted from the server, please re-configure."
            loki.holds(({}, [loki.line(app.clock() - 1, words)]))
            lease_is_over(app, job)
            assert await look(app, job) is CheckRunOutcome.CREATED
            found = await kept(app, job)
            assert (found.cause, found.runner_log) == (Cause.DELETED_REGISTRATION, (words,))


async def test_fewer_lines_than_already_stored_change_nothing(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            death = await its_runner_dies(app, job)
            loki.holds()
            await look(app, job)
            assert (await kept(app, job)).runner_log == death.runner_log


async def test_a_failing_log_store_is_paused_for_all_deaths_and_queried_by_a_later_run(story):
    async with story() as app:
        ask_logs_of(app, "http://127.0.0.1:9")
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        await its_runner_dies(app, job, runner_name="linux-idle", pod_uid="other")
        lease_is_over(app, job)
        app.clock.pass_(90)
        assert await look(app, job, 1) is CheckRunOutcome.CREATED
        assert await app.context.redis.ttl(keys.LOG_STORE_BACKOFF) > 0
        assert await reported_sources(app) == [RUNNER_LINES, HOST_LINES]
        assert [list(args) for args, _ in waiting(app)] == [[app.installation, identity(death), 2]], (
            "a later run may find its lines"
        )
        with Loki() as loki:
            ask_logs_of(app, loki.url)
            loki.holds(({}, [loki.line(death.at, OOM)]))
            await look_into(app.context, app.installation, identity(death._replace(pod_uid="other")), 1)
            assert loki.asked == [], "the log store is paused for all deaths"
            await app.context.redis.delete(keys.LOG_STORE_BACKOFF)  # a minute later
            await look(app, job, 2)
            assert OOM in (await kept(app, job)).host_log[-1]
            assert await reported_sources(app) == []
            asked = len(loki.asked)
            await look(app, job, 3)
            assert len(loki.asked) == asked, "all lines are stored"


async def test_each_exit_of_one_pod_is_published_even_if_another_followed_first(story):
    async with story() as app:
        job = await a_job_runs(app)
        ends = [await its_runner_dies(app, job, exit_code=code, at=app.clock() + code) for code in (1, 2)]
        later = await its_runner_dies(app, job, pod_uid="a later pod", at=app.clock() + 3)
        for each in (*ends, later):
            await look_into(app.context, app.installation, identity(each))
        assert sorted(each["exit_code"] for each in await app.sent_events("runner.died")) == [1, 2, 137]
        assert await Deaths(app.context.redis, app.clock).unpublished(app.installation, 10) == []


async def test_a_clean_exit_does_not_query_the_log_store(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            await its_runner_dies(app, job, cause=Cause.CLEAN_EXIT, reason="Completed", exit_code=0, signal=None)
            assert await look(app, job) is CheckRunOutcome.RECORDED
            assert (loki.asked, waiting(app)) == ([], [])


async def test_a_check_run_that_github_would_refuse_for_the_number_of_creations_is_posted_later(story):
    """Many jobs died at once; GitHub's limit has a wait that would hold up sweeps, too."""
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        lease_is_over(app, job)
        await app.receive_all()
        for number in range(75):
            await app.context.check_creations.take(app.installation, f"other {number}", 1.0, app.clock())
        await look(app, job)
        assert check_runs(app) == {}
        (first,) = [(list(args), key) for args, key in waiting(app) if "-later-" in key]
        assert first[0] == [app.installation, identity(death), 0]
        app.clock.pass_(60)
        for number in range(75):
            await app.context.check_creations.take(app.installation, f"other {number}", 1.0, app.clock())
        await look(app, job)  # by the first of these jobs, which runs and has its key
        later = [key for _, key in waiting(app) if "-later-" in key]
        assert len(later) == 2, "it waits again"
        app.clock.pass_(60)
        assert await look(app, job) is CheckRunOutcome.CREATED
        assert len(check_runs(app)) == 1


async def test_the_check_run_has_who_requested_each_later_attempt_of_the_job(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        (first,) = [each for each in await app.context.demand.all(app.installation) if each.id == job.id]
        later = [first._replace(id=job.id + each, attempt=1 + each, queued_at=app.clock()) for each in (1, 2)]
        await app.context.demand.record(app.installation, later)
        again = Rerun(job.id + 1, first.run_id, 2, "mona", app.clock(), RerunState.ACCEPTED)
        await app.context.reruns.begin(app.installation, again)
        lease_is_over(app, job)
        await look(app, job)
        (posted,) = check_runs(app).values()
        assert "attempt 3 of the run" in str(posted["output"]), posted["output"]
        assert "requested by mona" in str(posted["output"])
