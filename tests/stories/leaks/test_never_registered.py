"""Pods whose agent never registered: leaks where the configuration says that runners have their pods' names."""

from __future__ import annotations

from unittest import mock

import pytest

import jobs.delivery_gaps
from ghapp.deliveries.redelivery import Attempt
from ghapp.github import delivery_log
from ghapp.installations.installation import repository_scope
from ghapp.runners import observations
from ghapp.runners.evidence import Registration
from jobs.deliveries.redeliver import redeliver_failed
from jobs.installations.discover import discover_installations
from tests.stories.conftest import POOL
from tests.stories.leaks.leak_story import NAMESPACE, NO_FUSE, leaking

GRACE_MINUTES = 5
BY_POOL = '\nrunner_name = "pod"\n'
BY_LEAKS = '[leaks]\nrunner_name = "pod"'


@pytest.fixture
def leaky(story, tmp_path):
    """Opens a story in a cluster whose fuse holds nothing back."""

    def opened(**changes):
        return leaking(story, tmp_path, **{"fuse": NO_FUSE, **changes})

    return opened


async def started(at, *names, **changes):
    """These pods start now: the reaper has been at work for a minute. Their agents never register."""
    await at.tick()
    await at.app.pass_(60)
    for name in names:
        at.make_pod(name, **{"age_seconds": 0, **changes})
    await at.tick()


def register_just_in_time(at, name, *, is_online):
    """GitHub has the registration; its agent comes up or not."""
    fleet, control = at.app.sandbox.world.orgs["acme"].fleet, at.app.sandbox.control
    runner = control.in_world(lambda: fleet.register_jit(name, ("self-hosted", POOL)))
    if is_online:
        runner.alive = True
        control.bring_online("acme", ids=[runner.id])
    return runner


async def test_28_pods_that_never_registered_are_deleted_within_ten_minutes_of_the_grace_and_no_other_pod_is(leaky):
    """The incident that began all this: without claims, and without an admin. The fuse is as by default."""
    async with leaky(pools=BY_POOL, runners=8, fuse="") as at:
        for name in at.runners:
            at.make_pod(name)
        failed = {f"failed-{number:02}" for number in range(28)}
        await started(at, *failed)
        ticks = await at.minutes(GRACE_MINUTES)
        assert [each.reaped for each in ticks[-2:]] == [0, 3]
        ticks = await at.minutes(10)
        assert set(at.deletions()) == failed
        assert at.pods() == at.accounts() == set(at.runners)
        assert [each.reaped for each in ticks if each.reaped] == [6, 12, 7]
        assert sorted(await at.published()) == sorted(failed)


@pytest.mark.parametrize(
    ("settings", "reaped"),
    [({"pools": BY_POOL}, True), ({"more": BY_LEAKS}, True), ({}, False)],
    ids=["the pool says so", "[leaks] says so", "nothing says so"],
)
async def test_a_pod_whose_agent_never_registered_goes_after_the_grace_where_the_configuration_says_so(
    leaky, settings, reaped
):
    async with leaky(**settings) as at:
        await started(at, "failed-1", "failed-2")
        await at.minutes(GRACE_MINUTES - 1)
        assert at.deletions() == []
        ticks = await at.minutes(2)
        assert set(at.deletions()) == ({"failed-1", "failed-2"} if reaped else set())
        assert ticks[-1].kept == ({} if reaped else {"Unnamed": 2})
        for data in await at.app.sent_events("pod.orphaned"):
            assert data["evidence"][-1]["text"].endswith("has named it since its container started")


async def test_one_pool_of_a_namespace_that_does_not_say_so_keeps_the_pods_of_the_namespace(leaky):
    other = f'{BY_POOL}[[pools]]\norg = "acme"\nname = "machines"\nlabels = ["machines"]\nnamespace = "{NAMESPACE}"\n'
    async with leaky(pools=other) as at:
        await started(at, "failed-1")
        ticks = await at.minutes(GRACE_MINUTES + 5)
        assert (at.deletions(), ticks[-1].kept) == ([], {"Unnamed": 1})


async def test_while_lists_fail_no_time_passes(leaky):
    async with leaky(pools=BY_POOL) as at:
        await started(at, "failed-1")
        at.app.sandbox.control.fault(match="/orgs/", status=502)
        await at.minutes(20)
        at.app.sandbox.control.no_faults()
        await at.minutes(GRACE_MINUTES - 1)
        assert at.deletions() == []
        await at.minutes(2)
        assert at.deletions() == ["failed-1"]


def failing_delivery(at, event, *, installation):
    """GitHub's log has a delivery of now that failed, and that fails whenever it is requested again."""
    app = at.app
    attempt = Attempt(id=99, guid="99", at=app.clock(), status=502, event=event, action="", installation=installation)
    real = delivery_log.failed_attempts

    async def failed_attempts(github, since, *rest, **more):
        found = await real(github, since, *rest, **more)
        return found._replace(attempts=[*found.attempts, attempt] if attempt.at >= since else found.attempts)

    return mock.patch.object(jobs.delivery_gaps, "failed_attempts", failed_attempts)


async def test_while_deliveries_since_its_start_are_missing_it_waits_for_an_hour(leaky):
    async with leaky(pools=BY_POOL) as at:
        await started(at, "failed-1")
        with failing_delivery(at, "workflow_job", installation=at.app.installation):
            ticks = await at.minutes(58)
            assert (at.deletions(), ticks[-1].kept) == ([], {"DeliveriesBehind": 1})
            await at.minutes(8)  # its token expires, and the time until the next list does not count
            assert at.deletions() == ["failed-1"]


@pytest.mark.parametrize(("event", "ours"), [("check_run", True), ("workflow_job", False)])
async def test_a_failed_delivery_of_another_event_or_installation_keeps_no_pod(leaky, event, ours):
    async with leaky(pools=BY_POOL) as at:
        await started(at, "failed-1")
        with failing_delivery(at, event, installation=at.app.installation if ours else 99):
            for _ in range(GRACE_MINUTES + 2):
                await redeliver_failed(at.app.context)
                await at.minutes(1)
            assert at.deletions() == ["failed-1"]


async def test_a_runner_that_registers_late_keeps_its_pod(leaky):
    """Its agent took four minutes to start: GitHub lists it just in time."""
    async with leaky(pools=BY_POOL, runners=1) as at:
        await started(at, "other")
        await at.minutes(GRACE_MINUTES - 2)
        register_just_in_time(at, "other", is_online=True)
        ticks = await at.minutes(30)
        assert (at.deletions(), ticks[-1].kept) == ([], {"SessionOpen": 1})


@pytest.mark.parametrize("kind", ["repository", "enterprise"])
async def test_a_pod_whose_runner_is_registered_elsewhere_is_not_the_organization_s_though_no_pool_says_so(leaky, kind):
    scopes = '[[scopes]]\nrepository = "acme/api"\n[[scopes]]\nenterprise = "acme-corp"\n'
    async with leaky(pools=BY_POOL, more=scopes) as at:
        context = at.app.context
        org = await context.installations.one(at.app.installation)
        await context.installations.put_scopes(org.id, [repository_scope(org, 800_001, "api", "acme/api")])
        scope = next(each for each in await context.installations.all() if each.kind.value == kind)
        seen = Registration(5, "elsewhere", "Linux", online=True, busy=True, labels=(), custom_labels=())
        online = observations.registration_seen(None, seen, at.app.clock(), by=observations.SeenBy.LIST)
        await context.runners.revise(scope.id, {5: lambda _: online})
        await started(at, "elsewhere", "nowhere")
        await at.minutes(GRACE_MINUTES + 5)
        assert at.deletions() == ["nowhere"]


async def test_a_just_in_time_runner_that_never_came_up_goes_when_github_has_dropped_its_registration(leaky):
    async with leaky(pools=BY_POOL) as at:
        await at.tick()
        runner = register_just_in_time(at, "jit-1", is_online=False)
        await started(at, "jit-1")
        ticks = await at.minutes(30)
        assert (at.deletions(), ticks[-1].kept) == ([], {"Registered": 1})
        at.app.sandbox.control.lose("acme", ids=[runner.id])
        await at.minutes(GRACE_MINUTES - 1)
        assert at.deletions() == []
        await at.minutes(4)
        assert at.deletions() == ["jit-1"]


async def test_a_runner_of_a_repository_that_took_a_job_keeps_its_pod(leaky):
    """No list of the organization has it; the delivery of its job names it."""
    async with leaky(pools=BY_POOL) as at:
        await started(at, "api-1")
        began = at.app.clock()
        known = observations.first_observation(99_001, "api-1", began)
        started_job = observations.job_started(known, 7, began)
        await at.app.context.runners.revise(at.app.installation, {99_001: lambda _: started_job})
        await at.minutes(3)
        ended = observations.job_ended(started_job, 7, at.app.clock(), began)
        await at.app.context.runners.revise(at.app.installation, {99_001: lambda _: ended})
        ticks = await at.minutes(40)
        assert (at.deletions(), ticks[-1].kept) == ([], {"Unnamed": 1})


async def test_a_pod_that_waits_for_its_node_or_image_is_kept(leaky):
    async with leaky(pools=BY_POOL) as at:
        await started(at, "no-node", running=False, node="")
        at.make_pod("no-image", running=False)
        ticks = await at.minutes(40)
        assert (at.deletions(), ticks[-1].kept) == ([], {"NeverStarted": 2})


async def test_when_redis_is_emptied_pods_older_than_its_memory_are_kept(leaky):
    """A runner may have registered before that, and lost its registration at work."""
    async with leaky(pools=BY_POOL) as at:
        await started(at, "at-work")
        await at.app.context.redis.flushdb()
        await discover_installations(at.app.context)
        await at.app.pass_(60)
        await at.tick()
        at.make_pod("failed-1", age_seconds=0)
        ticks = await at.minutes(40)
        assert (at.deletions(), ticks[-1].kept) == (["failed-1"], {"Unnamed": 1})
