"""What GitHub is asked to create, and what its answer is made into."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ghapp.credentials import CreatedApp
from ghapp.errors import CodeRefusedError, GitHubUnavailableError
from ghapp.github.manifest import app_yml, convert, manifest
from ghapp.sandbox.config import SandboxConfig
from ghapp.sandbox.server import SandboxServer

APP = {"name": "ghapp", "url": "https://example.com", "default_permissions": {"checks": "write"}}
HERE, PUBLIC = "http://127.0.0.1:8000", "https://ghapp.example"
LEAST_PRIVILEGE = {
    "organization_self_hosted_runners": "write",
    "checks": "write",
    "actions": "read",
    "metadata": "read",
}


def test_the_hook_is_where_github_reaches_us_and_the_way_back_where_the_browser_does():
    made = manifest(APP, HERE, PUBLIC)
    assert made == {
        **APP,
        "hook_attributes": {"url": f"{PUBLIC}/webhook", "active": True},
        "redirect_url": f"{HERE}/setup/created",
        "setup_url": f"{PUBLIC}/setup/installed",
        "callback_urls": [f"{PUBLIC}/sign-in/callback"],
    }


def test_without_a_way_to_us_the_hook_is_not_active_and_names_nothing_of_ours():
    made = manifest(APP, HERE, None)
    assert made["hook_attributes"]["active"] is False
    assert HERE not in made["hook_attributes"]["url"]
    assert made["setup_url"] == f"{HERE}/setup/installed"
    assert made["callback_urls"] == [f"{HERE}/sign-in/callback"]


def test_app_yml_is_not_changed_by_it():
    before = json.dumps(APP)
    manifest(APP, HERE, PUBLIC)
    assert json.dumps(APP) == before


def test_app_yml_asks_for_what_is_needed_and_no_more():
    content = app_yml()
    assert content["default_permissions"] == LEAST_PRIVILEGE
    assert content["default_events"] == ["workflow_job"]
    assert content["public"] is False


def test_app_yml_is_in_the_distribution_as_it_is_in_the_repository():
    root = Path(__file__).parents[2]
    assert (root / "ghapp" / "app.yml").read_text() == (root / "app.yml").read_text()


EXAMPLE = {
    "id": 1,
    "slug": "octoapp",
    "node_id": "MDxOkludGVncmF0aW9uMQ==",
    "owner": {"login": "github", "id": 1, "type": "User", "site_admin": True},
    "name": "Octocat App",
    "description": "",
    "external_url": "https://example.com",
    "html_url": "https://github.com/apps/octoapp",
    "created_at": "2017-07-08T16:18:44-04:00",
    "updated_at": "2017-07-08T16:18:44-04:00",
    "permissions": {"metadata": "read", "contents": "read", "issues": "write", "single_file": "write"},
    "events": ["push", "pull_request"],
    "client_id": "Iv1.8a61f9b3a7aba766",
    "client_secret": "(a client_secret)",
    "webhook_secret": "(a webhook_secret)",
    "pem": "(a PEM private key)",
}


@pytest.fixture
def github():
    with SandboxServer(SandboxConfig(app=False, quiet=True, ticking=False)) as sandbox:
        yield sandbox


async def test_githubs_published_example_is_understood(github):
    github.control.fault(match="/conversions$", status=201, body=EXAMPLE)
    app = await convert(github.api_url, "abc")
    assert app == CreatedApp(
        id=1,
        name="Octocat App",
        html_url="https://github.com/apps/octoapp",
        client_id="Iv1.8a61f9b3a7aba766",
        client_secret="(a client_secret)",
        webhook_secret="(a webhook_secret)",
        pem="(a PEM private key)",
    )
    assert app.credentials.app_id == "1"
    assert app.credentials.install_url == "https://github.com/apps/octoapp/installations/new"


async def test_an_app_may_have_no_webhook_secret(github):
    github.control.fault(match="/conversions$", status=201, body={**EXAMPLE, "webhook_secret": None})
    assert (await convert(github.api_url, "abc")).credentials.webhook_secrets == ()


@pytest.mark.parametrize("status", [404, 422])
async def test_a_code_that_is_not_known_is_an_error_of_its_own(github, status):
    github.control.fault(match="/conversions$", status=status)
    with pytest.raises(CodeRefusedError):
        await convert(github.api_url, "abc")


@pytest.mark.parametrize("body", ["", "<h1>no</h1>", {}, {"id": "x"}])
async def test_half_an_answer_is_no_app(github, body):
    github.control.fault(match="/conversions$", status=201, body=body)
    with pytest.raises(GitHubUnavailableError):
        await convert(github.api_url, "abc")


async def test_without_a_server_it_is_unavailable():
    with pytest.raises(GitHubUnavailableError):
        await convert("http://127.0.0.1:9/api/v3", "abc")
