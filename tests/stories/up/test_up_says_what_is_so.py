"""What `ghapp up` says: an address that answers, or in one line why there is none."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from redis import Redis

from ghapp.local.local_redis import NOTICE_SECONDS, START_SECONDS
from ghapp.local.redis_servers import find_supported_servers
from tests.stories.processes import PATIENCE_SECONDS
from tests.stories.up.test_up_under_nohup import answers
from tests.support.browser import Browser
from tests.support.commands import inherited
from tests.support.keys import private_key
from tests.support.ports import free_port
from tests.support.running import github_without_app, running
from tests.support.waiting import wait_for


@pytest.fixture
def github():
    with github_without_app() as sandbox:
        yield sandbox


def up(folder, **variables):
    """Runs `ghapp up` to its end; returns its exit code and what it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    environ |= {"GHAPP_STATE_DIR": str(folder / "state"), **variables}
    command = [sys.executable, "-m", "ghapp", "up", "--port", str(free_port())]
    completed = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return completed.returncode, completed.stdout + completed.stderr


def last_line(folder, **variables):
    code, printed = up(folder, **variables)
    assert (code, "Traceback" in printed) == (2, False), printed
    return printed.splitlines()[-1]


def test_a_redis_that_does_not_answer_ends_it_before_anything_is_started(tmp_path):
    code, line = up(tmp_path, GHAPP_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
    assert code == 2
    assert re.fullmatch(r"ghapp: Redis does not answer: .+; check GHAPP_REDIS_URL\n", line)
    assert not (tmp_path / "state").exists()


def test_a_state_directory_that_cannot_be_written_ends_it(tmp_path):
    code, line = up(tmp_path, GHAPP_STATE_DIR="/proc/ghapp")
    assert (code, line) == (2, "ghapp: GHAPP_STATE_DIR: cannot create /proc/ghapp: No such file or directory\n")


def make_folders(path):
    path.mkdir(parents=True)


def make_fifo(path):
    path.parent.mkdir(parents=True)
    os.mkfifo(path, 0o600)


def make_file(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@pytest.mark.xdist_group("up")
@pytest.mark.parametrize(
    ("make", "name", "text"),
    [
        (make_file, "", "{} is not a directory"),
        (make_fifo, "app.json", "{} is not a regular file; remove it"),
        (make_folders, "app.json", "{} is not a regular file; remove it"),
        (make_fifo, "ghapp.log", "cannot use {}: it is not a regular file"),
        (make_folders, "ghapp.log", "cannot use {}: it is not a regular file"),
        (make_file, "redis", "cannot use {}: File exists"),
        (make_folders, "redis/lock", "cannot use {}: it is not a regular file"),
        (make_fifo, "redis/redis.log", "cannot use {}: it is not a regular file"),
        (make_folders, "redis/redis.sock", "cannot use {}: Is a directory"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_cannot_be_used_in_the_state_directory_is_named_in_one_line(tmp_path, make, name, text):
    path = tmp_path / "state" / name
    make(path)
    assert last_line(tmp_path) == f"ghapp: GHAPP_STATE_DIR: {text.format(path)}"


@pytest.mark.xdist_group("up")
def test_a_redis_that_accepts_connections_and_does_not_answer_ends_it(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        line = last_line(tmp_path, GHAPP_REDIS_URL=f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
    assert line == "ghapp: Redis does not answer: Timeout reading from socket; check GHAPP_REDIS_URL"


@pytest.mark.xdist_group("up")
def test_a_local_redis_that_takes_long_to_start_is_named_meanwhile(github, tmp_path):
    server = find_supported_servers()[0]
    wrapper = tmp_path / "bin" / server.binary.name
    wrapper.parent.mkdir()
    version = f'if [ "$1" = --version ]; then exec {server.binary} --version; fi'
    wrapper.write_text(f'#!/bin/sh\n{version}\nsleep {NOTICE_SECONDS + 1}\nexec {server.binary} "$@"\n')
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"
    with running(github, tmp_path, free_port(), more={"PATH": path}) as app:
        printed = app.terminal_output()
    assert f"waiting for the local Redis, which may be reading its data, for up to {START_SECONDS:.0f} s: " in printed
    assert f"({wrapper}); see {app.state / 'redis' / 'redis.log'}\n" in printed


@pytest.mark.xdist_group("up")
def test_without_standard_streams_it_runs_as_with_them(tmp_path):
    url, log = f"http://127.0.0.1:{(port := free_port())}/livez", tmp_path / "state" / "ghapp.log"
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "ghapp", "up", "--port", str(port)]
    process = subprocess.Popen(command, env=inherited() | {"GHAPP_STATE_DIR": str(tmp_path / "state")})
    try:
        assert wait_for(lambda: answers(url))
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert (code, "Assertion" in log.read_text()) == (0, False), log.read_text()


@pytest.mark.xdist_group("up")
def test_a_state_directory_that_is_deleted_while_it_runs_is_reported(github, tmp_path):
    with running(github, tmp_path, free_port()) as app:
        shutil.rmtree(app.state)
        expected = f"GHAPP_STATE_DIR: {app.state} was deleted while ghapp ran; stop ghapp, and start it again\n"
        assert wait_for(lambda: expected in app.terminal_output()), app.terminal_output()
        assert f"{app.state / 'redis'} was deleted or replaced while ghapp ran: " in app.terminal_output()


@pytest.mark.xdist_group("up")
def test_a_role_that_refuses_its_configuration_ends_it_with_the_role_s_line(tmp_path):
    policy = tmp_path / "ghapp.toml"
    policy.write_text('[[pools]]\norg = "acme"\nname = "a"\nlabels = ["a"]\nreplacer = "pods"\nnamespace = "runners"\n')
    line = last_line(
        tmp_path,
        GHAPP_CONFIG=str(policy),
        GHAPP_APP_ID="1",
        GHAPP_PRIVATE_KEY=private_key(),
        GHAPP_WEBHOOK_SECRET="hush",
        KUBECONFIG=str(tmp_path / "missing"),
    )
    assert re.fullmatch(r"ghapp: KUBECONFIG: cannot read .+/missing: .+ \(the role watch\)", line)


@pytest.mark.xdist_group("up")
def test_without_a_terminal_it_prints_lines_and_without_deliveries_it_finds_the_installation_by_itself(
    github, tmp_path
):
    (tmp_path / "state").mkdir(mode=0o755)
    with running(github, tmp_path, free_port()) as app, httpx.Client(timeout=PATIENCE_SECONDS) as client:
        browser = Browser(client)
        browser.open(app.keyed("/setup"))
        browser.click("Continue")
        browser.press("Create the App", organization="acme")
        browser.press("Create GitHub App for acme")
        assert wait_for(lambda: "GitHub is asked every 5 seconds" in app.terminal_output()), app.terminal_output()
        (installed,) = github.world.registry.apps.values()
        github.world.registry.install(installed, "acme", github.world.now())  # neither by a delivery nor by a browser
        assert wait_for(lambda: "the App is installed on acme\n" in app.terminal_output(), 15), app.terminal_output()
        lines = app.terminal_output().splitlines()
        assert len([line for line in lines if "GitHub is asked every" in line]) == 1, "said once"
        Redis.from_url(f"unix://{app.state}/redis/redis.sock").ping()
        readable = [path for path in app.state.rglob("*") if path.lstat().st_mode & 0o077 and not path.is_socket()]
        assert readable == [], "by others than their owner"
        (web,) = app.processes("web")
        os.kill(int(web), 9)
        assert wait_for(lambda: "web exited with code -9; it is started again at " in app.terminal_output())
        assert wait_for(app.listens)
    assert app.terminal_output().endswith("stopped\n")


@pytest.mark.xdist_group("up")
def test_a_temporary_directory_with_a_long_path_is_named_by_its_own_variable(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    command = [sys.executable, "-m", "ghapp", "up", "--sandbox", "--port", str(free_port())]
    environ = inherited() | {"TMPDIR": str(folder)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith("ghapp: TMPDIR: the path of its Redis socket has ")) == (2, True)
    assert list(folder.iterdir()) == []
