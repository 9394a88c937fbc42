"""`nohup ghapp up &`: it outlives the terminal, and SIGTERM still ends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.commands import inherited
from tests.support.ports import free_port
from tests.support.waiting import wait_for


def answers(url):
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def ignores(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16) & 1 << (number - 1))


@pytest.mark.xdist_group("up")
def test_a_sighup_that_was_ignored_at_the_start_remains_ignored(tmp_path):
    url = f"http://127.0.0.1:{(port := free_port())}/livez"
    environ = inherited() | {"GHAPP_STATE_DIR": str(tmp_path / "state")}
    words = [sys.executable, "-m", "ghapp", "up", "--port", str(port)]
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *words]  # as nohup does
    with (tmp_path / "output").open("wb") as out:
        up = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
    try:
        assert wait_for(lambda: answers(url)), (tmp_path / "output").read_text()
        assert ignores(up.pid, signal.SIGHUP)
        os.kill(up.pid, signal.SIGHUP)
        assert answers(url)
        assert up.poll() is None
    finally:
        up.terminate()
        code = up.wait(60)
    assert code == 0, (tmp_path / "output").read_text()
    assert not answers(url)
