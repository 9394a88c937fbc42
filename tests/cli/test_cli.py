"""The command line as a process: one clear line for each error, and an example in each help text."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from datetime import UTC, datetime, timedelta

import click
import pytest

from ghapp.cli.main import main
from ghapp.exit_codes import MISUSED, REDIS_UNAVAILABLE
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.sandbox import SandboxConfig, SandboxServer
from ghapp.store.audit import AuditLog
from ghapp.store.connect import connect
from ghapp.wording import DOCS
from tests.support import commands
from tests.support.keys import private_key
from tests.support.local_redis import embedded_redis

CREDENTIALS = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "hush"}
AWAY = {"GHAPP_REDIS_URL": "redis://127.0.0.1:1/0"}


def ghapp(*words, **environ):
    return commands.ghapp(*words, **{"GHAPP_LOG_FORMAT": "json", **environ})


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


def one_line(answer, code):
    assert answer.returncode == code, answer.stderr
    (line,) = [line for line in answer.stderr.splitlines() if line.startswith("ghapp: ")]
    assert "Traceback" not in answer.stderr
    return line


@pytest.mark.parametrize(
    "words",
    [
        ["sweep"],
        ["runners"],
        ["explain", "acme", "x"],
        ["pause", "acme", "--why", "x"],
        ["resume", "acme"],
        ["token", "create", "--org", "acme", "--scope", "read"],
        ["token", "list"],
        ["token", "revoke", "x"],
        ["deliveries", "dead"],
        ["deliveries", "replay", "--all"],
    ],
    ids=" ".join,
)
def test_without_redis_each_command_reports_it_in_one_line(words):
    assert "check GHAPP_REDIS_URL" in one_line(ghapp(*words, **CREDENTIALS, **AWAY), MISUSED)


@pytest.mark.parametrize("role", ["web", "worker", "clock", "watch"])
def test_a_role_without_redis_has_an_exit_code_of_its_own(role, tmp_path):
    policy, kubeconfig = tmp_path / "ghapp.toml", tmp_path / "kubeconfig"
    policy.write_text('[[pools]]\norg = "acme"\nname = "a"\nlabels = ["a"]\nnamespace = "runners"\n')
    kubeconfig.write_text(KUBECONFIG)
    cluster = {"GHAPP_CONFIG": str(policy), "KUBECONFIG": str(kubeconfig)}
    line = one_line(ghapp(role, **CREDENTIALS, **AWAY, **cluster), REDIS_UNAVAILABLE)
    assert "check GHAPP_REDIS_URL" in line


@pytest.mark.parametrize("role", ["web", "worker", "clock", "watch"])
def test_a_role_that_refuses_its_configuration_has_that_of_wrong_usage(role):
    line = one_line(ghapp(role, **CREDENTIALS, **AWAY, GHAPP_LISTEN="nowhere"), MISUSED)
    assert line.startswith("ghapp: GHAPP_LISTEN: 'nowhere' is not valid")


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"GHAPP_REDIS": "x"}, "GHAPP_REDIS: unknown variable; did you mean GHAPP_REDIS_URL?"),
        ({"GHAPP_CONFIG": "/nowhere.toml"}, "GHAPP_CONFIG: cannot read /nowhere.toml"),
        (
            {"GHAPP_APP_ID": "1"},
            "GHAPP_PRIVATE_KEY and GHAPP_WEBHOOK_SECRET: not set, though other App credentials are",
        ),
        ({**CREDENTIALS, "GHAPP_PRIVATE_KEY": "x"}, "GHAPP_PRIVATE_KEY"),
    ],
    ids=["unknown variable", "no file", "half the credentials", "no key"],
)
def test_an_invalid_configuration_is_refused_in_one_line(environ, text):
    assert one_line(ghapp("runners", **environ), 2).startswith(f"ghapp: {text}")


def test_control_characters_in_quoted_text_are_removed(tmp_path):
    file = tmp_path / "ghapp.toml"
    file.write_text('"a\\n\\u001b[31mb" = 1\n')
    answer = ghapp("runners", GHAPP_CONFIG=str(file))
    assert one_line(answer, 2).startswith("ghapp: [a \ufffd[31mb]: unknown table")
    assert len(answer.stderr.splitlines()) == 1


def test_without_redis_doctor_reports_all_other_findings():
    answer = ghapp("doctor", "--json", **AWAY)
    found = {each["name"]: each for each in json.loads(answer.stdout)["findings"]}
    assert answer.returncode == 1
    assert (found["answers"]["status"], found["credentials"]["status"]) == ("wrong", "wrong")
    assert all(each["fix"] for each in found.values() if each["status"] != "ok")
    assert all({*each} == {"group", "name", "status", "text", "fix", "org"} for each in found.values())


def test_doctor_lists_each_mistake_of_the_configuration_with_its_line_and_what_would_be_right(tmp_path):
    file = tmp_path / "ghapp.toml"
    file.write_text('[sweep]\ninterval_second = 4\n\n[remediation]\nmode = "atc"\n')
    answer = ghapp("doctor", "--json", GHAPP_CONFIG=str(file), GHAPP_PUBLIC_URL="foo")
    assert one_line(answer, MISUSED) == "ghapp: correct this first"
    found = json.loads(answer.stdout)
    assert (found["ok"], found["problems"]) == (False, 3)
    assert [(each["name"], each["text"], each["fix"]) for each in found["findings"][:3]] == [
        ("[sweep] interval_second", "line 2: unknown key", "did you mean interval_seconds?"),
        ("[remediation] mode", "line 5: 'atc' is not valid", "it takes one of act, dry-run, off"),
        ("GHAPP_PUBLIC_URL", "'foo' is not valid", "it takes an http:// or https:// address"),
    ]
    text = ghapp("doctor", "--problems", GHAPP_CONFIG=str(file)).stdout
    assert "line 2: unknown key" in text
    assert text.endswith("2 problems, 1 warning of 3 checks of the set-up\n")


def test_doctor_names_a_file_that_is_no_toml_or_not_there(tmp_path):
    file = tmp_path / "ghapp.toml"
    for text in (None, "[sweep\n"):
        if text is not None:
            file.write_text(text)
        answer = ghapp("doctor", "--json", GHAPP_CONFIG=str(file))
        (problem, *_) = json.loads(answer.stdout)["findings"]
        assert (answer.returncode, problem["name"], problem["status"]) == (MISUSED, "GHAPP_CONFIG", "wrong")
        assert problem["fix"]


def test_a_stale_socket_of_a_killed_redis_is_ignored(tmp_path):
    (tmp_path / "redis").mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "redis" / "redis.sock"))
    line = one_line(ghapp("runners", GHAPP_STATE_DIR=str(tmp_path)), 2)
    assert line.startswith("ghapp: GHAPP_REDIS_URL: not set, and no `ghapp up` runs with the state directory ")


async def install(url):
    async with connect(url) as redis:
        await Installations(redis).put(Installation(7, "acme", 70))


def test_commands_find_the_local_redis_of_ghapp_up(tmp_path):
    with embedded_redis(tmp_path / "redis", durable=False) as url:
        refused = ghapp("token", "create", "--org", "acme", "--scope", "read", GHAPP_STATE_DIR=str(tmp_path))
        assert "acme: the App is not installed there; no organization is known yet: " in one_line(refused, 2)
        empty = ghapp("runners", GHAPP_STATE_DIR=str(tmp_path))
        assert (empty.returncode, empty.stderr.startswith("ghapp: no organization is known yet: ")) == (0, True)
        assert ghapp("token", "list", "--json", GHAPP_STATE_DIR=str(tmp_path)).stdout == "[]\n"
        asyncio.run(install(url))
        made = ghapp("token", "create", "--org", "acme", "--scope", "read", "--json", GHAPP_STATE_DIR=str(tmp_path))
        listed = ghapp("token", "list", "--json", GHAPP_STATE_DIR=str(tmp_path))
        assert [each["id"] for each in json.loads(listed.stdout)] == [json.loads(made.stdout)["id"]]
        assert json.loads(made.stdout)["token"] not in listed.stdout
        made_at = json.loads(listed.stdout)[0]["created_at"]
        assert abs(datetime.fromisoformat(made_at) - datetime.now(UTC)) < timedelta(minutes=5)
        plain = ghapp("token", "create", "--org", "acme", "--scope", "read", GHAPP_STATE_DIR=str(tmp_path))
        assert len(plain.stdout.split()) == 1, "the token alone, for a variable of a shell"
        assert re.fullmatch(r"ghapp: it is valid until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", plain.stderr)
        table = ghapp("token", "list", GHAPP_STATE_DIR=str(tmp_path)).stdout
        assert table.split()[:6] == ["id", "name", "orgs", "scopes", "created", "expires"]
        assert not any(line.endswith(" ") for line in table.splitlines()), "lines have no trailing spaces"
        assert ghapp("deliveries", "dead", GHAPP_STATE_DIR=str(tmp_path)).stdout == "no delivery was given up\n"
        for words in (["runners", "--org", "unknown"], ["explain", "unknown", "x"], ["resume", "unknown"]):
            unknown = ghapp(*words, GHAPP_STATE_DIR=str(tmp_path))
            assert "unknown: the App is not installed there; known are acme" in one_line(unknown, 2)
        nothing = ghapp("doctor", "--json", GHAPP_STATE_DIR=str(tmp_path))
        assert (nothing.returncode, json.loads(nothing.stdout)["ok"]) == (1, False)


def test_a_key_of_another_app_is_reported_in_one_line(tmp_path):
    with (
        SandboxServer(SandboxConfig(quiet=True, ticking=False)) as sandbox,
        embedded_redis(tmp_path / "redis", durable=False) as url,
    ):
        theirs = {**CREDENTIALS, "GHAPP_GITHUB_API_URL": sandbox.api_url, "GHAPP_REDIS_URL": url}
        line = one_line(ghapp("sweep", **theirs), 2)
        assert "GHAPP_APP_ID and the private key are of one App" in line
        ours = {"GHAPP_APP_ID": str(sandbox.app.id), "GHAPP_PRIVATE_KEY": sandbox.app.private_key_pem}
        well = ghapp("sweep", **{**theirs, **ours})
        assert well.returncode == 0, well.stderr
        head, found = well.stdout.splitlines()
        assert (head.split()[:2], found.split()[:2]) == (["org", "runners"], ["acme", "300"])
        sandbox.control.fault("acme", match="/actions/runners", status=502)
        failed = ghapp("sweep", **{**theirs, **ours, "GHAPP_LOG_FORMAT": ""})
        assert failed.returncode == 1
        assert "acme: GitHub does not answer, or answers with errors (GitHubUnavailable)\n  → wait" in failed.stdout
        assert failed.stderr == "", "the reason is printed once"
        away = ghapp("sweep", **{**theirs, **ours, "GHAPP_GITHUB_API_URL": "http://127.0.0.1:1/api/v3"})
        assert "check GHAPP_GITHUB_API_URL" in one_line(away, 1)
        assert asyncio.run(audited(url, sandbox.installation_id())) == [
            ("command", "sweep", "failed: GitHub does not answer"),
            ("command", "sweep", "found no suspect"),
        ]
        unknown = ghapp("sweep", "--org", "unknown", **{**theirs, **ours})
        assert "unknown: the App is not installed there; known are acme" in one_line(unknown, 2)
        name = json.loads(ghapp("runners", "--json", **{**theirs, **ours}).stdout)["runners"][0]["name"]
        explained = ghapp("explain", "acme", name, COLUMNS="20", FORCE_COLOR="1", NO_COLOR="1", **{**theirs, **ours})
        assert f"acme {name}\n" in explained.stdout, "a name is not wrapped in a narrow terminal"


async def audited(url, installation):
    async with connect(url) as redis:
        return [
            (each.channel, each.action, each.result.partition(",")[0])
            for each in await AuditLog(redis).latest(installation, 10)
        ]


@pytest.mark.parametrize(
    "words",
    [
        ["token", "create"],
        ["runners", "--state", "dead"],
        ["runners", "--states"],
        ["explain", "acme"],
        ["nothing"],
        ["--nothing"],
        ["deliveries", "replay"],
        ["up", "--port", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2_with_one_line(words):
    answer = ghapp(*words)
    one_line(answer, 2)
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [[], ["token"], ["deliveries"]], ids=["ghapp", "token", "deliveries"])
def test_without_a_command_the_help_is_printed(words):
    answer = ghapp(*words)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == ghapp(*words, "--help").stdout


def test_the_help_lists_each_command_once_by_purpose():
    listed = re.findall(r"^  ([a-z]+)  ", ghapp().stdout.partition("Look:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(main.commands)
    assert "..." not in ghapp(COLUMNS="80").stdout.partition("Look:")[2], "what a command does is not cut off"


@pytest.mark.parametrize("words", ["runners", "sweep", "pause acme --why x", "gate acme linux pink"])
def test_without_anything_configured_each_way_is_named(words, tmp_path):
    line = one_line(ghapp(*words.split(), GHAPP_STATE_DIR=str(tmp_path)), 2)
    assert all(each in line for each in ("GHAPP_URL", "GHAPP_TOKEN", "GHAPP_REDIS_URL", "ghapp up"))


@pytest.mark.parametrize("words", ["token list", "init", "deliveries replay --all"])
def test_a_command_that_needs_redis_says_that_the_server_does_not_serve_it(words, tmp_path):
    line = one_line(ghapp(*words.split(), GHAPP_STATE_DIR=str(tmp_path)), 2)
    assert line.endswith(f"set GHAPP_REDIS_URL; GHAPP_URL serves other commands ({DOCS}/commands.md)")


def test_a_redis_that_is_away_is_reported_with_the_way_over_http():
    assert "GHAPP_URL" in one_line(ghapp("runners", **AWAY), 2)


def test_a_mistyped_command_is_reported_with_the_nearest_command():
    line = one_line(ghapp("check"), 2)
    assert line == "ghapp: No such command 'check'. Did you mean 'clock'? See `ghapp --help`"


def commands_of(group, *words):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, *words, name)
        else:
            yield " ".join([*words, name]), command


@pytest.mark.parametrize(
    ("words", "command"), list(commands_of(main)), ids=lambda each: each if isinstance(each, str) else ""
)
def test_the_help_of_every_command_has_an_example(words, command):
    assert f"ghapp {words}" in (command.help or "")
    assert "Example:" in command.help
