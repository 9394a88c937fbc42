"""GitHub's wire format, as GitHub publishes it: each call against a cassette made after its own example.

The cassettes are not recorded from the sandbox, which would only show that it agrees with itself.
"""

from __future__ import annotations

import json
import pathlib
import time
from dataclasses import replace
from datetime import UTC, datetime

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ghapp import errors
from ghapp.credentials import AppCredentials
from ghapp.deaths.github_words import JobAnnotation
from ghapp.deaths.rerun import RunFacts
from ghapp.decoding import LeftOutRows
from ghapp.github import app as itself
from ghapp.github import wire
from ghapp.github.api import GitHub
from ghapp.github.checks import Checks, external_id
from ghapp.github.delivery_log import deliver_again, failed_attempts
from ghapp.github.hosted_runners import read_hosted_labels
from ghapp.github.installation_client import Removal
from ghapp.github.jobs import Jobs, WorkflowRuns
from ghapp.github.manifest import convert
from ghapp.github.personal_client import PersonalClient, ScopeRunners
from ghapp.github.repositories import (
    AccountKind,
    FoundAccount,
    latest_repositories,
    read_account,
    read_installation_repositories,
    read_own_organizations,
    read_repository,
)
from ghapp.github.runner_groups import read_group_runners, read_runner_groups
from ghapp.github.runner_versions import read_end_dates
from ghapp.github.transport import GitHubTransport
from ghapp.github.wire import JobEnd
from ghapp.installations.installation import Installation, enterprise_scope, repository_scope
from ghapp.installations.scope import ListedRepository, Scope
from ghapp.report.check_run import RESUME, SWEEP, Conclusion, Report
from ghapp.store.github_tokens import SharedToken
from ghapp.versions.lifetime import DatesAnswer
from ghapp.workflow_jobs.runner_groups import RunnerGroup
from tests.support.keys import private_key

pytestmark = pytest.mark.block_network

API = "https://api.github.com"
ACME = Installation(1, "acme", 1)
SHA = "ce587453ced02b1526dfb4cb910479d431683101"
REPORT = Report("12 of 300 runners invalidated", "summary", "text", Conclusion.ACTION_REQUIRED, (SWEEP, RESUME))
CASSETTES = pathlib.Path(__file__).parent / "cassettes"
RESET = 4_102_444_800
LIMITS = {
    "x-ratelimit-limit": "5000",
    "x-ratelimit-used": "17",
    "x-ratelimit-remaining": "4983",
    "x-ratelimit-reset": str(RESET),
    "x-ratelimit-resource": "core",
}


@pytest.fixture(scope="module")
def vcr_config():
    return {"record_mode": "none", "match_on": ["method", "scheme", "host", "port", "path", "query"]}


@pytest.fixture(scope="module")
def vcr_cassette_dir():
    return str(CASSETTES)


@pytest.fixture(autouse=True)
def each_answer_is_asked_for(vcr):
    yield
    assert vcr.all_played


class TokenStore:
    """Has one mint, unless it holds a token."""

    def __init__(self, held):
        self.held, self.minted, self.forgotten = held, None, []

    async def token(self, installation, mint, now):
        if self.held is None:
            self.minted = await mint()
            return SharedToken(self.minted.secret, now)
        return self.held

    async def forget(self, installation):
        self.forgotten.append(installation)


class BudgetRecorder:
    """Records the limits in each answer."""

    def __init__(self):
        self.received, self.held = [], []

    async def enter(self, installation, limits, points):
        return "flight"

    async def leave(self, installation, flight, headers):
        self.received.append({name: value for name, value in headers.items() if name.startswith("x-ratelimit")})

    async def hold(self, installation, seconds):
        self.held.append(seconds)


def says_who_asks_and_for_what(request):
    """True if it has the headers that GitHub requires of every request."""
    asked = (request.headers["user-agent"], request.headers["accept"], request.headers["x-github-api-version"])
    return asked == ("ghapp", "application/vnd.github+json", "2022-11-28")


@pytest.fixture
def meter():
    return BudgetRecorder()


@pytest.fixture
def sent():
    """The requests as they went out: a cassette keeps those that it was made with."""
    return []


@pytest.fixture
def token_cache():
    return TokenStore(SharedToken("a-token", time.time() - 3000))


@pytest.fixture
def empty_vault(token_cache):
    token_cache.held = None
    return token_cache


@pytest.fixture
async def github(token_cache, meter, sent):
    async def remember(request):
        sent.append(request)

    async with GitHub.open(API, AppCredentials("Iv1.abc", private_key(), ("s",)), token_cache, meter) as api:
        api._as_app._client.event_hooks = {"request": [remember], "response": []}
        yield api


@pytest.fixture
async def acme(github):
    return await github.installation_client(ACME)


@pytest.mark.vcr("installations.yaml")
async def test_installations_with_what_they_granted(github, sent):
    ((found,), _, _) = await github.installations()
    assert (found.id, found.org, found.account_id, found.suspended) == (1, "octocat", 1, False)
    assert found.is_personal
    assert found.permissions == {"checks": "write", "metadata": "read", "contents": "read"}
    assert says_who_asks_and_for_what(sent[-1])
    scheme, _, token = sent[-1].headers["authorization"].partition(" ")
    public_key = load_pem_private_key(private_key().encode(), None).public_key()
    claims = jwt.decode(token, public_key, algorithms=["RS256"])
    assert (scheme.lower(), claims["iss"]) == ("bearer", "Iv1.abc")
    assert claims["iat"] < time.time(), "GitHub's clock may be behind ours"
    assert claims["exp"] < time.time() + 600, "GitHub takes no JWT for longer"


@pytest.mark.vcr("installation.yaml")
async def test_one_installation(github):
    assert (await github.installation(1)).id == 1


@pytest.mark.vcr("installation_gone.yaml")
async def test_an_installation_that_was_deleted(github):
    with pytest.raises(errors.InstallationMissingError):
        await github.installation(1)


@pytest.mark.vcr("not_the_app.yaml")
async def test_a_jwt_that_is_not_accepted_says_what_to_look_at(github):
    with pytest.raises(errors.UnauthorizedError, match="GHAPP_APP_ID"):
        await itself.registration(github)


@pytest.mark.vcr("not_the_app.yaml")
async def test_a_refusal_contains_the_time_too():
    assert await itself.server_date(API) == "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.vcr("access_token.yaml")
async def test_a_token_and_when_it_ends(github, empty_vault, sent):
    await github.installation_client(ACME)
    ends = datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    assert empty_vault.minted == wire.InstallationToken("not-a-token", ends)
    assert sent[-1].content == b"", "it is for everything that the installation granted"


@pytest.mark.usefixtures("empty_vault")
@pytest.mark.vcr("access_token_suspended.yaml")
async def test_a_suspended_installation_is_given_no_token(github):
    with pytest.raises(errors.InstallationSuspendedError):
        await github.installation_client(ACME)


@pytest.mark.usefixtures("empty_vault")
@pytest.mark.vcr("access_token_gone.yaml")
async def test_an_installation_that_was_deleted_is_given_no_token(github):
    with pytest.raises(errors.InstallationMissingError):
        await github.installation_client(ACME)


@pytest.mark.vcr("token_refused.yaml")
async def test_a_token_that_is_not_accepted_is_forgotten(acme, token_cache):
    with pytest.raises(errors.UnauthorizedError):
        await acme.runner(23)
    assert token_cache.forgotten == [ACME.id]


@pytest.mark.vcr("list_runners.yaml")
async def test_a_page_of_runners_and_the_same_page_unchanged(acme, meter, sent):
    first = await acme.list_runners(1, None)
    page = wire.runner_page(first.body, LeftOutRows())
    assert page.total == 2
    linux, mac = page.runners
    assert (linux.id, linux.name, linux.os, linux.online, linux.busy) == (23, "linux_runner", "linux", True, True)
    assert (mac.online, mac.ephemeral, mac.version) == (False, False, "2.323.0")
    assert (mac.labels, mac.custom_labels) == (("self-hosted", "X64", "macOS", "no-gpu"), ("no-gpu",))
    assert await acme.list_runners(1, first.etag) == (None, first.etag)
    assert [each.headers.get("if-none-match") for each in sent] == [None, 'W/"0c19ab30"']
    assert all(says_who_asks_and_for_what(each) for each in sent)
    assert {each.headers["authorization"] for each in sent} == {"token a-token"}
    assert meter.received == [LIMITS, LIMITS]


@pytest.mark.vcr("list_runners_last_page.yaml")
async def test_the_last_page_counts_all_runners_and_has_an_etag_of_its_own(acme):
    last = await acme.list_runners(2, None)
    page = wire.runner_page(last.body, LeftOutRows())
    assert (page.total, len(page.runners), last.etag) == (102, 2, 'W/"7d41f8e2"')
    assert await acme.list_runners(2, last.etag) == (None, last.etag)


@pytest.mark.vcr("runners_named.yaml")
async def test_runners_of_a_name(acme):
    assert [each.id for each in await acme.runners_named("linux_runner")] == [23]


@pytest.mark.vcr("runner_groups.yaml")
async def test_runner_groups_with_the_repositories_of_those_that_select_some(acme):
    assert await read_runner_groups(acme, "acme", {1, 2}) == (
        RunnerGroup(1, "Default", "all"),
        RunnerGroup(2, "octo-runner-group", "selected", repositories=("octocat/hello-world",), inherited=True),
    )


@pytest.mark.vcr("runner_groups.yaml")
async def test_groups_of_the_enterprise_are_read_for_those_who_ask(person):
    found = await read_runner_groups(person, "acme", {1}, with_inherited=True)
    assert [each.id for each in found if each.inherited] == [2]


@pytest.mark.vcr("runner_versions.yaml")
async def test_until_when_versions_of_the_runner_get_jobs(acme):
    at = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
    end = datetime(2026, 9, 24, 15, 30, 55, tzinfo=UTC).timestamp()
    found = [await read_end_dates(acme, "/orgs/acme", version) for version in ("2.335.1", "2.337.0", "9.9.9")]
    assert found == [
        DatesAnswer(end, jobs_end_reported=True, answered_at=at),
        DatesAnswer(None, jobs_end_reported=True, answered_at=at),
        None,
    ]


@pytest.mark.vcr("runner.yaml")
async def test_one_runner(acme):
    found = await acme.runner(23)
    assert (found.id, found.name, found.os) == (23, "MBP", "macos")


@pytest.mark.vcr("runner_missing.yaml")
async def test_a_runner_that_is_not_there(acme):
    assert await acme.runner(24) is None


@pytest.mark.vcr("remove_runner.yaml")
async def test_removals(acme):
    outcomes = [await acme.remove_runner(runner_id) for runner_id in (23, 24, 25)]
    assert outcomes == [Removal.REMOVED, Removal.ALREADY_GONE, Removal.BUSY]


@pytest.fixture
async def elsewhere(github, token_cache):
    """The clients of a repository's scope, by its installation's token, and of an enterprise's, by its own."""
    github._enterprise_tokens = TokenStore(SharedToken("another-token", 0.0))
    repository = repository_scope(replace(ACME, org="octo-org"), 1, "octo-repo", "octo-org/octo-repo")
    return [await github.installation_client(each) for each in (repository, enterprise_scope("octo-corp"))]


@pytest.mark.vcr("remove_runner_elsewhere.yaml")
async def test_removals_at_a_repository_and_at_an_enterprise(elsewhere, sent):
    assert [await each.remove_runner(23) for each in elsewhere] == [Removal.REMOVED] * 2
    assert [each.headers["authorization"] for each in sent] == ["token a-token", "token another-token"]


@pytest.mark.vcr("installation_repositories.yaml")
async def test_the_repositories_that_an_installation_sees(acme):
    (found,), total = await read_installation_repositories(acme)
    assert total == 1
    assert (found.id, found.name, found.private, found.archived) == (1296269, "octocat/Hello-World", False, False)


@pytest.mark.vcr("permission_missing.yaml")
async def test_a_permission_that_is_missing_is_named(acme):
    with pytest.raises(errors.PermissionMissingError) as caught:
        await acme.list_runners(1, None)
    assert caught.value.accepted == "organization_self_hosted_runners=read"


@pytest.mark.vcr("address_not_allowed.yaml")
async def test_an_address_that_is_not_allowed_is_no_absence_either(acme):
    with pytest.raises(errors.PermissionMissingError) as caught:
        await acme.list_runners(1, None)
    assert caught.value.accepted == ""


@pytest.mark.vcr("organization_missing.yaml")
async def test_an_organization_of_another_name_has_no_empty_list(acme):
    with pytest.raises(errors.NotFoundError):
        await acme.list_runners(1, None)


@pytest.mark.vcr("bad_gateway.yaml")
async def test_a_gateway_s_page_is_no_answer(acme):
    with pytest.raises(errors.GitHubUnavailableError):
        await acme.list_runners(1, None)


@pytest.mark.vcr("secondary_limit.yaml")
async def test_a_secondary_limit_holds_everyone_for_as_long_as_it_says(acme, meter):
    with pytest.raises(errors.RateLimitedError):
        await acme.list_runners(1, None)
    assert meter.held == [60.0]


@pytest.mark.vcr("too_many_requests.yaml")
async def test_a_429_does_too(acme, meter):
    with pytest.raises(errors.RateLimitedError):
        await acme.list_runners(1, None)
    assert meter.held == [90.0]


@pytest.mark.vcr("secondary_limit_without_a_time.yaml")
async def test_a_secondary_limit_that_says_no_time_holds_everyone_for_a_minute(acme, meter):
    with pytest.raises(errors.RateLimitedError):
        await acme.list_runners(1, None)
    assert meter.held == [60.0]


@pytest.mark.vcr("primary_limit.yaml")
async def test_the_hourly_limit_holds_everyone_until_its_reset(acme, meter):
    with pytest.raises(errors.RateLimitedError):
        await acme.list_runners(1, None)
    assert meter.held == [1200.0], "from the answer's own date to its reset"


@pytest.mark.vcr("job.yaml")
async def test_when_a_job_ended(acme):
    completed_at = datetime(2020, 1, 20, 17, 44, 39, tzinfo=UTC).timestamp()
    assert await acme.job_end("octo-org/octo-repo", 399444496) == JobEnd(completed_at)


@pytest.mark.vcr("job.yaml")
async def test_a_job_s_facts(acme):
    job = await Jobs(acme, "octo-org/octo-repo").facts(399444496)
    assert (job.name, job.head_sha) == ("build", "f83a356604ae3c5d03e1b46ef4d1ca77d64a90b0")
    assert (job.over, job.conclusion, job.step_failed) == (True, "success", False)
    assert job.completed_at == datetime(2020, 1, 20, 17, 44, 39, tzinfo=UTC).timestamp()


@pytest.mark.vcr("annotations.yaml")
async def test_what_was_noted_beside_a_job(acme):
    assert await Jobs(acme, "octocat/Hello-World").annotations(4) == (
        JobAnnotation("Check your spelling for 'banaas'.", "warning", "README.md", "Spell Checker"),
    )


@pytest.mark.vcr("job_logs.yaml")
async def test_a_job_s_raw_log_is_read_at_the_address_that_github_gives(acme, monkeypatch):
    read = []

    async def tail(self, url, most, longest):
        read.append(url)
        return b"first\nlast\n"

    monkeypatch.setattr(GitHubTransport, "tail", tail)
    assert await Jobs(acme, "octo-org/octo-repo").log_tail(399444496) == ("first", "last")
    assert read == ["https://pipelinesghubeus22.actions.githubusercontent.com/logs/399444496?sv=2026&sig=xyz"]


@pytest.mark.vcr("job_logs_missing.yaml")
async def test_a_job_without_a_raw_log(acme):
    assert await Jobs(acme, "octo-org/octo-repo").log_tail(399444496) == ()


@pytest.mark.vcr("run.yaml")
async def test_the_latest_attempt_of_a_run(acme):
    assert await Jobs(acme, "octo-org/octo-repo").run_facts(30433642) == RunFacts(
        1, over=False, event="push", branch="main", workflow_id=159038
    )


@pytest.mark.vcr("rerun_job.yaml")
async def test_a_job_is_run_again(acme):
    await Jobs(acme, "octo-org/octo-repo").rerun(399444496)


@pytest.mark.vcr("rerun_job_refused.yaml")
async def test_a_job_of_a_run_that_goes_on_is_not_run_again(acme):
    with pytest.raises(errors.PermissionMissingError) as refused:
        await Jobs(acme, "octo-org/octo-repo").rerun(399444496)
    assert refused.value.accepted == "", "no permission is missing"


@pytest.mark.vcr("repository.yaml")
async def test_a_repository_s_default_branch(acme):
    assert await Checks(acme, "octocat/Hello-World").default_branch() == "master"


@pytest.mark.vcr("repository_moved.yaml")
async def test_a_repository_that_moved_is_followed(acme, sent):
    assert await Checks(acme, "octocat/Hello-Old-World").default_branch() == "master"
    assert [each.headers["authorization"] for each in sent] == ["token a-token"] * 2


@pytest.mark.vcr("workflow_runs.yaml")
async def test_the_head_of_a_branch_by_its_newest_run(acme):
    head = await Checks(acme, "octo-org/octo-repo").head("master", 1.0)
    assert (head.sha, head.branch) == ("acb5820ced9479c074f688cc328bf03f341a511d", "master")


@pytest.mark.vcr("find_check_run.yaml")
async def test_our_check_run_on_a_commit(acme):
    assert await Checks(acme, "octocat/Hello-World").find(SHA) == 4


@pytest.mark.vcr("create_check_run.yaml")
async def test_a_check_run_is_created(acme, sent):
    assert await Checks(acme, "octocat/Hello-World").create(SHA, REPORT) == 4
    body = json.loads(sent[-1].content)
    assert (body["name"], body["head_sha"], body["external_id"]) == ("Runner health", SHA, external_id(1))
    assert (body["status"], body["conclusion"]) == ("completed", "action_required")
    assert body["output"] == {"title": REPORT.title, "summary": "summary", "text": "text"}
    assert [action["identifier"] for action in body["actions"]] == ["sweep", "resume"]


@pytest.mark.vcr("update_check_run.yaml")
async def test_a_check_run_is_updated_unless_it_was_deleted(acme):
    checks = Checks(acme, "octocat/Hello-World")
    assert [await checks.update(4, REPORT), await checks.update(5, REPORT)] == [True, False]


@pytest.mark.vcr("failed_deliveries.yaml")
async def test_failed_deliveries_are_followed_by_their_cursor(github):
    found, before = await failed_attempts(github, 0.0)
    assert before == ""
    assert [(each.id, each.status) for each in found] == [(12345679, 503), (12345600, 0)]
    assert len({each.guid for each in found}) == 2


@pytest.mark.vcr("deliver_again.yaml")
async def test_a_delivery_is_asked_for_again_unless_it_is_forgotten(github):
    assert [await deliver_again(github, each) for each in (12345678, 1)] == [True, False]


@pytest.mark.vcr("app.yaml")
async def test_the_app_itself(github):
    app, date = await itself.registration(github)
    assert (app.name, app.owner, app.events) == ("Octocat App", "octocat", ("push", "pull_request"))
    assert date == "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.vcr("hook_config.yaml")
async def test_where_deliveries_go(github):
    assert await itself.hook(github) == itself.HookConfig("https://example.com/webhook", is_signed=True)


@pytest.mark.vcr("latest_deliveries.yaml")
async def test_the_latest_deliveries(github):
    assert [each.status for each in await itself.latest_deliveries(github)] == [200, 200]


@pytest.mark.vcr("conversion.yaml")
async def test_a_code_is_exchanged_once():
    created = await convert(API, "a-code")
    assert (created.id, created.html_url) == (1, "https://github.com/apps/octoapp")
    assert (created.pem, created.webhook_secret) == ("(a PEM private key)", "(a webhook_secret)")
    with pytest.raises(errors.CodeRefusedError):
        await convert(API, "a-code")


@pytest.fixture
async def person():
    """A person with a token of their own."""
    async with PersonalClient.open(API, "a-token") as client:
        client.most_calls = 10
        yield client


@pytest.mark.parametrize(
    ("scope", "count"),
    [
        pytest.param("octo-org/octo-repo", 2, marks=pytest.mark.vcr("repository_runners.yaml")),
        pytest.param("enterprises/octo-corp", 2, marks=pytest.mark.vcr("enterprise_runners.yaml")),
    ],
)
async def test_a_page_of_the_runners_of_a_repository_and_of_an_enterprise(person, scope, count):
    page = wire.runner_page((await ScopeRunners(person, Scope.parse(scope)).list_runners(1, None)).body, LeftOutRows())
    assert (page.total, [each.name for each in page.runners]) == (count, ["linux_runner", "mac_runner"])
    assert person.scopes == {"admin:org", "manage_runners:enterprise", "repo"}
    assert (person.calls, person.calls_left) == (1, 9)


@pytest.mark.vcr("group_runners.yaml")
async def test_the_runners_of_a_group(person):
    found = await read_group_runners(person, "octo-org", 2, 3)
    assert (found.flaw, [each.name for each in found.runners.values()]) == (None, ["linux_runner", "mac_runner"])


@pytest.mark.vcr("hosted_runners.yaml")
async def test_the_labels_of_larger_runners_that_github_hosts(person):
    assert await read_hosted_labels(person, "octo-org") == {"my hosted ubuntu runner", "my hosted windows runner"}


@pytest.mark.vcr("account.yaml")
async def test_what_an_account_is(person):
    assert await read_account(person, "octocat") == FoundAccount("octocat", AccountKind.PERSON)


@pytest.mark.vcr("own_organizations.yaml")
async def test_the_organizations_of_a_person(person):
    assert await read_own_organizations(person) == ["github"]


@pytest.mark.vcr("repository_moved.yaml")
async def test_a_repository_under_its_present_name_costs_two_calls(person):
    assert (await read_repository(person, "octocat/Hello-Old-World")).name == "octocat/Hello-World"
    assert person.calls == 2


@pytest.mark.vcr("organization_repositories.yaml")
async def test_the_latest_repositories_of_an_organization_and_how_many_it_has(person):
    found = await latest_repositories(person, FoundAccount("octo-org", AccountKind.ORGANIZATION))
    pushed_at = datetime(2011, 1, 26, 19, 6, 43, tzinfo=UTC).timestamp()
    assert found == (
        [
            ListedRepository(
                "octocat/Hello-World", False, pushed_at, archived=False, is_of_organization=False, id=1296269
            )
        ],
        1201,
    )


@pytest.mark.vcr("runs_in_status.yaml")
async def test_the_runs_in_a_status(person):
    assert await WorkflowRuns(person, "octo-org/octo-repo").in_status("queued") == ((30433642,), 1)


@pytest.mark.vcr("jobs_of_run.yaml")
async def test_the_jobs_of_a_run_s_latest_attempt(person):
    ((job, completed_at),) = await WorkflowRuns(person, "octo-org/octo-repo").of_run(29679449, "latest")
    assert (job.id, job.run_id, job.name, job.workflow) == (399444496, 29679449, "build", "CI")
    assert (job.labels, job.runner_name, job.runner_group) == (
        ("self-hosted", "foo", "bar"),
        "my runner",
        "my runner group",
    )
    assert job.html_url == "https://github.com/octo-org/octo-repo/runs/29679449/jobs/399444496"
    assert completed_at == datetime(2020, 1, 20, 17, 44, 39, tzinfo=UTC).timestamp()


@pytest.mark.vcr("scope_missing.yaml")
async def test_a_scope_that_a_token_lacks(person):
    with pytest.raises(errors.PermissionMissingError):
        await ScopeRunners(person, Scope.parse("octo-org")).list_runners(1, None)
    assert person.scopes == {"repo"}


@pytest.mark.vcr("single_sign_on.yaml")
async def test_a_token_that_single_sign_on_refuses(person):
    with pytest.raises(errors.PermissionMissingError) as caught:
        await ScopeRunners(person, Scope.parse("octo-org")).list_runners(1, None)
    assert caught.value.needs_single_sign_on
    assert "authorization_request" not in str(caught.value)
