"""Jobs on runners of repositories and enterprises: their deliveries come from the organization's installation."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from ghapp.loading.views import load_job_queue
from ghapp.runners.verdict import State
from ghapp.sandbox.config import FIRST_ELSEWHERE_ID, PoolConfig
from ghapp.workflow_jobs.demand import demand
from ghapp.workflow_jobs.explanation import explain
from ghapp.workflow_jobs.reason import QueueReason
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.installations.test_enterprises import CONFIG as OF_CORP
from tests.stories.installations.test_enterprises import CORP
from tests.stories.installations.test_scopes import OWN, live_in, of, rename_api, scoped, scopes

__all__ = ["scoped"]

AT_API = {"api": (PoolConfig(name=OWN, size=3),)}
JOB = 40_000_000_007


def date(app):
    return datetime.fromtimestamp(app.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def deliver(app, status, runner=None, *, job=JOB, labels=("self-hosted", OWN), repository="api", **changes):
    """GitHub delivers a change of a job of acme/api."""
    action = {"queued": "queued", "in_progress": "in_progress", "completed": "completed"}[status]
    body = {
        "id": job,
        "run_id": 9,
        "status": status,
        "labels": list(labels),
        "created_at": date(app),
        "started_at": date(app),
        "completed_at": date(app) if status == "completed" else None,
        "conclusion": "success" if status == "completed" else None,
        "runner_id": runner.id if runner else 0,
        "runner_name": runner.name if runner else "",
        "runner_group_name": "Default" if runner else None,
        "name": "build",
        "head_sha": "f" * 40,
        **changes,
    }
    repository_id = app.sandbox.world.orgs["acme"].repositories[repository].id
    named = {"id": repository_id, "name": repository, "full_name": f"acme/{repository}", "private": True}
    installation = {"id": app.installation}
    payload = {"action": action, "workflow_job": body, "repository": named, "installation": installation}
    app.sandbox.control.deliver("acme", event="workflow_job", payload=payload)
    await app.receive()


def fleet_of(app, place):
    return app.sandbox.world.place_called(place).fleet


def end(app, place, runner):
    """The ephemeral runner's job is over, and its registration with it."""
    app.sandbox.control.in_world(lambda: fleet_of(app, place).retire(runner, 0.0))


async def demanded(app, scope):
    """Returns the pools with jobs of a scope: name → (queued, running)."""
    queue = await load_job_queue(app.context, scope, app.settings, app.clock())
    return {each.pool: (each.queued, each.running) for each in demand(queue)[0] if each.queued or each.running}


async def test_an_ephemeral_runner_of_a_repository_that_leaves_after_its_job_is_not_lost(scoped):
    async with scoped(ephemeral=True, repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        runner = next(iter(fleet_of(app, "acme/api").roster.registered.values()))
        assert runner.id in await app.context.runners.all(org.id), "the organization has a runner of the same id"
        await deliver(app, "queued")
        assert (await demanded(app, api), await demanded(app, org)) == ({OWN: (1, 0)}, {})
        await deliver(app, "in_progress", runner)
        assert (await demanded(app, api), await demanded(app, org)) == ({OWN: (0, 1)}, {})
        await deliver(app, "completed", runner)
        end(app, "acme/api", runner)
        await live_in(app, api, org, intervals=3)
        with of(app, api):
            assert await app.states() == {State.HEALTHY: 2, State.RETIRED: 1}
        assert await app.states() == {State.HEALTHY: 5}
        assert app.sandbox.control.controller_events() == []


async def test_a_runner_that_no_list_had_yet_is_not_lost_either(scoped):
    async with scoped(ephemeral=True, repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        (new,) = app.sandbox.control.register("acme/api", pool=OWN)
        runner = fleet_of(app, "acme/api").roster.registered[new]
        await deliver(app, "in_progress", runner)
        await deliver(app, "completed", runner)
        with of(app, api):
            await app.pass_(10)
            await sweep_installation(app.context, api.id)
        end(app, "acme/api", runner)
        await live_in(app, api, org, intervals=3)
        with of(app, api):
            assert (await app.states())[State.RETIRED] == 1
        assert await app.context.demand.all(org.id) == []
        assert app.sandbox.control.controller_events() == []


async def test_a_job_of_a_renamed_repository_is_its_own_before_its_new_name_is_known(scoped):
    async with scoped(ephemeral=True, repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        runner = next(iter(fleet_of(app, "acme/api").roster.registered.values()))
        rename_api(app)
        await deliver(app, "in_progress", runner)
        assert await demanded(app, api) == {}, "another repository has its name"
        await deliver(app, "in_progress", runner, job=JOB + 1, repository="api-two")
        assert await demanded(app, api) == {OWN: (0, 1)}
        await deliver(app, "completed", runner, job=JOB + 1, repository="api-two")
        end(app, "acme/api-two", runner)
        await live_in(app, api)
        with of(app, api):
            assert await app.states() == {State.HEALTHY: 2, State.RETIRED: 1}


async def test_a_job_of_a_runner_elsewhere_explains_no_loss_of_a_runner_that_gets_its_id_here(scoped):
    async with scoped(ephemeral=True, repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        await live_in(app, org)
        number = max(fleet_of(app, "acme").roster.registered) + 1
        elsewhere = SimpleNamespace(id=number, name="elsewhere")
        await deliver(app, "in_progress", elsewhere, repository="web")
        await deliver(app, "completed", elsewhere, repository="web")
        assert app.sandbox.control.register("acme", pool=POOL) == [number]
        await live_in(app, org, intervals=2)
        app.sandbox.control.lose("acme", ids=[number])
        await live_in(app, org, intervals=3)
        assert (await app.states())[State.RETIRED] == 0
        assert [each["data"]["runner_id"] for each in app.sandbox.control.controller_events()] == [number]


async def test_a_job_of_the_repository_that_the_organization_s_runner_takes_is_the_organization_s(scoped):
    async with scoped(repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        await deliver(app, "queued")
        runner = next(iter(fleet_of(app, "acme").roster.registered.values()))
        await deliver(app, "in_progress", runner)
        assert await demanded(app, api) == {}
        assert [job.id for job in await app.context.demand.all(org.id)] == [JOB]
        await deliver(app, "queued", job=JOB + 1, repository="web")
        assert [job.id for job in await app.context.demand.all(api.id)] == []


async def test_a_late_delivery_of_its_queueing_changes_nothing(scoped):
    async with scoped(repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        runner = next(iter(fleet_of(app, "acme/api").roster.registered.values()))
        await deliver(app, "in_progress", runner)
        await deliver(app, "queued")
        assert (await demanded(app, api), await demanded(app, org)) == ({OWN: (0, 1)}, {})
        await deliver(app, "completed", runner)
        await deliver(app, "queued")
        await deliver(app, "in_progress", runner)
        assert (await demanded(app, api), await demanded(app, org)) == ({}, {})


async def test_an_enterprise_s_ephemeral_runner_that_leaves_after_its_job_is_not_lost(scoped):
    variables = {"GHAPP_ENTERPRISE_TOKEN": "ghp_mona"}
    async with scoped(OF_CORP, variables=variables, first_elsewhere_id=FIRST_ELSEWHERE_ID) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        corp = await app.context.installations.of(CORP)
        runner = next(iter(fleet_of(app, CORP).roster.registered.values()))
        runner.ephemeral = True
        await live_in(app, corp, org)
        await deliver(app, "queued", labels=("self-hosted", "shared"))
        await deliver(app, "in_progress", runner, labels=("self-hosted", "shared"))
        assert (await demanded(app, corp), await demanded(app, org)) == ({"shared": (0, 1)}, {})
        await deliver(app, "completed", runner, labels=("self-hosted", "shared"))
        end(app, CORP, runner)
        await live_in(app, corp, org, intervals=3)
        with of(app, corp):
            assert await app.states() == {State.HEALTHY: 3, State.RETIRED: 1}
        assert app.sandbox.control.controller_events() == []


async def why(app, scope):
    """Returns why the one queued job of a scope waits, after it has for long."""
    await app.pass_(120)
    queue = await load_job_queue(app.context, scope, app.settings, app.clock())
    (job,) = queue.queued
    found = explain(queue, job)
    return queue.reason(job), "" if found is None else found.text


async def test_a_job_of_a_repository_is_explained_by_its_runners_and_the_organization_s_together(scoped):
    both = PoolConfig(name="both", size=2, labels=(OWN,))
    async with scoped(repository_pools=AT_API, others=(both,), quiet=True) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        await deliver(app, "queued")
        app.sandbox.control.take_offline("acme/api", count=3)
        app.sandbox.control.busy("acme", count=2, pool="both")
        for _ in range(2):
            await live_in(app, api, org)
        reason, text = await why(app, api)
        assert (reason, text) == (
            QueueReason.ALL_BUSY,
            f"all 2 online runners of {OWN} and {OWN} of acme are busy",
        )
        app.sandbox.control.take_offline("acme", count=2, pool="both")
        for _ in range(2):
            await live_in(app, api, org)
        assert (await why(app, api))[0] is QueueReason.RUNNERS_OFFLINE
        assert await demanded(app, api) == {OWN: (1, 0)}
        queue = await load_job_queue(app.context, api, app.settings, app.clock())
        assert [(each.pool, each.online) for each in demand(queue)[0]] == [(OWN, 0)], (
            "other scopes' runners do not count"
        )


async def test_an_organization_s_group_that_excludes_the_repository_does_not_explain_its_jobs(scoped):
    async with scoped(repository_pools=AT_API, others=(PoolConfig(name="both", size=2, labels=(OWN,)),)) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        app.sandbox.control.take_offline("acme/api", count=3)
        group = RunnerGroup(1, "Default", "selected", repositories=("acme/web",))
        await app.context.runner_groups.keep(org.id, RunnerGroups(app.clock(), (group,)))
        await deliver(app, "queued")
        await live_in(app, api, org, intervals=2)
        assert (await why(app, api))[0] is QueueReason.RUNNERS_OFFLINE


async def test_while_the_organization_s_list_is_old_no_reason_is_given_of_the_repository_s_jobs(scoped):
    async with scoped(repository_pools=AT_API) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        app.sandbox.control.take_offline("acme/api", count=3)
        await deliver(app, "queued")
        await live_in(app, api, intervals=5)
        assert (await why(app, api))[0] is None


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (None, QueueReason.NO_RUNNER_WITH_LABELS),
        (RunnerGroup(2, "corp", inherited=True), QueueReason.ALL_BUSY),
        (
            RunnerGroup(2, "corp", "selected", repositories=("acme/web",), inherited=True),
            QueueReason.GROUP_EXCLUDES_REPOSITORY,
        ),
    ],
    ids=["shares nothing", "shares its runners", "with another repository"],
)
async def test_a_job_of_the_organization_is_explained_by_the_enterprise_s_runners_if_a_group_shares_them(
    scoped, group, reason
):
    variables = {"GHAPP_ENTERPRISE_TOKEN": "ghp_mona"}
    async with scoped(OF_CORP, variables=variables, first_elsewhere_id=FIRST_ELSEWHERE_ID) as app:
        app.listen()
        org = await app.context.installations.one(app.installation)
        corp = await app.context.installations.of(CORP)
        app.sandbox.control.busy(CORP, count=4)
        await live_in(app, corp, org)
        known = () if group is None else (group,)
        await app.context.runner_groups.keep(org.id, RunnerGroups(app.clock(), known))
        await deliver(app, "queued", labels=("self-hosted", "shared"))
        await live_in(app, corp, org, intervals=2)
        assert (await why(app, org))[0] is reason
        assert await demanded(app, corp) == {}
        app.sandbox.control.in_world(app.sandbox.world.authorizations._personal.clear)
        await live_in(app, corp, org, intervals=5)
        assert (await why(app, org))[0] is QueueReason.NO_RUNNER_WITH_LABELS, "a list that is old explains nothing"
