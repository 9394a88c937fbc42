"""Check runs in a browser."""

from __future__ import annotations

import httpx
import pytest

from tests.sandbox.test_manifest_flow import press

OUTPUT = {"title": "3 of 300 are lost", "summary": "<b>three</b>", "text": "fuse: stopped"}
ACTIONS = [{"label": "Resume", "description": "Replace the lost again", "identifier": "resume"}]


@pytest.fixture
def posted(acme, sandbox):
    head = sandbox.world.orgs["acme"].repositories[".github"].head_sha
    body = {"name": "Runner health", "head_sha": head, "conclusion": "neutral", "output": OUTPUT, "actions": ACTIONS}
    return acme.post("/repos/acme/.github/check-runs", json=body).raise_for_status().json()


def test_a_check_run_is_shown_at_its_html_url_and_cannot_write_html(posted):
    page = httpx.get(posted["html_url"])
    assert page.headers["content-type"].startswith("text/html")
    for expected in (
        "Runner health: 3 of 300 are lost",
        "neutral",
        "&lt;b&gt;three&lt;/b&gt;",
        "fuse: stopped",
        "Resume",
    ):
        assert expected in page.text


def test_it_links_to_the_page_of_its_app_and_to_no_script(acme, posted):
    for address, is_shown in (("https://ghapp.acme.io/orgs/acme", True), ("javascript:alert(1)", False)):
        acme.patch(f"/repos/acme/.github/check-runs/{posted['id']}", json={"details_url": address})
        assert (f'href="{address}"' in httpx.get(posted["html_url"]).text) is is_shown


def test_its_tables_are_tables_and_its_links_may_be_followed(acme, sandbox, posted):
    (lost,) = sandbox.control.lose("acme", count=1)
    path = "/organizations/acme/settings/actions/runners"
    known = next(iter(sandbox.world.orgs["acme"].fleet.roster.registered.values()))
    text = f"| Runner |\n| --- |\n| [`lost`]({sandbox.url}{path}/{lost}) |\n\n[x](javascript:alert) <script>"
    acme.patch(f"/repos/acme/.github/check-runs/{posted['id']}", json={"output": {**OUTPUT, "text": text}})
    page = httpx.get(posted["html_url"]).text
    assert "<th>Runner</th>" in page
    assert f'<a href="{sandbox.url}{path}/{lost}"><code>lost</code></a>' in page
    assert "<script>" not in page
    assert 'href="javascript' not in page
    missing, present = httpx.get(f"{sandbox.url}{path}/{lost}"), httpx.get(f"{sandbox.url}{path}/{known.id}")
    assert (missing.status_code, present.status_code) == (404, 200)
    assert f"No runner {lost} is registered" in missing.text
    assert known.name in present.text


def test_code_and_line_breaks_are_as_on_github_and_nothing_else_is_html(acme, posted):
    text = "<code>a&#32;&#60;b&#62;</code><br><b>x</b>"
    acme.patch(f"/repos/acme/.github/check-runs/{posted['id']}", json={"output": {**OUTPUT, "text": text}})
    assert "<code>a &lt;b&gt;</code><br>&lt;b&gt;x&lt;/b&gt;" in httpx.get(posted["html_url"]).text


def test_a_check_run_that_goes_on_shows_its_status(acme, posted):
    acme.patch(f"/repos/acme/.github/check-runs/{posted['id']}", json={"status": "in_progress"})
    assert "Status: <b>in progress</b>" in httpx.get(posted["html_url"]).text


def test_its_button_notifies_the_app_and_shows_the_page_again(sandbox, receiver, posted):
    with httpx.Client(base_url=sandbox.url, follow_redirects=True) as browser:
        shown = press(browser, browser.get(posted["html_url"]), "Resume")
        assert str(shown.url) == posted["html_url"]
        press(browser, browser.get(posted["html_url"]), "Re-run")
    payloads = {got.payload["action"]: got.payload for got in receiver.wait(3)}
    assert payloads.keys() == {"created", "requested_action", "rerequested"}
    assert payloads["requested_action"]["requested_action"] == {"identifier": "resume"}
    assert payloads["requested_action"]["check_run"]["id"] == posted["id"]
    assert payloads["requested_action"]["sender"]["login"] == "mona"


def test_a_button_is_pressed_by_the_person_who_signed_in_last_in_the_browser(sandbox, receiver, posted):
    (redirect,) = sandbox.app.callback_urls[:1]
    person = {"client_id": sandbox.app.client_id, "redirect_uri": redirect, "login": "lisa"}
    with httpx.Client(base_url=sandbox.url) as browser:
        assert "Signed in as mona" in browser.get(posted["html_url"]).text
        assert browser.post("/login/oauth/authorize", data=person).status_code == 302
        shown = browser.get(posted["html_url"])
        assert "Signed in as lisa" in shown.text
        press(browser, shown, "Resume")
    (pressed,) = [got.payload for got in receiver.wait(2) if got.payload["action"] == "requested_action"]
    assert pressed["sender"]["login"] == "lisa"


def test_a_check_run_that_is_not_complete_has_no_buttons(acme, posted):
    acme.patch(f"/repos/acme/.github/check-runs/{posted['id']}", json={"status": "in_progress"})
    assert "<button" not in httpx.get(posted["html_url"]).text


def test_a_repository_lists_its_check_runs(sandbox, posted):
    assert f"/acme/.github/runs/{posted['id']}" in httpx.get(f"{sandbox.url}/acme/.github/runs").text


@pytest.mark.parametrize("path", ["/acme/.github/runs/1", "/acme/nothing/runs", "/unknown/api/runs/1"])
def test_what_is_not_there_is_a_404_page(sandbox, path):
    answer = httpx.get(sandbox.url + path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Not Found" in answer.text


def test_pressing_the_button_of_nothing_is_a_404_page(sandbox):
    assert httpx.post(f"{sandbox.url}/acme/.github/runs/1", data={"identifier": "resume"}).status_code == 404


def test_a_new_check_run_is_delivered_to_its_app(sandbox, receiver, posted):
    (got,) = receiver.wait(1)
    assert (got.event, got.payload["action"], got.payload["check_run"]["id"]) == ("check_run", "created", posted["id"])
