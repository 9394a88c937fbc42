"""Somebody else acts, or a process dies, between two lines: what was decided holds only for what was decided on."""

from __future__ import annotations

import pytest

from ghapp.health.evidence import Registration
from ghapp.health.fuse import Position
from ghapp.health.seen import job_ended, job_started, registration_seen
from ghapp.health.verdict import State
from jobs import decide as module
from jobs import tell
from jobs.confirm import confirm_installation
from jobs.decide import decide
from jobs.remediate import remediate_runner
from jobs.sweep import sweep_installation
from jobs.tell import ask_for_replacement
from tests.stories.conftest import POOL
from tests.stories.test_main_job import state_of

IMPATIENT = "replace_offline_after_seconds = 600"


async def settled(it):
    for _ in range(2):
        await it.live_through_an_interval()


def shown(known, *, online):
    return Registration(
        known.id, known.name, known.os, online, False, known.labels, known.custom_labels, known.ephemeral
    )


async def confirmed_but_not_planned(it, monkeypatch, count=1):
    """Lost, and confirmed; the plan is still to be made."""
    lost = it.sandbox.control.lose("acme", count=count)
    await it.pass_(60)
    await sweep_installation(it.house, it.installation)
    await it.pass_(30)
    with monkeypatch.context() as patched:
        patched.setattr("jobs.confirm.decide", nothing)
        assert await confirm_installation(it.house, it.installation) == count
    return lost


async def nothing(*_args):
    return None


def meanwhile(it, monkeypatch, happens):
    """Something happens after the plan was made, and before it is recorded."""
    turn = module._turn

    async def then(*args):
        done = await turn(*args)
        await happens()
        return done

    monkeypatch.setattr(module, "_turn", then)


async def test_one_that_comes_back_while_the_plan_is_made_is_granted_nothing(story, monkeypatch):
    async with story() as it:
        await settled(it)
        (lost,) = await confirmed_but_not_planned(it, monkeypatch)

        async def comes_back():
            it.sandbox.control.restore("acme", ids=[lost])
            await it.house.runners.revise(
                it.installation,
                {lost: lambda known: registration_seen(known, shown(known, online=True), it.clock(), listed=True)},
            )

        meanwhile(it, monkeypatch, comes_back)
        await decide(it.house, await it.house.installations.one(it.installation))
        evidence = (await it.house.runners.some(it.installation, [lost]))[lost]
        assert (evidence.granted_at, evidence.event_id) == (None, None)

        monkeypatch.undo()
        it.sandbox.control.take_offline("acme", ids=[lost])  # for hours; nobody asked for such to be replaced
        for _ in range(8):
            await it.live_through_an_interval()
        assert await state_of(it, lost) is State.OFFLINE
        assert await it.replacements() == []
        assert it.account()["calls"].get("DELETE /orgs/{org}/actions/runners/{runner_id}") is None


async def test_in_dry_run_too_it_is_not_counted(story, monkeypatch):
    async with story(config='[remediation]\nmode = "dry-run"') as it:
        await settled(it)
        (lost,) = await confirmed_but_not_planned(it, monkeypatch)

        async def comes_back():
            await it.house.runners.revise(
                it.installation,
                {lost: lambda known: registration_seen(known, shown(known, online=True), it.clock(), listed=True)},
            )

        meanwhile(it, monkeypatch, comes_back)
        await decide(it.house, await it.house.installations.one(it.installation))
        evidence = (await it.house.runners.some(it.installation, [lost]))[lost]
        assert evidence.would_act_at is None
        assert 'ghapp_remediations_total{org="acme",outcome="dry-run"}' not in await it.house.counters.all()


async def test_a_crash_after_a_fuse_turned_loses_no_word_of_it(story, monkeypatch):
    async with story(runners=40) as it:
        await settled(it)
        await confirmed_but_not_planned(it, monkeypatch, count=20)
        acme = await it.house.installations.one(it.installation)
        with monkeypatch.context() as patched:
            patched.setattr(module, "tell_fuse", dies)
            with pytest.raises(ProcessLookupError):
                await decide(it.house, acme)
        assert (await it.house.fuses.all(it.installation))[POOL].position is Position.PROVING
        assert await it.told("fuse.tripped") == []
        for _ in range(3):
            await decide(it.house, acme)
        (told,) = await it.told("fuse.tripped")
        assert (told["pool"], told["fuse"], told["reason"]) == (POOL, "proving", "MassLoss")


async def dies(*_args):
    raise ProcessLookupError


async def test_each_turn_of_a_fuse_is_told_once_however_often_it_is_planned(story):
    async with story(runners=40) as it:
        await settled(it)
        it.sandbox.control.barren_controller(barren=True)
        it.sandbox.control.lose("acme", count=30)
        for _ in range(12):
            await it.live_through_an_interval()
        acme = await it.house.installations.one(it.installation)
        assert len(await it.told("fuse.tripped")) == len(await it.told("fuse.stopped")) == 1
        it.sandbox.control.barren_controller(barren=False)
        await it.house.fuses.resume(acme, POOL, "mona", it.clock(), it.settings.of("acme").fuse)
        for _ in range(25):
            await it.live_through_an_interval()
        told = [len(await it.told(f"fuse.{turn}")) for turn in ("tripped", "stopped", "reset")]
        assert told == [2, 1, 1], "tripped, and proving anew when a person said so"


async def test_a_job_that_is_told_of_between_the_removal_and_its_record_does_not_lose_the_replacement(
    story, monkeypatch
):
    async with story() as it:
        await settled(it)
        lost = await confirmed_but_not_planned(it, monkeypatch, count=2)
        acme = await it.house.installations.one(it.installation)
        await decide(it.house, acme)
        remove = it.house.github.tenant

        async def tenant(installation, *rest):
            real = await remove(installation, *rest)
            removes = real.remove_runner

            async def remove_runner(runner_id):
                said = await removes(runner_id)
                await it.house.runners.revise(
                    it.installation, {runner_id: lambda known: job_started(known, runner_id, it.clock())}
                )
                return said

            monkeypatch.setattr(real, "remove_runner", remove_runner)
            return real

        monkeypatch.setattr(it.house.github, "tenant", tenant)
        for each in lost:
            assert await remediate_runner(it.house, it.installation, each) == "held", "its job vouches for it"
        assert await it.replacements() == []
        for each in lost:
            ended = {each: lambda known, job_id=each: job_ended(known, job_id, it.clock())}
            await it.house.runners.revise(it.installation, ended)
            assert await remediate_runner(it.house, it.installation, each) == "replaced"
        assert sorted(await it.replacements()) == sorted(lost), "both, and not only the first"
        ids = await it.house.events.unsent()
        assert len(set(ids)) == 2
        assert all(ids), "an event has an id"


async def test_asking_again_for_the_same_replacement_is_the_same_event(story, monkeypatch):
    async with story() as it:
        await settled(it)
        (lost,) = await confirmed_but_not_planned(it, monkeypatch)
        acme = await it.house.installations.one(it.installation)
        evidence = (await it.house.runners.some(it.installation, [lost]))[lost]._replace(removed_at=it.clock())
        for _ in range(2):
            await ask_for_replacement(it.house, acme, evidence, it.clock())
            it.clock.pass_(5)
        assert await it.replacements() == [lost]
        assert tell.EVENTS
