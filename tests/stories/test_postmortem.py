"""A runner dies under its job: what is kept, told, and read on the job's own commit."""

from __future__ import annotations

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.postmortem import LOOKS_AFTER_SECONDS
from jobs.postmortem import Outcome
from jobs.sweep import sweep_installation
from tests.loki import Loki
from tests.stories.conftest import POOL
from tests.stories.dying import a_job_runs, ask_logs_of, check_runs, its_runner_dies, kept, lease_is_over, look


async def test_a_developer_learns_on_the_job_s_own_commit_that_the_runner_died(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        assert await look(it, job) is Outcome.WAITS
        found = await kept(it, job)
        assert (found.job.id, found.job.repository, found.job.name) == (job.id, "acme/api", "test")
        assert (found.job.head_sha, found.job.conclusion, found.pool) == (job.head_sha, "", POOL)
        (told,) = await it.told("runner.died")
        assert (told["cause"], told["job"]["id"], told["job"]["conclusion"]) == ("host-oom", job.id, None)
        assert check_runs(it) == {}, "GitHub does not say yet that the job failed"

        lease_is_over(it, job)
        it.sandbox.control.head("acme", repository="api")
        assert await look(it, job, 2) is Outcome.CREATED
        ((check_run, posted),) = check_runs(it).items()
        assert (posted["name"], posted["head_sha"]) == ("Runner post-mortem", job.head_sha)
        assert (posted["status"], posted["conclusion"]) == ("completed", "neutral")
        assert posted["output"]["title"] == "This job's runner died: host-oom"
        assert "No line of your code failed" in posted["output"]["summary"]
        assert "Running job: test" in posted["output"]["text"]
        assert (await kept(it, job)).job.conclusion == "failure"

        for number in range(len(LOOKS_AFTER_SECONDS) + 1):
            assert await look(it, job, number) is Outcome.RECORDED
        assert list(check_runs(it)) == [check_run]
        assert check_runs(it)[check_run] == posted
        assert len(await it.told("runner.died")) == 1


async def test_a_job_whose_end_was_told_already_is_known_by_its_repository(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        lease_is_over(it, job)
        await it.receive()
        assert await it.house.demand.all(it.installation) == []
        assert await look(it, job) is Outcome.CREATED
        assert len(check_runs(it)) == 1


async def test_a_clean_exit_is_told_and_asks_github_for_nothing(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job, cause=Cause.CLEAN_EXIT, exit_code=0, signal=None, reason="Completed")
        lease_is_over(it, job)
        before = it.account()["calls"]
        assert await look(it, job) is Outcome.RECORDED
        assert (it.account()["calls"], check_runs(it)) == (before, {})
        assert [told["cause"] for told in await it.told("runner.died")] == ["clean-exit"]
        assert (await kept(it, job)).job.repository == "acme/api"


async def test_a_job_that_failed_by_itself_is_its_developer_s_own(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        it.sandbox.control.finish("acme", job_id=job.id, conclusion="failure")
        assert await look(it, job) is Outcome.RECORDED
        assert check_runs(it) == {}


async def test_a_job_that_is_never_over_is_left_after_the_last_look(story):
    async with story() as it:
        job = await a_job_runs(it)
        await its_runner_dies(it, job)
        looks = [await look(it, job, number) for number in range(len(LOOKS_AFTER_SECONDS) + 1)]
        assert looks == [Outcome.WAITS] * len(LOOKS_AFTER_SECONDS) + [Outcome.RECORDED]
        assert len(await it.told("runner.died")) == 1


async def test_what_its_host_said_is_kept_and_shown_to_the_developer(story):
    with Loki() as loki:
        async with story() as it:
            ask_logs_of(it, loki.url)
            job = await a_job_runs(it)
            await its_runner_dies(it, job)
            lease_is_over(it, job)
            loki.holds(({}, [loki.line(it.clock() - 1, "Out of memory: Killed process 4242 (Runner.Worker)")]))
            assert await look(it, job) is Outcome.CREATED
            ((check_run, posted),) = check_runs(it).items()
            assert "Killed process 4242" in posted["output"]["text"]

            it.clock.pass_(90)
            loki.holds(
                ({}, [loki.line(it.clock() - 91, "Out of memory: Killed process 4242 (Runner.Worker)")]),
                ({"unit": "kubelet.service"}, [loki.line(it.clock() - 60, "Container runner is gone")]),
            )
            assert await look(it, job, 1) is Outcome.UPDATED
            assert "kubelet.service: Container runner is gone" in check_runs(it)[check_run]["output"]["text"]
            assert len(check_runs(it)) == 1
            assert [line.split("Z ")[1] for line in (await kept(it, job)).host_log] == [
                "Out of memory: Killed process 4242 (Runner.Worker)",
                "kubelet.service: Container runner is gone",
            ]
