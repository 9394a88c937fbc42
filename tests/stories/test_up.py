"""`make run`, from outside: a terminal, a new user, and the line that the user pastes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest

from tests.support.ports import free_port

WITHIN_SECONDS = 60

OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)
"""A script that runs its arguments with stdin as their controlling terminal; it needs a session of its own."""


class Terminal:
    """What a program shows on a wide terminal."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:
                return
            self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", chunk.decode(errors="replace"))


COMMAND_PAUSE = 2.0
"""Seconds between two runs of a command: each starts an interpreter, and the processes that it looks at need the CPU."""


def wait_for(condition, seconds=WITHIN_SECONDS, pause=0.2):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := condition():
            return found
        time.sleep(pause)
    return None


def check_runs(page):
    """The text of all, from the page that lists them; several kinds may be posted in a repository, in any order."""
    listed = httpx.get(page, timeout=30)
    numbers = set(re.findall(r'href="[^"]*/runs/(\d+)"', listed.text))
    return "".join(httpx.get(f"{page}/{number}", timeout=30).text for number in numbers)


@pytest.mark.xdist_group("up")
def test_within_a_minute_a_stranger_sees_an_incident_and_its_recovery_and_ctrl_c_leaves_nothing(tmp_path):
    terminal = Terminal()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    environ |= {"COLUMNS": "250", "LINES": "60", "TERM": "xterm", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ghapp", "up", "--sandbox", "--port", str(free_port())],
        stdin=terminal.theirs,
        stdout=terminal.theirs,
        stderr=terminal.theirs,
        env=environ,
    )
    try:
        pasted = wait_for(lambda: re.search(r"curl -H 'Authorization: (Bearer \S+)' '(\S+)\?limit=1'", terminal.text))
        assert pasted, terminal.text[-2000:]
        authorization, url = pasted.groups()

        def lost():
            try:
                answer = httpx.get(url, params={"state": "invalidated"}, headers={"authorization": authorization})
            except httpx.TransportError:  # the terminal is drawn before the roles listen, and may be drawn slowly
                return None
            rows = answer.json()["runners"] if answer.status_code == 200 else []
            return rows if len(rows) == 12 else None

        rows = wait_for(lost)
        assert rows, terminal.text[-2000:]
        assert {row["pool"] for row in rows} == {"linux-4vcpu"}
        assert wait_for(lambda: not any(row["replace"] for row in lost() or [{"replace": True}])), "all were accepted"
        for words in ("12 registrations were deleted", "runner.replace", "12 runners lost in linux-4vcpu, healed in "):
            # On a quiet machine the twelve have healed after half a minute; here four other stories run.
            assert wait_for(lambda words=words: words in terminal.text, 3 * WITHIN_SECONDS), terminal.text[-2000:]

        words = re.search(r"fleet +(\. \S+/env) && ghapp", terminal.text)
        completed = subprocess.run(
            ["sh", "-c", f"{words[1]} && ghapp explain acme {rows[0]['name']}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "is healed: RegistrationInvalidated" in completed.stdout, completed.stderr
        job = wait_for(lambda: re.search(r"ghapp why acme (\d+)", terminal.text))
        assert job, terminal.text[-2000:]

        def explained():
            completed = subprocess.run(
                ["sh", "-c", f"{words[1]} && ghapp why acme {job[1]}"], capture_output=True, text=True, check=False
            )
            return completed.stdout if completed.returncode == 0 else ""

        assert wait_for(lambda: "change linux-4vpcu to linux-4vcpu in runs-on" in explained(), pause=COMMAND_PAUSE)
        checks = re.search(r"checks +(http://\S+/acme/.github/runs)", terminal.text)
        assert wait_for(lambda: "Healed: 12 runners" in check_runs(checks[1])), "the check run that admins see"
        of_the_job = checks[1].replace(".github", "api")
        # By its code: the title counts the reasons where other jobs of the commit wait as well, as on a slow machine.
        assert wait_for(lambda: "NoRunnerWithLabels" in check_runs(of_the_job)), "and the job's author"

        def checked():
            completed = subprocess.run(
                ["sh", "-c", f"{words[1]} && ghapp doctor --problems"], capture_output=True, text=True, check=False
            )
            seen.append(completed.stdout + completed.stderr)
            return completed.returncode == 0 and completed.stdout.endswith(" checks: all well\n")

        seen = []
        # Until the fuse has healed and deliveries have come again.
        assert wait_for(checked, 2 * WITHIN_SECONDS, COMMAND_PAUSE), seen[-1]
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)  # each of four processes may take ten seconds, on a machine that is busy
    assert code == 0
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
