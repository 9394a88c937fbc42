"""The extension of `gh`: an executable that runs `ghapp` with the same arguments and the same exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "extensions" / "gh-ghapp" / "gh-ghapp"


def run(path, *words):
    environ = {"PATH": str(path)}
    return subprocess.run([SCRIPT, *words], env=environ, capture_output=True, text=True, timeout=60, check=False)


def install(folder, body):
    """Puts a `ghapp` and the shell into a folder, which is to be the whole PATH."""
    (folder / "ghapp").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "ghapp").chmod(0o755)


def test_gh_can_run_it():
    assert os.access(SCRIPT, os.X_OK)
    assert SCRIPT.name == SCRIPT.parent.name, "gh requires the same name of the repository and of its executable"


def test_arguments_and_exit_code_are_those_of_ghapp(tmp_path):
    install(tmp_path, 'for word in "$@"; do echo "<$word>"; done; exit 7')
    done = run(tmp_path, "pause", "acme", "--why", "new image; $HOME", "")
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.splitlines() == ["<pause>", "<acme>", "<--why>", "<new image; $HOME>", "<>"]


def test_it_runs_the_real_command():
    done = run(Path(sys.executable).parent, "--version")
    assert (done.returncode, done.stdout.split()[-1]) == (0, version("ghapp"))


def test_without_ghapp_it_says_how_to_install_it(tmp_path):
    done = run(tmp_path, "runners")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gh-ghapp: ghapp is not on the PATH; install it: pipx install ghapp\n"
