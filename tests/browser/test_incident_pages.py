"""The pages of incidents, of the gate and of the findings in a real browser: each width, each colour scheme, no JavaScript."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from ghapp.sandbox.config import OrgConfig, PoolConfig
from tests.browser.axe import violations
from tests.browser.site import POOL, Site, site
from tests.browser.test_pages import open_page  # noqa: F401 - a fixture
from tests.support.waiting import wait_for

POLICY = """
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
        page = self.app.page("/orgs/acme/incidents").text
        return PAGES[name].format(incident=re.findall(r"incidents/(\d+-\d+)", page)[0])


@contextmanager
def incident_site(folder):
    """Loses eight runners, and waits until they are replaced and the findings are complete."""
    shards = [
        PoolConfig(name=each, size=2, labels=("rollout", f"shard:{each}"), ephemeral=False)
        for each in ("pink", "purple")
    ]
    orgs = (OrgConfig(pools=(PoolConfig(name=POOL, size=12), *shards)),)
    with site(folder, orgs, POLICY, IncidentSite) as shown:
        shown.github.control.lose("acme", pool=POOL, count=8)
        healed = "No incident is open; 1 incident"
        assert wait_for(lambda: healed in shown.app.page("/orgs/acme/incidents").text, 90), shown.app.log()
        assert wait_for(lambda: "Passed checks" in shown.app.page("/system").text, 60), shown.app.log()
        yield shown


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, chromium):
    with incident_site(tmp_path_factory.mktemp("incident")) as shown:
        yield shown


@pytest.mark.xdist_group("browser-history")
def test_a_page_has_no_flaw_that_axe_finds_and_fits_each_screen(open_page, fleet):  # noqa: F811
    page = open_page(bypass_csp=True)
    for name in PAGES:
        assert page.goto(fleet.base + fleet.path(name)).status == 200, name
        for screen in SCREENS.values():
            page.set_viewport_size(screen)
            assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), (name, screen)
            assert violations(page) == [], (name, screen)


@pytest.mark.xdist_group("browser-history")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_the_way_from_the_list_to_the_time_line_and_to_a_successor(open_page, fleet, script):  # noqa: F811
    page = open_page(java_script_enabled=script)
    page.goto(f"{fleet.base}/orgs/acme")
    page.get_by_role("link", name="Incidents", exact=True).click()
    page.get_by_role("link", name="8 runners lost in linux-4vcpu").click()
    page.get_by_text("8 runners were lost; healed after").wait_for()
    expect(page.get_by_text("tripped: too many runners were lost at once").first).to_be_visible()
    expect(page.get_by_text("goes on: runners that came since the last batch").first).to_be_visible()
    runners = page.get_by_role("region", name="Lost runners")
    successor = runners.get_by_role("row").nth(1).get_by_role("link").nth(1)
    name = successor.inner_text()
    successor.click()
    page.get_by_role("heading", level=1, name=name).wait_for()


@pytest.mark.xdist_group("browser-history")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_the_gate_shows_each_shard_and_the_system_page_what_to_fix(open_page, fleet, script):  # noqa: F811
    page = open_page(java_script_enabled=script)
    page.goto(f"{fleet.base}/orgs/acme/gate")
    expect(page.get_by_role("region", name="pink of rollout")).to_be_visible()
    expect(page.get_by_role("region", name="purple of rollout")).to_be_visible()
    expect(page.get_by_text("Stop: it is unknown which shard of rollout is active.")).to_be_visible()
    page.get_by_role("link", name="System").click()
    page.get_by_role("link", name="See what to do").click()
    expect(page.get_by_role("heading", name="Findings of the doctor")).to_be_visible()
    expect(page.get_by_text("Fix:").first).to_be_visible()


@pytest.mark.xdist_group("browser-history")
def test_the_terminal_of_up_begins_with_the_address_of_the_page(open_page, fleet):  # noqa: F811
    first = fleet.app.terminal_output().strip().splitlines()[0]
    assert first.startswith("The page: ")
    page = open_page(has_key=False)
    page.goto(first.removeprefix("The page: ").strip())
    page.wait_for_url(f"{fleet.base}/orgs/acme")


@pytest.mark.xdist_group("browser-history")
def test_an_incident_that_begins_appears_without_a_reload(open_page, fleet):  # noqa: F811
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme/incidents")
    page.evaluate("window.untouched = true")
    fleet.github.control.lose("acme", pool="pink", count=1)
    page.get_by_text("1 incident is open").wait_for()
    assert page.evaluate("window.untouched") is True
    page.goto(f"{fleet.base}/orgs/acme")
    worst = page.locator(".banner .lead")
    expect(worst).to_contain_text("1 of 4 runners of rollout is lost")
    expect(page.get_by_text(worst.inner_text())).to_have_count(1)
