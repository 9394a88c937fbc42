"""Runners of an enterprise: read by a person's classic token, with a budget and a rotation of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest
from structlog.testing import capture_logs

from ghapp.credentials import AppCredentials
from ghapp.errors import GitHubError
from ghapp.github.api import GitHub
from ghapp.installations.installation import enterprise_scope
from ghapp.runners.verdict import State
from ghapp.sandbox.config import FIRST_ELSEWHERE_ID
from ghapp.store.github_tokens import ConfiguredToken
from jobs.checks.publisher import CheckRunOutcome
from jobs.installations.discover import discover_installations
from jobs.reports.health_report import report_installation
from jobs.runners.sweep import sweep_installation
from tests.github.test_api import BudgetRecorder, TokenStore
from tests.stories.installations.test_scopes import calls, live_in, of, queue, waiting_jobs
from tests.support.keys import private_key

CORP = "enterprises/acme-corp"
CONFIG = f"""
[[scopes]]
enterprise = "acme-corp"
[[pools]]
org = "{CORP}"
name = "shared"
labels = ["shared"]
replacer = "cloudevents"
url = "CONTROLLER_URL"
secret_env = "CONTROLLER_SECRET"
"""
RUNNERS = "/enterprises/{enterprise}/actions/runners"


@pytest.fixture
def corp(story):
    """Opens a story with an enterprise's scope, and `tokens`, comma-separated."""

    @asynccontextmanager
    async def open_corp(tokens="ghp_mona", **changes):
        variables = {"GHAPP_ENTERPRISE_TOKEN": tokens}
        async with story(config=CONFIG, runners=4, ephemeral=False, variables=variables, **changes) as app:
            yield app, await app.context.installations.of(CORP)

    return open_corp


async def sweep(app, scope):
    await app.pass_(60)
    return await sweep_installation(app.context, scope.id)


def revoke(app, token):
    app.sandbox.control.in_world(lambda: app.sandbox.world.authorizations._personal.pop(token))


async def test_a_lost_runner_of_an_enterprise_is_confirmed_removed_and_replaced_there(corp):
    async with corp() as (app, scope):
        org = await app.context.installations.one(app.installation)
        await live_in(app, scope, org)
        (lost,) = app.sandbox.control.lose(CORP, ids=[FIRST_ELSEWHERE_ID])
        await live_in(app, scope, org, intervals=3)
        (request,) = app.sandbox.control.controller_events()
        assert (request["source"], request["data"]["org"], request["data"]["runner_id"]) == (
            f"/orgs/{CORP}",
            CORP,
            lost,
        )
        assert calls(app, f"DELETE {RUNNERS}/{{runner_id}}") == 1
        with of(app, scope):
            assert await app.states() == {State.HEALTHY: 4, State.INVALIDATED: 1}
        assert await app.states() == {State.HEALTHY: 4}
        assert app.account()["wrongful_removals"] == []


async def test_its_calls_count_for_its_token_and_for_no_installation(corp):
    async with corp() as (app, scope):
        assert (await sweep(app, scope)).runners == 4
        budget = app.context.budget
        assert (await budget.left(scope.id, app.clock())).used == 1
        assert (await budget.left(app.installation, app.clock())).used == 0
        assert (await sweep(app, scope)).billable == 0, "its pages have ETags"


async def test_a_new_token_takes_over_when_the_old_one_is_revoked_at_the_cost_of_one_sweep(corp):
    async with corp("ghp_mona,ghp_lisa") as (app, scope):
        other = app.sandbox.control.personal_token(scopes=["manage_runners:enterprise"])
        object.__setattr__(app.context.github._enterprise_tokens, "_tokens", ("ghp_mona", other))
        assert (await sweep(app, scope)).flaw == ""
        revoke(app, "ghp_mona")
        assert [(await sweep(app, scope)).flaw for _ in range(3)] == ["Unauthorized", "", ""]
        with of(app, scope):
            assert await app.states() == {State.HEALTHY: 4}


@pytest.mark.parametrize(
    ("scopes", "flaw"),
    [((), "PermissionMissing"), (("repo",), "PermissionMissing"), (None, "PermissionMissing")],
    ids=["without a scope", "with another scope", "fine-grained"],
)
async def test_a_token_that_may_not_read_them_is_the_reason_of_this_scope_alone(corp, scopes, flaw):
    async with corp() as (app, scope):
        weak = app.sandbox.control.personal_token(scopes=scopes)
        object.__setattr__(app.context.github._enterprise_tokens, "_tokens", (weak,))
        await app.pass_(15)
        assert (await sweep(app, scope)).flaw == flaw
        assert (await sweep_installation(app.context, app.installation)).flaw == ""


@pytest.mark.parametrize("tokens", ["", "ghp_expired"], ids=["none", "expired"])
async def test_without_an_accepted_token_nothing_is_taken_for_lost(corp, tokens):
    async with corp() as (app, scope):
        await live_in(app, scope)
        app.sandbox.control.lose(CORP, count=1)
        object.__setattr__(app.context.github._enterprise_tokens, "_tokens", tuple(filter(None, [tokens])))
        assert [(await live_in(app, scope)).flaw for _ in range(3)] == ["Unauthorized"] * 3
        with of(app, scope):
            assert (await app.states())[State.INVALIDATED] == 0
        assert app.sandbox.control.controller_events() == []


async def test_on_a_server_of_one_s_own(corp):
    async with corp(api_path="/api/v3") as (app, scope):
        assert (await sweep(app, scope)).runners == 4


async def test_an_enterprise_that_is_not_configured_any_more_is_no_scope(corp):
    async with corp() as (app, scope):
        await sweep(app, scope)
        await discover_installations(app.context)
        assert await app.context.installations.one(scope.id) == scope
        object.__setattr__(app.settings, "scopes", ())
        await discover_installations(app.context)
        assert await app.context.installations.one(scope.id) is None
        assert await app.context.schedule.next(scope.id) is None


def test_its_id_is_that_of_its_slug_in_any_case_and_of_nothing_at_github():
    assert enterprise_scope("Acme-Corp").id == enterprise_scope("acme-corp").id != enterprise_scope("acme").id
    assert -(1 << 53) < enterprise_scope("acme").id < -(1 << 52)


async def test_its_token_goes_to_the_api_alone_and_appears_in_no_error():
    sent = []

    def answer(request):
        sent.append((request.url.host, request.headers.get("authorization")))
        if request.url.host == "api.github.com":
            return httpx.Response(302, headers={"location": "https://elsewhere.example/runners"})
        return httpx.Response(401)

    class Configured(TokenStore):
        async def token(self, installation, mint, now):
            return ConfiguredToken("ghp_secret")

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
        credentials = AppCredentials("1", private_key(), ("s",))
        tokens = TokenStore()
        github = GitHub(
            "https://api.github.com", credentials, tokens, BudgetRecorder(), client, enterprise_tokens=Configured()
        )
        enterprise = await github.installation_client(enterprise_scope("acme-corp"))
        with pytest.raises(GitHubError) as raised:
            await enterprise.list_runners(1, None)
    assert sent == [("api.github.com", "token ghp_secret"), ("elsewhere.example", None)]
    assert "ghp_secret" not in repr(raised.value) + repr(vars(enterprise))


async def test_its_check_run_is_posted_in_a_repository_of_an_organization_with_the_app(story):
    report = f'[orgs."{CORP}".report]\nrepository = "acme/web"\n'
    variables = {"GHAPP_ENTERPRISE_TOKEN": "ghp_mona"}
    async with story(config=CONFIG + report, runners=4, ephemeral=False, variables=variables) as app:
        scope = await app.context.installations.of(CORP)
        await sweep(app, scope)
        assert await report_installation(app.context, scope.id) is CheckRunOutcome.CREATED
        web = app.sandbox.world.orgs["acme"].repositories["web"].check_runs
        ((number, shown),) = web.items()
        assert (shown["name"], shown["actions"]) == ("Runner health", [])
        assert shown["external_id"] not in (f"ghapp-{app.installation}", f"ghapp-{scope.id}")
        app.sandbox.control.take_offline(CORP, count=1)
        await live_in(app, scope, intervals=8)
        await report_installation(app.context, scope.id)
        assert {each: shown["output"]["title"].partition(",")[0] for each, shown in web.items()} == {
            number: "1 runner offline"
        }
        assert app.sandbox.world.orgs["acme"].repositories[".github"].check_runs == {}


async def test_its_check_run_is_reported_as_missing_where_the_app_is_not_installed(story):
    report = f'[orgs."{CORP}".report]\nrepository = "elsewhere/web"\n'
    variables = {"GHAPP_ENTERPRISE_TOKEN": "ghp_mona"}
    async with story(config=CONFIG + report, runners=4, ephemeral=False, variables=variables) as app:
        scope = await app.context.installations.of(CORP)
        await sweep(app, scope)
        with capture_logs() as logs:
            assert await report_installation(app.context, scope.id) is CheckRunOutcome.PERMISSION_MISSING
        (line,) = [each for each in logs if each["event"] == "not reported"]
        assert line["why"] == "the App is not installed on elsewhere"


async def test_jobs_of_its_organizations_wait_for_the_runners_of_an_enterprise(corp):
    async with corp() as (app, scope):
        await queue(app, await app.context.installations.one(app.installation), "acme/web")
        assert await waiting_jobs(app, scope) == ["acme/web"]
