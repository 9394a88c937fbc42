"""docs/controllers.md: each snippet is run, against a real web role, with stand-ins for AWS, GARM and systemd."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from standardwebhooks import Webhook

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.runners.evidence import Survey
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.tokens import Tokens
from tests.cli.conftest import ACME, Http, Known
from tests.rules.builders import online

PAGE = (Path(__file__).parents[2] / "docs" / "controllers.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
POOLS = "".join(text for kind, text in BLOCKS if kind == "toml")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def block(kind, text):
    (found,) = [each for name, each in BLOCKS if name == kind and text in each]
    return found


def read_pools(path):
    (path / "ghapp.toml").write_text(f'[remediation]\nmode = "act"\n{POOLS}')
    return {"GHAPP_CONFIG": str(path / "ghapp.toml"), "GHAPP_STATE_DIR": str(path), "CONTROLLER_SECRET": SECRET}


def test_the_settings_accept_every_pool(tmp_path):
    pools = Settings.read(read_pools(tmp_path)).pools
    assert {each.name: each.replacer for each in pools} == {
        "arc-linux": "arc",
        "garm-linux": "none",
        "aws-linux": "cloudevents",
    }


@pytest.fixture
async def site(redis, redis_url, tmp_path):
    """Acme with GARM's runner 2, lost and granted a replacement, and runner 3, which is online."""
    secret, _ = await Tokens(redis).create("garm", ("acme",), ("read", "claim"), time.time())
    site = Known(redis, redis_url, tmp_path, Http(redis_url, secret))
    await Installations(redis).put(Installation(ACME, "acme", 1))
    await Runners(redis).save_survey(ACME, Survey(site.now, 1))
    garm = {"first_seen": site.now - 600, "labels": ("self-hosted", "garm-linux"), "custom_labels": ("garm-linux",)}
    missing = {"absent_since": site.now - 90, "first_404_at": site.now - 60, "confirmed_at": site.now - 30}
    missing |= {"observed_at": site.now - 30}
    await site.add_runner(
        online(2, **garm, **missing, listed=False, online=False, granted_at=site.now - 20, event_id="e")
    )
    await site.add_runner(online(3, **garm))
    return site


def stand_in(folder, name):
    """Puts a command on the PATH that records its arguments in a file of its name."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f'#!/bin/sh\necho "$@" >> "{folder / name}.calls"\n')
    (folder / "bin" / name).chmod(0o755)


def calls(folder, name):
    file = folder / f"{name}.calls"
    return file.read_text().splitlines() if file.exists() else []


async def run_script(site, folder, script, **environ):
    async with site.http.serving(read_pools(folder)) as url:
        path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
        given |= {"PATH": path, "GHAPP_URL": url, "GHAPP_TOKEN": site.http.secret, **environ}
        done = await asyncio.to_thread(
            subprocess.run, ["/bin/sh", "-c", script], env=given, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


async def test_garm_deletes_the_lost_runner_once_and_reports_it(site, redis, tmp_path):
    pytest.importorskip("jq")
    stand_in(tmp_path, "garm-cli")
    for _ in range(2):
        await run_script(site, tmp_path, block("sh", "garm-cli"))
    assert calls(tmp_path, "garm-cli") == ["runner delete linux-2"]
    assert (await Runners(redis).all(ACME))[2].replaced_at is not None


@pytest.mark.parametrize(("runner", "restarts"), [("linux-2", 1), ("linux-3", 0), ("unknown", 0)])
async def test_a_machine_is_set_up_again_only_if_its_runner_was_lost(site, tmp_path, runner, restarts):
    stand_in(tmp_path, "systemctl")
    await run_script(site, tmp_path, block("sh", "runner-alive"), ORG="acme", RUNNER_NAME=runner)
    assert calls(tmp_path, "systemctl") == ["restart actions-runner-setup.service"] * restarts


async def test_a_machine_leaves_its_runner_alone_without_an_answer(site, tmp_path):
    stand_in(tmp_path, "systemctl")
    script = f"GHAPP_URL=http://127.0.0.1:1\n{block('sh', 'runner-alive')}"
    await run_script(site, tmp_path, script, ORG="acme", RUNNER_NAME="linux-2")
    assert calls(tmp_path, "systemctl") == []


def test_the_units_are_valid_and_name_the_script():
    service, timer = configparser.ConfigParser(), configparser.ConfigParser()
    service.read_string(block("ini", "oneshot"))
    timer.read_string(block("ini", "timers.target"))
    assert service["Service"]["ExecStart"] in block("sh", "runner-alive")
    assert "OnUnitActiveSec" in timer["Timer"]


VARIABLES = {"ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT=1", "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1"}


def test_each_controllers_section_sets_the_two_variables_or_says_where_they_are():
    _, *sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    assert {each.partition("\n")[0] for each in sections if "two variables" in each.lower()} == {
        each.partition("\n")[0] for each in sections
    }
    machines = [each for each in sections if each.startswith(("terraform", "Machines"))]
    assert all(variable in each for each in machines for variable in VARIABLES)


def test_the_cost_of_the_log_and_the_way_back_are_documented():
    assert "What the first one costs." in PAGE
    assert "Turn it back." in PAGE


@pytest.mark.parametrize("runs", [1, 3])
def test_the_script_adds_each_variable_once_and_keeps_what_is_there(tmp_path, runs):
    (tmp_path / ".env").write_text("LANG=C.UTF-8\n")
    for _ in range(runs):
        subprocess.run(["sh", "-c", block("sh", "RUNNER_DIR has")], env={"RUNNER_DIR": str(tmp_path)}, check=True)
    assert (tmp_path / ".env").read_text().splitlines()[0] == "LANG=C.UTF-8"
    assert sorted((tmp_path / ".env").read_text().splitlines()[1:]) == sorted(VARIABLES)


def test_the_user_data_and_the_unit_set_both_variables(tmp_path):
    (line,) = re.findall(r"^ +(printf .*)$", block("hcl", "userdata_post_install"), re.MULTILINE)
    subprocess.run(["sh", "-c", line.replace("/opt/actions-runner", str(tmp_path))], check=True)
    assert set((tmp_path / ".env").read_text().splitlines()) == VARIABLES
    unit = configparser.ConfigParser()
    unit.read_string(block("ini", "variables.conf"))
    assert set(unit["Service"]["Environment"].split()) == VARIABLES


class Aws(ModuleType):
    """boto3, with one instance in an Auto Scaling group; records what is terminated."""

    def __init__(self):
        super().__init__("boto3")
        self.terminated = []

    def client(self, name):
        self.name = name
        return self

    def describe_auto_scaling_instances(self, InstanceIds):  # noqa: N803 - as in boto3
        return {"AutoScalingInstances": [{}] if InstanceIds == ["i-0aaaaaaaaaaaaaaaa"] else []}

    def terminate_instance_in_auto_scaling_group(self, InstanceId, ShouldDecrementDesiredCapacity):  # noqa: N803 - as in boto3
        self.terminated.append(("group", InstanceId, ShouldDecrementDesiredCapacity))

    def terminate_instances(self, InstanceIds):  # noqa: N803 - as in boto3
        self.terminated.append(("ec2", *InstanceIds))


@pytest.mark.parametrize(
    ("kind", "subject", "secret", "status", "terminated"),
    [
        ("replace", "prod-i-0aaaaaaaaaaaaaaaa", SECRET, 202, [("group", "i-0aaaaaaaaaaaaaaaa", False)]),
        ("replace", "i-0bbbbbbbbbbbbbbbb", SECRET, 202, [("ec2", "i-0bbbbbbbbbbbbbbbb")]),
        ("offline", "i-0bbbbbbbbbbbbbbbb", SECRET, 204, []),
        ("replace", "linux-2", SECRET, 204, []),
        ("replace", "i-0bbbbbbbbbbbbbbbb", "whsec_" + "A" * 32, 401, []),
    ],
    ids=["in a group", "alone", "other event", "no instance", "wrong signature"],
)
def test_the_lambda_terminates_the_instance_of_a_signed_event(monkeypatch, kind, subject, secret, status, terminated):
    aws = Aws()
    monkeypatch.setitem(sys.modules, "boto3", aws)
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    names = {}
    exec(compile(block("python", "def handler"), "lambda.py", "exec"), names)
    body, now = json.dumps({"type": f"ghapp.runner.{kind}.v1", "subject": subject}), datetime.now(UTC)
    headers = {
        "webhook-id": "1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("1", now, body),
    }
    answer = names["handler"]({"body": body, "headers": headers, "isBase64Encoded": False}, None)
    assert (answer["statusCode"], aws.terminated) == (status, terminated)
