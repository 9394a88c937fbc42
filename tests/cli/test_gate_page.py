"""docs/gate.md is correct: its commands and its file are valid, and its steps are those of the gate."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest
import yaml

from ghapp.cli.main import main
from ghapp.gate.api import DeployBody
from ghapp.gate.judgement import STOP
from ghapp.settings import PoolSettings, Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gate.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    words
    for kind, block in BLOCKS
    if kind in ("console", "yaml")
    for words in re.findall(r"(?:^\$ |&& |run: |^ +- )(ghapp .+)$", block, re.MULTILINE)
]
CODE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)


def block(kind, number=0):
    return [text for each, text in BLOCKS if each == kind][number]


def read(words):
    """Parses the options and arguments of a command without running it."""
    program, *rest = shlex.split(words)
    assert program == "ghapp"
    command = main
    while hasattr(command, "commands"):
        name = rest.pop(0)
        command = command.commands[name]
    command.make_context(name, rest)


def test_the_page_has_commands():
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("words", COMMANDS)
def test_every_documented_command_is_valid(words):
    read(words)


def test_an_invalid_command_would_be_found():
    with pytest.raises(Exception, match="No such option"):
        read("ghapp gate acme linux pink --patience 9")
    with pytest.raises(Exception, match="Missing parameter"):
        read("ghapp gate acme linux")


def test_every_documented_option_is_an_option_of_the_gate():
    known = {name for each in main.commands["gate"].params for name in each.opts}
    named = set(re.findall(r"`(--[\w-]+)`", CODE))
    assert named
    assert named <= known


def test_the_documented_file_is_valid(tmp_path):
    (tmp_path / "ghapp.toml").write_text(block("toml"))
    (pool,) = Settings.read({"GHAPP_CONFIG": str(tmp_path / "ghapp.toml")}).pools
    assert (pool.deploy_repository, pool.min_online) == ("acme/infra", 3)


def test_every_key_of_the_gate_is_documented_and_no_other():
    of_gate = {each.name for each in fields(PoolSettings)} - {
        "org",
        "name",
        "labels",
        "replacer",
        "url",
        "secret_env",
        "namespace",
        "replace_offline_after_seconds",
        "runner_name",
        "rerun",
    }
    (rows,) = re.findall(r"^\| key \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    first = [line.split("|")[1] for line in rows.splitlines()[2:] if line]
    assert {key for cell in first for key in re.findall(r"`(\w+)`", cell)} == of_gate
    in_file = set(tomllib.loads(block("toml"))["pools"][0])
    assert of_gate - in_file == {"active_url"}, "excluded by the other key"


@pytest.mark.parametrize("number", [0, 1], ids=["GitHub Actions", "GitLab CI"])
def test_the_examples_are_yaml_and_use_the_exit_code(number):
    text = block("yaml", number)
    assert yaml.safe_load(text)
    assert "ghapp gate acme linux-4vcpu pink --timeout" in text
    assert "--provision-log provision.log" in text
    assert not re.search(r"ghapp gate .*(\|\||;|continue-on-error|allow_failure)", text)


def test_the_commands_in_the_examples_are_valid():
    found = re.findall(r"-d '(\{\"role\".*\})'", PAGE)
    assert len(found) == 3
    for body in found:
        filled = body.replace("""'"$(date -u +%FT%TZ)"'""", "2026-11-20T12:00:00Z")
        filled = filled.replace("""'"$GITHUB_SHA"'""", "0" * 40)
        filled = filled.replace("""'"$counts"'""", "2,0,1").replace("""'"$error"'""", "")
        assert msgspec.json.decode(filled, type=DeployBody).role in ("active", "inactive")


def test_provisioning_is_documented_with_both_streams():
    found = re.findall(r"terraform apply .*", PAGE)
    assert len(found) == 2
    assert all(each.endswith("2>&1 | tee provision.log") for each in found), "errors are on stderr"


@pytest.mark.parametrize(
    ("log", "counts", "error"),
    [
        ("Apply complete! Resources: 2 added, 0 changed, 1 destroyed.", "2,0,1", ""),
        ("\N{BOX DRAWINGS LIGHT VERTICAL} Error: no quota", "", "the apply failed"),
        ("", "", ""),
    ],
)
def test_the_documented_pipeline_reads_the_log(log, counts, error, tmp_path):
    (tmp_path / "provision.log").write_text(f"{log}\n")
    (script,) = re.findall(r"^ +(counts=.*\n +error=.*)$", PAGE, re.MULTILINE)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", f'{script}\necho "$counts;$error"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{counts};{error}\n"


def test_requests_to_the_sandbox_are_json_that_its_controls_take():
    found = [json.loads(body) for body in re.findall(r"/deploy -d '(.*)'$", PAGE, re.MULTILINE)]
    assert found == [{"shard": "pink", "badly": True}, {"shard": "pink"}]


def steps():
    """The first words of each step of the gate, from its source."""
    for name in ("next_steps", "judgement"):
        tree = ast.parse((ROOT / "ghapp" / "gate" / f"{name}.py").read_text())
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "NextStep":
                step = call.args[0]
                expected = step.values[0] if isinstance(step, ast.JoinedStr) else step
                yield STOP if isinstance(expected, ast.Name) else expected.value


@pytest.mark.parametrize("step", sorted({step.split(":")[0].strip() for step in steps()}))
def test_every_step_is_explained(step):
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    assert any(row.startswith(step) for row in rows)


def checks():
    """The names of all checks, from their source."""
    for name in ("shard_checks", "judgement"):
        source = (ROOT / "ghapp" / "gate" / f"{name}.py").read_text()
        yield from re.findall(r"Check\(\s*\"([\w-]+)\"", source)
    yield "settled"


@pytest.mark.parametrize("name", sorted(set(checks())))
def test_every_check_is_explained(name):
    assert f"| `{name}` | " in PAGE
