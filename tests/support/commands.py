"""`ghapp …` to its end, as a process of its own that need not import everything anew.

A server that has imported the commands forks for each one: its environment, its arguments, what it writes and its exit
code are those of a process; what is spared is half a second of CPU a command. That the console script itself starts is
shown wherever a role runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

ENOUGH_SECONDS = 60

_processes = get_context("forkserver")
_processes.set_forkserver_preload(["ghapp.cli", "ghapp.local.up", "ghapp.web.app", "jobs.runners.sweep", "jobs.worker"])


def ghapp(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing of ours in its environment but this; what became of it.

    Raises:
        subprocess.TimeoutExpired: it did not end.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = _processes.Process(target=_command, args=(words, {**inherited, **environ}, out, err))
        process.start()
        process.join(ENOUGH_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, ENOUGH_SECONDS, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(words, process.exitcode, out.read_text(), err.read_text())


def _command(words: tuple[str, ...], environ: dict[str, str], out: Path, err: Path) -> None:
    """What runs in the process."""
    os.environ.clear()
    os.environ.update(environ)
    for number, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.argv = ["ghapp", *words]

    from ghapp.cli import main

    main()
