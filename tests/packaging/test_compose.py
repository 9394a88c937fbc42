"""The example for Compose runs each role that needs no cluster, with settings that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from ghapp.deliveries.api import LARGEST_BYTES
from ghapp.settings import Settings
from ghapp.settings.settings import VARIABLES
from ghapp.web.api.status import GET_READYZ
from tests.manifests.rendered import ROOT
from tests.packaging.test_documents import VERSION

COMPOSE = yaml.safe_load((ROOT / "docs" / "compose.yaml").read_text())
REDIS = COMPOSE["services"]["redis"]
ROLES = {name: each for name, each in COMPOSE["services"].items() if name != "redis"}
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def test_it_has_each_role_but_the_watch_and_two_workers():
    assert {name: each["command"] for name, each in ROLES.items()} == {
        "web": "web",
        "worker": "worker",
        "clock": "clock",
    }
    assert {name: each.get("deploy", {}).get("replicas", 1) for name, each in ROLES.items()} == {
        "web": 1,
        "worker": 2,
        "clock": 1,
    }


def test_its_image_is_the_one_that_the_dockerfile_says_how_to_build():
    (image,) = {each["image"] for each in ROLES.values()}
    assert image == f"ghapp:{VERSION}"
    assert {each["pull_policy"] for each in ROLES.values()} == {"never"}
    assert f"docker build --tag {image} ." in (ROOT / "Dockerfile").read_text()
    assert f"docker build --tag {image} ." in OPERATIONS


@pytest.mark.parametrize("role", ROLES)
def test_each_variable_is_one_of_ghapp_and_its_value_is_accepted(role, tmp_path):
    environ = ROLES[role]["environment"]
    assert environ.keys() <= {*VARIABLES}
    mount = ROLES[role]["volumes"][0].split(":")
    assert mount == ["./ghapp.toml", environ["GHAPP_CONFIG"], "ro"]
    (tmp_path / "ghapp.toml").write_text("")
    Settings.read({**environ, "GHAPP_CONFIG": str(tmp_path / "ghapp.toml")})


def test_what_the_document_puts_into_the_env_file_are_variables_of_ghapp():
    (sentence,) = re.findall(r"^`ghapp\.env` has .*?\n\n", OPERATIONS, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(GHAPP_\w+)`", sentence)
    assert len(named) == 5
    assert {*named} <= {*VARIABLES}


def test_its_redis_keeps_its_data_forgets_nothing_and_has_no_port():
    words = REDIS["command"].split()
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert "ports" not in REDIS
    assert REDIS["volumes"] == ["redis:/data"]
    assert COMPOSE["volumes"].keys() == {"redis"}


@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (503, False)])
def test_the_web_role_is_healthy_while_it_is_ready(status, is_healthy):
    how, python, flag, code = ROLES["web"]["healthcheck"]["test"]
    assert (how, python, flag) == ("CMD", "python", "-c"), "the image has no curl"
    here = f"http://127.0.0.1:{ROLES['web']['environment']['GHAPP_LISTEN'].partition(':')[2]}{GET_READYZ.path}"
    assert here in code

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == GET_READYZ.path else 404)
            self.end_headers()

        def log_message(self, *_):
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = code.replace(":8000", f":{server.server_port}")
        done = subprocess.run([sys.executable, "-c", asked], check=False, capture_output=True, timeout=30)
        server.shutdown()
    assert (done.returncode == 0) is is_healthy, done.stderr


def test_redis_is_healthy_while_it_answers():
    assert REDIS["healthcheck"]["test"] == ["CMD-SHELL", "redis-cli ping | grep -q PONG"]


def test_only_the_machine_itself_reaches_the_web_role_and_its_proxy_is_the_trusted_one():
    (port,) = ROLES["web"]["ports"]
    environ = ROLES["web"]["environment"]
    assert port == f"127.0.0.1:8000:{environ['GHAPP_LISTEN'].partition(':')[2]}"
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert environ["GHAPP_TRUSTED_PROXIES"] == network["gateway"]


def test_the_proxy_takes_as_large_a_delivery_as_ghapp_does():
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", OPERATIONS)
    assert int(megabytes) * 2**20 >= LARGEST_BYTES
