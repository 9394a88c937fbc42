"""Run by test_ends.py as a suite: a test that leaves processes, a port and files, and then ends in one of many ways.

Its variable is `TESTS_END`, a JSON object: `how` the test ends, and in which `file` it writes its process id, the
process ids of what it has started, and the address at which one of those listens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

STUBBORN = """
import signal, socket, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(600)
"""
DAEMON = """
import os, subprocess, sys
os.chdir("/")
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""


@pytest.mark.timeout(2 if json.loads(os.environ["TESTS_END"])["how"] == "timeout" else 300)
def test_that_leaves_all_kinds_of_things(redis_url, tmp_path):
    end = json.loads(os.environ["TESTS_END"])
    stubborn = started(STUBBORN)
    port = int(stubborn.stdout.readline())
    daemon = started(DAEMON)
    orphan = int(daemon.stdout.readline())
    daemon.wait()
    Path(tempfile.mkdtemp(), "file").touch()
    (tmp_path / "unreadable").mkdir(mode=0)
    report = {"test": os.getpid(), "started": [stubborn.pid, orphan], "port": port}
    Path(end["file"]).with_suffix(".new").write_text(json.dumps(report))
    Path(end["file"]).with_suffix(".new").rename(end["file"])
    if end["how"] == "fails":
        pytest.fail("as it should")
    if end["how"] != "passes":
        time.sleep(600)


def started(program):
    """A process in a session of its own, whose environment names no suite."""
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env={}, stdout=subprocess.PIPE, start_new_session=True)
