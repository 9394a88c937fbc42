"""A job whose runner died is run again: unasked, or by the button on its post-mortem; once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from ghapp.deaths.death import DeadJob
from ghapp.deaths.rerun import (
    AUTO,
    NO_ACCESS,
    TRIES_AFTER_SECONDS,
    Rerun,
    RerunNote,
    RerunRefusal,
    RerunState,
    why_not,
)
from ghapp.deaths.store import identity
from ghapp.deaths.texts import RERUN
from ghapp.errors import (
    DeletedError,
    GitHubError,
    GitHubUnavailableError,
    NotFoundError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.remediation.fuse import Fuse, Position
from ghapp.sandbox.config import LEAST_PRIVILEGE
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, Trail
from ghapp.store.presses import rerun_topic
from ghapp.wording import clock_time
from jobs.deaths.job_deaths import examine_job_of
from jobs.deaths.post_mortem import look_into
from jobs.deaths.rerun import refusal_of, rerun_job_of
from jobs.installations.discover import discover_installations
from tests.manifests.rendered import ROOT
from tests.stories.conftest import POOL
from tests.stories.deaths import killed_rerun
from tests.stories.deaths.death_story import a_job_runs, check_runs, its_runner_dies
from tests.stories.deaths.test_job_death import SIGTERM, abandoned, job_runs

AUTOMATIC = 'rerun = { mode = "auto" }'


async def grant(app, level="write"):
    """An owner grants `actions` at that level."""
    app.sandbox.control.permissions("acme", permissions=LEAST_PRIVILEGE | {"actions": level})
    await app.receive_all()
    await discover_installations(app.context)


async def job_died(app, *, own_steps=False, granted=True):
    """A job's runner was stopped before a step of the job had begun, unless `own_steps`; its death."""
    job = await job_runs(app)
    if granted:
        await grant(app)
    return job, await abandoned(app, job, note=SIGTERM, own_steps=own_steps)


async def rerun(app, death, by=AUTO, attempt=0):
    return await rerun_job_of(app.context, app.installation, identity(death), by, attempt)


async def rerun_as_enqueued(app, ending):
    """Does the try that is enqueued under a key with that ending."""
    (key,) = [each for each in enqueued(app) if each.endswith(ending)]
    asked = Job.fetch(key, connection=app.context.queue_redis, serializer=JSONSerializer)
    return await rerun_job_of(app.context, *asked.args)


def take_from_queue(app, job, attempt):
    """The try of that number begins: it waits no more."""
    key = f"rerun-{app.installation}-{job.id}-asked-{attempt}"
    app.context.queue_redis.delete(f"rq:job:{key}")
    app.context.queue_redis.zrem("rq:scheduled:report", key)


async def look(app, death):
    await look_into(app.context, app.installation, identity(death))
    ((check_run, posted),) = check_runs(app).items()
    return check_run, posted


def attempts(app, job):
    """The attempts of the job's run, by the jobs that GitHub has queued for it."""
    jobs = app.sandbox.world.orgs["acme"].fleet.jobs.values()
    return sorted(each.attempt for each in jobs if each.run_id == job.run_id)


def run_of(job):
    return next(each for each in job.repository.runs if each.id == job.run_id)


def enqueued(app):
    """The arguments of re-runs that are enqueued, by their keys."""
    keys = app.context.queue_redis.lrange("rq:queue:report", 0, -1)
    later = app.context.queue_redis.zrange("rq:scheduled:report", 0, -1)
    return [key.decode() for key in (*keys, *later) if key.startswith(b"rerun-")]


async def test_a_job_is_run_again_unasked_once_and_its_post_mortem_shows_it(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        await look(app, death)
        assert enqueued(app) == [f"rerun-{app.installation}-{job.id}-auto"]
        done = await rerun(app, death)
        assert (done.state, done.by, done.attempt) == (RerunState.ACCEPTED, AUTO, 1)
        assert attempts(app, job) == [1, 2]
        assert await rerun(app, death) is RerunRefusal.ALREADY
        assert await rerun(app, death, "mona") is RerunRefusal.ALREADY
        assert attempts(app, job) == [1, 2]
        _, posted = await look(app, death)
        assert "by ghapp, as its pool is configured; it is attempt 2 of the run" in posted["output"]["summary"]
        assert posted["output"]["summary"].startswith("The job was run again as attempt 2 of the run.\n\n")
        assert posted["actions"] == []


async def test_a_pool_that_runs_jobs_again_unasked_notes_why_it_does_not_run_this_one_again(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app, own_steps=True)
        await look(app, death)
        assert enqueued(app) == []
        noted = await app.context.reruns.noted(app.installation, job.id)
        assert noted == RerunNote("StepsHadBegun", AUTO, noted.at, None)
        app.clock.pass_(60)
        await look(app, death)
        assert await app.context.reruns.noted(app.installation, job.id) == noted


async def test_the_button_runs_the_job_again_and_names_who_pressed_it(story):
    async with story() as app:
        job, death = await job_died(app, own_steps=True)
        check_run, posted = await look(app, death)
        assert [each["identifier"] for each in posted["actions"]] == [RERUN.identifier]
        assert enqueued(app) == []
        for _ in range(2):
            app.sandbox.control.click("acme", check_run_id=check_run, identifier=RERUN.identifier)
            await app.receive_all()
        (key,) = enqueued(app)
        asked = Job.fetch(key, connection=app.context.queue_redis, serializer=JSONSerializer)
        assert asked.args == [app.installation, identity(death), app.sandbox.world.directory.sender["login"]]
        assert {each.result for each in await app.context.audit.latest(app.installation, 9)} == {"queued"}
        done = await rerun(app, death, "mona")
        assert (done.state, done.by) == (RerunState.ACCEPTED, "mona")
        presses = await app.context.audit.latest(app.installation, 9)
        subject = f"the job of {death.runner_name}"
        assert {(each.channel, each.subject, each.result) for each in presses} == {("check run", subject, "accepted")}
        assert attempts(app, job) == [1, 2]
        assert "requested by mona; it is attempt 2 of the run" in (await look(app, death))[1]["output"]["summary"]


@pytest.mark.parametrize("by", ["sam", AUTO])
async def test_a_job_that_ghapp_ran_again_is_of_who_requested_that_and_not_the_apps(story, by):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        author = (await app.context.demand.one(app.installation, job.id)).actor
        await rerun(app, death, by)
        await app.receive_all()
        (again,) = [each for each in await app.context.demand.all(app.installation) if each.run_id == job.run_id]
        assert (again.attempt, again.rerun_by) == (2, by)
        assert again.actor == (author if by == AUTO else "sam")


async def test_githubs_own_re_run_of_the_check_runs_no_job_again(story):
    async with story() as app:
        _, death = await job_died(app, own_steps=True)
        check_run, _ = await look(app, death)
        app.sandbox.control.click("acme", check_run_id=check_run)
        await app.receive_all()
        assert enqueued(app) == []


async def test_the_buttons_of_the_page_and_of_the_check_run_at_once_run_the_job_again_once(story):
    async with story() as app:
        job, death = await job_died(app, own_steps=True)
        results = await asyncio.gather(*(rerun(app, death, by) for by in ("mona", "lisa", "mona", AUTO)))
        accepted = [each for each in results if isinstance(each, Rerun)]
        assert [each.state for each in accepted] == [RerunState.ACCEPTED]
        assert attempts(app, job) == [1, 2]
        assert (await app.context.reruns.of(app.installation, job.id)).by == accepted[0].by


async def test_without_the_permission_there_is_no_button_and_no_re_run(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app, granted=False)
        _, posted = await look(app, death)
        assert (posted["actions"], enqueued(app)) == ([], [])
        assert [await rerun(app, death, by) for by in (AUTO, "mona")] == [RerunRefusal.NOT_GRANTED] * 2
        assert attempts(app, job) == [1]


@pytest.mark.parametrize(
    ("pool", "own_steps", "why"),
    [
        ('rerun = { mode = "off" }', False, RerunRefusal.OFF),
        ("", False, RerunRefusal.NOT_AUTOMATIC),
        ('rerun = { mode = "auto", causes = ["vanished"] }', False, RerunRefusal.CAUSE),
        (AUTOMATIC, True, RerunRefusal.BEGUN),
    ],
)
async def test_a_pool_that_does_not_ask_for_it_gets_no_unasked_re_run(story, pool, own_steps, why):
    async with story(pool=pool) as app:
        job, death = await job_died(app, own_steps=own_steps)
        await look(app, death)
        assert enqueued(app) == []
        assert await rerun(app, death) is why
        assert attempts(app, job) == [1]


async def test_a_job_that_had_begun_is_run_again_where_its_pool_allows_it(story):
    async with story(pool='rerun = { mode = "auto", begun = true }') as app:
        _, death = await job_died(app, own_steps=True)
        assert (await rerun(app, death)).state is RerunState.ACCEPTED


@pytest.mark.parametrize("conclusion", ["success", "skipped"])
async def test_a_job_that_did_not_fail_is_not_run_again(story, conclusion):
    async with story() as app:
        job = await a_job_runs(app)
        await grant(app)
        death = await its_runner_dies(app, job)
        await app.context.deaths.enrich(app.installation, death._replace(job=DeadJob(job.id, "acme/api")))
        assert await rerun(app, death, "mona") is RerunRefusal.NOT_FAILED, "it goes on"
        app.sandbox.control.finish("acme", job_id=job.id, conclusion=conclusion)
        assert await rerun(app, death, "mona") is RerunRefusal.NOT_FAILED
        assert attempts(app, job) == [1]
        note = await app.context.reruns.noted(app.installation, job.id)
        assert (note.reason, note.by, note.next_at) == ("JobDidNotFail", "mona", None)


async def test_why_a_re_run_waits_is_noted_with_the_next_try_and_the_note_of_a_re_run_is_not_overwritten(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        await app.context.fuses.save(app.installation, POOL, None, Fuse(Position.PROVING))
        assert await rerun(app, death) is RerunRefusal.FUSE
        note = await app.context.reruns.noted(app.installation, job.id)
        assert note == RerunNote("FuseNotClosed", AUTO, app.clock(), app.clock() + 60.0)
        assert (await rerun(app, death, "mona")).state is RerunState.ACCEPTED
        assert await rerun(app, death, "mona") is RerunRefusal.ALREADY
        assert await app.context.reruns.noted(app.installation, job.id) == note


async def pressed(app, check_run):
    """A person presses the button of the check run; who it is."""
    app.sandbox.control.click("acme", check_run_id=check_run, identifier=RERUN.identifier)
    await app.receive_all()
    return app.sandbox.world.directory.sender["login"]


async def recorded(app):
    """The result of each press in the audit log."""
    return [each.result for each in await app.context.audit.latest(app.installation, 9)]


GOES_ON = "other jobs of the run go on; GitHub re-runs a job when its run is over"


@pytest.mark.parametrize("end", ["accepted", "all tries"])
async def test_a_press_whose_re_run_waits_for_hours_says_for_what_and_how_it_ended(story, end):
    async with story() as app:
        job, death = await job_died(app, own_steps=True)
        who = await pressed(app, (await look(app, death))[0])
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        run.job = app.sandbox.fleet.jobs[other]
        for attempt, after in enumerate(TRIES_AFTER_SECONDS):
            take_from_queue(app, job, attempt)
            assert await rerun(app, death, who, attempt=attempt) is RerunRefusal.RUN_NOT_OVER
            (press_id,) = await app.context.redis.hkeys(keys.presses(app.installation))
            press = await app.context.presses.get(app.installation, press_id.decode())
            assert press.next_at == app.clock() + after
            tried_again = f"next try at {clock_time(press.next_at)}, for the last time at {clock_time(press.ends_at)}"
            assert await recorded(app) == [f"waits: {GOES_ON}; {tried_again}"]
            app.clock.pass_(after)
        assert app.clock() == press.ends_at
        if end == "accepted":
            run.job = job
        take_from_queue(app, job, len(TRIES_AFTER_SECONDS))
        await rerun(app, death, who, attempt=len(TRIES_AFTER_SECONDS))
        last = "accepted" if end == "accepted" else f"not run again after 16 tries: {GOES_ON}"
        assert await recorded(app) == [last]


async def test_presses_while_an_earlier_one_waits_become_one_chain_that_lasts_from_the_last_press(story):
    async with story() as app:
        job, death = await job_died(app, own_steps=True)
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        run.job = app.sandbox.fleet.jobs[other]
        chain = f"rerun-{app.installation}-{job.id}-asked-"

        def waiting():
            return sorted(each.removeprefix(chain) for each in enqueued(app) if each.startswith(chain))

        async def tries(by, attempt):
            """The try of that number is due, and the job still may not be run again."""
            take_from_queue(app, job, attempt)
            assert await rerun(app, death, by, attempt=attempt) is RerunRefusal.RUN_NOT_OVER

        for by in ("mona", "mona", "hubot"):
            assert await rerun(app, death, by) is RerunRefusal.RUN_NOT_OVER
            assert waiting() == ["1"]
        await tries("mona", 1)
        assert waiting() == ["2"]
        assert await rerun(app, death, "hubot") is RerunRefusal.RUN_NOT_OVER
        assert waiting() == ["1", "2"]
        await tries("mona", 2)
        assert waiting() == ["1"], "the earlier chain ends"
        note = await app.context.reruns.noted(app.installation, job.id)
        assert note.next_at - app.clock() == pytest.approx(TRIES_AFTER_SECONDS[0], abs=60)


async def test_what_is_tried_unasked_and_a_press_are_two_chains(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        run.job = app.sandbox.fleet.jobs[other]
        for by in (AUTO, "mona", AUTO, "hubot"):
            assert await rerun(app, death, by) is RerunRefusal.RUN_NOT_OVER
        assert sorted(each.rpartition("-")[0].rpartition("-")[2] for each in enqueued(app) if each[-2:] == "-1") == [
            "asked",
            "auto",
        ]


async def test_what_holds_up_an_unasked_re_run_does_not_hold_up_a_press(story):
    async with story(pool=AUTOMATIC) as app:
        _, death = await job_died(app)
        who = await pressed(app, (await look(app, death))[0])
        await app.context.fuses.save(app.installation, POOL, None, Fuse(Position.PROVING))
        assert await rerun(app, death) is RerunRefusal.FUSE
        assert await recorded(app) == ["queued"]
        assert (await rerun(app, death, who)).state is RerunState.ACCEPTED
        assert await recorded(app) == ["accepted"]


async def test_a_second_press_while_one_waits_joins_it_and_tries_for_who_pressed_first(story):
    async with story() as app:
        job, death = await job_died(app, own_steps=True)
        check_run, _ = await look(app, death)
        await app.context.presses.begin(
            app.installation,
            rerun_topic(identity(death)),
            AuditEntry(app.clock(), "lisa", "page", "re-run", "", "", ""),
        )
        who = await pressed(app, check_run)
        assert await recorded(app) == ["queued"]
        attempts_trail = await app.context.audit.latest(app.installation, 9, Trail.ATTEMPTS)
        assert [(each.who, each.result) for each in attempts_trail] == [(who, "already requested by lisa")]
        assert (await rerun_as_enqueued(app, str(check_run))).by == "lisa"
        assert (await recorded(app), attempts(app, job)) == (["accepted"], [1, 2])


@pytest.mark.parametrize("trouble", ["GitHub", "the death", "the App"])
async def test_a_press_that_nothing_comes_of_says_so(story, trouble):
    async with story() as app:
        _, death = await job_died(app, own_steps=True)
        who = await pressed(app, (await look(app, death))[0])
        if trouble == "GitHub":
            app.sandbox.control.fault(match="/jobs/", status=500)
            with pytest.raises(GitHubUnavailableError):
                await rerun(app, death, who)
            (result,) = await recorded(app)
            assert result.startswith("waits: GitHub gave no usable answer; next try at ")
            note = await app.context.reruns.noted(app.installation, death.job.id)
            assert note == RerunNote("NoUsableAnswer", who, app.clock(), app.clock() + TRIES_AFTER_SECONDS[0])
            app.sandbox.control.no_faults()
            summary = (await look(app, death))[1]["output"]["summary"]
            assert f"a re-run was requested by {who}; it waits: GitHub gave no usable answer; next try at " in summary
        elif trouble == "the death":
            await app.context.redis.delete(keys.deaths(app.installation))
            assert await rerun(app, death, who) is None
            assert await recorded(app) == ["not run again: the death is no longer on record"]
        else:
            installation = await app.context.installations.one(app.installation)
            await app.context.installations.put(replace(installation, suspended=True))
            assert await rerun(app, death, who) is None
            assert await recorded(app) == ["not run again: the App is suspended or no longer installed"]


async def test_while_the_pools_fuse_is_not_closed_it_waits(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        await app.context.fuses.save(app.installation, POOL, None, Fuse(Position.PROVING))
        assert await rerun(app, death) is RerunRefusal.FUSE
        assert enqueued(app) == [f"rerun-{app.installation}-{job.id}-auto-1"]
        assert attempts(app, job) == [1]


async def test_more_than_per_hour_wait(story):
    async with story(pool='rerun = { mode = "auto", per_hour = 1 }') as app:
        _, first = await job_died(app)
        second_job, second = await job_died(app)
        assert (await rerun(app, first)).state is RerunState.ACCEPTED
        assert await rerun(app, second) is RerunRefusal.HOURLY
        assert attempts(app, second_job) == [1]
        app.clock.pass_(3600)
        assert (await rerun(app, second)).state is RerunState.ACCEPTED


async def test_a_run_that_goes_on_is_waited_for(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        run.job = app.sandbox.fleet.jobs[other]
        assert await rerun(app, death) is RerunRefusal.RUN_NOT_OVER
        run.job = job
        assert (await rerun(app, death, attempt=1)).state is RerunState.ACCEPTED


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_person_who_cancels_the_run_after_pressing_the_button_has_changed_their_mind(story, is_cancelled):
    async with story() as app:
        job, death = await job_died(app)
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        run.job = app.sandbox.fleet.jobs[other]
        assert await rerun(app, death, "mona") is RerunRefusal.RUN_NOT_OVER
        run.job, run.conclusion = job, "cancelled" if is_cancelled else run.conclusion
        done = await rerun_as_enqueued(app, "asked-1")
        assert (done is RerunRefusal.CANCELLED) is is_cancelled
        if is_cancelled:
            assert (await rerun(app, death, "mona")).state is RerunState.ACCEPTED, "pressed again"


async def test_a_request_whose_outcome_nothing_settles_gives_its_check_run_a_button_after_an_hour(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        await app.context.reruns.begin(app.installation, Rerun(job.id, job.run_id, 1, AUTO, app.clock()))
        assert (await look(app, death))[1]["actions"] == []
        updates = f"post-mortem-rerun-{app.installation}-{job.id}-requested"
        app.sandbox.control.fault(match="/jobs$", status=500)
        for seconds, is_given_back in ((3599, False), (1, True)):
            app.clock.pass_(seconds)
            with pytest.raises(GitHubUnavailableError):
                await rerun(app, death, attempt=9)
            keys = app.context.queue_redis.lrange("rq:queue:report", 0, -1)
            assert (updates.encode() in keys) is is_given_back
        app.sandbox.control.no_faults()
        _, posted = await look(app, death)
        assert [each["identifier"] for each in posted["actions"]] == [RERUN.identifier]


async def test_a_run_that_a_person_re_ran_is_left_alone(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        again = app.sandbox.fleet.rerun(job, app.clock())
        run_of(job).job = again
        assert await rerun(app, death) is RerunRefusal.LATER_ATTEMPT
        assert attempts(app, job) == [1, 2]


async def test_what_github_refuses_is_not_asked_again(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        run = run_of(job)
        run.job = replace(job)  # for the sandbox another job of the run: it refuses with 403
        assert (await rerun(app, death)).state is RerunState.REFUSED
        run.job = job
        assert [await rerun(app, death, by) for by in (AUTO, "mona")] == [RerunRefusal.ALREADY] * 2
        assert attempts(app, job) == [1]
        _, posted = await look(app, death)
        why = "GitHub refused it: The workflow run containing this job is already running"
        assert (posted["actions"], why in posted["output"]["summary"]) == ([], True)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"message": "This workflow run has reached the maximum number of re-runs."}, RerunState.REFUSED),
        ({"message": "Resource not accessible by integration"}, RerunRefusal.NOT_GRANTED),
        ({}, RerunRefusal.NOT_GRANTED),
    ],
    ids=["the limit of the run", "a permission", "no message"],
)
async def test_a_403_that_names_permissions_is_final_unless_it_is_about_one(story, answer, outcome):
    async with story() as app:
        job, death = await job_died(app)
        headers = {"x-accepted-github-permissions": "actions=write"}
        app.sandbox.control.fault(match="/rerun$", method="POST", status=403, body=answer, headers=headers)
        done = await rerun(app, death, "mona")
        app.sandbox.control.no_faults()
        if outcome is RerunState.REFUSED:
            assert (done.state, done.why) == (outcome, answer["message"])
            assert await rerun(app, death, "mona") is RerunRefusal.ALREADY
        else:
            assert done is outcome
            assert (await rerun(app, death, "mona")).state is RerunState.ACCEPTED
        assert attempts(app, job) == ([1] if outcome is RerunState.REFUSED else [1, 2])


async def test_a_run_with_fifty_re_runs_is_left_alone_without_a_request(story):
    async with story() as app:
        job, death = await job_died(app)
        run = run_of(job)
        run.job = replace(job, attempt=51)
        app.sandbox.control.fault(match="/rerun$", method="POST", status=500)
        assert await rerun(app, death, "mona") is RerunRefusal.TOO_MANY


async def test_a_worker_that_is_killed_after_the_request_leaves_one_re_run(story):
    async with story() as app:
        job, death = await job_died(app)
        ahead = app.clock() - time.time()
        args = [str(app.installation), identity(death), str(ahead)]
        words = [sys.executable, killed_rerun.__file__, *args]
        path = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
        killed = await asyncio.to_thread(subprocess.run, words, env={**path, **app.environ}, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        assert attempts(app, job) == [1, 2]
        assert (await app.context.reruns.of(app.installation, job.id)).state is RerunState.REQUESTED
        for _ in range(50):
            if done := await rerun(app, death, "mona"):
                break
            await asyncio.sleep(0.1)  # until the lock of the killed process has expired
        assert (done.state, done.by) == (RerunState.ACCEPTED, "mona")
        assert attempts(app, job) == [1, 2]


async def test_a_request_that_never_arrived_is_sent_again_after_a_minute(story, monkeypatch):
    async with story() as app:
        job, death = await job_died(app)

        async def lost(self, job_id):
            raise GitHubUnavailableError("no answer")

        with monkeypatch.context() as broken:
            broken.setattr("ghapp.github.jobs.Jobs.rerun", lost)
            with pytest.raises(GitHubUnavailableError):
                await rerun(app, death, "mona")
        assert await rerun(app, death, "mona") is RerunRefusal.UNSETTLED
        app.clock.pass_(60)
        assert (await rerun(app, death, "mona")).state is RerunState.ACCEPTED
        assert attempts(app, job) == [1, 2]


async def test_the_sandbox_can_stop_the_runner_of_a_running_job(story):
    async with story(pool=AUTOMATIC) as app:
        job = await job_runs(app)
        await grant(app)
        assert app.sandbox.control.stop_runner("acme", pool=POOL) == job.id
        assert app.sandbox.control.stop_runner("acme", pool=POOL) == 0
        await app.receive_all()
        death = await examine_job_of(app.context, app.installation, job.id)
        assert (await rerun(app, death)).state is RerunState.ACCEPTED


async def test_a_request_that_never_arrived_is_judged_again_by_what_holds_then(story, monkeypatch):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)

        async def lost(self, job_id):
            raise GitHubUnavailableError("no answer")

        with monkeypatch.context() as broken:
            broken.setattr("ghapp.github.jobs.Jobs.rerun", lost)
            with pytest.raises(GitHubUnavailableError):
                await rerun(app, death)
        assert enqueued(app) == [f"rerun-{app.installation}-{job.id}-auto-1"], "it settles by itself"
        await app.context.fuses.save(app.installation, POOL, None, Fuse(Position.PROVING))
        app.clock.pass_(60)
        assert await rerun(app, death, attempt=1) is RerunRefusal.FUSE
        assert await app.context.reruns.of(app.installation, job.id) is None, "it was withdrawn"
        assert attempts(app, job) == [1]


async def test_the_accepted_re_run_of_another_job_of_the_run_does_not_settle_this_one(story, monkeypatch):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        await app.context.reruns.begin(app.installation, Rerun(job.id, job.run_id, 1, AUTO, app.clock()))
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        run.job = replace(app.sandbox.fleet.jobs[other], run_id=job.run_id, attempt=2)
        app.clock.pass_(60)
        assert await rerun(app, death) is RerunRefusal.LATER_ATTEMPT
        assert await app.context.reruns.of(app.installation, job.id) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"conclusion": "cancelled"}, RerunRefusal.CANCELLED),
        ({"event": "merge_group"}, RerunRefusal.MERGE_QUEUE),
        ({"event": "deployment"}, RerunRefusal.DEPLOYMENT),
    ],
)
async def test_a_run_that_must_not_be_repeated_is_left_to_a_person(story, changes, why):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        for name, value in changes.items():
            setattr(run_of(job), name, value)
        assert await rerun(app, death) is why
        assert (await rerun(app, death, "mona")).state is RerunState.ACCEPTED


async def test_a_newer_run_of_the_same_branch_is_waited_for(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        run = run_of(job)
        (other,) = app.sandbox.control.queue("acme", labels=["nobody-has-it"], repository="api")
        newer = run_of(app.sandbox.fleet.jobs[other])
        assert (await rerun(app, death)) != RerunRefusal.NEWER_RUN, "it has a branch of its own"
        newer.branch = run.branch
        _, second = await job_died(app)
        run_of(app.sandbox.fleet.jobs[second.job.id]).branch = run.branch
        newer.id = run_of(app.sandbox.fleet.jobs[second.job.id]).id + 1
        assert await rerun(app, second) is RerunRefusal.NEWER_RUN
        app.sandbox.fleet.jobs[other].status = "completed"
        assert (await rerun(app, second)).state is RerunState.ACCEPTED


async def test_a_job_that_waited_for_an_approval_is_not_run_again_unasked(story):
    async with story(pool=AUTOMATIC) as app:
        _, death = await job_died(app)
        await app.context.deaths.enrich(app.installation, death._replace(job=death.job._replace(deploys=True)))
        assert await rerun(app, death) is RerunRefusal.DEPLOYMENT


async def test_a_job_whose_deployment_a_later_delivery_shows_is_not_run_again_unasked(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        known = await app.context.demand.one(app.installation, job.id)
        assert not death.job.deploys
        await app.context.demand.record(app.installation, [known._replace(deploys=True)])
        assert await rerun(app, death) is RerunRefusal.DEPLOYMENT


async def test_without_the_right_to_write_checks_a_job_is_run_again_all_the_same(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        app.sandbox.control.permissions("acme", permissions=LEAST_PRIVILEGE | {"actions": "write", "checks": "read"})
        await app.receive_all()
        await discover_installations(app.context)
        await look_into(app.context, app.installation, identity(death))
        assert (check_runs(app), enqueued(app)) == ({}, [f"rerun-{app.installation}-{job.id}-auto"])


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("of", ["job", "run"])
async def test_a_job_or_run_that_github_does_not_know_any_more_is_refused_at_once_and_not_tried_again(
    story, of, status
):
    """A 404 is an answer: its run was deleted, or the repository was taken from the App."""
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app, own_steps=True)
        check_run, _ = await look(app, death)
        who = await pressed(app, check_run)
        path = f"/actions/jobs/{job.id}$" if of == "job" else f"/actions/runs/{job.run_id}$"
        app.sandbox.control.fault("acme", match=path, status=status)
        assert await rerun_as_enqueued(app, str(check_run)) is RerunRefusal.UNKNOWN_JOB
        assert await recorded(app) == [f"not run again: {why_not(RerunRefusal.UNKNOWN_JOB)}"]
        note = await app.context.reruns.noted(app.installation, job.id)
        assert note == RerunNote("JobUnknownToGitHub", who, app.clock(), None)
        assert [each for each in enqueued(app) if each.endswith("-1")] == []
        updates = f"post-mortem-rerun-{app.installation}-{job.id}-JobUnknownToGitHub"
        assert updates.encode() in app.context.queue_redis.lrange("rq:queue:report", 0, -1)
        posted = (await look(app, death))[1]
        assert posted["actions"] == []
        assert f"a re-run was requested by {who}: {why_not(RerunRefusal.UNKNOWN_JOB)}" in posted["output"]["summary"]


async def test_an_unasked_re_run_that_waits_does_not_hide_what_a_person_waits_for(story):
    async with story(pool=AUTOMATIC) as app:
        job, death = await job_died(app)
        app.sandbox.control.fault(match="/jobs/", status=500)
        with pytest.raises(GitHubUnavailableError):
            await rerun(app, death, "mona")
        app.sandbox.control.no_faults()
        note = await app.context.reruns.noted(app.installation, job.id)
        await app.context.fuses.save(app.installation, POOL, None, Fuse(Position.PROVING))
        assert await rerun(app, death) is RerunRefusal.FUSE
        assert await app.context.reruns.noted(app.installation, job.id) == note
        app.clock.pass_(TRIES_AFTER_SECONDS[0])
        assert await rerun(app, death) is RerunRefusal.FUSE
        assert (await app.context.reruns.noted(app.installation, job.id)).by == AUTO


async def test_a_request_of_unknown_outcome_is_refused_for_good_where_github_does_not_know_the_run(story):
    async with story() as app:
        job, death = await job_died(app)
        await app.context.reruns.begin(app.installation, Rerun(job.id, job.run_id, 1, "mona", app.clock()))
        app.sandbox.control.fault("acme", match="/actions/", status=404)
        done = await rerun(app, death, "mona")
        assert (done.state, done.why) == (RerunState.REFUSED, why_not(RerunRefusal.UNKNOWN_JOB))
        assert await rerun(app, death, "mona") is RerunRefusal.ALREADY


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (NotFoundError("404"), RerunRefusal.UNKNOWN_JOB),
        (DeletedError("410"), RerunRefusal.UNKNOWN_JOB),
        (PermissionMissingError("403", explanation=NO_ACCESS), RerunRefusal.NOT_GRANTED),
        (PermissionMissingError("403", accepted="actions=read"), RerunRefusal.NOT_GRANTED),
        (PermissionMissingError("403", explanation="Repository access blocked"), None),
        (PermissionMissingError("403"), None),
        (GitHubUnavailableError("500"), None),
        (RateLimitedError("429", after_seconds=60.0), None),
        (UnauthorizedError("401"), None),
        (GitHubError("422"), None),
    ],
    ids=str,
)
def test_an_answer_of_github_is_final_or_waited_for(error, why):
    assert refusal_of(error) is why
