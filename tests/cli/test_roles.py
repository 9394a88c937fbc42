"""Roles that cannot start: one clear line, exit code 2, and no files left."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from ghapp.cli.roles import _with_port
from ghapp.local.dashboard import invitation, page_line
from ghapp.settings import Settings
from tests.support import commands
from tests.support.keys import private_key
from tests.support.ports import free_port


@pytest.fixture
def ghapp(tmp_path):
    """Runs a command to its end; returns its exit code and its stderr."""

    def run(*arguments, **environ):
        done = commands.ghapp(*arguments, **{"GHAPP_STATE_DIR": str(tmp_path / "state"), **environ})
        return done.returncode, done.stderr

    return run


def test_the_web_role_alone_requires_credentials(ghapp, redis_url):
    code, expected = ghapp("web", GHAPP_REDIS_URL=redis_url, GHAPP_LISTEN=f"127.0.0.1:{free_port()}")
    assert code == 2
    assert expected == "ghapp: GHAPP_APP_ID: not set; create the App with `ghapp up` and /setup\n"


def test_the_web_role_does_not_import_heavy_libraries_at_its_start():
    script = "import sys, ghapp.web.app; print([name for name in ('githubkit', 'yaml', 'rq') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("listen", "host"), [("", "127.0.0.1"), ("localhost:1", "localhost")])
def test_ghapp_up_reports_an_address_in_use_at_once(ghapp, tmp_path, listen, host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, expected = ghapp("up", "--port", str(port), GHAPP_LISTEN=listen)
    assert code == 2
    assert expected.startswith(f"ghapp: GHAPP_LISTEN: cannot listen at {host}:{port}: Address already in use; ")
    assert expected.count("\n") == 1
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--sandbox", "--scenario", "los"), "--scenario: 'los' is unknown; there are loss, mass-loss, oom, leak, "),
        (("--scenario", "loss"), "--scenario: needs --sandbox; "),
    ],
    ids=["unknown", "without the sandbox"],
)
def test_a_scenario_that_cannot_be_started_is_wrong_usage(ghapp, tmp_path, arguments, expected):
    code, error = ghapp("up", *arguments)
    assert code == 2
    assert error.startswith(f"ghapp: {expected}")
    assert error.count("\n") == 1
    assert not (tmp_path / "state").exists()


def test_the_web_role_reports_an_address_in_use(ghapp, redis_url):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        theirs = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "hush"}
        code, expected = ghapp("web", GHAPP_REDIS_URL=redis_url, GHAPP_LISTEN=address, **theirs)
    assert code == 2
    assert expected.startswith(f"ghapp: GHAPP_LISTEN: cannot listen at {address}: Address already in use; ")
    assert expected.count("\n") == 1


def test_a_state_directory_that_cannot_be_created_is_reported(ghapp, tmp_path):
    (tmp_path / "state").write_text("a file")
    code, expected = ghapp("up", GHAPP_LISTEN=f"127.0.0.1:{free_port()}")
    assert code == 2
    assert expected.startswith("ghapp: GHAPP_STATE_DIR: ")
    assert expected.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "here", "elsewhere"),
    [
        ({}, "http://127.0.0.1:8000", None),
        ({"GHAPP_LISTEN": "0.0.0.0:80"}, "http://127.0.0.1:80", "http://build-7:80"),
        ({"GHAPP_LISTEN": "[::]:80"}, "http://[::1]:80", "http://build-7:80"),
        ({"GHAPP_LISTEN": "[2001:db8::7]:80"}, "http://[2001:db8::7]:80", None),
        ({"GHAPP_PUBLIC_URL": "https://g.example/x"}, "http://127.0.0.1:8000", "https://g.example/x"),
    ],
)
def test_the_terminal_shows_the_addresses_with_the_key_for_browsers_here_and_elsewhere(
    tmp_path, monkeypatch, environ, here, elsewhere
):
    monkeypatch.setattr("socket.gethostname", lambda: "build-7")
    settings = Settings.read({"GHAPP_STATE_DIR": str(tmp_path), **environ})
    for text, path in [(invitation(settings, "k"), "/setup?key=k"), (page_line(settings, "k"), "/?key=k")]:
        found = re.findall(r"https?://\S+", text.plain)
        assert found == [f"{each}{path}" for each in (here, elsewhere) if each is not None]


@pytest.mark.parametrize(
    ("value", "address"),
    [
        (None, "127.0.0.1:81"),
        ("", "127.0.0.1:81"),
        ("0.0.0.0:80", "0.0.0.0:81"),
        ("[::]:80", "[::]:81"),
        ("build-7:80", "build-7:81"),
    ],
)
def test_another_port_leaves_the_host(value, address):
    assert _with_port(value, 81) == address
