"""A post-mortem with something amiss: each lack takes away its own part alone."""

from __future__ import annotations

import asyncio

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from ghapp.errors import GitHubUnavailableError
from ghapp.health.cluster.hindrance import LOG_STORE
from ghapp.health.deaths.cause import Cause
from ghapp.health.installation import NEEDED
from ghapp.store import keys
from ghapp.store.deaths import Deaths, identity
from ghapp.store.troubles import Troubles
from ghapp.work import QUEUE_OF, Work
from jobs.house import furnish
from jobs.installations import discover_installations
from jobs.postmortem import Outcome, look_into, post_mortem
from tests.loki import Loki
from tests.stories.dying import a_job_runs, ask_logs_of, check_runs, its_runner_dies, kept, lease_is_over, look

OOM = "Out of memory: Killed process 4242 (Runner.Worker)"


def waiting(it):
    """What is asked of the queue for later: arguments and ids."""
    queue = Queue("report", connection=it.house.desk, serializer=JSONSerializer)
    registry = ScheduledJobRegistry(queue=queue)
    jobs = [queue.fetch_job(job_id) for job_id in registry.get_job_ids()]
    return [(job.args, job.id) for job in jobs if job.func_name == Work.POST_MORTEM]


def events(lines):
    return [line["event"] for line in lines]


async def test_it_is_reported_work_that_anybody_may_ask_for(story):
    async with story() as it:
        job = await a_job_runs(it)
        death = await its_runner_dies(it, job)
        furnish(it.settings)
        await post_mortem(it.installation, identity(death))
        assert QUEUE_OF[Work.POST_MORTEM] == "report"
        assert len(await it.told("runner.died")) == 1


async def test_a_job_that_is_not_over_is_looked_at_again_and_asked_for_once(story):
    async with story() as it:
        job = await a_job_runs(it)
        death = await its_runner_dies(it, job)
        assert [await look(it, job), await look(it, job)] == [Outcome.WAITS] * 2
        ((args, key),) = waiting(it)
        assert list(args) == [it.installation, identity(death), 1]
        assert (key.startswith("post-mortem-"), key.endswith("-1")) == (True, True)


@pytest.mark.parametrize(
    ("installation", "changes"),
    [(1, {}), (0, {"exit_code": 1}), (0, {"pod_uid": "another pod"})],
    ids=["another installation", "another end", "a pod that came later"],
)
async def test_a_death_that_is_not_kept_is_nobody_s(story, installation, changes):
    async with story() as it:
        job = await a_job_runs(it)
        death = await its_runner_dies(it, job)
        lease_is_over(it, job)
        which = identity(death._replace(**changes))
        outcome = await look_into(it.house, it.installation + installation, which)
        assert outcome is Outcome.NOTHING_TO_DO
        assert (await it.told("runner.died"), check_runs(it)) == ([], {})


@pytest.mark.parametrize(
    ("missing", "conclusion", "waits"),
    [("actions", "", []), ("checks", "failure", [])],
)
async def test_without_a_permission_it_goes_on_with_less_and_says_so_once(story, missing, conclusion, waits):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        granted = {name: level for name, level in NEEDED.items() if name != missing}
        it.sandbox.control.permissions("acme", permissions=granted)
        await discover_installations(it.house)
        with capture_logs() as lines:
            assert [await look(it, job), await look(it, job)] == [Outcome.RECORDED] * 2
        assert events(lines) == ["post-mortem lacks something"]
        assert lines[0]["why"] == f"the installation has not granted {missing}: {NEEDED[missing]}"
        found = (await kept(it, job)).job
        assert (found.id, found.repository, found.conclusion) == (job.id, "acme/api", conclusion)
        assert (check_runs(it), waiting(it)) == ({}, waits)
        assert len(await it.told("runner.died")) == 1


@pytest.mark.parametrize("missing", ["actions", "checks"])
@pytest.mark.parametrize("status", [403, 404])
async def test_a_permission_that_github_alone_knows_to_be_missing_is_no_worse(story, missing, status):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        it.sandbox.control.withhold_permission("acme", permission=missing, status=status, admitted=False)
        it.clock.pass_(60)  # a token too young is not believed
        with capture_logs() as lines:
            outcomes = [await look(it, job), await look(it, job)]
        assert set(outcomes) == ({Outcome.RECORDED} if status == 403 else {Outcome.WAITS})
        assert events(lines) == ["post-mortem lacks something"]
        assert check_runs(it) == {}
        assert len(await it.told("runner.died")) == 1


async def test_annotations_that_may_not_be_read_are_done_without(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        it.sandbox.control.fault(match="annotations", status=403)
        assert await look(it, job) is Outcome.CREATED


@pytest.mark.parametrize("match", ["/actions/jobs/", "annotations", "/repos/acme/api$", "check-runs$"])
async def test_github_s_own_trouble_is_for_the_queue_to_try_again_and_nothing_is_lost_by_it(story, match):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        it.sandbox.control.fault(match=match, status=502)
        with pytest.raises(GitHubUnavailableError):
            await look(it, job)
        assert (await kept(it, job)).job.repository == "acme/api"
        assert len(await it.told("runner.died")) == 1
        assert check_runs(it) == {}
        it.sandbox.control.no_faults()
        assert await look(it, job) is Outcome.CREATED


async def test_a_limit_is_waited_for_and_not_tried_at_once(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        it.sandbox.control.secondary_limit("acme")
        assert await look(it, job) is Outcome.WAITS
        assert [list(args)[-1] for args, _ in waiting(it)] == [1]


async def test_a_crash_between_the_creation_and_its_record_leaves_one_check_run(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        assert await look(it, job) is Outcome.CREATED
        (key,) = [each async for each in it.house.redis.scan_iter(match=keys.post_mortem("*"))]
        await it.house.redis.delete(key)
        assert await look(it, job) is Outcome.UPDATED
        assert len(check_runs(it)) == 1


async def test_many_at_once_post_one_check_run_and_tell_one_event(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        outcomes = await asyncio.gather(*(look(it, job) for _ in range(8)))
        assert sorted(outcomes).count(Outcome.CREATED) == 1
        assert len(check_runs(it)) == 1
        assert len(await it.told("runner.died")) == 1


async def test_a_check_run_that_is_not_taken_is_said_and_looked_for_again(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        it.sandbox.control.fault(match="check-runs$", method="POST", status=422)
        with capture_logs() as lines:
            assert await look(it, job) is Outcome.WAITS
        assert lines[0]["why"] == f"acme/api: GitHub does not take a check run for {job.head_sha}"


async def test_where_everybody_can_read_it_the_host_is_not_quoted(story):
    with Loki() as loki:
        async with story() as it:
            ask_logs_of(it, loki.url)
            job = await a_job_runs(it)
            await its_runner_dies(it, job)
            lease_is_over(it, job)
            loki.holds(({}, [loki.line(it.clock(), OOM)]))
            public = {"id": 1, "default_branch": "main", "private": False}
            it.sandbox.control.fault(match="/repos/acme/api$", status=200, body=public)
            assert await look(it, job) is Outcome.CREATED
            ((_, posted),) = check_runs(it).items()
            text = posted["output"]["text"]
            assert ("node-1" in text, "What its host said is not shown" in text) == (False, True)
            assert any(OOM in line for line in (await kept(it, job)).host_log)


async def test_an_idle_runner_s_death_is_told_without_a_job(story):
    async with story() as it:
        job = await a_job_runs(it)
        death = await its_runner_dies(it, job, runner_name="linux-idle", pod="linux-idle", runner_log=())
        assert await look_into(it.house, it.installation, identity(death)) is Outcome.WAITS
        (told,) = await it.told("runner.died")
        assert (told["runner_name"], told["job"], told["cause"]) == (death.runner_name, None, "host-oom")


async def test_a_job_that_deliveries_told_late_is_found_by_a_later_look(story):
    async with story() as it:
        it.listen()
        (job_id,) = it.sandbox.control.queue("acme", labels=["linux-4vcpu"], repository="api")
        job = it.sandbox.world.orgs["acme"].fleet.jobs[job_id]
        await its_runner_dies(it, job)
        assert await look(it, job) is Outcome.WAITS
        assert (await kept(it, job)).job is None
        lease_is_over(it, job)
        await it.receive(3)
        assert await look(it, job, 1) is Outcome.CREATED


async def test_a_job_in_a_repository_that_nobody_told_of_is_known_by_its_id_alone(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        await it.house.redis.delete(keys.jobs(it.installation))
        assert await look(it, job) is Outcome.WAITS
        assert (await kept(it, job)).job[:2] == (job.id, "")


async def in_the_way(it):
    """What the report says cannot be seen."""
    return [*await Troubles(it.house.redis).of([LOG_STORE])]


@pytest.mark.parametrize("status", [500, 200], ids=["an error", "no Loki"])
async def test_a_log_store_in_trouble_is_said_once_and_holds_nothing_up(story, status):
    with Loki(status=status, body=b"<html>") as loki:
        async with story() as it:
            ask_logs_of(it, loki.url)
            job = await a_job_runs(it)
            death = await its_runner_dies(it, job)
            lease_is_over(it, job)
            with capture_logs() as lines:
                assert await look(it, job) is Outcome.CREATED
                assert await look(it, job) is Outcome.WAITS
            assert events(lines) == ["post-mortem lacks something", "post-mortem posted"]
            assert lines[0]["why"].startswith(f"the log store at {loki.address} ")
            assert await in_the_way(it) == [LOG_STORE]
            assert (await kept(it, job)).runner_log == death.runner_log
            assert [list(args)[-1] for args, _ in waiting(it)] == [1], "its lines may come yet"


async def test_the_runner_s_own_words_in_the_log_store_change_what_a_silent_end_means(story):
    with Loki() as loki:
        async with story() as it:
            ask_logs_of(it, loki.url)
            job = await a_job_runs(it)
            silent = {"cause": Cause.CLEAN_EXIT, "reason": "CompletedSilently", "exit_code": 0, "signal": None}
            await its_runner_dies(it, job, runner_log=(), **silent)
            words = "The runner registration has been deleted from the server, please re-configure."
            loki.holds(({}, [loki.line(it.clock() - 1, words)]))
            lease_is_over(it, job)
            assert await look(it, job) is Outcome.CREATED
            found = await kept(it, job)
            assert (found.cause, found.runner_log) == (Cause.DELETED_REGISTRATION, (words,))


async def test_fewer_lines_than_are_known_add_nothing(story):
    with Loki() as loki:
        async with story() as it:
            ask_logs_of(it, loki.url)
            job = await a_job_runs(it)
            death = await its_runner_dies(it, job)
            loki.holds()
            await look(it, job)
            assert (await kept(it, job)).runner_log == death.runner_log


async def test_a_log_store_that_gives_no_answer_rests_for_all_and_is_asked_again_by_a_later_look(story):
    async with story() as it:
        ask_logs_of(it, "http://127.0.0.1:9")
        job = await a_job_runs(it)
        death = await its_runner_dies(it, job)
        await its_runner_dies(it, job, runner_name="linux-idle", pod_uid="other")
        lease_is_over(it, job)
        it.clock.pass_(90)
        assert await look(it, job, 1) is Outcome.CREATED
        assert await it.house.redis.ttl(keys.LOG_STORE_RESTS) > 0
        assert await in_the_way(it) == [LOG_STORE]
        assert [list(args) for args, _ in waiting(it)] == [[it.installation, identity(death), 2]], "its lines may come"
        with Loki() as loki:
            ask_logs_of(it, loki.url)
            loki.holds(({}, [loki.line(death.at, OOM)]))
            await look_into(it.house, it.installation, identity(death._replace(pod_uid="other")), 1)
            assert loki.asked == [], "it rests for all deaths"
            await it.house.redis.delete(keys.LOG_STORE_RESTS)  # a minute later
            await look(it, job, 2)
            assert OOM in (await kept(it, job)).host_log[-1]
            assert await in_the_way(it) == []
            asked = len(loki.asked)
            await look(it, job, 3)
            assert len(loki.asked) == asked, "all is there"


async def test_each_end_of_one_pod_is_told_though_another_came_before_anybody_looked(story):
    async with story() as it:
        job = await a_job_runs(it)
        ends = [await its_runner_dies(it, job, exit_code=code, at=it.clock() + code) for code in (1, 2)]
        later = await its_runner_dies(it, job, pod_uid="a later pod", at=it.clock() + 3)
        for each in (*ends, later):
            await look_into(it.house, it.installation, identity(each))
        assert sorted(each["exit_code"] for each in await it.told("runner.died")) == [1, 2, 137]
        assert await Deaths(it.house.redis, it.clock).untold(it.installation, 10) == []


async def test_a_clean_exit_asks_no_log_store(story):
    with Loki() as loki:
        async with story() as it:
            ask_logs_of(it, loki.url)
            job = await a_job_runs(it)
            await its_runner_dies(it, job, cause=Cause.CLEAN_EXIT, reason="Completed", exit_code=0, signal=None)
            assert await look(it, job) is Outcome.RECORDED
            assert (loki.asked, waiting(it)) == ([], [])
