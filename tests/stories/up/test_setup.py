"""From no App to an App at work, from outside: a terminal, a browser, and GitHub's part played by the sandbox."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import signal
from pathlib import Path

import httpx
import pytest

from tests.stories.processes import PATIENCE_SECONDS
from tests.support.browser import Browser
from tests.support.ports import free_port
from tests.support.running import RUNNERS, github_without_app, running
from tests.support.waiting import wait_for


@pytest.fixture
def github():
    with github_without_app() as sandbox:
        yield sandbox


def swept(base):
    """How many runners the last sweep found, if there was one."""
    found = re.search(
        r'ghapp_last_sweep_runners\{org="acme"\} (\d+)', httpx.get(f"{base}/metrics", timeout=PATIENCE_SECONDS).text
    )
    return found and int(found[1])


def deliver(base, secret):
    body = json.dumps({"zen": "Keep it logically awesome."}).encode()
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "ping", "x-github-delivery": "guid", "x-hub-signature-256": signature}
    headers |= {"content-type": "application/json"}
    return httpx.post(f"{base}/webhook", content=body, headers=headers, timeout=PATIENCE_SECONDS)


@pytest.mark.xdist_group("up")
def test_one_button_creates_the_app_and_everything_starts_by_itself(github, tmp_path):
    port = free_port()
    with running(github, tmp_path, port) as app, httpx.Client(timeout=PATIENCE_SECONDS) as client:
        assert f"{app.base}/setup?key=" in app.terminal_output()
        (web,) = app.processes("web")
        assert app.processes("worker") == app.processes("clock") == []
        early = deliver(app.base, "anything")
        assert (early.status_code, early.headers["retry-after"]) == (503, "10")

        browser = Browser(client)
        browser.open(app.keyed("/setup"))
        browser.click("Continue")
        browser.press("Create the App", organization="acme")
        assert browser.url.path == "/organizations/acme/settings/apps/new"
        browser.press("Create GitHub App for acme")
        assert (str(browser.url), browser.answer.status_code) == (f"{app.base}/setup", 200)

        kept = app.state / "app.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        created = json.loads(kept.read_text())
        assert deliver(app.base, created["webhook_secret"]).status_code == 202, "at once"
        browser.click("Install the App")
        browser.press("Install on acme")
        assert browser.url.path == "/setup/installed"
        assert wait_for(lambda: swept(app.base) == RUNNERS, 40), app.log()[-3000:]
        assert app.processes("web") == [web], "without a restart"
        assert [len(app.processes(role)) for role in ("worker", "clock")] == [2, 1]

        assert client.post(f"{app.base}/setup", data={"organization": "acme"}).status_code == 409
        assert len(github.world.registry.apps) == 1
        shown = app.terminal_output() + app.log() + browser.text + browser.open(f"{app.base}/setup").text
        assert not [name for name in ("client_secret", "webhook_secret", "pem") if created[name] in shown]

    with running(github, tmp_path, port, end_by=signal.SIGTERM) as app:
        assert wait_for(lambda: app.processes("clock"), 20), app.terminal_output()
        assert "/setup" not in app.terminal_output()
        assert deliver(app.base, created["webhook_secret"]).status_code == 202


@pytest.mark.xdist_group("up")
def test_it_takes_the_key_that_the_terminal_prints_and_no_other_user_of_this_machine_can_read(github, tmp_path):
    with running(github, tmp_path, free_port()) as app, httpx.Client(timeout=PATIENCE_SECONDS) as client:
        key, link = app.key, f"{app.base}/setup"
        browser = Browser(client)
        assert browser.open(link).status_code == 403
        assert browser.press("Continue", key="guessed").status_code == 403
        browser.press("Continue", key=key)
        browser.click("Continue")
        assert (str(browser.url), browser.answer.status_code) == (link, 200)
        browser.press("Create it on my own account")
        assert browser.url.path == "/settings/apps/new", "of the person's own account"
        browser.press("Create GitHub App")
        assert str(browser.url) == link
        assert (app.state / "app.json").exists()
        assert key not in app.log()
        assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if key.encode() in _read(each)]
        assert app.state.stat().st_mode & 0o077 == 0


def _read(path):
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""
