"""Runners that hang, are partly removed, or left on purpose: the cluster's state decides, and each is replaced.

The first stories are issues of actions-runner-controller, by their numbers.
"""

from __future__ import annotations

import pytest

from ghapp.pods.deletion_guards import REGISTRATION_FINALIZER
from ghapp.pods.phantom_kinds import PhantomKind, PhantomReason
from ghapp.remediation.fuse import Position
from ghapp.runners.remains import RemainsKind
from ghapp.runners.verdict import HANG_SECONDS, JOB_LEASE_SECONDS, Reason, State
from tests.stories.runners.zombie_story import NAMESPACE, zombie_story

BOTH = pytest.mark.parametrize("replacer", ["arc", "pods"])

LONG_ENOUGH = HANG_SECONDS + 180
"""Seconds in which a hang shows, is confirmed, and is dealt with."""


async def job_ends(app, job, *, lost=False):
    """GitHub shows its end, and its delivery arrives. The process and its registration go by the sandbox' account."""
    app.app.sandbox.control.finish("acme", job_id=job.id, lost=lost)
    await app.app.receive()


@BOTH
async def test_4307_a_runner_whose_registration_is_not_found_and_that_loops_forever_is_replaced(
    story, tmp_path, replacer
):
    """ARC's users saw pods that log "Registration … was not found" forever, Running, and never take a job again.

    The job of such an ephemeral runner is over and its registration is deleted, so that it looks like a finished one.
    """
    async with zombie_story(story, tmp_path, replacer) as app:
        app.app.listen()
        runner, job = app.takes_a_job()
        await app.app.receive(2)
        await job_ends(app, job)
        await app.live(HANG_SECONDS - 60)
        assert (await app.verdict(runner)).reason is Reason.JOB_COMPLETED, "it may be ending"
        assert app.changes() == []
        await app.live(240)
        assert app.changes() == app.replaced(runner)
        assert (await app.verdict(runner)).reason is Reason.HANGS_AFTER_JOB
        assert (await app.evidence(runner)).replaced_at is not None


@BOTH
async def test_4155_a_container_that_is_still_running_after_its_job_was_killed_is_replaced(story, tmp_path, replacer):
    """ARC's users saw jobs that were killed for memory, and their containers Running for days, counted as capacity."""
    async with zombie_story(story, tmp_path, replacer) as app:
        app.app.listen()
        runner, job = app.takes_a_job()
        await app.app.receive(2)
        await job_ends(app, job, lost=True)
        await app.live(LONG_ENOUGH)
        assert app.changes() == app.replaced(runner)
        assert (await app.verdict(runner)).reason is Reason.HANGS_AFTER_JOB


@BOTH
async def test_4155_one_whose_container_ended_after_its_job_is_left_to_its_controller(story, tmp_path, replacer):
    async with zombie_story(story, tmp_path, replacer) as app:
        app.app.listen()
        runner, job = app.takes_a_job()
        await app.app.receive(2)
        await job_ends(app, job)
        app.control.container_ends(NAMESPACE, runner.name)
        await app.live(LONG_ENOUGH)
        assert (await app.verdict(runner)).state is State.RETIRED
        assert app.changes() == []


async def test_4396_a_runner_that_lost_its_registration_while_busy_is_replaced_when_its_job_is_over(story, tmp_path):
    """ARC's users saw no recovery after the outage of 2026-03-05: pods Running, and busy in ARC's records forever.

    No delivery ever reported the job. ARC's object names its workflow run, and GitHub is queried for the jobs of that
    run.
    """
    async with zombie_story(story, tmp_path) as app:
        runner, job = app.takes_a_job()
        await app.live()
        app.app.sandbox.control.lose("acme", ids=[runner.id])
        await app.live(1800)
        assert app.changes() == [], "it works, and GitHub lists it online"
        assert (await app.evidence(runner)).running_job == job.id
        app.app.sandbox.control.finish("acme", job_id=job.id, lost=True)
        await app.live(LONG_ENOUGH)
        assert app.changes() == app.replaced(runner)


@BOTH
async def test_4396_while_its_job_runs_without_a_registration_it_is_never_touched(story, tmp_path, replacer):
    """The delivery of its job's beginning came; that of its end is lost, and GitHub is asked."""
    async with zombie_story(story, tmp_path, replacer) as app:
        app.app.listen()
        runner, job = app.takes_a_job()
        await app.app.receive(2)
        await app.live()
        app.app.sandbox.control.lose("acme", ids=[runner.id])
        await app.live(1800)
        assert app.changes() == []
        assert (await app.verdict(runner)).state is State.SUSPECT
        app.app.sandbox.control.finish("acme", job_id=job.id)
        await app.live(LONG_ENOUGH)
        assert app.changes() == app.replaced(runner)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with a job"])
async def test_3821_an_object_that_is_counted_and_has_no_pod_is_replaced(story, tmp_path, busy):
    """ARC's users saw runners counted as running or assigned that did not exist: an object, and no pod."""
    async with zombie_story(story, tmp_path) as app:
        if busy:
            runner, job = app.takes_a_job()
            await app.live()
            app.app.sandbox.control.finish("acme", job_id=job.id, lost=True)
        else:
            runner = next(iter(app.fleet.roster.registered.values()))
            app.app.sandbox.control.lose("acme", ids=[runner.id])
        app.control.vanish(NAMESPACE, runner.name)
        await app.live(HANG_SECONDS)
        assert app.changes() == [], "ARC may be about to make its pod"
        found = [(each.kind, each.subject, each.pool) for each in (await app.side()).phantoms]
        assert (PhantomKind.OBJECT_WITHOUT_POD, runner.name, "") in found
        await app.live(JOB_LEASE_SECONDS + 180 if busy else 180)
        assert app.changes() == app.replaced(runner)


async def test_an_object_that_its_controller_deleted_and_that_terminates_forever_is_freed_of_one_finalizer(
    story, tmp_path
):
    """ARC's issues #4484 and #4585: up to 0.14.2 it takes the 404 of a removal for a failure, and tries forever."""
    async with zombie_story(story, tmp_path) as app:
        app.takes_404_for_failure = True
        runner, *others = app.fleet.roster.registered.values()
        app.app.sandbox.control.lose("acme", ids=[runner.id])
        app.control.delete("ephemeralrunners", NAMESPACE, runner.name)
        await app.live(HANG_SECONDS)
        assert (await app.verdict(runner)).reason is Reason.REMOVED_BY_CONTROLLER
        assert app.changes() == []
        await app.live(180)
        assert app.changes() == [("patch", "ephemeralrunners", runner.name)], "the other finalizer is ARC's"
        evidence = await app.evidence(runner)
        assert (evidence.deletion.freed_at, evidence.replaced_at) != (None, None)
        assert runner.name not in app.control.names("ephemeralrunners", NAMESPACE), "and ARC did so"
        await app.live(180)
        assert (await app.evidence(runner)).deletion.over_at is not None
        assert len(app.changes()) == 1
        for each in others:
            finalizers = app.control.object("ephemeralrunners", NAMESPACE, each.name)["metadata"]["finalizers"]
            assert REGISTRATION_FINALIZER in finalizers


async def test_one_that_works_under_a_deletion_that_is_stuck_is_not_finished(story, tmp_path):
    async with zombie_story(story, tmp_path) as app:
        app.takes_404_for_failure = True
        runner, job = app.takes_a_job()
        await app.live()
        app.app.sandbox.control.lose("acme", ids=[runner.id])
        app.control.delete("ephemeralrunners", NAMESPACE, runner.name)
        await app.live(1800)
        assert app.changes() == []
        app.app.sandbox.control.finish("acme", job_id=job.id)
        await app.live(LONG_ENOUGH)
        assert app.changes() == [("patch", "ephemeralrunners", runner.name)]


@pytest.mark.parametrize("confirmed_before", [0.0, 59.0], ids=["a-view-of-now", "a-view-of-a-minute-ago"])
@BOTH
async def test_a_scale_down_of_many_idle_runners_retires_them_and_trips_no_fuse(
    story, tmp_path, replacer, confirmed_before
):
    async with zombie_story(story, tmp_path, replacer, runners=50) as app:
        app.confirmed_before = confirmed_before
        leaving = list(app.fleet.roster.registered.values())[:40]
        for each in leaving:
            if replacer == "arc":
                app.control.delete("ephemeralrunners", NAMESPACE, each.name)
                app.control.release("ephemeralrunners", NAMESPACE, each.name)
            if each.name in app.control.names("pods", NAMESPACE):
                app.control.vanish(NAMESPACE, each.name)
        app.app.sandbox.control.lose("acme", ids=[each.id for each in leaving])
        await app.live()
        assert await app.fuse() is None, "not even for a moment"
        await app.live(900)
        for each in leaving:
            verdict, evidence = await app.verdict(each), await app.evidence(each)
            assert (verdict.state, verdict.reason) == (State.RETIRED, Reason.REMOVED_BY_CONTROLLER)
            assert evidence.granted_at is None
        assert await app.fuse() is None
        assert app.changes() == []


async def test_a_real_mass_loss_beside_a_cluster_that_holds_every_pod_is_still_one(story, tmp_path):
    async with zombie_story(story, tmp_path, runners=50) as app:
        app.app.sandbox.control.lose("acme", count=40)
        await app.live(240)
        assert (await app.fuse()).position is Position.PROVING
        assert len(app.changes()) == 3, "the first batch"


async def test_a_watch_that_is_blind_makes_nothing_older(story, tmp_path):
    async with zombie_story(story, tmp_path) as app:
        app.app.listen()
        runner, job = app.takes_a_job()
        await app.app.receive(2)
        await job_ends(app, job)
        await app.live(60)
        before = (await app.evidence(runner)).remains
        app.watches = False
        await app.live(1800)
        remains = (await app.evidence(runner)).remains
        assert (remains.kind, remains.since) == (RemainsKind.RUNNING, before.since)
        assert remains.seen_at - before.seen_at < 150, "an old view is none"
        assert (await app.verdict(runner)).state is State.RETIRED
        assert app.changes() == []


async def test_a_zombie_is_named_among_the_phantoms(story, tmp_path):
    async with zombie_story(story, tmp_path, config='[remediation]\nmode = "dry-run"\n') as app:
        app.app.listen()
        runner, job = app.takes_a_job()
        await app.app.receive(2)
        await job_ends(app, job)
        await app.live(LONG_ENOUGH)
        await app.side()
        await app.live(150)
        named = [each for each in (await app.side()).phantoms if each.subject == runner.name]
        assert [each.reason for each in named] == [PhantomReason.HANGS_AFTER_JOB]
        assert app.changes() == []
