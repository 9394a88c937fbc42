"""A runner registers with names that attack a terminal, and `ghapp up` draws them as text."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import pytest

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.stories.processes import environment
from tests.support.commands import inherited
from tests.support.nasty_names import not_seen
from tests.support.ports import free_port
from tests.support.waiting import wait_for

OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What rich sends: colours, and movements of the cursor."""

NAMES = ("[/nope]", "[red]a", "\x1b]0;title\x07", "\x1b[2J\x9b31mred", "two\nlines\u202e")


@pytest.mark.xdist_group("up")
def test_a_label_that_is_markup_or_an_escape_sequence_is_drawn_as_it_is_and_ends_nothing(tmp_path):
    shown = bytearray()
    ours, theirs = pty.openpty()
    threading.Thread(
        target=lambda: [shown.extend(each) for each in iter(lambda: _read(ours), b"")], daemon=True
    ).start()
    pools = tuple(PoolConfig(name=name, size=1, labels=(name,)) for name in NAMES)
    (tmp_path / "ghapp.toml").write_text("")
    with SandboxServer(SandboxConfig(orgs=(OrgConfig(login="acme", pools=pools),), quiet=True)) as github:
        environ = inherited() | environment(github, "", tmp_path / "ghapp.toml")
        del environ["GHAPP_REDIS_URL"]  # one of its own
        environ |= {"GHAPP_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "120", "LINES": "40", "TERM": "xterm"}
        command = [sys.executable, "-m", "ghapp", "up", "--no-browser", "--port", str(free_port())]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
        try:
            text = lambda: OURS.sub("", shown.decode(errors="replace"))  # noqa: E731
            wanted = ("[/nope]", "[red]a", "\ufffd]0;title\ufffd", "\ufffd[2J\ufffd31mred", "two lines\ufffd")
            for words in ("5 runners registered", *wanted):
                assert wait_for(lambda words=words: words in text()), text()[-3000:]
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
            os.close(theirs)
    assert code == 0
    assert not_seen(text(), "\r\n") == {}
    log = (tmp_path / "state" / "ghapp.log").read_text()
    assert not_seen(log) == {}
    assert [line for line in map(json.loads, log.splitlines()) if line["event"] == "drawing failed"] == []


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # its other end is closed
        return b""
