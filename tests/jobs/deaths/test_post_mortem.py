"""A post-mortem with something amiss: each lack takes away its own part alone."""

from __future__ import annotations

import asyncio

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from ghapp.errors import GitHubUnavailableError
from ghapp.health.deaths.cause import Cause
from ghapp.health.installation import NEEDED
from ghapp.health.pods.degraded_sources import LOG_STORE
from ghapp.queue.jobs import QUEUE_OF, JobName
from ghapp.store import keys
from ghapp.store.deaths import Deaths, identity
from ghapp.store.degraded_sources import DegradedSources
from jobs.checks.publisher import CheckRunOutcome
from jobs.context import configure
from jobs.deaths.post_mortem import look_into, post_mortem
from jobs.deliveries.installations import discover_installations
from tests.stories.death_story import a_job_runs, ask_logs_of, check_runs, its_runner_dies, kept, lease_is_over, look
from tests.support.loki import Loki

OOM = "Out of memory: Killed process 4242 (Runner.Worker)"


def waiting(app):
    """What is asked of the queue for later: arguments and ids."""
    queue = Queue("report", connection=app.context.queue_redis, serializer=JSONSerializer)
    registry = ScheduledJobRegistry(queue=queue)
    jobs = [queue.fetch_job(job_id) for job_id in registry.get_job_ids()]
    return [(job.args, job.id) for job in jobs if job.func_name == JobName.POST_MORTEM]


def events(lines):
    return [line["event"] for line in lines]


async def test_it_is_reported_work_that_anybody_may_ask_for(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        configure(app.settings)
        await post_mortem(app.installation, identity(death))
        assert QUEUE_OF[JobName.POST_MORTEM] == "report"
        assert len(await app.sent_events("runner.died")) == 1


async def test_a_job_that_is_not_over_is_looked_at_again_and_asked_for_once(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        assert [await look(app, job), await look(app, job)] == [CheckRunOutcome.WAITS] * 2
        ((args, key),) = waiting(app)
        assert list(args) == [app.installation, identity(death), 1]
        assert (key.startswith("post-mortem-"), key.endswith("-1")) == (True, True)


@pytest.mark.parametrize(
    ("installation", "changes"),
    [(1, {}), (0, {"exit_code": 1}), (0, {"pod_uid": "another pod"})],
    ids=["another installation", "another end", "a pod that came later"],
)
async def test_a_death_that_is_not_kept_is_nobody_s(story, installation, changes):
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
async def test_without_a_permission_it_goes_on_with_less_and_says_so_once(story, missing, conclusion, waits):
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
async def test_a_permission_that_github_alone_knows_to_be_missing_is_no_worse(story, missing, status):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.withhold_permission("acme", permission=missing, status=status, admitted=False)
        app.clock.pass_(60)  # a token too young is not believed
        with capture_logs() as lines:
            outcomes = [await look(app, job), await look(app, job)]
        assert set(outcomes) == ({CheckRunOutcome.RECORDED} if status == 403 else {CheckRunOutcome.WAITS})
        assert events(lines) == ["post-mortem incomplete"]
        assert check_runs(app) == {}
        assert len(await app.sent_events("runner.died")) == 1


async def test_annotations_that_may_not_be_read_are_done_without(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.fault(match="annotations", status=403)
        assert await look(app, job) is CheckRunOutcome.CREATED


@pytest.mark.parametrize("match", ["/actions/jobs/", "annotations", "/repos/acme/api$", "check-runs$"])
async def test_github_s_own_trouble_is_for_the_queue_to_try_again_and_nothing_is_lost_by_it(story, match):
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


async def test_a_limit_is_waited_for_and_not_tried_at_once(story):
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


async def test_many_at_once_post_one_check_run_and_tell_one_event(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        outcomes = await asyncio.gather(*(look(app, job) for _ in range(8)))
        assert sorted(outcomes).count(CheckRunOutcome.CREATED) == 1
        assert len(check_runs(app)) == 1
        assert len(await app.sent_events("runner.died")) == 1


async def test_a_check_run_that_is_not_taken_is_said_and_looked_for_again(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        lease_is_over(app, job)
        app.sandbox.control.fault(match="check-runs$", method="POST", status=422)
        with capture_logs() as lines:
            assert await look(app, job) is CheckRunOutcome.WAITS
        assert lines[0]["why"] == f"acme/api: GitHub does not take a check run for {job.head_sha}"


async def test_where_everybody_can_read_it_the_host_is_not_quoted(story):
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
            assert ("node-1" in text, "The node's log is not shown" in text) == (False, True)
            assert any(OOM in line for line in (await kept(app, job)).host_log)


async def test_an_idle_runner_s_death_is_told_without_a_job(story):
    async with story() as app:
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job, runner_name="linux-idle", pod="linux-idle", runner_log=())
        assert await look_into(app.context, app.installation, identity(death)) is CheckRunOutcome.WAITS
        (result,) = await app.sent_events("runner.died")
        assert (result["runner_name"], result["job"], result["cause"]) == (death.runner_name, None, "host-oom")


async def test_a_job_that_deliveries_told_late_is_found_by_a_later_look(story):
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


async def test_a_job_in_a_repository_that_nobody_told_of_is_known_by_its_id_alone(story):
    async with story() as app:
        job = await a_job_runs(app)
        await its_runner_dies(app, job)
        await app.context.redis.delete(keys.jobs(app.installation))
        assert await look(app, job) is CheckRunOutcome.WAITS
        assert (await kept(app, job)).job[:2] == (job.id, "")


async def in_the_way(app):
    """What the report says cannot be seen."""
    return [*await DegradedSources(app.context.redis).of([LOG_STORE])]


@pytest.mark.parametrize("status", [500, 200], ids=["an error", "no Loki"])
async def test_a_log_store_in_trouble_is_said_once_and_holds_nothing_up(story, status):
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
            assert await in_the_way(app) == [LOG_STORE]
            assert (await kept(app, job)).runner_log == death.runner_log
            assert [list(args)[-1] for args, _ in waiting(app)] == [1], "its lines may come yet"


async def test_the_runner_s_own_words_in_the_log_store_change_what_a_silent_end_means(story):
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


async def test_fewer_lines_than_are_known_add_nothing(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            death = await its_runner_dies(app, job)
            loki.holds()
            await look(app, job)
            assert (await kept(app, job)).runner_log == death.runner_log


async def test_a_log_store_that_gives_no_answer_rests_for_all_and_is_asked_again_by_a_later_look(story):
    async with story() as app:
        ask_logs_of(app, "http://127.0.0.1:9")
        job = await a_job_runs(app)
        death = await its_runner_dies(app, job)
        await its_runner_dies(app, job, runner_name="linux-idle", pod_uid="other")
        lease_is_over(app, job)
        app.clock.pass_(90)
        assert await look(app, job, 1) is CheckRunOutcome.CREATED
        assert await app.context.redis.ttl(keys.LOG_STORE_RESTS) > 0
        assert await in_the_way(app) == [LOG_STORE]
        assert [list(args) for args, _ in waiting(app)] == [[app.installation, identity(death), 2]], (
            "its lines may come"
        )
        with Loki() as loki:
            ask_logs_of(app, loki.url)
            loki.holds(({}, [loki.line(death.at, OOM)]))
            await look_into(app.context, app.installation, identity(death._replace(pod_uid="other")), 1)
            assert loki.asked == [], "it rests for all deaths"
            await app.context.redis.delete(keys.LOG_STORE_RESTS)  # a minute later
            await look(app, job, 2)
            assert OOM in (await kept(app, job)).host_log[-1]
            assert await in_the_way(app) == []
            asked = len(loki.asked)
            await look(app, job, 3)
            assert len(loki.asked) == asked, "all is there"


async def test_each_end_of_one_pod_is_told_though_another_came_before_anybody_looked(story):
    async with story() as app:
        job = await a_job_runs(app)
        ends = [await its_runner_dies(app, job, exit_code=code, at=app.clock() + code) for code in (1, 2)]
        later = await its_runner_dies(app, job, pod_uid="a later pod", at=app.clock() + 3)
        for each in (*ends, later):
            await look_into(app.context, app.installation, identity(each))
        assert sorted(each["exit_code"] for each in await app.sent_events("runner.died")) == [1, 2, 137]
        assert await Deaths(app.context.redis, app.clock).unpublished(app.installation, 10) == []


async def test_a_clean_exit_asks_no_log_store(story):
    with Loki() as loki:
        async with story() as app:
            ask_logs_of(app, loki.url)
            job = await a_job_runs(app)
            await its_runner_dies(app, job, cause=Cause.CLEAN_EXIT, reason="Completed", exit_code=0, signal=None)
            assert await look(app, job) is CheckRunOutcome.RECORDED
            assert (loki.asked, waiting(app)) == ([], [])
