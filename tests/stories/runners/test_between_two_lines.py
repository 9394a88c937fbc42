"""Another process acts, or a process crashes, between two lines: a decision holds only for the state it was made on."""

from __future__ import annotations

import pytest

from ghapp.remediation.fuse import Position
from ghapp.runners.evidence import Registration
from ghapp.runners.observations import SeenBy, job_ended, job_started, registration_seen
from ghapp.runners.verdict import State
from jobs.events.publish import publish_replacement_request
from jobs.remediation import plan_remediation as module
from jobs.remediation.plan_remediation import plan_remediation
from jobs.remediation.remediate import remediate_runner
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.runners.test_main_job import state_of

IMPATIENT = "replace_offline_after_seconds = 600"


def shown(known, *, online):
    return Registration(
        known.id, known.name, known.os, online, False, known.labels, known.custom_labels, known.ephemeral
    )


async def confirmed_but_not_planned(app, monkeypatch, count=1):
    """Lost, and confirmed; the plan is still to be made."""
    lost = app.sandbox.control.lose("acme", count=count)
    await app.pass_(60)
    await sweep_installation(app.context, app.installation)
    await app.pass_(30)
    with monkeypatch.context() as patched:
        patched.setattr("jobs.runners.confirm.plan_remediation", nothing)
        assert await confirm_installation(app.context, app.installation) == count
    return lost


async def nothing(*_args):
    return None


def meanwhile(app, monkeypatch, happens):
    """Something happens after the plan was made, and before it is recorded."""
    save = module._save_fuses

    async def then(*args):
        done = await save(*args)
        await happens()
        return done

    monkeypatch.setattr(module, "_save_fuses", then)


async def test_a_confirmation_that_was_killed_before_its_plan_plans_when_it_is_retried(story, monkeypatch):
    async with story() as app:
        await app.settle()
        (lost,) = await confirmed_but_not_planned(app, monkeypatch)
        await confirm_installation(app.context, app.installation)
        known = await app.context.runners.some(app.installation, [lost])
        assert known[lost].granted_at == app.clock()


async def test_a_confirmation_without_suspects_does_not_plan(story, monkeypatch):
    planned = []

    async def plan(_context, installation):
        planned.append(installation.id)

    async with story() as app:
        await app.settle()
        monkeypatch.setattr("jobs.runners.confirm.plan_remediation", plan)
        await confirm_installation(app.context, app.installation)
        assert planned == []
        app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        await app.pass_(30)
        await confirm_installation(app.context, app.installation)
        assert planned == [app.installation]


async def test_one_that_comes_back_while_the_plan_is_made_is_granted_nothing(story, monkeypatch):
    async with story() as app:
        await app.settle()
        (lost,) = await confirmed_but_not_planned(app, monkeypatch)

        async def comes_back():
            app.sandbox.control.restore("acme", ids=[lost])
            await app.context.runners.revise(
                app.installation,
                {lost: lambda known: registration_seen(known, shown(known, online=True), app.clock(), by=SeenBy.LIST)},
            )

        meanwhile(app, monkeypatch, comes_back)
        await plan_remediation(app.context, await app.context.installations.one(app.installation))
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]
        assert (evidence.granted_at, evidence.event_id) == (None, None)

        monkeypatch.undo()
        app.sandbox.control.take_offline("acme", ids=[lost])  # for hours; the pool replaces no offline runners
        for _ in range(8):
            await app.live_through_an_interval()
        assert await state_of(app, lost) is State.OFFLINE
        assert await app.replacements() == []
        assert app.account()["calls"].get("DELETE /orgs/{org}/actions/runners/{runner_id}") is None


async def test_in_dry_run_it_is_not_counted_either(story, monkeypatch):
    async with story(config='[remediation]\nmode = "dry-run"') as app:
        await app.settle()
        (lost,) = await confirmed_but_not_planned(app, monkeypatch)

        async def comes_back():
            await app.context.runners.revise(
                app.installation,
                {lost: lambda known: registration_seen(known, shown(known, online=True), app.clock(), by=SeenBy.LIST)},
            )

        meanwhile(app, monkeypatch, comes_back)
        await plan_remediation(app.context, await app.context.installations.one(app.installation))
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]
        assert evidence.would_remediate_at is None
        assert 'ghapp_remediations_total{org="acme",outcome="dry-run"}' not in await app.context.counters.all()


async def test_a_crash_after_a_fuse_change_loses_no_event(story, monkeypatch):
    async with story(runners=40) as app:
        await app.settle()
        await confirmed_but_not_planned(app, monkeypatch, count=20)
        acme = await app.context.installations.one(app.installation)
        with monkeypatch.context() as patched:
            patched.setattr(module, "publish_fuse", dies)
            with pytest.raises(ProcessLookupError):
                await plan_remediation(app.context, acme)
        assert (await app.context.fuses.all(app.installation))[POOL].position is Position.PROVING
        assert await app.sent_events("fuse.tripped") == []
        for _ in range(3):
            await plan_remediation(app.context, acme)
        (reported,) = await app.sent_events("fuse.tripped")
        assert (reported["pool"], reported["fuse"], reported["reason"]) == (POOL, "proving", "MassLoss")


async def dies(*_args):
    raise ProcessLookupError


async def test_each_fuse_change_is_published_once_however_often_it_is_planned(story):
    async with story(runners=40) as app:
        await app.settle()
        app.sandbox.control.barren_controller(barren=True)
        app.sandbox.control.lose("acme", count=30)
        for _ in range(12):
            await app.live_through_an_interval()
        acme = await app.context.installations.one(app.installation)
        assert len(await app.sent_events("fuse.tripped")) == len(await app.sent_events("fuse.stopped")) == 1
        app.sandbox.control.barren_controller(barren=False)
        await app.context.fuses.resume(acme, POOL, "mona", app.clock(), app.settings.of("acme").fuse)
        for _ in range(25):
            await app.live_through_an_interval()
        reported = [len(await app.sent_events(f"fuse.{turn}")) for turn in ("tripped", "stopped", "reset")]
        assert reported == [2, 1, 1], "tripped, and proving again when an admin resumed it"


async def test_a_job_reported_between_the_removal_and_its_record_does_not_lose_the_replacement(story, monkeypatch):
    async with story() as app:
        await app.settle()
        lost = await confirmed_but_not_planned(app, monkeypatch, count=2)
        acme = await app.context.installations.one(app.installation)
        await plan_remediation(app.context, acme)
        remove = app.context.github.installation_client

        async def installation_client(installation, *rest):
            real = await remove(installation, *rest)
            removes = real.remove_runner

            async def remove_runner(runner_id):
                text = await removes(runner_id)
                await app.context.runners.revise(
                    app.installation, {runner_id: lambda known: job_started(known, runner_id, app.clock())}
                )
                return text

            monkeypatch.setattr(real, "remove_runner", remove_runner)
            return real

        monkeypatch.setattr(app.context.github, "installation_client", installation_client)
        for each in lost:
            assert await remediate_runner(app.context, app.installation, each) == "held", "its job protects it"
        assert await app.replacements() == []
        for each in lost:
            ended = {each: lambda known, job_id=each: job_ended(known, job_id, app.clock())}
            await app.context.runners.revise(app.installation, ended)
            assert await remediate_runner(app.context, app.installation, each) == "replaced"
        assert sorted(await app.replacements()) == sorted(lost), "both, and not only the first"
        ids = await app.context.events.unsent()
        assert len(set(ids)) == 2
        assert all(ids), "an event has an id"


async def test_asking_again_for_the_same_replacement_is_the_same_event(story, monkeypatch):
    async with story() as app:
        await app.settle()
        (lost,) = await confirmed_but_not_planned(app, monkeypatch)
        acme = await app.context.installations.one(app.installation)
        evidence = (await app.context.runners.some(app.installation, [lost]))[lost]._replace(removed_at=app.clock())
        for _ in range(2):
            view = await app.context.org_view(acme)
            await publish_replacement_request(app.context, acme, view, evidence, app.clock())
            app.clock.pass_(5)
        assert await app.replacements() == [lost]
