"""Ctrl-C while the program imports its modules: no traceback, and the exit code of an interrupt."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ghapp.exit_codes import INTERRUPTED

PROGRAM = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
if {is_ignored}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from ghapp.__main__ import run
run()
"""


def interrupted_at(module, *words, is_ignored=False):
    """Runs a command that is interrupted when it imports this module."""
    command = [sys.executable, "-c", PROGRAM.format(module=module, is_ignored=is_ignored), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "module", ["ghapp.cli", "click", "ghapp.settings.values", "ghapp.local.dashboard", "rich.live"]
)
def test_it_ends_in_silence(module):
    done = interrupted_at(module, "up", "--sandbox")
    assert (done.returncode, done.stdout + done.stderr.strip()) == (INTERRUPTED, "")


def test_where_it_is_ignored_as_in_a_background_job_the_command_goes_on():
    done = interrupted_at("ghapp.cli", "--version", is_ignored=True)
    assert (done.returncode, ", version " in done.stdout) == (0, True)
