"""`ghapp …` as a process of its own that need not import everything again: commands to their end, and roles.

A server that has imported the program forks for each process: its environment, its arguments, what it writes and its
exit code are those of a process; what is saved is the import, 0.3 to 0.9 s of CPU by role. That `python -m ghapp` starts
by itself is shown by the stories of `ghapp up`, which starts its roles that way.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.process import current_process
from pathlib import Path

ENOUGH_SECONDS = 60

OURS = ("ghapp", "jobs", "tests")

_processes = get_context("forkserver")
_processes.set_forkserver_preload(
    [
        "ghapp.cli.main",
        "ghapp.local.up",
        "ghapp.web.app",
        "jobs.scheduler",
        "jobs.runners.sweep",
        "jobs.pods.watch",
        "jobs.worker",
    ]
)


class Forked:
    """A process that was started; its methods are those of `subprocess.Popen`.

    `script` is a file to be run as `python FILE …`, which changes modules of the program before it starts a role; it
    imports them again, so that all of the program sees the change. Without it, `ghapp …` is run.
    """

    def __init__(
        self, words: Sequence[str], environ: Mapping[str, str], out: Path, err: Path, script: str | None = None
    ):
        # A daemon, so that pytest, when it is interrupted, ends what it started.
        arguments = (tuple(words), dict(environ), out, err, script)
        self._process = _processes.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        self.pid: int = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """Its exit code; the negative number of the signal that killed it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it did not end within so many seconds.
        """
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, seconds or 0.0)
        return code

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


def inherited() -> dict[str, str]:
    """The environment of the tests without anything of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}


def ghapp(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing of ours in its environment but this; what became of it.

    Raises:
        subprocess.TimeoutExpired: it did not end.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = Forked(words, {**inherited(), **environ}, out, err)
        try:
            code = process.wait(ENOUGH_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise subprocess.TimeoutExpired(words, ENOUGH_SECONDS, out.read_text(), err.read_text()) from None
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


def _run(words: tuple[str, ...], environ: dict[str, str], out: Path, err: Path, script: str | None) -> None:
    """What runs in the process."""
    os.setsid()
    current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it may have children, like any program
    os.environ.clear()
    os.environ.update(environ)
    for number, path in ((1, out), (2, err)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    # By lines, so that a log is complete up to a kill.
    sys.stdout, sys.stderr = (open(number, "w", 1, encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    if script is None:
        sys.argv = ["ghapp", *words]

        from ghapp.cli.main import main

        main()
    else:
        sys.argv = [script, *words]
        sys.path.insert(0, str(Path(script).parent))
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        runpy.run_path(script, run_name="__main__")
