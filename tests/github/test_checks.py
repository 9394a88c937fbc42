"""The check run on GitHub: found, created, updated; and the branch that it belongs to."""

from __future__ import annotations

import time

import pytest
from jsonschema import Draft202012Validator

from ghapp.credentials import AppCredentials
from ghapp.errors import GitHubUnavailableError
from ghapp.github.api import GitHub
from ghapp.github.checks import Checks, external_id
from ghapp.installations.installation import Installation
from ghapp.report.check_run import RESUME, SWEEP, Conclusion, Report
from ghapp.report.check_run_state import Head
from ghapp.sandbox.config import OrgConfig, SandboxConfig, pools_of
from ghapp.sandbox.server import SandboxServer
from ghapp.store.github_tokens import SharedToken
from tests.github.one_answer import OneAnswer
from tests.sandbox.openapi import description

HERE = "acme/.github"
NOW = 1_790_000_000.0
WELL = Report("12 of 12 runners healthy", "summary", "text", Conclusion.SUCCESS, (SWEEP,))
ILL = Report("1 of 12 runners offline", "s" * 65_535, "t" * 65_535, Conclusion.ACTION_REQUIRED, (SWEEP, RESUME))


class TokenStore:
    """Mints a token that has been used for an hour."""

    async def token(self, installation, mint, now):
        return SharedToken((await mint()).secret, now - 3000)


class BudgetRecorder:
    async def enter(self, installation, limits, points):
        return "flight"

    async def leave(self, installation, flight, headers):
        pass


@pytest.fixture
def sandbox():
    orgs = (OrgConfig(pools=pools_of(3)),)
    with SandboxServer(SandboxConfig(orgs=orgs, quiet=True, ticking=False)) as server:
        yield server


@pytest.fixture
async def open_checks(sandbox):
    credentials = AppCredentials(str(sandbox.app.id), sandbox.app.private_key_pem, ("s",))
    async with GitHub.open(sandbox.api_url, credentials, TokenStore(), BudgetRecorder(), time.time) as github:
        acme = Installation(sandbox.installation_id(), "acme", 1)

        async def open_for(repository=HERE, **options):
            return Checks(await github.installation_client(acme), repository, **options)

        yield open_for


def there(sandbox):
    return sandbox.world.orgs["acme"].repositories[".github"]


async def test_the_default_branch_and_its_head_are_found_without_reading_contents(sandbox, open_checks):
    checks = await open_checks()
    assert await checks.default_branch() == "main"
    head = await checks.head("main", NOW)
    assert (head.repository, head.branch, head.sha, head.confirmed_at) == (HERE, "main", there(sandbox).head_sha, NOW)
    moved = sandbox.control.head("acme", repository=".github")
    assert (await checks.head("main", NOW)).sha == moved
    assert await checks.head("trunk", NOW) is None


async def test_a_repository_that_is_not_there_has_neither(open_checks):
    checks = await open_checks("acme/missing")
    assert [await checks.default_branch(), await checks.head("main", NOW), await checks.create("a" * 40, WELL)] == [
        None
    ] * 3


async def test_what_is_created_is_found_again_with_its_content(sandbox, open_checks):
    checks, sha = await open_checks(details_url="https://ghapp.example"), there(sandbox).head_sha
    assert await checks.find(sha) is None
    check_run = await checks.create(sha, WELL)
    assert await checks.find(sha) == check_run
    posted = there(sandbox).check_runs[check_run]
    assert posted["output"] == {"title": WELL.title, "summary": "summary", "text": "text"}
    assert (posted["status"], posted["conclusion"], posted["details_url"]) == (
        "completed",
        "success",
        "https://ghapp.example",
    )
    assert posted["actions"] == [SWEEP._asdict()]


async def test_an_update_sends_the_whole_check_run_as_long_as_github_accepts_it(sandbox, open_checks):
    checks = await open_checks()
    check_run = await checks.create(there(sandbox).head_sha, WELL)
    assert await checks.update(check_run, ILL) is True
    posted = there(sandbox).check_runs[check_run]
    assert (posted["conclusion"], len(posted["output"]["text"])) == ("action_required", 65_535)
    assert [each["identifier"] for each in posted["actions"]] == ["sweep", "resume"]


async def test_an_update_of_a_deleted_check_run_is_not_found(open_checks):
    assert await (await open_checks()).update(1, WELL) is False


def run(sha, repository, created_at="2026-11-20T12:00:03Z"):
    head = None if repository is None else {"full_name": repository}
    return {"head_sha": sha, "created_at": created_at, "head_repository": head}


async def test_a_fork_s_branch_of_the_same_name_is_not_our_head():
    runs = [run("evil", "mallory/.github"), run("deleted fork", None), run("ours", "Acme/.github"), run("old", HERE)]
    installation_client = OneAnswer(200, {"workflow_runs": runs})
    assert await Checks(installation_client, HERE).head("main", NOW) == Head(HERE, "main", "ours", 1_795_176_003.0, NOW)
    assert installation_client.sent == [("GET", "/repos/acme/.github/actions/runs", {"branch": "main", "per_page": 10})]


async def test_only_check_runs_of_this_installation_are_ours_and_the_newest_of_them():
    runs = [{"id": 9, "external_id": "ghapp-8"}, {"id": 8}, {"id": 5, "external_id": "ghapp-7"}]
    installation_client = OneAnswer(
        200, {"check_runs": [*runs, {"id": 6, "external_id": "ghapp-7"}, {"id": 7, "external_id": None}]}
    )
    assert external_id(7) == "ghapp-7"
    assert await Checks(installation_client, HERE).find("abc") == 6
    expected = {"check_name": "Runner health", "filter": "latest", "per_page": 100}
    assert installation_client.sent == [("GET", "/repos/acme/.github/commits/abc/check-runs", expected)]


@pytest.mark.parametrize("status", [404, 422])
async def test_a_commit_that_github_does_not_know_takes_no_check_run(status):
    checks = Checks(OneAnswer(status, {"message": "no"}), HERE)
    assert [await checks.find("abc"), await checks.create("abc", WELL), await checks.update(1, WELL)] == [
        None,
        None,
        False,
    ]


@pytest.mark.parametrize(
    "ask", [lambda app: app.default_branch(), lambda app: app.head("main", NOW), lambda app: app.find("a")]
)
async def test_an_answer_that_is_not_what_the_api_describes_is_none(ask):
    with pytest.raises(GitHubUnavailableError):
        await ask(Checks(OneAnswer(200, {"message": "hello"}), HERE))


@pytest.mark.parametrize("report", [WELL, ILL])
@pytest.mark.parametrize(
    ("method", "path", "post"),
    [
        ("post", "/repos/{owner}/{repo}/check-runs", lambda app, report: app.create("abc", report)),
        ("patch", "/repos/{owner}/{repo}/check-runs/{check_run_id}", lambda app, report: app.update(7, report)),
    ],
)
async def test_what_is_sent_is_what_github_describes(method, path, post, report):
    installation_client = OneAnswer(201, {"id": 7})
    await post(Checks(installation_client, HERE, "https://ghapp.example"), report)
    described = description()["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    schema = {**described, "components": description()["components"]}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(installation_client.bodies[0])] == []
    assert set(installation_client.bodies[0]) <= set(described["properties"])
