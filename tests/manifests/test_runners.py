"""What goes into a runner's pod: its probe fails for one answer, and for nothing else."""

import os
import shutil
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from ghapp.runners.verdict import Limits
from ghapp.web.problems import TYPE
from tests.manifests.rendered import MANIFESTS

TEMPLATE = yaml.safe_load((MANIFESTS / "runners" / "runner.yaml").read_text())["spec"]["template"]
CHART = yaml.safe_load((MANIFESTS / "runners" / "arc" / "values.yaml").read_text())["template"]
(RUNNER,) = TEMPLATE["spec"]["containers"]
PROBE = RUNNER["livenessProbe"]

ANSWERS = [
    pytest.param(410, TYPE, False, id="it is invalidated"),
    pytest.param(410, f"{TYPE}; charset=utf-8", True, id="not in our words"),
    pytest.param(410, "text/html", True, id="somebody else's 410"),
    pytest.param(410, "", True, id="a 410 of no type"),
    pytest.param(200, TYPE, True, id="it lives"),
    pytest.param(301, TYPE, True, id="moved"),
    pytest.param(404, TYPE, True, id="no such page"),
    pytest.param(429, TYPE, True, id="too many"),
    pytest.param(500, TYPE, True, id="a mistake of ours"),
    pytest.param(503, TYPE, True, id="Redis is away"),
]


MOST_SECONDS = "--max-time 5 "


def passes(url, path=os.environ["PATH"], most_seconds=MOST_SECONDS):
    """Whether the probe passes, run as the kubelet runs it."""
    environ = {"PATH": path, "http_proxy": "http://127.0.0.1:9/"} | ({} if url is None else {"RUNNER_ALIVE_URL": url})
    shell, option, script = PROBE["exec"]["command"]
    command = [shutil.which(shell), option, script.replace(MOST_SECONDS, most_seconds)]
    return subprocess.run(command, env=environ, timeout=PROBE["timeoutSeconds"], check=False).returncode == 0


@pytest.fixture
def answering():
    """Starts a server with one answer; its address."""
    servers = []

    def start(code, kind):
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(code)
                if kind:
                    self.send_header("Content-Type", kind)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/alive"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on PATH")


@needs_curl
@pytest.mark.parametrize(("code", "kind", "passed"), ANSWERS)
def test_it_fails_for_410_in_our_own_words_alone(answering, code, kind, passed):
    assert passes(answering(code, kind)) is passed


@needs_curl
def test_it_passes_where_no_server_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert passes(f"http://127.0.0.1:{taken.getsockname()[1]}/alive")


@needs_curl
def test_it_passes_where_a_silent_server_listens():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert passes(f"http://127.0.0.1:{silent.getsockname()[1]}/alive", most_seconds="--max-time 1 ")


@needs_curl
@pytest.mark.parametrize("url", [None, "", "http://", "http://no-such-host.invalid/alive", "nonsense"])
def test_it_passes_when_it_knows_no_way(url):
    assert passes(url)


def test_it_passes_without_curl(answering, tmp_path):
    assert passes(answering(410, TYPE), path=str(tmp_path))


def test_it_passes_when_curl_is_broken(answering, tmp_path):
    (tmp_path / "curl").write_text("#!/bin/sh\necho '410 application/problem+json'\nexit 56\n")
    (tmp_path / "curl").chmod(0o755)
    assert passes(answering(410, TYPE), path=str(tmp_path))


def test_it_begins_after_the_time_that_a_new_runner_is_given():
    assert PROBE["initialDelaySeconds"] > Limits().startup_seconds


def test_curl_ends_long_before_the_kubelet_gives_up():
    (script,) = PROBE["exec"]["command"][2:]
    assert script.count(MOST_SECONDS) == 1
    assert PROBE["timeoutSeconds"] >= 6 * 5


def test_one_other_answer_in_ten_minutes_saves_it():
    assert PROBE["periodSeconds"] * PROBE["failureThreshold"] == 600
    assert "successThreshold" not in PROBE


def test_arcs_chart_is_given_the_same():
    (theirs,) = CHART["spec"]["containers"]
    assert {key: theirs[key] for key in RUNNER} == RUNNER
    assert theirs["command"] == ["/home/runner/run.sh"]


def test_what_a_post_mortem_needs_is_set():
    values = {row["name"]: row.get("value") for row in RUNNER["env"]}
    assert values["ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT"] == "1"
    assert values["ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"] == "1"


def test_no_variable_of_a_runner_would_be_taken_for_one_of_ghapps():
    assert not [row["name"] for row in RUNNER["env"] if row["name"].startswith("GHAPP_")]
