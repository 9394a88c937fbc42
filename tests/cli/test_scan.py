"""`ghapp scan` as a process: exit codes, forms of the result, and whose token it uses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from ghapp.exit_codes import FAILED, INTERRUPTED, MISUSED
from ghapp.sandbox import OrgConfig, PoolConfig, SandboxConfig, SandboxServer
from ghapp.untrusted_text import visible
from tests.cli.test_cli import ghapp, one_line
from tests.support.commands import inherited
from tests.support.nasty_names import NASTY, not_seen

POOLS = (PoolConfig(name="linux-4vcpu", size=6, ephemeral=False),)
TOKEN = "ghp_mona"
SECONDS = ("--seconds", "1")


@pytest.fixture
def sandbox():
    with SandboxServer(SandboxConfig(orgs=(OrgConfig(pools=POOLS),), quiet=True, ticking=False)) as server:
        yield server


def scan(sandbox, *words, **environ):
    return ghapp("scan", *words, **{"GHAPP_GITHUB_API_URL": sandbox.api_url, "GH_TOKEN": TOKEN, **environ})


def test_a_fleet_that_works_is_0_and_needs_no_app_no_redis_and_no_configuration(sandbox):
    done = scan(sandbox, "acme", *SECONDS)
    assert done.returncode == 0, done.stderr
    assert "acme: nothing is wrong. All 6 runners are healthy." in done.stdout
    assert done.stdout.rstrip().endswith(f"GHAPP_GITHUB_WEB_URL={sandbox.url} ghapp up`")
    assert "second list in 1 s" in done.stderr


def test_what_is_wrong_is_1_and_comes_first(sandbox):
    sandbox.control.take_offline("acme", count=2)
    done = scan(sandbox, "acme", "enterprises/acme-corp", *SECONDS)
    assert done.returncode == FAILED
    assert done.stdout.startswith("acme: 2 of 6 runners of linux-4vcpu are offline")


def test_json_has_the_whole_document_and_its_fields_can_be_chosen(sandbox):
    done = scan(sandbox, "--json", "acme", *SECONDS)
    document = json.loads(done.stdout)
    assert (document["problems"], [each["scope"] for each in document["scopes"]]) == (0, ["acme"])
    assert document["scopes"][0]["runners"] == {"healthy": 6}
    assert document["calls"] <= 60
    chosen = scan(sandbox, "acme", "--json", "scope,problems", *SECONDS)
    assert json.loads(chosen.stdout) == [{"scope": "acme", "problems": []}]


def test_markdown_to_paste_into_an_issue(sandbox):
    done = scan(sandbox, "acme", "--markdown", *SECONDS)
    assert done.stdout.startswith("### `acme`\n\n- nothing is wrong.")


def test_names_of_outsiders_are_text_in_each_form(sandbox):
    for name in NASTY:
        sandbox.control.queue("acme", labels=["self-hosted", name])
    table, page = (scan(sandbox, "acme", *form, *SECONDS) for form in ((), ("--markdown",)))
    for done in (table, page):
        assert done.returncode == 0, done.stderr
        assert not_seen(done.stdout) == {}
    assert all(visible(name)[:20] in table.stdout for name in NASTY[:3])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["acne"], "did you mean acme?"),
        (["mona"], "is a personal account"),
        (["acme/.."], "is no target"),
        (["a b"], "is no target"),
        ([], "Missing argument"),
        (["acme", "--seconds", "0"], "--seconds"),
        (["acme", "--seconds", "301"], "--seconds"),
        (["acme", "--seconds", "nan"], "--seconds"),
        (["acme", "--markdown", "--json"], "leave out one of them"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2_with_one_line(sandbox, words, text):
    assert text in one_line(scan(sandbox, *words), MISUSED)


def test_without_a_token_it_says_where_one_comes_from(sandbox, tmp_path):
    done = ghapp("scan", "acme", GHAPP_GITHUB_API_URL=sandbox.api_url, PATH=str(tmp_path))
    assert "run `gh auth login`" in one_line(done, MISUSED)


@pytest.mark.parametrize("token", ["ghp_wrong", "ghp wrong", "ghp_wröng"])
def test_a_token_that_is_none_is_named_and_not_shown(sandbox, token):
    done = scan(sandbox, "acme", GH_TOKEN=token)
    assert one_line(done, MISUSED).startswith("ghapp: GH_TOKEN: ")
    assert token not in done.stderr + done.stdout


def test_tokens_are_looked_for_as_gh_does(sandbox, tmp_path):
    gh, host = tmp_path / "gh", sandbox.url.removeprefix("http://")
    gh.write_text(f'#!/bin/sh\n[ "$*" = "auth token --hostname {host}" ] && echo {TOKEN}\n')
    gh.chmod(0o755)
    for environ in (
        {"PATH": f"{tmp_path}:/bin:/usr/bin"},
        {"GITHUB_TOKEN": TOKEN},
        {"GH_TOKEN": TOKEN, "GITHUB_TOKEN": "ghp_wrong"},
    ):
        done = ghapp("scan", "mona", GHAPP_GITHUB_API_URL=sandbox.api_url, **environ)
        assert "is a personal account" in one_line(done, MISUSED), "GitHub has accepted the token"


def test_a_github_that_gives_no_answer_is_1():
    done = ghapp("scan", "acme", GHAPP_GITHUB_API_URL="http://127.0.0.1:1/api/v3", GH_TOKEN=TOKEN)
    assert done.returncode == FAILED
    assert "no answer" in done.stdout


def test_ctrl_c_between_the_lists_is_130(sandbox):
    environ = {**inherited(), "GHAPP_GITHUB_API_URL": sandbox.api_url, "GH_TOKEN": TOKEN}
    command = [sys.executable, "-m", "ghapp", "scan", "acme", "--seconds", "200"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "second list" in line:
                break
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == INTERRUPTED
        assert "Traceback" not in process.stderr.read()
