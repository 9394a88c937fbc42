"""/setup in a real browser: its cookies, its redirects, its content security policy, its screens."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from ghapp.sandbox.config import SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.support.ports import free_port
from tests.support.running import running
from tests.support.waiting import wait_for


@contextmanager
def not_set_up(folder):
    """`ghapp up` without credentials, and a GitHub without an App."""
    with (
        SandboxServer(SandboxConfig(app=False, quiet=True)) as github,
        # By another name than ours: to a browser GitHub is another site, and cookies know the difference.
        running(github, folder, free_port(), web_url=github.url.replace("127.0.0.1", "localhost")) as app,
    ):
        yield app


@pytest.fixture(scope="module")
def setup(tmp_path_factory, chromium):
    """For those who do not go all the way."""
    with not_set_up(tmp_path_factory.mktemp("up")) as app:
        yield app


@pytest.fixture
def open_page(chromium):
    """Opens a page on a screen; fails when the browser had to forbid it something, or it was wider than the screen."""
    contexts, flaws = [], []

    def listen(message):
        if "Content Security Policy" in message.text:
            flaws.append(message.text)

    def measure(page):
        if not page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"):
            flaws.append(f"{page.url} is too wide")

    def run(**screen):
        contexts.append(chromium.new_context(**screen))
        page = contexts[-1].new_page()
        page.on("console", listen)
        page.on("load", measure)
        return page

    yield run
    for context in contexts:
        context.close()
    assert flaws == []


@pytest.mark.xdist_group("browser-pages")
def test_a_person_clicks_through(tmp_path, open_page):
    with not_set_up(tmp_path) as setup:
        click_through(setup, open_page)


def click_through(setup, open_page):
    page = open_page(viewport={"width": 390, "height": 800})
    page.goto(setup.keyed("/setup"))
    page.get_by_label("Organization").fill("acme")
    page.get_by_role("button", name="Create the App").click()
    page.get_by_role("button", name="Create GitHub App for acme").click()
    page.wait_for_url(f"{setup.base}/setup")
    page.get_by_role("link", name="Install the App").click()
    page.get_by_role("button", name="Install on acme").click()
    page.wait_for_url(f"{setup.base}/setup/installed*")
    expect(page.get_by_role("heading", name="ghapp is installed")).to_be_visible()
    secret = json.loads((setup.state / "app.json").read_text())["webhook_secret"]
    assert secret not in page.content()
    assert wait_for(lambda: setup.processes("worker"), 20)
    page.get_by_role("link", name="HTTP API").click()
    page.wait_for_url(f"{setup.base}/docs")


@pytest.mark.xdist_group("browser-pages")
def test_enter_is_enough_and_a_bad_name_is_kept_to_be_fixed(setup, open_page):
    page = open_page()
    page.goto(setup.keyed("/setup"))
    page.get_by_label("Organization").fill("a b")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Organization").input_value() == "a b"
    page.get_by_label("Organization").fill("acme")
    page.keyboard.press("Enter")
    page.wait_for_url("**/organizations/acme/settings/apps/new*")


@pytest.mark.xdist_group("browser-pages")
def test_the_key_leaves_the_address_and_a_link_from_another_site_finds_it(setup, open_page):
    page = open_page()
    page.goto(f"{setup.base}/setup")
    page.get_by_label("Key").fill(setup.key)
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{setup.base}/setup")
    expect(page.get_by_role("button", name="Create the App")).to_be_visible()
    other_site = setup.base.replace("127.0.0.1", "localhost")
    page.goto(f"{other_site}/docs")
    page.evaluate(f"location.href = '{setup.base}/setup'")
    page.wait_for_url(f"{setup.base}/setup")
    expect(page.get_by_role("button", name="Create the App")).to_be_visible()


@pytest.mark.xdist_group("browser-pages")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_every_screen(setup, open_page, scheme, width):
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.goto(setup.keyed("/setup"))
    button = page.get_by_role("button", name="Create the App").bounding_box()
    assert button["x"] >= 0
    assert button["x"] + button["width"] <= width
    ink, paper = (
        page.evaluate(f"getComputedStyle(document.querySelector('main')).{name}")
        for name in ("color", "backgroundColor")
    )
    assert (brightness(ink) < brightness(paper)) is (scheme == "light")


@pytest.mark.xdist_group("browser-pages")
@pytest.mark.parametrize("width", [320, 390, 700])
def test_so_does_the_description_and_its_links_can_be_reached_by_keyboard(setup, open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    page.goto(f"{setup.base}/docs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "v1/openapi.json"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def brightness(colour):
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
