"""Live pods that look like leaks: the reaper deletes none of them, and of a false mass leak at most the first batch."""

from __future__ import annotations

import time
from functools import partial
from unittest import mock
from unittest.mock import AsyncMock

import pytest

from ghapp.github.installation_client import InstallationClient
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.store import Leaks
from ghapp.remediation.fuse import Fuse, FuseLimits, Position
from ghapp.sandbox.config import Pace
from ghapp.store import keys
from jobs.deliveries.redeliver import redeliver_failed
from jobs.leaks.delete import Reaper
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL, Story
from tests.stories.leaks.leak_story import NAMESPACE, NO_FUSE, leaking

GRACE_MINUTES = 5
WINDOW_MINUTES = 10
FIRST_BATCH = 3


@pytest.fixture
def leaky(story, tmp_path):
    """Opens a story in a cluster, with the fuse as it is by default."""

    def opened(**changes):
        return leaking(story, tmp_path, **{"fuse": "", **changes})

    return opened


@pytest.fixture
def asked(monkeypatch):
    """The names that GitHub was asked for, one by one."""
    names, look_up = [], InstallationClient.runners_named

    async def looked_up(self, name):
        names.append(name)
        return await look_up(self, name)

    monkeypatch.setattr(InstallationClient, "runners_named", looked_up)
    return names


async def unclaimed_fleet(at):
    """An unclaimed pod of each runner: GitHub shows them online, which alone keeps their pods."""
    for name in at.runners:
        at.make_pod(name)
    await at.tick()
    await at.minutes(GRACE_MINUTES + 1)
    assert at.deletions() == []


async def test_32_idle_runners_that_a_partition_takes_offline_for_three_minutes_lose_no_pod(leaky, asked):
    async with leaky(runners=32) as at:
        await unclaimed_fleet(at)
        at.go_offline()
        ticks = await at.minutes(3)
        assert ticks[-1].kept == {"Registered": 32}
        assert asked == [], "what GitHub's list shows needs no question"
        at.app.sandbox.control.bring_online("acme", ids=[each.id for each in at.runners.values()])
        ticks = await at.minutes(2)
        assert ticks[-1].kept == {"SessionOpen": 32}
        assert at.deletions() == at.deletions("serviceaccounts") == []


async def test_runners_that_stay_offline_for_an_hour_are_kept_for_as_long_as_they_are_registered(leaky):
    async with leaky() as at:
        await unclaimed_fleet(at)
        at.go_offline(alive=False)
        ticks = await at.minutes(60)
        assert (at.deletions(), ticks[-1].kept) == ([], {"Registered": 4})


OFFLINE_POOL = """
replace_offline_after_seconds = 1200
"""


async def test_where_its_pool_replaces_offline_runners_a_pod_goes_when_that_time_has_passed(leaky):
    async with leaky(runners=2, pools=OFFLINE_POOL, fuse=NO_FUSE) as at:
        await unclaimed_fleet(at)
        first, other = sorted(at.runners)
        at.go_offline(first, alive=False)
        await at.minutes(20)  # seen offline from the first of these on
        assert at.deletions() == []
        await at.minutes(1)
        assert at.deletions() == [first]
        (data,) = await at.app.sent_events("pod.orphaned")
        assert data["evidence"][-1]["text"].startswith("GitHub lists its runner offline, for longer than")
        assert other in at.pods()


@pytest.mark.parametrize("restart", [False, True], ids=["its container runs on", "its container is started again"])
async def test_runners_that_update_themselves_and_are_offline_for_90_seconds_lose_no_pod(leaky, restart):
    async with leaky(runners=8) as at:
        await unclaimed_fleet(at)
        at.go_offline()
        for name in at.runners if restart else ():
            at.api.control.container_ends(NAMESPACE, name, exit_code=3, restart=True)
        await at.app.pass_(30)
        await at.tick()
        for name in at.runners if restart else ():
            at.api.control.container_starts(NAMESPACE, name)
        await at.minutes(1)
        at.app.sandbox.control.bring_online("acme", ids=[each.id for each in at.runners.values()])
        await at.minutes(GRACE_MINUTES + 2)
        assert at.deletions() == []


async def test_a_pod_whose_runner_is_registered_under_another_name_is_kept_and_named_to_people(leaky):
    async with leaky(runners=4) as at:
        at.app.sandbox.control.busy("acme", ids=[each.id for each in at.runners.values()])
        pods = [f"build-{number}" for number in range(4)]
        for name in pods:
            at.make_pod(name, age_seconds=3600)
        ticks = await at.minutes(30)
        assert at.deletions() == []
        assert ticks[-1].kept == {"Unnamed": 4}
        assert {place for place, _ in ticks[-1].examples["Unnamed"]} == {f"{NAMESPACE}/{name}" for name in pods}


async def test_a_runner_that_takes_another_name_when_its_container_is_started_again_is_kept(leaky):
    async with leaky(runners=1) as at:
        await unclaimed_fleet(at)
        (name,) = at.runners
        at.api.control.container_ends(NAMESPACE, name, exit_code=0, restart=True)
        await at.hang(name)  # the old registration is deleted, its job is over; the new one has another name
        at.app.clock.pass_(5)
        at.api.control.container_starts(NAMESPACE, name)
        ticks = await at.minutes(40)
        assert (at.deletions(), ticks[-1].kept) == ([], {"Unnamed": 1})


@pytest.mark.parametrize("node", ["", "node-1"], ids=["waits for a node", "waits for its image"])
async def test_a_pod_that_is_not_started_for_ten_minutes_is_kept_and_named_with_since_when(leaky, node):
    async with leaky(runners=2) as at:
        for name in at.runners:
            at.make_pod(name, running=False, node=node, age_seconds=0)
        created_at = at.app.clock()
        at.go_offline()
        ticks = await at.minutes(WINDOW_MINUTES)
        assert at.deletions() == []
        assert ticks[-1].kept == {"NeverStarted": 2}
        assert {since for _, since in ticks[-1].examples["NeverStarted"]} == {float(int(created_at))}


async def test_an_absent_registration_whose_job_may_run_takes_no_pod(leaky):
    async with leaky(runners=12) as at:
        await unclaimed_fleet(at)
        first = min(at.runners)
        at.app.sandbox.control.busy("acme", ids=[at.runners[first].id])
        await at.minutes(1)
        at.app.sandbox.control.lose("acme", ids=[at.runners[first].id])
        ticks = await at.minutes(30)
        assert at.deletions() == []
        assert ticks[-1].kept == {"SessionOpen": 11, "BusyWhenLastSeen": 1}


class TestDeliveriesBehind:
    """Registrations are lost between two lists, of runners that began a job since the first. Only deliveries know."""

    async def begin_jobs(self, at, count):
        """Jobs begin on so many idle runners, whose registrations are lost; their names."""
        app = at.app
        app.sandbox.control.queue("acme", labels=[POOL], count=count)
        await app.pass_(3)
        at_work = [each for each in at.runners.values() if each.job is not None]
        assert len(at_work) == count
        app.sandbox.control.lose("acme", ids=[each.id for each in at_work])
        return {each.name for each in at_work}

    async def minute(self, at):
        """A minute as with roles: redelivery, deliveries, and a tick."""
        await at.app.pass_(60)
        await redeliver_failed(at.app.context)
        await at.app.receive_sent()
        return await at.tick()

    @pytest.mark.parametrize("reason", ["failed", "refused", "in our inbox"])
    async def test_while_the_starts_of_their_jobs_are_missing_no_pod_is_deleted(self, story, tmp_path, reason):
        slow = partial(story, pace=Pace(job=(7000.0, 7200.0)))
        async with leaking(slow, tmp_path, runners=20, fuse="") as at:
            await unclaimed_fleet(at)
            app = at.app
            app.listen()
            if reason != "in our inbox":
                app.sandbox.control.fail_deliveries("acme", status_code=503 if reason == "failed" else 400)
            names = await self.begin_jobs(at, 10)
            if reason == "in our inbox":
                app.hook.received.clear()
                waiting = {"g": "1", "e": "ping", "f": "{}"}
                await app.context.redis.xadd(keys.INBOX, waiting, id=f"{int((time.time() - 600) * 1000)}-0")
                with mock.patch.object(Story, "receive_sent", AsyncMock()):
                    ticks = [await self.minute(at) for _ in range(9)]
            else:
                ticks = [await self.minute(at) for _ in range(GRACE_MINUTES + 25)]
            assert at.deletions() == []
            assert ticks[-1].kept == {"SessionOpen": 10, "DeliveriesBehind": 10}
            assert names <= at.pods()

    async def test_when_the_deliveries_have_come_their_jobs_keep_the_pods(self, story, tmp_path):
        slow = partial(story, pace=Pace(job=(7000.0, 7200.0)))
        async with leaking(slow, tmp_path, runners=8, fuse="") as at:
            await unclaimed_fleet(at)
            at.app.listen()
            at.app.sandbox.control.fail_deliveries("acme", status_code=503, seconds=500)
            await self.begin_jobs(at, 4)
            ticks = [await self.minute(at) for _ in range(20)]
            assert (at.deletions(), ticks[-1].kept) == ([], {"SessionOpen": 4, "Claimed": 4})

    async def test_a_leak_waits_for_deliveries_for_an_hour_at_most(self, story, tmp_path):
        async with leaking(story, tmp_path, runners=4, fuse=NO_FUSE) as at:
            await unclaimed_fleet(at)
            at.app.listen()
            at.app.sandbox.control.fail_deliveries("acme", status_code=503)
            at.app.sandbox.control.queue("acme", labels=["no-such-runner"], count=1)
            at.app.sandbox.control.lose("acme", ids=[min(at.runners.values(), key=lambda each: each.id).id])
            ticks = [await self.minute(at) for _ in range(56)]
            assert (at.deletions(), ticks[-1].kept) == ([], {"SessionOpen": 3, "DeliveriesBehind": 1})
            for _ in range(10):  # its token expires, and the time until the next list does not count
                last = await self.minute(at)
            assert (len(at.deletions()), last.kept) == (1, {"SessionOpen": 3})


WRONG_ANSWERS = {
    "403": lambda control: control.fault(match="/orgs/", status=403),
    "429": lambda control: control.fault(match="/orgs/", status=429),
    "502": lambda control: control.fault(match="/orgs/", status=502),
    "an empty list": lambda control: control.empty_list("acme"),
}


@pytest.mark.parametrize("runners", [1, 8])
@pytest.mark.parametrize("wrong", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
async def test_while_github_gives_no_true_answer_no_living_runner_loses_its_pod(leaky, wrong, runners):
    async with leaky(runners=runners) as at:
        await unclaimed_fleet(at)
        wrong(at.app.sandbox.control)
        await at.minutes(30)
        assert at.deletions() == []


async def test_an_empty_list_that_is_believed_at_last_takes_no_pod_though_every_look_up_agrees(leaky):
    async with leaky(runners=2) as at:
        await unclaimed_fleet(at)
        everybody = list(at.app.sandbox.world.orgs["acme"].fleet.roster.registered)
        at.app.sandbox.control.unlist("acme", ids=everybody, everywhere=True)
        ticks = await at.minutes(30)
        assert (at.deletions(), ticks[-1].kept) == ([], {"ListEmpty": 2})


class TestAMassLeak:
    async def leak(self, at, count):
        """So many hang after their jobs, of an unclaimed fleet; returns their names."""
        await unclaimed_fleet(at)
        leaks = sorted(at.runners)[:count]
        await at.hang(*leaks)
        return set(leaks)

    async def test_of_many_the_first_batch_goes_and_then_twice_as_many_each_time_and_the_others_are_reported(
        self, leaky
    ):
        async with leaky(runners=40) as at:
            leaks = await self.leak(at, 20)
            ticks = await at.minutes(GRACE_MINUTES + 4)
            assert [each.reaped for each in ticks[-6:]] == [0, FIRST_BATCH, 0, 2 * FIRST_BATCH, 0, 11]
            assert (ticks[-2].held, ticks[-2].deferred) == (11, 0)
            assert ticks[-2].kept == {"SessionOpen": 20, "MassLeak": 11}
            assert set(at.deletions()) == leaks
            await at.minutes(6)
            assert await at.app.context.fuses.of_reaper(at.app.installation) == {}

    async def test_github_is_asked_only_about_those_that_may_go(self, leaky, asked):
        async with leaky(runners=40) as at:
            await self.leak(at, 20)
            await at.minutes(GRACE_MINUTES + 1)
            assert sorted(asked) == sorted(2 * at.deletions()), "when they were found, and just before each deletion"
            assert len(at.deletions()) == FIRST_BATCH

    async def test_a_false_one_costs_the_first_batch_once_and_the_reason_is_reported(self, leaky):
        """GitHub lists a registration again after its pod was deleted: it had been hidden, from GETs, too."""
        async with leaky(runners=40) as at:
            await self.leak(at, 20)
            await at.minutes(GRACE_MINUTES + 1)
            deleted = at.deletions()
            assert len(deleted) == FIRST_BATCH
            at.come_back(deleted[1])
            ticks = await at.minutes(WINDOW_MINUTES * 3)
            assert at.deletions() == deleted
            stop = ("RunnerReturned", f"{NAMESPACE}/{deleted[1]}")
            assert (ticks[-1].kept["ReaperStopped"], ticks[-1].stops) == (17, {"in-cluster": stop})
            await at.app.context.redis.delete(keys.leaks(at.app.installation))
            await at.minutes(GRACE_MINUTES + 3)
            assert at.deletions() == deleted, "also when the memory of the ticks has expired"

    async def test_a_living_runner_in_a_pod_of_the_same_name_stops_it_until_an_admin_resumes(self, leaky):
        async with leaky(runners=40) as at:
            await self.leak(at, 20)
            await at.minutes(GRACE_MINUTES + 1)
            deleted = at.deletions()
            await at.app.pass_(31)
            at.make_pod(deleted[0], age_seconds=0)
            fleet = at.app.sandbox.world.orgs["acme"].fleet
            new = at.app.sandbox.control.in_world(lambda: fleet.register_jit(deleted[0], ("self-hosted", POOL)))
            new.alive = True
            at.app.sandbox.control.bring_online("acme", ids=[new.id])
            ticks = await at.minutes(5)
            assert at.deletions() == deleted
            assert ticks[-1].stops == {"in-cluster": ("Recreated", f"{NAMESPACE}/{deleted[0]}")}
            await resume(at, "in-cluster")
            await at.minutes(2)
            assert len(at.deletions()) == 2 * FIRST_BATCH
            await at.minutes(10)
            assert len(at.deletions()) == 20

    async def test_no_batch_is_proven_while_lists_fail(self, leaky):
        async with leaky(runners=40) as at:
            leaks = await self.leak(at, 20)
            await at.minutes(GRACE_MINUTES + 1)
            at.app.sandbox.control.fault(match="/orgs/", status=502)
            await at.minutes(30)
            assert len(at.deletions()) == FIRST_BATCH
            at.app.sandbox.control.no_faults()
            await at.minutes(1)
            assert len(at.deletions()) == FIRST_BATCH
            await at.minutes(6)
            assert set(at.deletions()) == leaks

    async def test_a_tick_that_comes_twice_or_dies_after_its_decision_deletes_no_further_pod(self, leaky, monkeypatch):
        async with leaky(runners=40) as at:
            await self.leak(at, 20)
            await at.minutes(GRACE_MINUTES - 1)
            with monkeypatch.context() as patch:
                patch.setattr(Reaper, "reap_all", dies)
                await at.app.pass_(60)
                with pytest.raises(RuntimeError):
                    await at.tick()
            for _ in range(5):
                await at.reap()
            assert len(at.deletions()) == FIRST_BATCH
            await at.minutes(2)
            for _ in range(5):
                await at.reap()
            assert len(at.deletions()) == 3 * FIRST_BATCH

    async def test_fewer_than_the_threshold_all_go(self, leaky):
        async with leaky(runners=40) as at:
            leaks = await self.leak(at, 7)
            await at.minutes(GRACE_MINUTES + 1)
            assert set(at.deletions()) == leaks

    async def test_leaks_that_come_one_after_another_are_counted_over_the_window(self, leaky):
        async with leaky(runners=40) as at:
            await unclaimed_fleet(at)
            names = sorted(at.runners)
            for minute in range(12):
                await at.hang(names[minute])
                await at.minutes(1)
                if len(at.deletions()) == 6:
                    break
            ticks = await at.minutes(1)
            assert (len(at.deletions()), ticks[-1].kept["MassLeak"]) == (6, 1), "a fifth of the 34 that are left"
            await at.minutes(10)
            assert set(at.deletions()) == set(names[: minute + 1])

    async def test_the_only_pod_goes_and_of_the_smallest_fleet_the_floor_goes_first(self, leaky):
        for runners, reaped in ((1, 1), (4, FIRST_BATCH)):
            async with leaky(runners=runners) as at:
                await self.leak(at, runners)
                await at.minutes(GRACE_MINUTES + 1)
                assert len(at.deletions()) == reaped
                await at.minutes(1)
                assert len(at.deletions()) == runners
                await at.app.context.redis.flushdb()

    @pytest.mark.parametrize("position", [Position.PROVING, Position.STOPPED])
    @pytest.mark.parametrize(
        ("pool", "reaped"),
        [("in-cluster", False), (ALL_POOLS, False), (POOL, True)],
        ids=["its pool", "all", "another"],
    )
    async def test_while_a_fuse_is_not_closed_nothing_of_its_pool_goes(self, leaky, pool, reaped, position):
        async with leaky(runners=12) as at:
            leaks = await self.leak(at, 2)
            fuse = Fuse(position, at.app.clock(), 3, 3)
            for _ in range(GRACE_MINUTES + 2):
                await at.app.pass_(60)
                await sweep_installation(at.app.context, at.app.installation)
                now = (await at.app.context.fuses.all(at.app.installation)).get(pool)
                await at.app.context.fuses.save(at.app.installation, pool, now, fuse)
                tick = await at.reap()
            assert set(at.deletions()) == (leaks if reaped else set())
            assert tick.kept.get("FuseNotClosed", 0) == (0 if reaped else 2)

    async def test_what_was_reaped_can_be_counted_by_pool(self, leaky):
        async with leaky(runners=12) as at:
            await self.leak(at, 2)
            await at.minutes(GRACE_MINUTES + 1)
            counted = await Leaks(at.app.context.redis).reaped_by_pool(at.app.installation, at.app.clock() - 600)
            assert counted == {"in-cluster": 2}


async def dies(*_):
    raise RuntimeError("the worker is killed")


async def resume(at, pool):
    context = at.app.context
    installation = await context.installations.one(at.app.installation)
    done = await context.fuses.resume(installation, pool, "mona", at.app.clock(), FuseLimits())
    assert done.reaping == {pool}


async def test_a_runner_that_only_lists_leave_out_after_its_job_is_asked_for_by_its_number_and_kept(leaky):
    """GitHub does not say whether it is ephemeral, so that it seems to have left after its job."""
    async with leaky(runners=1, fuse=NO_FUSE) as at:
        await unclaimed_fleet(at)
        (runner,) = at.runners.values()
        now = at.app.clock()
        ended = {"ephemeral": None, "job_id": 5, "job_started_at": now - 60, "job_ended_at": now - 1}
        await at.app.context.runners.revise(at.app.installation, {runner.id: lambda known: known._replace(**ended)})
        at.app.sandbox.control.unlist("acme", ids=[runner.id])
        await at.minutes(GRACE_MINUTES + 2)
        assert at.deletions() == []
