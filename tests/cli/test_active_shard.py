"""The pool's `active_command` and `active_url`: no shell, no secrets, a timeout."""

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ghapp import active_shard
from ghapp.active_shard import LARGEST_BYTES, query_active_shard
from ghapp.gate.active_shard import ActiveShardAnswer
from ghapp.settings import PoolSettings, Settings
from tests.support.waiting import has_ended, wait_for

NOW = 1_790_000_000.0


def clock():
    return NOW


def pool(*command, **changes):
    return PoolSettings("acme", "linux", shard_label="shard", active_command=command, **changes)


@pytest.fixture
def settings():
    environ = {"PATH": os.environ["PATH"], "AWS_REGION": "eu-west-1", "AWS_SECRET": "hush"}
    return replace(Settings.read({}), command_env=environ)


def python(code):
    return pool(sys.executable, "-c", code)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("print('  pink  ')", ActiveShardAnswer("pink", "", NOW)),
        ("print('pink', end='')", ActiveShardAnswer("pink", "", NOW)),
        ("import sys; print('pink'); print('hush', file=sys.stderr)", ActiveShardAnswer("pink", "", NOW)),
        ("print()", ActiveShardAnswer("", "its output is empty", NOW)),
        ("print('pink purple')", ActiveShardAnswer("", "its output is not the name of a shard", NOW)),
        (
            "import sys; sys.stdout.buffer.write(bytes([255]))",
            ActiveShardAnswer("", "its output is not the name of a shard", NOW),
        ),
        ("import sys; print('pink'); sys.exit(3)", ActiveShardAnswer("", "exit code 3", NOW)),
        (
            f"print('a' * {LARGEST_BYTES + 1})",
            ActiveShardAnswer("", f"its output has more than {LARGEST_BYTES} bytes", NOW),
        ),
        (
            "while True: print('a' * 9999)",
            ActiveShardAnswer("", f"its output has more than {LARGEST_BYTES} bytes", NOW),
        ),
        ("input()", ActiveShardAnswer("", "exit code 1", NOW)),
    ],
    ids=[
        "trimmed",
        "no line end",
        "stderr",
        "nothing",
        "two words",
        "no text",
        "failed",
        "too much",
        "endless",
        "reads stdin",
    ],
)
async def test_the_output_of_a_command_is_the_shard_or_an_error(settings, code, answer):
    assert await query_active_shard(settings, python(code), clock) == answer


async def test_a_command_runs_without_a_shell(settings, tmp_path):
    made = tmp_path / "made"
    await query_active_shard(settings, pool("echo", f"pink; touch {made}", "$(id)", "> x"), clock)
    assert not made.exists()
    assert (
        await query_active_shard(settings, pool("echo pink"), clock)
    ).failure == "it could not be started (FileNotFoundError)"


async def test_a_command_gets_only_the_environment_variables_that_the_pool_lists(settings, monkeypatch):
    monkeypatch.setenv("GHAPP_PRIVATE_KEY", "hush")
    code = "import os; print('_'.join(sorted(set(os.environ) - {'LC_CTYPE'})))"
    assert (await query_active_shard(settings, python(code), clock)).shard == "PATH"
    named = replace(python(code), active_env=("AWS_REGION", "AWS_PROFILE"))
    assert (await query_active_shard(settings, named, clock)).shard == "AWS_REGION_PATH"


async def test_a_command_that_hangs_is_killed_with_its_child_processes(settings, monkeypatch, tmp_path):
    monkeypatch.setattr(active_shard, "TIMEOUT_SECONDS", 3.0)
    found = tmp_path / "pid"
    code = (
        f"import subprocess as s; p = s.Popen(['sleep', '60']); open({str(found)!r}, 'w').write(str(p.pid)); p.wait()"
    )
    answer = await query_active_shard(settings, python(code), clock)
    assert answer == ActiveShardAnswer("", "no answer within 3 s", NOW)
    assert await asyncio.to_thread(wait_for, lambda: found.exists() and has_ended(found.read_text()))


async def test_a_pool_without_a_source_has_no_answer(settings):
    assert await query_active_shard(settings, pool(), clock) is None


class Parameter(BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = {
            "/pink": (200, b"pink\n"),
            "/long": (200, b"a" * 3_000_000),
            "/case": (200, b"PINK"),
            "/html": (200, b"<!doctype html><p>pink</p>"),
            "/empty": (200, b" \n"),
            "/moved": (302, b"pink"),
        }.get(self.path, (503, b"pink"))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # the client reads up to its limit and closes
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    with ThreadingHTTPServer(("127.0.0.1", 0), Parameter) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/pink", ActiveShardAnswer("pink", "", NOW)),
        ("/long", ActiveShardAnswer("", f"its output has more than {LARGEST_BYTES} bytes", NOW)),
        ("/gone", ActiveShardAnswer("", "it answered 503", NOW)),
        ("/case", ActiveShardAnswer("PINK", "", NOW)),
        ("/html", ActiveShardAnswer("", "its output is not the name of a shard", NOW)),
        ("/empty", ActiveShardAnswer("", "its output is empty", NOW)),
        ("/moved", ActiveShardAnswer("", "it answered 302", NOW)),
    ],
)
async def test_the_body_of_a_url_is_the_shard_or_an_error(settings, url, path, answer):
    assert await query_active_shard(settings, pool(active_url=url + path), clock) == answer


async def test_a_url_without_a_server_is_an_error(settings):
    answer = await query_active_shard(settings, pool(active_url="http://127.0.0.1:1/"), clock)
    assert answer == ActiveShardAnswer("", "it did not answer (ConnectError)", NOW)
