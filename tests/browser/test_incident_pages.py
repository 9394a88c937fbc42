"""The pages of incidents, of the gate and of the findings in a real browser: each width, each colour scheme, no JavaScript."""

from __future__ import annotations

import re
from contextlib import contextmanager

import httpx
import pytest

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.browser.axe import violations
from tests.browser.test_pages import Site, open_page  # noqa: F401 - a fixture
from tests.stories.test_up import free_port, wait_for
from tests.support.running import running

POLICY = """
[sweep]
interval_seconds = 1
[evidence]
confirm_seconds = 1
startup_seconds = 1
[remediation]
mode = "act"
[[pools]]
org = "acme"
name = "linux-4vcpu"
labels = ["linux-4vcpu"]
replacer = "cloudevents"
url = "{url}"
secret_env = "CONTROLLER_SECRET"
[[pools]]
org = "acme"
name = "rollout"
labels = ["rollout"]
shard_label = "shard"
"""
PAGES = {
    "incidents": "/orgs/acme/incidents",
    "incident": "/orgs/acme/incidents/{incident}",
    "gate": "/orgs/acme/gate",
    "system": "/system",
}
SCREENS = {"narrow": {"width": 360, "height": 800}, "wide": {"width": 1600, "height": 900}}


class IncidentSite(Site):
    """The same with a mass loss that has healed."""

    def path(self, name):
        page = httpx.get(f"{self.base}/orgs/acme/incidents").text
        return PAGES[name].format(incident=re.findall(r"incidents/(\d+-\d+)", page)[0])


@contextmanager
def site(folder):
    policy = folder / "ghapp.toml"
    shards = [
        PoolConfig(name=each, size=2, labels=("rollout", f"shard:{each}"), ephemeral=False)
        for each in ("pink", "purple")
    ]
    pools = (PoolConfig(name="linux-4vcpu", size=12), *shards)
    with SandboxServer(SandboxConfig(orgs=(OrgConfig(pools=pools),), quiet=True)) as github:
        policy.write_text(POLICY.format(url=github.controller_url))
        key = folder / "app.pem"
        key.write_text(github.private_key_pem)
        key.chmod(0o600)
        more = {
            "GHAPP_CONFIG": str(policy),
            "GHAPP_APP_ID": str(github.app_id),
            "GHAPP_PRIVATE_KEY_FILE": str(key),
            "GHAPP_WEBHOOK_SECRET": github.webhook_secret,
            "GHAPP_CLIENT_ID": github.client_id,
            "GHAPP_CLIENT_SECRET": github.app.client_secret,
            "CONTROLLER_SECRET": github.controller_secret,
        }
        with running(github, folder, free_port(), more=more) as app:
            shown = IncidentSite(github, app)
            assert wait_for(lambda: "All 16 runners" in httpx.get(f"{app.base}/orgs/acme").text, 60), app.log()
            github.control.lose("acme", pool="linux-4vcpu", count=8)
            listed = f"{app.base}/orgs/acme/incidents"
            assert wait_for(lambda: "No incident is open; 1 incident" in httpx.get(listed).text, 90), app.log()
            findings = f"{app.base}/system"
            assert wait_for(lambda: "Passed checks" in httpx.get(findings).text, 60), app.log()
            yield shown


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, chromium):
    with site(tmp_path_factory.mktemp("incident")) as shown:
        yield shown


@pytest.mark.xdist_group("up")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_flaw_that_axe_finds_and_fits_each_screen(open_page, fleet, name):  # noqa: F811
    page = open_page(bypass_csp=True)
    assert page.goto(fleet.base + fleet.path(name)).status == 200
    for screen in SCREENS.values():
        page.set_viewport_size(screen)
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), screen
        assert violations(page) == []


@pytest.mark.xdist_group("up")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_the_way_from_the_list_to_the_time_line_and_to_a_successor(open_page, fleet, script):  # noqa: F811
    page = open_page(java_script_enabled=script)
    page.goto(f"{fleet.base}/orgs/acme")
    page.get_by_role("link", name="Incidents", exact=True).click()
    page.get_by_role("link", name="8 runners lost in linux-4vcpu").click()
    assert page.get_by_text("8 runners were lost; healed after").is_visible()
    assert page.get_by_text("tripped: too many runners were lost at once").is_visible()
    assert page.get_by_text("Next batch: the successors of the last batch are online").first.is_visible()
    runners = page.get_by_role("region", name="Lost runners")
    successor = runners.get_by_role("row").nth(1).get_by_role("link").nth(1)
    name = successor.inner_text()
    successor.click()
    assert page.get_by_role("heading", level=1, name=name).is_visible()


@pytest.mark.xdist_group("up")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_the_gate_shows_each_shard_and_the_system_page_what_to_fix(open_page, fleet, script):  # noqa: F811
    page = open_page(java_script_enabled=script)
    page.goto(f"{fleet.base}/orgs/acme/gate")
    assert page.get_by_role("region", name="pink of rollout").is_visible()
    assert page.get_by_role("region", name="purple of rollout").is_visible()
    assert page.get_by_text("Stop: it is unknown which shard of rollout is active.").is_visible()
    page.get_by_role("link", name="System").click()
    page.get_by_role("link", name="See what to do").click()
    assert page.get_by_role("heading", name="Findings of the doctor").is_visible()
    assert page.get_by_text("Fix:").first.is_visible()


@pytest.mark.xdist_group("up")
def test_the_terminal_of_up_begins_with_the_address_of_the_page(open_page, fleet):  # noqa: F811
    first = fleet.app.terminal_output().strip().splitlines()[0]
    assert first.startswith("The page: ")
    page = open_page()
    page.goto(first.removeprefix("The page: ").strip())
    assert page.url == f"{fleet.base}/orgs/acme"


@pytest.mark.xdist_group("up")
def test_an_incident_that_begins_appears_without_a_reload(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/incidents")
    page.evaluate("window.untouched = true")
    fleet.github.control.lose("acme", pool="pink", count=1)
    page.get_by_text("1 incident is open").wait_for()
    assert page.evaluate("window.untouched") is True
