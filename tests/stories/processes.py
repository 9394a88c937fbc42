"""Roles as real processes, to be ended as gently or as rudely as a story wants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from ghapp.installations.pacing import Purpose
from ghapp.settings import Settings
from jobs.context import open_context
from jobs.installations.discover import discover_installations
from tests.stories import fast_timings
from tests.stories.roles import next_version
from tests.support.commands import Forked, inherited

PATIENCE_SECONDS = 30
NORMAL_TIMINGS, FAST_TIMINGS, NEXT_VERSION = (), (fast_timings.__file__,), (next_version.__file__,)
"""How a role is run: as always, with little patience, or in the next version. A script, and what it is given first."""


def environment(sandbox, redis_url, policy: Path):
    """What a role is started with, to work for the sandbox's App."""
    return {
        "GHAPP_CONFIG": str(policy),
        "GHAPP_REDIS_URL": redis_url,
        "GHAPP_GITHUB_API_URL": sandbox.api_url,
        "GHAPP_APP_ID": str(sandbox.app.id),
        "GHAPP_PRIVATE_KEY": sandbox.app.private_key_pem,
        "GHAPP_WEBHOOK_SECRET": sandbox.app.hook.secret,
        "CONTROLLER_SECRET": sandbox.controller_secret,
    }


async def installed_a_minute_ago(environ):
    """Find the App's installations, and take tokens: a new one's 404s are not believed for a while."""
    async with open_context(Settings.read(environ), lambda: time.time() - 60) as context:
        await discover_installations(context)
        for each in await context.installations.all():
            await context.installation_client(each, Purpose.SWEEP)


class Role:
    """`ghapp NAME`, until the block ends."""

    def __init__(self, name, environ, folder: Path, patience=NORMAL_TIMINGS):
        self.name = name
        self._log = folder / f"{name}-{time.monotonic_ns()}.log"
        self._log.touch()
        script, given = (patience[0], patience[1:]) if patience else (None, ())
        environ = {**inherited(), **environ, "GHAPP_LOG_FORMAT": "json"}
        self.process = Forked((*given, name), environ, self._log, self._log, script)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill_all()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def children(self) -> list[int]:
        try:
            return [
                int(pid)
                for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            ]
        except FileNotFoundError:
            return []

    def kill_children(self):
        """kill -9 of the work-horse alone."""
        for pid in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_all(self):
        """kill -9 of the role and of whatever it forked, so that neither sees the other die."""
        horses = self.children
        self.process.kill()
        self.process.wait()
        for pid in horses:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
