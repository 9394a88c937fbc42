"""The fleet's pages in a real browser: real roles in front of the sandbox, each page, each button, without JavaScript."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from playwright.sync_api import expect

from ghapp.store import keys
from ghapp.store.connect import connect_sync
from tests.browser.axe import violations
from tests.browser.site import Site, site

PAGES = {
    "organizations": "/?all",
    "overview": "/orgs/acme",
    "runners": "/orgs/acme/runners",
    "runner": "/orgs/acme/runners/{runner}",
    "github": "/orgs/acme/github",
    "system": "/system",
    "pause": "/orgs/acme/pause",
    "not found": "/orgs/nothing",
    "sign-in": "/sign-in",
}
ABSENT = {"not found"}
REFUSED = re.compile(r"the server responded with a status of 40[134]")
"""What Chromium logs of a page that is refused on purpose, and of a refresh that is under way at a sign-out."""


class PageSite(Site):
    """With the addresses of its pages."""

    def path(self, name):
        runner = next(iter(self.github.fleet.roster.registered))
        return PAGES[name].format(runner=runner)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, chromium):
    with site(tmp_path_factory.mktemp("page"), kind=PageSite) as shown:
        yield shown


@pytest.fixture
def open_page(chromium, fleet):
    """Opens a tab; fails for console errors, requests to elsewhere, and pages wider than the screen."""
    contexts, flaws = [], []

    def listen(message):
        if message.type in ("error", "warning") and not REFUSED.search(message.text):
            flaws.append(message.text)

    def watch(request):
        if not request.url.startswith((fleet.base, fleet.github.url)):
            flaws.append(f"request to {request.url}")

    def measure(page):
        if not page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"):
            flaws.append(f"{page.url} is too wide")

    def run(*, has_key=True, **screen):
        contexts.append(chromium.new_context(**screen))
        if has_key:
            name, value = fleet.app.key_cookie
            contexts[-1].add_cookies([{"name": name, "value": value, "url": fleet.base}])
        page = contexts[-1].new_page()
        page.on("console", listen)
        page.on("request", watch)
        if screen.get("java_script_enabled", True):
            page.on("load", measure)
        return page

    yield run
    for context in contexts:
        context.close()
    assert flaws == []


def sign_in(page, fleet, person, path="/orgs/acme"):
    page.goto(fleet.base + path)
    page.get_by_role("link", name="Sign in with").click()
    page.get_by_role("button", name=f"Authorize ghapp as {person}").click()
    page.wait_for_url(f"{fleet.base}/**")


@pytest.mark.xdist_group("browser-pages")
def test_a_page_has_no_flaw_that_axe_finds_and_fits_a_narrow_screen(open_page, fleet):
    page = open_page(viewport={"width": 360, "height": 800}, bypass_csp=True)
    for name in PAGES:
        answer = page.goto(fleet.base + fleet.path(name))
        assert answer.status == (404 if name in ABSENT else 200), name
        assert violations(page) == [], name


@pytest.mark.xdist_group("browser-pages")
def test_a_wide_page_runs_under_its_policy(open_page, fleet):
    page = open_page(viewport={"width": 1600, "height": 900})
    for name in PAGES:
        page.goto(fleet.base + fleet.path(name))
        expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.xdist_group("browser-pages")
def test_the_keyboard_reaches_the_content_and_each_link_shows_its_focus(open_page, fleet):
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Sweep now"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.xdist_group("browser-pages")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_a_member_signs_in_sees_the_fleet_without_buttons_and_signs_out(open_page, fleet, script):
    page = open_page(has_key=False, java_script_enabled=script)
    sign_in(page, fleet, "lisa", "/orgs/acme/runners")
    assert page.url == f"{fleet.base}/orgs/acme/runners"
    page.get_by_role("link", name="Overview").click()
    assert page.get_by_role("link", name="Pause").count() == 0
    assert page.context.cookies()[0]["httpOnly"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto(f"{fleet.base}/orgs/acme")
    assert "/sign-in" in page.url


@pytest.mark.xdist_group("browser-pages")
def test_a_live_page_waits_for_the_answer_to_its_sign_out(open_page, fleet):
    page = open_page(has_key=False)
    sign_in(page, fleet, "lisa")

    def answer_late(route):
        answer = route.fetch(max_redirects=0)
        time.sleep(2.5)  # the page is live each second, and its session is over
        route.fulfill(response=answer)

    page.route("**/sign-out", answer_late)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()


@pytest.mark.xdist_group("browser-pages")
def test_a_stranger_and_who_refuses_see_nothing(open_page, fleet):
    page = open_page(has_key=False)
    sign_in(page, fleet, "sam")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    other = open_page(has_key=False)
    other.goto(f"{fleet.base}/orgs/acme")
    other.get_by_role("link", name="Sign in with").click()
    other.get_by_role("button", name="Cancel").click()
    expect(other.get_by_role("heading", name="GitHub did not sign you in")).to_be_visible()


@pytest.mark.xdist_group("browser-pages")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_an_owner_pauses_and_resumes(open_page, fleet, script):
    page = open_page(has_key=False, java_script_enabled=script)
    sign_in(page, fleet, "mona")
    page.get_by_role("link", name="Pause").click()
    page.get_by_label("Pool").select_option("linux-4vcpu")
    page.get_by_label("Reason").fill("driver <update>" + " of the machines in the second building" * 3)
    page.get_by_role("button", name="Pause remediation").click()
    expect(page.locator(".notice")).to_have_text(re.compile("Pause linux-4vcpu, .* UTC. Remediation was paused: "))
    if script:
        expect(page).to_have_url(f"{fleet.base}/orgs/acme")
    expect(page.get_by_text("Remediation is paused in linux-4vcpu by mona").first).to_be_visible()
    expect(page.get_by_text("driver <update>").first).to_be_visible()
    copy = page.locator(".command").filter(has_text="ghapp resume acme --pool linux-4vcpu").get_by_role("button")
    assert copy.count() == (1 if script else 0), "without a script there is no button that does nothing"
    if script:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        copy.click()
        wanted = "async () => (await navigator.clipboard.readText()) === 'ghapp resume acme --pool linux-4vcpu'"
        page.wait_for_function(wanted)
    page.get_by_role("link", name="Pause").click()
    page.get_by_label("Reason").fill("all of it")
    page.get_by_role("button", name="Pause remediation").click()
    expect(page.get_by_text("Remediation is paused by mona").first).to_be_visible()
    page.get_by_role("link", name="Resume").click()
    page.get_by_label("Pool").select_option("")
    page.get_by_role("button", name="Resume remediation").click()
    expect(page.get_by_text("Remediation was resumed")).to_be_visible()
    assert page.get_by_text("Remediation is paused").count() == 0
    audited = page.get_by_role("region", name="Audit log")
    expect(audited.get_by_role("row").filter(has_text="pause linux-4vcpu").first).to_be_visible()
    resumed = audited.get_by_role("row").filter(has_text="resume all pools").first
    expect(resumed.get_by_text("ended the pause of all pools by mona")).to_be_visible()
    resumed.locator("summary").click()
    if script:
        time.sleep(2.5)  # the page is refreshed each second, and keeps what is unfolded
    expect(resumed.get_by_text("ended the pause of linux-4vcpu by mona")).to_be_visible()


@pytest.mark.xdist_group("browser-pages")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_an_owner_sweeps_looks_and_filters(open_page, fleet, script):
    page = open_page(has_key=False, java_script_enabled=script)
    sign_in(page, fleet, "mona")
    page.get_by_role("link", name="Sweep now").click()
    page.get_by_role("button", name="Sweep now").click()
    expect(page.locator(".notice")).to_have_text(
        re.compile("A sweep is queued|Sweep, .* UTC: ")
    )  # its outcome may be there
    page.get_by_role("link", name="Runners", exact=True).click()
    name = next(iter(fleet.github.fleet.roster.registered.values())).name
    page.get_by_label("Name or id").fill(name)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name=name).click()
    page.get_by_role("link", name="Look at this runner").click()
    page.get_by_role("button", name="Look at this runner").click()
    expect(page.locator(".notice")).to_have_text(re.compile("A look at this runner is queued|Look at .* UTC: "))


@pytest.mark.xdist_group("browser-pages")
def test_a_page_that_is_open_shows_a_loss_without_a_reload(open_page, fleet):
    page = open_page()
    page.goto(f"{fleet.base}/orgs/acme")
    page.evaluate("window.untouched = true")
    fleet.github.control.lose("acme", count=2)
    page.get_by_text(re.compile(r"2 of 12 runners of linux-4vcpu are lost")).first.wait_for()
    assert page.evaluate("window.untouched") is True


@pytest.mark.xdist_group("browser-pages")
def test_a_slow_click_on_a_page_that_changes_meanwhile_is_a_click(open_page, fleet):
    page = open_page()
    changes = itertools.count()

    def change(route):
        if "hx-request" not in route.request.headers:
            return route.continue_()
        return route.fulfill(body=f"{route.fetch().text()}<hr id='change-{next(changes)}'>")

    page.route("**/runners*", change)
    page.goto(f"{fleet.base}/orgs/acme/runners")
    page.locator("#change-1").wait_for(state="attached")
    runner = page.get_by_role("region", name="Runners").locator("tbody a").first
    runner.hover()
    page.mouse.down()
    page.wait_for_timeout(2500)  # the page is refreshed each second
    page.mouse.up()
    expect(page.get_by_role("link", name="Look at this runner")).to_be_visible()


@pytest.mark.xdist_group("browser-pages")
@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without"])
def test_an_owner_replays_a_delivery_that_was_given_up(open_page, fleet, script):
    letter = {"g": f"guid-{script}", "e": "ping", "f": b"{}", "w": "no effect", "t": repr(time.time())}
    with connect_sync(f"unix://{fleet.app.state}/redis/redis.sock") as redis:
        redis.xadd(keys.DEAD_LETTERS, letter)
        page = open_page(has_key=False, java_script_enabled=script)
        sign_in(page, fleet, "mona", "/system")
        page.get_by_role("listitem").filter(has_text=letter["g"]).get_by_role("link", name="Replay").click()
        page.get_by_role("button", name="Replay the delivery").click()
        expect(page.get_by_text("The delivery is in the inbox again.")).to_be_visible()
        assert redis.xlen(keys.DEAD_LETTERS) == 0
        expect(page.get_by_role("row").filter(has_text=f"replay {letter['g']}")).to_be_visible()
