"""Pods that are nobody's go within minutes, and no other one ever does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from http.server import ThreadingHTTPServer
from random import Random

import pytest

from jobs.house import open_house
from jobs.installations import discover_installations
from tests.stories.conftest import POOL
from tests.stories.leaking import LABEL, NAMESPACE, leaking

GRACE_MINUTES = 5
MOST_SECONDS = 360
LEAKING_MINUTES = 12


@pytest.fixture
def leaky(story, tmp_path, monkeypatch):
    """Opens a story in a cluster: `async with leaky(runners=12) as at:`."""
    monkeypatch.setattr(ThreadingHTTPServer, "request_queue_size", 512)  # a minute's deliveries come at once

    def opened(**changes):
        return leaking(story, tmp_path, **changes)

    return opened


async def four_leaks(at):
    """A pod of each of GitHub's runners, hung and claimed by nobody; one more that is claimed, as in any fleet."""
    for name in at.runners:
        at.make_pod(name)
    at.hang()
    at.make_pod("busy")
    await at.claim("busy", seconds=36_000)
    return set(at.runners)


async def test_of_500_pods_3_percent_leak_a_minute_and_all_of_those_go_within_6_minutes_and_none_else(leaky):
    async with leaky(runners=500) as at:
        fleet = Fleet(at)
        await fleet.begin()
        for minute in range(LEAKING_MINUTES + 6):
            await at.tick()
            fleet.look()
            if minute < LEAKING_MINUTES:
                await fleet.leak(15)
            await fleet.live_a_minute(jobs=60)
        await at.tick()
        fleet.look()
        assert at.accounts() == at.pods()
    assert len(fleet.leaked_at) == 15 * LEAKING_MINUTES
    assert set(fleet.reaped_at) == set(fleet.leaked_at)
    late = [fleet.reaped_at[name] - fleet.leaked_at[name] for name in fleet.leaked_at]
    assert max(late) <= MOST_SECONDS
    assert len(at.deletions()) == len(set(at.deletions())) == 15 * LEAKING_MINUTES


class Fleet:
    """What controllers do in the cluster, and which pods they forget. A pod is called as its runner.

    Idle runners' pods are claimed by their controller. Once a job runs, half of them are still claimed, and of the
    others deliveries alone say that they are at work.
    """

    def __init__(self, at):
        self.at, self.chance = at, Random(1)
        self.cared_for, self.trusts_deliveries = set(), set()
        self.leaked_at, self.reaped_at = {}, {}
        self.made = 0

    async def begin(self):
        self.at.it.listen()
        await self.care(age_seconds=3600)

    async def live_a_minute(self, jobs):
        it = self.at.it
        it.sandbox.control.queue("acme", labels=[POOL], repository="api", count=jobs)
        await it.pass_(60)
        await self.at.receive_all()
        await self.care()

    async def care(self, age_seconds=0):
        """New runners' pods are made, ended runners' pods go, and the others are claimed as they need it."""
        runners = self.at.runners
        for name in runners.keys() - self.cared_for - self.leaked_at.keys():
            self.at.make_pod(name, age_seconds=age_seconds)
            self.cared_for.add(name)
            if self.chance.random() < 0.5:
                self.trusts_deliveries.add(name)
        for name in self.cared_for - runners.keys():
            self.at.drop_pod(name)
            await self.at.give_back(name)
            self.cared_for.discard(name)
        for name in self.cared_for:
            if runners[name].job is not None and name in self.trusts_deliveries:
                await self.at.give_back(name)
            else:
                await self.at.claim(name)

    async def leak(self, count):
        """Forgotten, each in its own way: when its job is over; idle, and then hung or ended; or before it registers."""
        runners = self.at.runners
        at_work = sorted(name for name in self.cared_for if runners[name].job is not None)
        idle = sorted(name for name in self.cared_for if runners[name].job is None)
        unregistered = [f"{POOL}-never-{self.made + each}" for each in range(3)]
        self.made += 3
        for name in unregistered:
            self.at.make_pod(name, age_seconds=900)
        ended = self.chance.sample(at_work, min(len(at_work), 4))
        for name in ended:
            self.at.it.sandbox.control.finish("acme", job_id=runners[name].job.id)
        forgotten = self.chance.sample(idle, count - len(unregistered) - len(ended))
        self.at.it.sandbox.control.take_offline("acme", ids=[runners[name].id for name in forgotten], alive=False)
        for name in forgotten[::2]:
            self.at.api.control.container_ends(NAMESPACE, name, exit_code=137)
        for name in [*unregistered, *ended, *forgotten]:
            self.leaked_at[name] = self.at.it.clock()
            self.cared_for.discard(name)
            await self.at.give_back(name)
        await self.at.receive_all()

    def look(self):
        """Whoever was deleted since the last look must have leaked."""
        for name in set(self.at.deletions()) - self.reaped_at.keys():
            assert name in self.leaked_at, f"{name} was at work, or waited for it"
            self.reaped_at[name] = self.at.it.clock()


async def test_two_workers_at_once_do_nothing_twice(leaky):
    async with leaky(runners=40) as at:
        leaks = await four_leaks(at)
        async with open_house(at.it.settings, at.it.clock) as opened:
            other = replace(opened, cluster=at.it.house.cluster)
            for _ in range(GRACE_MINUTES + 3):
                await at.tick()
                both = await asyncio.gather(at.reap(), at.reap(other), return_exceptions=True)
                assert not [each for each in both if isinstance(each, BaseException)]
                await at.it.pass_(60)
        assert sorted(at.deletions()) == sorted(leaks)
        assert sorted(at.deletions("serviceaccounts")) == sorted(leaks)
        assert sorted(await at.told()) == sorted(leaks)
        assert await at.counted("reaped") == len(leaks)
        assert at.pods() == {"busy"}


@pytest.mark.parametrize("after", range(1, GRACE_MINUTES + 1))
async def test_when_redis_is_emptied_between_ticks_the_grace_passes_anew(leaky, after):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(after - 1)
        await at.it.house.redis.flushdb()
        await discover_installations(at.it.house)
        await at.claim("busy", seconds=36_000)
        await at.minutes(GRACE_MINUTES)
        assert at.deletions() == []
        await at.minutes(1)
        assert set(at.deletions()) == leaks


async def test_while_github_is_away_its_shields_hold(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        at.it.sandbox.control.fault(match="/orgs/", status=503)
        await at.minutes(GRACE_MINUTES + 25)
        assert at.deletions() == []
        at.it.sandbox.control.no_faults()
        await at.minutes(1)
        assert set(at.deletions()) == leaks, "and no time was lost"


async def test_while_only_the_questions_about_single_runners_fail_nothing_is_reaped(leaky):
    async with leaky() as at:
        await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        await at.it.pass_(60)
        at.it.sandbox.control.fault(match="/orgs/.*name=", status=502, times=1)
        await at.it.house.budget.hold(at.it.installation, 60.0)
        await at.reap()
        assert at.deletions() == []


async def test_a_runner_that_github_shows_busy_is_kept_and_goes_when_that_is_over(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        busy = at.it.sandbox.control.busy("acme", count=1)
        (kept,) = {name for name, each in at.runners.items() if each.id in busy}
        await at.minutes(GRACE_MINUTES + 20)
        assert set(at.deletions()) == leaks - {kept}
        at.it.sandbox.control.busy("acme", ids=busy, busy=False)
        await at.minutes(1)
        assert set(at.deletions()) == leaks


async def test_a_runner_that_took_a_job_after_the_last_sweep_is_kept(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        await at.it.pass_(60)
        busy = at.it.sandbox.control.busy("acme", count=1)
        (kept,) = {name for name, each in at.runners.items() if each.id in busy}
        await at.reap()  # and no delivery told of it
        assert set(at.deletions()) == leaks - {kept}


async def test_a_job_whose_end_was_never_told_is_asked_about(leaky):
    async with leaky() as at:
        at.it.listen()
        await at.tick()
        (job_id,) = at.it.sandbox.control.queue("acme", labels=[POOL], repository="api")
        await at.receive_all()
        job = at.it.sandbox.world.orgs["acme"].fleet.jobs[job_id]
        at.make_pod(job.runner_name)
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)
        await at.minutes(1)
        at.it.sandbox.control.finish("acme", job_id=job_id)  # and nobody hears of it
        await at.minutes(3 + GRACE_MINUTES)
        assert at.deletions() == []
        await at.minutes(2)
        assert at.deletions() == [job.runner_name]
        assert await at.it.house.demand.all(at.it.installation) == []


TROUBLES = {
    "500 to lists": lambda control: control.fails(500, verbs=("list",)),
    "403 to lists": lambda control: control.fails(403, verbs=("list",)),
    "429 to lists": lambda control: control.fails(429, verbs=("list",)),
    "lists cut short": lambda control: control.cuts_short(verbs=("list",)),
    "lists reset": lambda control: control.resets(verbs=("list",)),
    "HTML": lambda control: control.answers_html(),
    "500 to a pod": lambda control: control.fails(500, verbs=("get",), resources=("pods",)),
    "403 to deletions": lambda control: control.fails(403, verbs=("delete",), resources=("pods",)),
    "no leave to delete": lambda control: control.fails(403, verbs=("create",)),
    "500 to deletions": lambda control: control.fails(500, verbs=("delete",), resources=("pods",)),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_when_the_api_server_fails_nothing_is_reaped_and_no_clock_is_lost(leaky, trouble):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        with trouble(at.api.control):
            (tick,) = await at.minutes(1)
            assert at.deletions() == []
            assert (bool(tick.trouble), tick.reaped) == (True, 0)
            assert await at.counted("skipped") + await at.counted("failed") > 0
        (tick,) = await at.minutes(1)
        assert (tick.trouble, tick.reaped) == ("", len(leaks))
        assert set(at.deletions()) == set(await at.told()) == leaks


async def test_a_deletion_whose_answer_was_lost_is_finished_a_minute_later_and_told_once(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        with at.api.control.loses_answers(verbs=("delete",)):
            await at.minutes(1)
        assert await at.told() == []
        await at.minutes(1)
        assert sorted(await at.told()) == sorted(leaks)
        assert await at.counted("reaped") == len(leaks)
        assert (at.pods(), at.accounts()) == ({"busy"}, {"busy"})


async def test_a_claim_that_comes_back_just_before_the_deletion_spares_the_pod(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        spared, read = min(leaks), at.cluster.pod

        async def read_and_claimed(namespace, name):
            pod = await read(namespace, name)
            if name == spared:
                await at.claim(name)
            return pod

        at.cluster.pod = read_and_claimed
        await at.minutes(1)
        assert set(at.deletions()) == leaks - {spared}
        assert await at.counted("spared") == 1
        at.cluster.pod = read
        await at.minutes(2 + GRACE_MINUTES)
        assert spared in at.pods(), "its clock has started anew"
        await at.minutes(2)
        assert set(at.deletions()) == leaks


async def test_a_pod_that_changes_just_before_the_deletion_is_left_for_the_next_tick(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        changed, read = min(leaks), at.cluster.pod

        async def read_and_changed(namespace, name):
            pod = await read(namespace, name)
            if name == changed:
                at.api.control.set_labels("pods", namespace, name, touched="yes")
            return pod

        at.cluster.pod = read_and_changed
        await at.minutes(1)
        assert set(at.deletions()) == leaks - {changed}
        assert await at.counted("changed") == 1
        at.cluster.pod = read
        await at.minutes(1)
        assert sorted(await at.told()) == sorted(leaks)


async def test_what_exceeds_a_tick_is_deferred_and_said(leaky):
    async with leaky(runners=60) as at:
        leaks = await four_leaks(at)
        await at.tick()
        ticks = await at.minutes(GRACE_MINUTES + 2)
        assert [(each.reaped, each.deferred) for each in ticks[-4:]] == [(0, 0), (25, 35), (25, 10), (10, 0)]
        assert set(at.deletions()) == leaks


@pytest.mark.parametrize(
    ("more", "told"), [('[leaks]\nmode = "dry-run"', 4), ('[leaks]\nmode = "off"', 0)], ids=["dry-run", "off"]
)
async def test_the_kill_switch(leaky, more, told):
    async with leaky(more=more) as at:
        await four_leaks(at)
        ticks = await at.minutes(GRACE_MINUTES + 3)
        assert at.deletions() == []
        assert (ticks[-1].told if ticks[-1] else 0) == told
        assert at.api.control.calls() if told else at.api.control.calls() == []


async def test_a_pod_that_bears_no_label_and_one_of_arcs_are_left_alone(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        at.make_pod("stranger", labels={"app": "web"})
        owner = at.api.control.ephemeral_runner(NAMESPACE, "arcs")
        at.make_pod("arcs", owner=owner)
        await at.minutes(GRACE_MINUTES + 3)
        assert set(at.deletions()) == leaks
        assert {"stranger", "arcs"} <= at.pods()
        assert LABEL.items() <= at.api.control.object("pods", NAMESPACE, "arcs")["metadata"]["labels"].items()
