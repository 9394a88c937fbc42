"""Incidents: from the first evidence of a loss to its end, whatever crashes in between."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from ghapp.incidents.incident import LossEnd
from ghapp.incidents.store import Incidents
from ghapp.remediation.fuse import FuseReason, Position
from ghapp.remediation.healing import LATE_AT_LEAST_SECONDS, LATE_SUCCESSOR_SECONDS
from ghapp.runners.observations import retired_by_controller
from ghapp.runners.transitions import WAITING_SECONDS
from jobs.remediation.plan_remediation import plan_remediation
from jobs.runners.sweep import sweep_installation
from tests.manifests.rendered import ROOT
from tests.stories.conftest import POOL
from tests.stories.incidents import killed_incident
from tests.stories.runners.test_between_two_lines import confirmed_but_not_planned


async def incidents(app):
    found = await app.context.incidents.all(app.installation)
    return [each for each in found.values() if not each.merged_into]


async def plan(app):
    await plan_remediation(app.context, await app.context.installations.one(app.installation))


async def evidence(app, runner_id):
    return (await app.context.runners.some(app.installation, [runner_id]))[runner_id]


async def until_over(app, most=60):
    for _ in range(most):
        await app.live_through_an_interval()
        (found,) = await incidents(app)
        if not found.is_open:
            return found
    raise AssertionError(found)


async def test_a_single_loss_is_an_incident_from_its_first_evidence_to_its_successor(story):
    async with story() as app:
        await app.settle()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        (found,) = await incidents(app)
        (loss,) = found.losses
        assert (found.pool, found.is_open, found.is_mass_loss) == (POOL, True, False)
        assert (loss.runner_id, loss.end) == (lost, LossEnd.OPEN)
        assert found.began == loss.first_at < loss.confirmed_at == loss.granted_at
        over = await until_over(app)
        (loss,) = over.losses
        assert loss.end is LossEnd.SUCCESSOR_ONLINE
        assert over.ended == loss.ended_at >= loss.accepted_at
        assert (await evidence(app, loss.successor)).succeeds == lost
        assert (await evidence(app, lost)).incident == over.id


async def test_a_mass_loss_that_heals_by_batches_is_one_incident(story):
    async with story(runners=40) as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=30)
        over = await until_over(app)
        assert (len(over.losses), over.is_mass_loss) == (30, True)
        assert {each.end for each in over.losses} == {LossEnd.SUCCESSOR_ONLINE}
        trip, *batches, close = over.steps
        assert (trip.position, trip.reason, trip.batch) == (Position.PROVING, FuseReason.MASS_LOSS, 3)
        assert (trip.lost, trip.expected) == (30, 40)
        assert [each.batch for each in batches] == [6, 12, 24]
        assert {each.reason for each in batches} == {FuseReason.BATCH_ONLINE}
        assert (close.position, close.reason) == (Position.CLOSED, FuseReason.HEALED)
        assert over.ended == max(close.at, *(each.ended_at for each in over.losses))


async def test_the_last_successors_that_churn_hides_are_not_awaited_for_five_minutes(story):
    """A pool that was scaled down by two: two departures without a newcomer explain two of six successors."""
    async with story(runners=40) as app:
        await app.settle()
        removed = app.sandbox.control.lose("acme", count=2)
        folds = {each: lambda known: retired_by_controller(known, app.clock()) for each in removed}
        await app.context.runners.revise(app.installation, folds)
        await app.live_through_an_interval()
        app.sandbox.control.lose("acme", count=6)
        over = await until_over(app, most=8)
        ends = Counter(each.end for each in over.losses)
        assert ends == {LossEnd.SUCCESSOR_ONLINE: 4, LossEnd.HIDDEN_BY_CHURN: 2}
        hidden = [each for each in over.losses if each.end is LossEnd.HIDDEN_BY_CHURN]
        took = [each.ended_at - each.accepted_at for each in hidden]
        assert LATE_AT_LEAST_SECONDS < min(took) <= max(took) < LATE_SUCCESSOR_SECONDS


async def test_a_stopped_fuse_keeps_its_incident_open_until_an_admin_resumes_it(story):
    async with story(runners=40) as app:
        await app.settle()
        app.sandbox.control.barren_controller()
        app.sandbox.control.lose("acme", count=30)
        for _ in range(8):
            await app.live_through_an_interval()
        (found,) = await incidents(app)
        assert found.is_open
        assert [each.position for each in found.steps] == [Position.PROVING, Position.STOPPED]
        assert found.steps[-1].reason is FuseReason.BATCH_NEVER_ONLINE
        app.sandbox.control.barren_controller(barren=False)
        installation = await app.context.installations.one(app.installation)
        limits = app.settings.of("acme").fuse
        await app.context.fuses.resume(installation, None, "mona", app.clock(), limits)
        over = await until_over(app)
        resumed = over.steps[2]
        assert (resumed.reason, resumed.by, over.steps[-1].position) == (FuseReason.RESUMED, "mona", Position.CLOSED)
        assert {each.end for each in over.losses} <= {LossEnd.SUCCESSOR_ONLINE, LossEnd.NO_SUCCESSOR}


async def killed(app, when):
    words = [
        sys.executable,
        killed_incident.__file__,
        str(app.installation),
        str(app.clock() - time.time()),
        when,
    ]
    path = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = await asyncio.to_thread(subprocess.run, words, env={**path, **app.environ}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_that_is_killed_while_it_records_an_incident_loses_none_and_doubles_none(
    story, monkeypatch, when
):
    async with story() as app:
        await app.settle()
        (lost,) = await confirmed_but_not_planned(app, monkeypatch)
        await killed(app, when)
        assert len(await incidents(app)) == (when == "after")
        for _ in range(50):
            await plan(app)
            if (found := await incidents(app)) and found[0].losses[0].granted_at:
                break
            await asyncio.sleep(0.1)  # until the lock of the killed process has expired
        ((loss,),) = [each.losses for each in found]
        assert (loss.runner_id, loss.is_open) == (lost, True)
        assert (await until_over(app)).losses[0].end is LossEnd.SUCCESSOR_ONLINE


async def test_a_loss_that_was_not_recorded_when_its_runner_returned_is_recorded_then(story, monkeypatch):
    async with story() as app:
        await app.settle()
        (lost,) = await confirmed_but_not_planned(app, monkeypatch)
        app.sandbox.control.restore("acme", ids=[lost])
        await app.pass_(30)
        await sweep_installation(app.context, app.installation)
        ((loss,),) = [each.losses for each in await incidents(app)]
        assert (loss.runner_id, loss.end) == (lost, LossEnd.RETURNED)
        assert (await evidence(app, lost)).past_loss is None


async def test_a_loss_in_dry_run_ends_when_its_record_is_deleted(story):
    async with story(config='[remediation]\nmode = "dry-run"') as app:
        await app.settle()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        assert [each.is_open for each in await incidents(app)] == [True]
        for _ in range(2):
            await app.pass_(WAITING_SECONDS)
            await sweep_installation(app.context, app.installation)
        assert lost not in await app.context.runners.all(app.installation)
        ((loss,),) = [each.losses for each in await incidents(app)]
        assert (loss.end, loss.ended_at) == (LossEnd.AGED_OUT, app.clock())


async def test_a_quiet_sweep_does_not_ask_for_incidents_also_after_one_is_over(story, monkeypatch):
    async with story() as app:
        await app.settle()
        app.sandbox.control.lose("acme", count=1)
        await app.live_through_an_interval()
        await until_over(app)

        async def asked(*_):
            raise AssertionError("a quiet sweep asked for incidents")

        monkeypatch.setattr(Incidents, "all", asked)
        await app.settle()


async def test_a_scale_down_by_another_actor_ends_as_not_needed(story):
    async with story(runners=40, ephemeral=False) as app:
        app.listen()
        await app.settle()
        app.sandbox.control.queue("acme", labels=[POOL], count=1)
        await app.receive_all()
        app.sandbox.control.barren_controller()
        app.sandbox.control.lose("acme", count=30)
        over = await until_over(app)
        ends = {each.end for each in over.losses}
        assert LossEnd.NOT_NEEDED in ends
        assert ends <= {LossEnd.NOT_NEEDED, LossEnd.NO_SUCCESSOR, LossEnd.SUCCESSOR_ONLINE}
        assert over.steps[-1].reason is FuseReason.NOT_NEEDED
