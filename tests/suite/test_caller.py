"""The suite needs nothing of its caller, and leaves nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack

from tests.manifests.rendered import ROOT
from tests.packaging.built import NOT_OURS
from tests.suite.nested import SURROUNDINGS, nested_suite

SOME = (
    SURROUNDINGS,
    "tests/store/test_tokens.py",
    "tests/local/test_watchdog.py::test_it_outlives_signals_that_everything_gets",
)
"""Tests with a Redis, and with processes in sessions of their own that are stopped by signals."""

INTERRUPTED = "tests/cli/test_options.py::test_a_watched_command_draws_again_until_it_is_interrupted"

CONDITIONS = {
    # East, signals ignored, a strict umask, no home, locale C.
    "trap '' HUP INT QUIT TERM PIPE USR1 ALRM; umask 077; "
    "export HOME=/proc/none XDG_CACHE_HOME=/proc/none LC_ALL=C TZ=EAST-14": [INTERRUPTED],
    # West, standard input closed, variables.
    "exec <&-; export TZ=WEST12 GHAPP_APP_ID=1 GHAPP_CONFIG=/none "
    "KUBECONFIG=/none GH_TOKEN=hush ALL_PROXY=http://127.0.0.1:9 COLUMNS=20 TERM=dumb NO_COLOR=1 PYTHONPATH=/none "
    "PYTHONWARNINGS=error": [],
}
"""Shell commands, all at once, since a suite takes seconds to start; and what else is run under them."""


def ended_well(suite):
    """The suite has passed, and nothing of it is left."""
    assert suite.end() == 0, suite.output
    assert suite.processes() == {}
    assert suite.files() == []


def test_two_suites_at_the_same_time_pass_and_leave_nothing_whatever_their_callers_conditions():
    with ExitStack() as stack:
        suites = [
            stack.enter_context(nested_suite(*SOME, *more, condition=condition))
            for condition, more in CONDITIONS.items()
        ]
        for suite in suites:
            ended_well(suite)


def test_paths_may_have_spaces(tmp_path):
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    shutil.copy(ROOT / "pyproject.toml", checkout)
    for name in ("ghapp", "jobs", "tests"):
        shutil.copytree(ROOT / name, checkout / name, ignore=NOT_OURS)
    with nested_suite(*SOME, checkout=checkout, folder="a b") as suite:
        ended_well(suite)


def test_temporary_files_are_kept_where_the_caller_wants_them(tmp_path):
    with nested_suite("-n", "0", f"--basetemp={tmp_path / 'kept'}", "tests/test_makefile.py") as suite:
        ended_well(suite)
    assert list((tmp_path / "kept").glob("trust*"))


def test_two_processes_never_get_the_same_port():
    program = "import random, sys; from tests.support.ports import free_port; random.seed(1)\n"
    program += "print([free_port() for _ in range(50)], flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program]
    with ExitStack() as stack:
        lines = set()
        for _ in range(2):
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            lines.add(process.stdout.readline())
    first, second = (set(line.strip("[]\n").split(", ")) for line in lines)
    assert (len(first), len(second), first & second) == (50, 50, set())
