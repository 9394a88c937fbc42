"""Runners that are registered at repositories: found, swept, lost, confirmed, removed and replaced where they are."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import pytest

from ghapp.installations.repositories import SEARCH_SECONDS, Repositories, ScopedRepository
from ghapp.report.check_run import SWEEP
from ghapp.runners.delivery_lag import DeliveryArrivals, LateArrival
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import State
from ghapp.sandbox.config import LEAST_PRIVILEGE, PoolConfig
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.store import keys
from ghapp.workflow_jobs.job import Job
from jobs.checks.publisher import CheckRunOutcome
from jobs.delivery_gaps import delivery_gaps
from jobs.installations import scopes as search
from jobs.installations.discover import discover_installations, list_repositories_again
from jobs.installations.enrol import enrol
from jobs.installations.scopes import find_scopes_of
from jobs.remediation.plan_inputs import load_inputs
from jobs.remediation.remediate import remediate_runner
from jobs.reports.health_report import report_installation
from jobs.runners.sweep import sweep_installation
from jobs.versions.end_dates import read_versions_of

OWN = "api-own"
AT_API = {"api": (PoolConfig(name=OWN, size=3, ephemeral=False),)}
PERMITTED = LEAST_PRIVILEGE | {"administration": "write"}
FIRST_ID = 1_001 - 10_000 * 100
"""Runners of the repository `api` have the same ids as those of the organization."""

SCOPE = '[[scopes]]\nrepository = "acme/api"\n'
PATTERN = '[[scopes]]\nrepositories = "acme/*"\n'
OWN_POOL = f"""
[[pools]]
org = "acme/api"
name = "{OWN}"
labels = ["{OWN}"]
replacer = "cloudevents"
url = "CONTROLLER_URL"
secret_env = "CONTROLLER_SECRET"
"""
REMOVED = "DELETE {}/actions/runners/{{runner_id}}"


@pytest.fixture
def scoped(story):
    """Opens a story with a repository's scope, of which `app.repository` is the record."""

    @asynccontextmanager
    async def open_scoped(config=SCOPE + OWN_POOL, permissions=PERMITTED, **changes):
        changes = {
            "repository_pools": AT_API,
            "runners": 5,
            "ephemeral": False,
            "first_elsewhere_id": FIRST_ID,
            **changes,
        }
        async with story(config=config, permissions=permissions, **changes) as app:
            yield app

    return open_scoped


async def scopes(app):
    """Searches for scopes, after the settling time of a token."""
    await app.pass_(15)
    return {each.org: each for each in await find_scopes_of(app.context, app.installation)}


@contextmanager
def of(app, scope):
    """Has the story live in another scope for a while."""
    before, app.installation = app.installation, scope.id
    yield
    app.installation = before


async def live_in(app, *places, intervals=1):
    for _ in range(intervals):
        for scope in places:
            with of(app, scope):
                swept = await app.live_through_an_interval()
    return swept


async def wait(app, seconds):
    """Time passes in which the token expires: by the clock of Redis it does not."""
    await app.pass_(seconds)
    await app.context.github.forget_token(app.installation)


def calls(app, template):
    return app.account()["calls"].get(template, {"total": 0})["total"]


async def test_a_lost_runner_of_a_repository_is_confirmed_removed_and_replaced_there(scoped):
    async with scoped() as app:
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        assert (api.parent, api.called, api.id < 0) == (org.id, "acme/api", True)
        await live_in(app, api, org)
        (lost,) = app.sandbox.control.lose("acme/api", count=1)
        assert lost in await app.context.runners.all(org.id), "the organization has a runner of the same id"
        await live_in(app, api, org, intervals=3)
        requests = [
            (each["source"], each["data"]["org"], each["data"]["pool"], each["data"]["runner_id"])
            for each in app.sandbox.control.controller_events()
        ]
        assert requests == [("/orgs/acme/api", "acme/api", OWN, lost)]
        assert (calls(app, REMOVED.format("/repos/{owner}/{repo}")), calls(app, REMOVED.format("/orgs/{org}"))) == (
            1,
            0,
        )
        with of(app, api):
            assert await app.states() == {State.HEALTHY: 3, State.INVALIDATED: 1}
        assert await app.states() == {State.HEALTHY: 5}
        assert len(app.sandbox.world.place_called("acme/api").fleet.roster.registered) == 3


async def test_a_lost_runner_of_the_organization_does_not_touch_the_repository_s(scoped):
    async with scoped() as app:
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        app.sandbox.control.lose("acme", ids=[1_001])
        await live_in(app, org, api, intervals=3)
        assert [each["data"]["org"] for each in app.sandbox.control.controller_events()] == ["acme"]
        assert calls(app, REMOVED.format("/repos/{owner}/{repo}")) == 0
        with of(app, api):
            assert await app.states() == {State.HEALTHY: 3}


async def test_versions_are_asked_for_where_the_runners_are(scoped):
    async with scoped() as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        assert await read_versions_of(app.context, api.id) == 1
        assert calls(app, "GET /repos/{owner}/{repo}/actions/runners/deprecations/{version}") == 1


async def test_discovery_keeps_scopes_and_enqueues_the_search(scoped):
    async with scoped() as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        for _ in range(2):
            await discover_installations(app.context)
            assert await app.context.installations.one(api.id) == api
            assert await app.context.schedule.next(api.id) is not None
        assert await app.context.runners.count(api.id) == 3


async def test_without_the_permission_a_repository_is_not_swept_and_its_reason_says_so(scoped):
    async with scoped(permissions=LEAST_PRIVILEGE) as app:
        api = (await scopes(app))["acme/api"]
        assert api.missing() == ["administration: read"]
        assert await app.context.schedule.next(api.id) is None
        assert (await app.context.runners.survey(api.id)).failure == "PermissionMissing"
        app.sandbox.control.permissions("acme", permissions=LEAST_PRIVILEGE | {"administration": "read"})
        await discover_installations(app.context)
        assert await app.context.schedule.next(api.id) is not None
        await app.pass_(15)
        assert (await sweep_installation(app.context, api.id)).runners == 3


async def test_with_read_alone_a_lost_runner_is_reported_and_nothing_is_removed(scoped):
    async with scoped(permissions=LEAST_PRIVILEGE | {"administration": "read"}) as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        app.sandbox.control.lose("acme/api", count=1)
        await live_in(app, api, intervals=3)
        with of(app, api):
            assert (await app.states())[State.INVALIDATED] == 1
        assert app.sandbox.control.controller_events() == []
        assert calls(app, REMOVED.format("/repos/{owner}/{repo}")) == 0


async def test_a_repository_uses_its_installation_s_token_and_budget(scoped):
    async with scoped() as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        used = (await app.context.budget.left(app.installation, app.clock())).used
        await live_in(app, api)
        assert (await app.context.budget.left(app.installation, app.clock())).used >= used
        assert (await app.context.budget.left(api.id, app.clock())).used == 0
        assert used > 0
        assert calls(app, "POST /app/installations/{installation_id}/access_tokens") == 1


async def test_sweeps_of_a_scope_leave_what_those_of_the_others_with_its_limit_cost(scoped):
    async with scoped(SCOPE + OWN_POOL + "[budget]\nshare = 0.02\n") as app:
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        await live_in(app, api, org)
        app.sandbox.control.take_offline("acme", count=1)
        assert (await live_in(app, org)).next_in == 60.0
        await app.context.budget.share_with_others(org.id, api.id, 240.0, app.clock())
        app.sandbox.control.bring_online("acme")
        assert (await live_in(app, org)).next_in > 120.0


async def test_of_a_pattern_the_repositories_with_runners_are_scopes_and_the_others_are_asked_each_hour(scoped):
    async with scoped(PATTERN) as app:
        listed = "GET /repos/{owner}/{repo}/actions/runners"
        assert [*await scopes(app)] == ["acme/api"]
        assert (calls(app, listed), calls(app, "GET /installation/repositories")) == (4, 1)
        await scopes(app)
        assert (calls(app, listed), calls(app, "GET /installation/repositories")) == (4, 1)
        await wait(app, 3600)
        (api,) = (await scopes(app)).values()
        assert (calls(app, listed), calls(app, "GET /installation/repositories")) == (8, 2)
        await live_in(app, api)
        await wait(app, 3600)
        before = calls(app, listed)
        assert [*await scopes(app)] == ["acme/api"]
        assert calls(app, listed) == before + 3, "the sweeps of a scope list its runners"


async def test_a_repository_whose_runners_github_refuses_to_list_is_not_asked_before_the_others_again(scoped):
    async with scoped(PATTERN) as app:
        gone = (ScopedRepository(999, "gone"),)
        await app.context.scoped_repositories.put(app.installation, Repositories(app.clock(), gone, ("acme/*",)))
        assert await scopes(app) == {}
        before = calls(app, "GET /repos/{owner}/{repo}/actions/runners")
        assert (await scopes(app), before > 0) == ({}, True)
        assert calls(app, "GET /repos/{owner}/{repo}/actions/runners") == before


async def test_a_delivery_in_the_midst_of_a_search_has_the_next_one_list_the_repositories(scoped, monkeypatch):
    async with scoped(PATTERN) as app:
        ask = search._have_runners

        async def meanwhile(*args):
            await list_repositories_again(app.context, app.installation)
            return await ask(*args)

        monkeypatch.setattr(search, "_have_runners", meanwhile)
        assert [*await scopes(app)] == [*await scopes(app)] == ["acme/api"]
        assert calls(app, "GET /installation/repositories") == 2


async def test_a_repository_that_a_rule_names_is_looked_up_once_an_hour_and_when_its_sweep_does_not_find_it(
    scoped,
):
    async with scoped() as app:
        looked_up = "GET /repos/{owner}/{repo}"
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        assert await scopes(app) == await scopes(app) == {"acme/api": api}
        assert calls(app, looked_up) == 1
        await wait(app, 3600)
        assert await scopes(app) == {"acme/api": api}
        assert calls(app, looked_up) == 2
        org = app.sandbox.world.orgs["acme"]
        deleted = app.sandbox.control.in_world(lambda: org.repositories.pop("api"))
        assert (await live_in(app, api)).flaw == "InstallationGone"
        assert await scopes(app) == {}
        before = calls(app, looked_up)
        assert await scopes(app) == {}
        assert calls(app, looked_up) == before
        app.sandbox.control.in_world(lambda: org.repositories.update(api=deleted))
        await app.pass_(SEARCH_SECONDS)
        assert await scopes(app) == {"acme/api": api}


async def test_a_repository_without_runners_for_a_day_is_no_scope_any_more_and_is_one_again_with_its_first(scoped):
    async with scoped(PATTERN) as app:
        (api,) = (await scopes(app)).values()
        await live_in(app, api)
        fleet = app.sandbox.world.place_called("acme/api").fleet
        app.sandbox.control.in_world(lambda: [fleet.retire(each, 0.0) for each in [*fleet.roster.registered.values()]])
        assert [*await scopes(app)] == ["acme/api"]
        await wait(app, 2 * 86_400)
        assert [*await scopes(app)] == ["acme/api"], "it has records of runners"
        forgotten = dict.fromkeys(await app.context.runners.all(api.id), lambda _: None)
        await app.context.runners.revise(api.id, forgotten)
        assert await scopes(app) == {}
        assert await app.context.installations.one(api.id) is None
        assert await app.context.schedule.next(api.id) is None
        app.sandbox.control.register("acme/api", pool=OWN)
        await wait(app, 3600)
        assert [*await scopes(app)] == ["acme/api"]


async def test_a_repository_that_the_app_is_given_access_to_is_found_at_once(scoped):
    async with scoped(PATTERN) as app:
        app.listen()
        app.sandbox.control.select("acme", repositories=["web"])
        await app.receive_all()
        assert await scopes(app) == {}
        app.sandbox.control.select("acme", repositories=["web", "api"])
        await app.receive_all()
        assert [*await scopes(app)] == ["acme/api"]


async def test_a_repository_that_the_app_does_not_see_for_a_while_is_what_it_was_when_it_is_back(scoped):
    async with scoped() as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        before = await app.context.runners.all(api.id)
        app.sandbox.control.select("acme", repositories=["web"])
        assert (await live_in(app, api)).flaw == "InstallationGone"
        assert await scopes(app) == {}
        await discover_installations(app.context)
        assert await app.context.schedule.next(api.id) is None
        assert await app.context.redis.ttl(keys.runners(api.id)) > 0
        app.sandbox.control.select("acme", repositories=None)
        await wait(app, SEARCH_SECONDS)
        assert await scopes(app) == {"acme/api": api}
        assert await app.context.redis.ttl(keys.runners(api.id)) == -1
        assert await app.context.runners.all(api.id) == before
        assert (await live_in(app, api)).flaw == ""
        assert app.sandbox.control.controller_events() == []


async def test_a_renamed_repository_stays_the_same_scope_under_its_configured_name(scoped):
    async with scoped() as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        app.sandbox.control.rename("acme", "acme-two")
        await discover_installations(app.context)
        (renamed,) = (await scopes(app)).values()
        assert (renamed.id, renamed.org, renamed.called) == (api.id, "acme/api", "acme-two/api")
        assert renamed.answers_to("ACME-two/api")
        assert (await live_in(app, renamed)).flaw == ""
        app.sandbox.control.lose("acme-two/api", count=1)
        await live_in(app, renamed, intervals=3)
        assert [each["data"]["org"] for each in app.sandbox.control.controller_events()] == ["acme/api"]


async def test_another_repository_of_the_same_name_has_lost_none_of_the_first_one_s_runners(scoped):
    async with scoped() as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        org = app.sandbox.world.orgs["acme"]

        def replace_repository():
            fleet = org.at_repositories["api"].fleet
            for each in [*fleet.roster.registered.values()]:
                fleet.roster.lose(each)
            org.repositories["api"].id += 7_000

        app.sandbox.control.in_world(replace_repository)
        await live_in(app, api, intervals=3)
        with of(app, api):
            assert (await app.states())[State.INVALIDATED] == 0
        assert app.sandbox.control.controller_events() == []
        (new,) = (await scopes(app)).values()
        assert new.id == api.id - 7_000
        assert await app.context.installations.one(api.id) is None


def rename_api(app):
    """Renames `acme/api` to `acme/api-two`; another repository gets its name, and has runners of the same ids."""
    world, org = app.sandbox.world, app.sandbox.world.orgs["acme"]

    def rename_and_create_another():
        first, its_runners = org.repositories.pop("api"), org.at_repositories.pop("api")
        first.name, its_runners.login = "api-two", "acme/api-two"
        org.repositories["api-two"], org.at_repositories["api-two"] = first, its_runners
        org.repositories["api"] = SandboxRepository(first.id + 7_000, "acme", "api")
        org.at_repositories["api"] = world._elsewhere(first.id + 7_000, AT_API["api"], "acme/api", 100)

    app.sandbox.control.in_world(rename_and_create_another)
    return org.at_repositories["api"].fleet.roster


async def test_runners_of_a_repository_that_got_the_name_of_a_renamed_one_are_never_those_of_the_first(scoped):
    async with scoped(PATTERN + OWN_POOL + OWN_POOL.replace("acme/api", "acme/api-two")) as app:
        (api,) = (await scopes(app)).values()
        await live_in(app, api)
        rename_api(app)
        assert [(await live_in(app, api)).flaw for _ in range(2)] == ["", ""]
        await wait(app, 3600)
        found = await scopes(app)
        assert {each.org: each.id for each in found.values()} == {"acme/api-two": api.id, "acme/api": api.id - 7_000}
        await live_in(app, *found.values(), intervals=4)
        for each in found.values():
            with of(app, each):
                assert await app.states() == {State.HEALTHY: 3}
        assert app.sandbox.control.controller_events() == []


async def test_a_runner_that_was_lost_before_a_new_name_is_known_is_replaced_under_it_and_not_under_the_old_one(scoped):
    async with scoped(PATTERN + OWN_POOL + OWN_POOL.replace("acme/api", "acme/api-two")) as app:
        (api,) = (await scopes(app)).values()
        await live_in(app, api)
        others = rename_api(app)
        (lost,) = app.sandbox.control.lose("acme/api-two", count=1)
        assert lost in others.registered
        await live_in(app, api, intervals=3)
        assert app.sandbox.control.controller_events() == []
        found = await scopes(app)
        await live_in(app, found["acme/api-two"], intervals=2)
        requests = [
            (each["data"]["org"], each["data"]["runner_id"]) for each in app.sandbox.control.controller_events()
        ]
        assert requests == [("acme/api-two", lost)]
        assert len(others.registered) == 3


async def test_a_repository_that_a_rule_names_and_one_that_had_its_name_are_not_two_scopes_of_one_address(scoped):
    async with scoped(SCOPE + PATTERN + OWN_POOL) as app:
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        rename_api(app)
        known = await app.context.scoped_repositories.get(app.installation)
        await app.context.scoped_repositories.put(app.installation, known._replace(named=()))
        found = await scopes(app)
        assert {each.org: each.id for each in found.values()} == {"acme/api-two": api.id, "acme/api": api.id - 7_000}
        known = await app.context.installations.scopes_of(app.installation)
        assert {each.org: each.id for each in known} == {each.org: each.id for each in found.values()}


async def test_an_offline_runner_is_removed_where_it_is_and_not_from_a_repository_that_got_the_name_since(scoped):
    pool = f'[[pools]]\norg = "acme/api"\nname = "{OWN}"\nlabels = ["{OWN}"]\nreplace_offline_after_seconds = 600\n'
    async with scoped(PATTERN + pool) as app:
        (api,) = (await scopes(app)).values()
        await live_in(app, api)
        (offline,) = app.sandbox.control.take_offline("acme/api", count=1)
        while (await app.context.runners.all(api.id))[offline].granted_at is None:
            await app.pass_(60)
            await sweep_installation(app.context, api.id)
        others = rename_api(app)
        others.registered[offline].online = False
        assert await remediate_runner(app.context, api.id, offline) == "replaced"
        assert len(others.registered) == 3
        assert len(app.sandbox.world.place_called("acme/api-two").fleet.roster.registered) == 2


async def test_a_person_s_repositories_are_scopes_though_the_account_is_not_swept(scoped):
    async with scoped() as app:
        org = await app.context.installations.one(app.installation)
        await enrol(app.context, await app.context.installations.put(replace(org, is_personal=True)))
        assert await app.context.schedule.next(org.id) is None
        assert (await app.context.runners.survey(org.id)).failure == ""
        api = (await scopes(app))["acme/api"]
        assert (await live_in(app, api)).runners == 3


async def test_what_ends_for_the_installation_ends_for_its_repositories(scoped):
    async with scoped() as app:
        app.listen()
        api = (await scopes(app))["acme/api"]
        app.sandbox.control.suspend("acme")
        await app.receive()
        assert (await app.context.installations.one(api.id)).suspended
        await discover_installations(app.context)
        assert await app.context.schedule.next(api.id) is None
        app.sandbox.control.unsuspend("acme")
        await app.receive()
        await discover_installations(app.context)
        assert await app.context.schedule.next(api.id) is not None
        app.sandbox.control.uninstall("acme")
        await app.receive()
        assert await app.context.installations.all() == []
        assert await app.context.schedule.all() == {}


async def test_a_search_without_an_answer_changes_nothing(scoped):
    async with scoped(SCOPE + PATTERN) as app:
        before = await scopes(app)
        app.sandbox.control.fault("acme", status=502)
        await wait(app, 3600)
        assert await scopes(app) == before


async def test_a_scope_that_is_not_configured_any_more_ends(scoped):
    async with scoped() as app:
        await scopes(app)
        object.__setattr__(app.settings, "scopes", ())
        assert await scopes(app) == {}
        assert [each.id for each in await app.context.installations.all()] == [app.installation]


async def test_a_repository_s_check_run_is_posted_in_its_repository_and_its_button_sweeps_it_alone(scoped):
    of_api = '[orgs."acme/api".report]\nrepository = "acme/web"\n'
    async with scoped(SCOPE + OWN_POOL + of_api) as app:
        app.listen()
        api = (await scopes(app))["acme/api"]
        await live_in(app, api)
        assert await report_installation(app.context, api.id) is CheckRunOutcome.CREATED
        posted = app.sandbox.world.orgs["acme"].repositories["web"].check_runs
        ((check_run, shown),) = posted.items()
        assert shown["external_id"] == f"ghapp-{api.id}"
        assert "3 runners" in shown["output"]["title"] + shown["output"]["summary"]
        before = await app.context.schedule.next(app.installation)
        app.sandbox.control.click("acme", check_run_id=check_run, identifier=SWEEP.identifier)
        await app.receive_all()
        assert await app.context.schedule.next(api.id) == app.clock()
        assert await app.context.schedule.next(app.installation) == before


async def test_what_is_known_of_the_installation_s_deliveries_holds_for_its_repositories(scoped):
    async with scoped() as app:
        org = await app.context.installations.one(app.installation)
        api = (await scopes(app))["acme/api"]
        now = app.clock()
        assert await delivery_gaps(app.context, api, now) == ()
        late = DeliveryArrivals(last_at=now, late=(LateArrival(now, 600.0),))
        await app.context.delivery_status.save_arrivals({org.id: late})
        (gap,) = await delivery_gaps(app.context, org, now)
        assert await delivery_gaps(app.context, api, now) == (gap,)


async def waiting_jobs(app, scope):
    """The ids of jobs that wait for the runners of a scope, by their repositories, when it decides about a loss."""
    now = app.clock()
    runners = {1: Evidence(1, "linux-1", now, not_needed_at=now, last_delivery_at=now)}
    inputs = await load_inputs(app.context, scope, await app.context.org_view(scope), runners, now)
    return sorted(job.repository for job in inputs.jobs.queued)


async def queue(app, scope, *repositories):
    jobs = [Job(scope.id * 10 + place, "queued", (OWN,), each, app.clock()) for place, each in enumerate(repositories)]
    await app.context.demand.record(scope.id, jobs, now=app.clock())


async def test_jobs_that_count_in_another_scope_wait_for_the_runners_that_may_take_them(scoped):
    async with scoped() as app:
        api, org = (await scopes(app))["acme/api"], await app.context.installations.one(app.installation)
        await queue(app, org, "acme/web", "Acme/API")
        await queue(app, api, "acme/api")
        assert await waiting_jobs(app, org) == ["Acme/API", "acme/api", "acme/web"]
        assert await waiting_jobs(app, api) == ["Acme/API", "acme/api"]
