"""From a manifest to an App that is installed, as a browser and the App's own set-up go through it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ghapp.sandbox import SandboxConfig, SandboxServer
from tests.sandbox.clients import app_client, app_jwt
from tests.sandbox.receivers import Receiver

MANIFEST = {
    "name": "ghapp for acme",
    "url": "https://example.com/ghapp",
    "hook_attributes": {"url": "https://example.com/webhook", "active": True},
    "redirect_url": "http://127.0.0.1:9/setup/callback",
    "setup_url": "http://127.0.0.1:9/setup/installed",
    "default_permissions": {"organization_self_hosted_runners": "write", "checks": "write", "actions": "read"},
    "default_events": ["workflow_job"],
}


@pytest.fixture
def bare() -> Iterator[SandboxServer]:
    """A GitHub that has no App yet."""
    with SandboxServer(SandboxConfig(app=False, quiet=True, ticking=False)) as server:
        yield server


def press(client: httpx.Client, page: httpx.Response, label: str) -> httpx.Response:
    """Submits the form whose button has this text."""
    forms = re.findall(r'<form method="post" action="([^"]+)">(.*?)<button>([^<]+)</button>', page.text)
    (action, fields) = next((a, f) for a, f, expected in forms if label in expected)
    values = {unescape(name): unescape(value) for name, value in re.findall(r'name="([^"]*)" value="([^"]*)"', fields)}
    return client.post(unescape(action), data=values)


def query_of(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 302
    return {name: value for name, (value,) in parse_qs(urlsplit(answer.headers["location"]).query).items()}


def code_for(browser, manifest, path="/settings/apps/new?state=s3cret") -> str:
    page = browser.post(path, data={"manifest": json.dumps(manifest)})
    back = query_of(press(browser, page, "Create GitHub App"))
    assert back["state"] == "s3cret"
    return back["code"]


@pytest.mark.parametrize("path", ["/settings/apps/new", "/organizations/acme/settings/apps/new"])
def test_a_manifest_becomes_an_app_that_is_installed_and_notified(bare, path):
    with Receiver() as hook, httpx.Client(base_url=bare.url) as browser:
        manifest = MANIFEST | {"hook_attributes": {"url": hook.url}}
        code = code_for(browser, manifest, f"{path}?state=s3cret")
        made = browser.post(f"/api/v3/app-manifests/{code}/conversions")
        assert made.status_code == 201
        credentials = made.json()
        with app_client(bare, app_jwt(bare, key=credentials["pem"], iss=str(credentials["id"]))) as app:
            assert app.get("/app").json()["slug"] == "ghapp-for-acme"
            assert app.get("/app/installations").json() == []
            page = browser.get(f"/apps/{credentials['slug']}/installations/new")
            landed = query_of(press(browser, page, "Install on acme"))
            (installation,) = app.get("/app/installations").json()
        assert landed == {"installation_id": str(installation["id"]), "setup_action": "install"}
        ping, found = sorted(hook.wait(2), key=lambda got: got.event != "ping")
        assert (ping.event, ping.payload["hook"]["app_id"]) == ("ping", credentials["id"])
        assert (found.event, found.payload["action"]) == ("installation", "created")
        assert found.payload["installation"]["permissions"] == {"metadata": "read", **MANIFEST["default_permissions"]}


def test_a_code_is_good_once_and_for_an_hour(bare):
    with httpx.Client(base_url=bare.url) as browser:
        code = code_for(browser, MANIFEST)
        assert browser.post(f"/app-manifests/{code}/conversions").status_code == 201
        assert browser.post(f"/app-manifests/{code}/conversions").status_code == 404
        late = code_for(browser, MANIFEST)
        bare.control.step(seconds=3600)
        assert browser.post(f"/app-manifests/{late}/conversions").status_code == 404


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": " "}, "name"),
        ({"redirect_url": "/setup"}, "redirect_url"),
        ({"hook_attributes": {"url": "nowhere"}}, "hook_attributes.url"),
        ({"hook_attributes": None}, "hook_attributes"),
        ({"default_permissions": {"checks": "all"}}, "default_permissions.checks"),
        ({"default_events": "workflow_job"}, "default_events"),
    ],
)
def test_a_bad_manifest_is_an_error_page_with_the_reason(bare, change, text):
    answer = httpx.post(f"{bare.url}/settings/apps/new", data={"manifest": json.dumps(MANIFEST | change)})
    assert answer.status_code == 422
    assert text in answer.text
    assert "<button>" not in answer.text


def test_what_is_no_json_is_an_error_page(bare):
    assert httpx.post(f"{bare.url}/settings/apps/new", data={"manifest": "{"}).status_code == 422


def test_a_manifest_cannot_write_html_into_the_page(bare):
    hostile = MANIFEST | {"name": "<script>alert(1)</script>"}
    page = httpx.post(f"{bare.url}/settings/apps/new", data={"manifest": json.dumps(hostile)})
    assert page.status_code == 200
    assert "<script>" not in page.text


def test_a_hook_that_is_not_active_gets_nothing(bare):
    with Receiver() as hook, httpx.Client(base_url=bare.url) as browser:
        manifest = MANIFEST | {"hook_attributes": {"url": hook.url, "active": False}}
        browser.post(f"/app-manifests/{code_for(browser, manifest)}/conversions")
        bare.control.install("acme")
        assert bare.control.account()["deliveries"]["waiting"] == 0
        assert bare.app.hook.url == ""


def test_an_app_without_a_setup_url_lands_on_its_installation(bare):
    with httpx.Client(base_url=bare.url) as browser:
        manifest = {key: value for key, value in MANIFEST.items() if key != "setup_url"}
        slug = browser.post(f"/app-manifests/{code_for(browser, manifest)}/conversions").json()["slug"]
        answer = press(browser, browser.get(f"/apps/{slug}/installations/new"), "Install on acme")
        assert browser.get(answer.headers["location"]).status_code == 200


def test_an_unknown_organization_or_app_is_a_404_page(bare):
    path = "/organizations/unknown/settings/apps/new"
    assert httpx.post(bare.url + path, data={"manifest": json.dumps(MANIFEST)}).status_code == 404
    assert httpx.get(f"{bare.url}/apps/nothing/installations/new").status_code == 404
