"""Pods without an owner are deleted within minutes, and no other pod ever is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from http.server import ThreadingHTTPServer

import pytest

from jobs.context import open_context
from jobs.installations.discover import discover_installations
from tests.stories.conftest import POOL
from tests.stories.leaks.leak_story import LABEL, NAMESPACE, leaking

GRACE_MINUTES = 5


@pytest.fixture
def leaky(story, tmp_path, monkeypatch):
    """Opens a story in a cluster: `async with leaky(runners=12) as at:`."""
    monkeypatch.setattr(ThreadingHTTPServer, "request_queue_size", 512)  # a minute's deliveries come at once

    def opened(**changes):
        return leaking(story, tmp_path, **changes)

    return opened


async def four_leaks(at, alive=0):
    """A pod of each of GitHub's runners, hanging and unclaimed; one more that is claimed, as in any fleet.

    So many of the runners are `alive`: no leaks.
    """
    for name in at.runners:
        at.make_pod(name)
    leaks = sorted(at.runners)[alive:]
    await at.hang(*leaks)
    at.make_pod("busy")
    await at.claim("busy", seconds=36_000)
    return set(leaks)


async def test_two_workers_at_once_do_nothing_twice(leaky):
    async with leaky(runners=40) as at:
        leaks = await four_leaks(at)
        async with open_context(at.app.settings, at.app.clock) as opened:
            other = replace(opened, cluster=at.app.context.cluster)
            for _ in range(GRACE_MINUTES + 3):
                await at.tick()
                both = await asyncio.gather(at.reap(), at.reap(other), return_exceptions=True)
                assert not [each for each in both if isinstance(each, BaseException)]
                await at.app.pass_(60)
        assert sorted(at.deletions()) == sorted(leaks)
        assert sorted(at.deletions("serviceaccounts")) == sorted(leaks)
        assert sorted(await at.published()) == sorted(leaks)
        assert await at.counted("reaped") == len(leaks)
        assert at.pods() == {"busy"}


async def test_pods_are_named_from_the_end_of_their_only_job_until_they_are_deleted(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at, alive=1)
        started = at.app.clock() - 1
        known = [at.runners[name].id for name in at.runners]
        await at.app.context.runners.revise(
            at.app.installation, dict.fromkeys(known, lambda each: each._replace(job_started_at=started))
        )
        await at.tick()
        for _ in range(GRACE_MINUTES - 1):
            await at.minutes(1)
            named = (await at.app.context.leaks.last(at.app.installation)).leaking
            assert {(each.pod, each.guard) for each in named} == {(name, "UnclaimedBriefly") for name in leaks}
            assert at.deletions() == []
        await at.minutes(2)
        assert set(at.deletions()) == leaks
        assert (await at.app.context.leaks.last(at.app.installation)).leaking == ()


@pytest.mark.parametrize("after", range(1, GRACE_MINUTES + 1))
async def test_when_redis_is_emptied_between_ticks_the_grace_starts_again(leaky, after):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(after - 1)
        await at.app.context.redis.flushdb()
        await discover_installations(at.app.context)
        await at.claim("busy", seconds=36_000)
        at.end_containers(*leaks)
        await at.minutes(GRACE_MINUTES)
        assert at.deletions() == []
        await at.minutes(1)
        assert set(at.deletions()) == leaks


async def test_when_redis_is_emptied_the_names_of_absent_runners_are_forgotten_and_their_pods_are_kept(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.app.context.redis.flushdb()
        await discover_installations(at.app.context)
        await at.claim("busy", seconds=36_000)
        ticks = await at.minutes(20)
        assert at.deletions() == []
        assert ticks[-1].kept == {"Claimed": 1, "Unnamed": len(leaks)}


async def test_while_github_is_away_its_shields_hold(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        at.app.sandbox.control.fault(match="/orgs/", status=503)
        await at.minutes(GRACE_MINUTES + 25)
        assert at.deletions() == []
        at.app.sandbox.control.no_faults()
        await at.minutes(1)
        assert set(at.deletions()) == leaks, "and no time was lost"


async def test_while_only_the_questions_about_single_runners_fail_nothing_is_reaped(leaky):
    async with leaky() as at:
        await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        await at.app.pass_(60)
        at.app.sandbox.control.fault(match="/actions/runners$", status=502)
        await at.reap()
        assert at.deletions() == []
        at.app.sandbox.control.no_faults()
        await at.reap()
        assert len(at.deletions()) == 4


async def test_a_runner_that_github_shows_busy_is_kept_and_goes_when_its_container_has_ended(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at, alive=1)
        (kept,) = set(at.runners) - leaks
        at.app.sandbox.control.busy("acme", ids=[at.runners[kept].id])
        ticks = await at.minutes(GRACE_MINUTES + 20)
        assert set(at.deletions()) == leaks
        assert ticks[-1].kept == {"Claimed": 1, "SessionOpen": 1}
        at.app.sandbox.control.busy("acme", ids=[at.runners[kept].id], busy=False)
        at.go_offline(kept)
        ticks = await at.minutes(GRACE_MINUTES + 20)
        assert set(at.deletions()) == leaks
        assert ticks[-1].kept == {"Claimed": 1, "Registered": 1}
        at.end_containers(kept)
        await at.minutes(GRACE_MINUTES + 1)
        assert set(at.deletions()) == leaks | {kept}


async def test_a_runner_that_took_a_job_after_the_last_sweep_is_kept(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        await at.app.pass_(60)
        kept = min(leaks)
        at.come_back(kept)
        at.app.sandbox.control.busy("acme", ids=[at.runners[kept].id])
        await at.reap()  # and no delivery reported it
        assert set(at.deletions()) == leaks - {kept}


async def test_a_job_without_a_delivery_of_its_end_is_queried(leaky):
    async with leaky() as at:
        at.app.listen()
        await at.tick()
        (job_id,) = at.app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        await at.receive_all()
        job = at.app.sandbox.world.orgs["acme"].fleet.jobs[job_id]
        at.make_pod(job.runner_name)
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)
        await at.minutes(1)
        at.app.sandbox.control.finish("acme", job_id=job_id)  # and no delivery reports it
        await at.minutes(3 + GRACE_MINUTES)
        assert at.deletions() == []
        await at.minutes(2)
        assert at.deletions() == [job.runner_name]
        assert await at.app.context.demand.all(at.app.installation) == []


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
        assert set(at.deletions()) == set(await at.published()) == leaks


async def test_a_deletion_whose_answer_was_lost_is_finished_a_minute_later_and_published_once(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        with at.api.control.loses_answers(verbs=("delete",)):
            await at.minutes(1)
        assert await at.published() == []
        await at.minutes(1)
        assert sorted(await at.published()) == sorted(leaks)
        assert await at.counted("reaped") == len(leaks)
        assert (at.pods(), at.accounts()) == ({"busy"}, {"busy"})


async def test_a_claim_that_comes_back_just_before_the_deletion_spares_the_pod(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        kept, read = min(leaks), at.cluster.pod

        async def read_and_claimed(namespace, name):
            pod = await read(namespace, name)
            if name == kept:
                await at.claim(name)
            return pod

        at.cluster.pod = read_and_claimed
        await at.minutes(1)
        assert set(at.deletions()) == leaks - {kept}
        assert await at.counted("kept") == 1
        at.cluster.pod = read
        await at.minutes(2 + GRACE_MINUTES)
        assert kept in at.pods(), "its grace has restarted"
        await at.minutes(2)
        assert set(at.deletions()) == leaks


LAST_WORDS = {
    "online": lambda at, name: at.app.sandbox.control.restore("acme", ids=[at.runners[name].id]),
    "offline": lambda at, name: at.come_back(name),
    "no word": lambda at, _: at.app.sandbox.control.fault(match="/actions/runners$", status=503),
}


@pytest.mark.parametrize("comes", LAST_WORDS.values(), ids=LAST_WORDS)
async def test_github_is_asked_afresh_just_before_the_deletion(leaky, comes):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        looked_at, read = [], at.cluster.pod

        async def read_and_back(namespace, name):
            looked_at.append(name)
            if len(looked_at) == len(leaks):
                comes(at, name)
            return await read(namespace, name)

        at.cluster.pod = read_and_back
        (tick,) = await at.minutes(1)
        last = looked_at[-1]
        assert set(at.deletions()) == leaks - {last}
        assert (await at.counted("kept"), tick.reaped, tick.trouble) == (1, len(leaks) - 1, "")
        at.cluster.pod = read
        at.app.sandbox.control.no_faults()
        if at.runners[last].id in at.app.sandbox.world.orgs["acme"].fleet.roster.registered:
            await at.hang(last)
        await at.minutes(GRACE_MINUTES + 1)
        assert set(at.deletions()) == leaks


async def test_a_pod_whose_runner_turns_out_to_be_another_just_before_the_deletion_is_kept(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        await at.tick()
        await at.minutes(GRACE_MINUTES - 1)
        renamed, read = min(leaks), at.cluster.pod

        async def read_and_renamed(namespace, name):
            if name == renamed:
                await at.claim(
                    name, "jit-7", seconds=0
                )  # it has expired, and names another runner that was looked up at GitHub
            return await read(namespace, name)

        at.cluster.pod = read_and_renamed
        await at.minutes(1)
        assert set(at.deletions()) == leaks - {renamed}
        assert await at.counted("kept") == 1


async def test_a_process_that_hangs_online_after_its_job_is_kept_and_reported_until_github_shows_it_offline(leaky):
    async with leaky() as at:
        at.app.listen()
        await at.tick()
        (job_id,) = at.app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        await at.receive_all()
        name = at.app.sandbox.world.orgs["acme"].fleet.jobs[job_id].runner_name
        at.make_pod(name)
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)
        await at.tick()
        at.hang_after_its_job(name)
        await at.receive_all()
        ticks = await at.minutes(30)
        assert (at.runners[name].online, at.deletions()) == (True, [])
        assert ticks[-1].kept == {"Claimed": 1, "SessionAfterJob": 1}
        assert [place for place, _ in ticks[-1].examples["SessionAfterJob"]] == [f"{NAMESPACE}/{name}"]
        at.go_offline(name)
        await at.minutes(1)
        assert at.deletions() == [name]


async def test_a_pod_whose_container_ended_goes_once_github_has_noticed(leaky):
    async with leaky() as at:
        leaks = await four_leaks(at)
        at.come_back(*leaks)
        at.app.sandbox.control.bring_online("acme")
        ended = min(leaks)
        at.end_container(ended)
        await at.tick()
        await at.minutes(GRACE_MINUTES + 2)
        assert (at.runners[ended].online, at.deletions()) == (True, [])
        at.go_offline(ended)
        await at.minutes(1)
        assert at.deletions() == [ended]


async def test_a_pod_whose_proxy_ended_is_kept_while_its_agent_runs(leaky):
    """No container is called `runner`: `default-container` names the proxy, which has ended."""
    async with leaky() as at:
        names = sorted(at.runners)
        annotations = {"kubectl.kubernetes.io/default-container": "proxy"}
        for name in names:
            at.make_pod(name, containers=("proxy", "agent"), annotations=annotations)
            at.api.control.container_ends(NAMESPACE, name, container="proxy", exit_code=0)
        await at.tick()
        _, offline, *dead = names
        at.go_offline(offline, *dead)
        at.end_containers(*dead, container="agent")
        ticks = await at.minutes(GRACE_MINUTES + 3)
        assert set(at.deletions()) == {*dead}
        assert ticks[-1].kept == {"SessionOpen": 1, "Registered": 1}


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
        assert sorted(await at.published()) == sorted(leaks)


async def test_what_exceeds_a_tick_is_deferred_and_reported(leaky):
    async with leaky(runners=60) as at:
        leaks = await four_leaks(at)
        await at.tick()
        ticks = await at.minutes(GRACE_MINUTES + 2)
        assert [(each.reaped, each.deferred) for each in ticks[-4:]] == [(0, 0), (25, 35), (25, 10), (10, 0)]
        assert set(at.deletions()) == leaks


@pytest.mark.parametrize(
    ("more", "found"), [('[leaks]\nmode = "dry-run"', 4), ('[leaks]\nmode = "off"', 0)], ids=["dry-run", "off"]
)
async def test_the_kill_switch(leaky, more, found):
    async with leaky(more=more) as at:
        await four_leaks(at)
        ticks = await at.minutes(GRACE_MINUTES + 3)
        assert at.deletions() == []
        assert (ticks[-1].would_reap if ticks[-1] else 0) == found
        assert at.api.control.calls() if found else at.api.control.calls() == []


async def test_the_label_may_be_called_otherwise_and_then_ours_says_nothing(leaky):
    theirs = "tuist.dev/runner-pool-owner"
    async with leaky(more=f'[leaks]\nowner_label = "{theirs}"') as at:
        first, *others = sorted(at.runners)
        at.make_pod(first, labels={theirs: "x"})
        for name in others:
            at.make_pod(name)
        await at.hang()
        await at.tick()
        await at.minutes(GRACE_MINUTES + 1)
        assert at.deletions() == [first]


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


@pytest.mark.parametrize(
    "containers", [("postgres",), ("web", "proxy", "log")], ids=["one container", "three containers"]
)
async def test_where_the_label_means_something_else_what_was_never_a_runners_pod_is_kept_and_reported(
    leaky, containers
):
    async with leaky() as at:
        at.make_pod("busy")
        await at.claim("busy", seconds=36_000)
        at.make_pod("database", containers=containers)
        await at.minutes(GRACE_MINUTES + 4)
        assert "database" in at.pods()
        assert at.deletions(NAMESPACE) == []
        assert (await at.tick()).never_runners == 1
