"""What GitHub is asked to create, and what its answer is made into."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    }


def test_without_a_way_to_us_the_hook_is_not_active_and_names_nothing_of_ours():
    made = manifest(APP, HERE, None)
    assert made["hook_attributes"]["active"] is False
    assert HERE not in made["hook_attributes"]["url"]
    assert made["setup_url"] == f"{HERE}/setup/installed"


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


@pytest.fixture
def github():
    with SandboxServer(SandboxConfig(app=False, quiet=True, ticking=False)) as sandbox:
        yield sandbox


async def test_githubs_published_example_is_understood(github):
    described = json.loads((Path(__file__).parent / "openapi.json").read_text())
    properties = described["paths"]["/app-manifests/{code}/conversions"]["post"]["responses"]["201"]
    example = properties["content"]["application/json"].get("example") or EXAMPLE
    github.control.fault(match="/conversions$", status=201, body=example)
    app = await convert(github.api_url, "abc")
    assert (app.id, app.credentials.app_id) == (example["id"], str(example["id"]))
    assert app.credentials.install_url == f"{example['html_url']}/installations/new"


EXAMPLE: dict[str, object] = {}


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
