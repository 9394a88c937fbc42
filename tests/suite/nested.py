"""A suite that a test starts: some tests of this one, with temporary files and processes that are found by their folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.manifests.rendered import ROOT

SURROUNDINGS = "tests/suite/surroundings.py"
LEAVING = "tests/suite/leaving.py"
END_SECONDS = 120


class NestedSuite:
    """`process` is that of its caller; `folder`, for its temporary files, is in the environment or the title of what it starts."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, output: Path):
        self.process, self.folder, self._output = process, folder, output

    @property
    def output(self) -> str:
        return self._output.read_text()

    def end(self) -> int:
        """Waits for its end; returns the exit code."""
        return self.process.wait(END_SECONDS)

    def processes(self) -> dict[int, str]:
        """Those of the suite: process id → command line."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                title = (path / "cmdline").read_bytes()
                if bytes(self.folder) in (path / "environ").read_bytes() + title:
                    found[int(path.name)] = title.replace(b"\0", b" ").decode()
        return found

    def files(self) -> list[Path]:
        return list(self.folder.iterdir())


@contextmanager
def nested_suite(
    *tests: str,
    condition: str = "",
    checkout: Path = ROOT,
    folder: str = "tmp",
    environ: Mapping[str, str] | None = None,
) -> Iterator[NestedSuite]:
    """Starts a suite.

    Args:
        tests: arguments of pytest.
        condition: shell commands that run before pytest, in the same process.
        checkout: where the tests are.
        folder: the name of its folder for temporary files.
        environ: variables besides PATH and TESTS_TMPDIR.
    """
    # Not in the folder of the test, whose path is too long for a socket of Redis.
    with tempfile.TemporaryDirectory(prefix="") as base:
        private, output = Path(base, folder), Path(base, "output")
        private.mkdir()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", *tests]
        variables = {"PATH": os.environ["PATH"], "TESTS_TMPDIR": str(private), **(environ or {})}
        with output.open("wb") as out:
            process = subprocess.Popen(
                ["sh", "-c", f'{condition}\nexec "$@"', "sh", *command],
                cwd=checkout,
                env=variables,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        suite = NestedSuite(process, private, output)
        try:
            yield suite
        finally:
            process.kill()
            process.wait()
