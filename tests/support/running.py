"""`ghapp up` as a process, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.web.pages.page_key import key_cookie
from tests.support.waiting import wait_for


class Running:
    """`base` is its address, `state` its folder."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: Path, state: Path, base: str):
        self._process, self._terminal = process, terminal
        self.state, self.base = state, base

    def terminal_output(self) -> str:
        """All that it has written to its terminal."""
        return self._terminal.read_text()

    @property
    def key(self) -> str:
        """The key of the page, which it has printed."""
        return self.terminal_output().partition("?key=")[2].split()[0]

    @property
    def key_cookie(self) -> tuple[str, str]:
        """Name and value of the cookie of a browser that has the key."""
        return key_cookie(self.key, httpx.URL(self.base).port)

    def keyed(self, path: str) -> str:
        """The address of a page, with the key."""
        return f"{self.base}{path}?key={self.key}"

    def page(self, path: str) -> httpx.Response:
        """A page, as a browser with the key gets it."""
        return httpx.get(f"{self.base}{path}", cookies=[self.key_cookie], timeout=30)

    def log(self) -> str:
        """All that its roles have logged."""
        return (self.state / "ghapp.log").read_text()

    def processes(self, role: str) -> list[str]:
        """The process ids of a role."""
        own = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [pid for pid in own if Path(f"/proc/{pid}/cmdline").read_text().endswith(f"\0ghapp\0{role}\0")]

    def listens(self) -> bool:
        """Whether the web role answers."""
        try:
            return httpx.get(f"{self.base}/livez").status_code == 200
        except httpx.TransportError:
            return False


RUNNERS = 12


def github_without_app() -> SandboxServer:
    """A GitHub Enterprise Server with an organization, its runners, and no App."""
    org = OrgConfig(pools=(PoolConfig(name="linux-4vcpu", size=RUNNERS),))
    return SandboxServer(SandboxConfig(orgs=(org,), app=False, quiet=True))


@contextmanager
def running(
    github: SandboxServer,
    folder: Path,
    port: int,
    *,
    web_url: str | None = None,
    more: Mapping[str, str] | None = None,
    end_by: signal.Signals = signal.SIGINT,
) -> Iterator[Running]:
    """Runs it while the block runs, with `more` in its environment; yields once it listens.

    At the end it has to end well, and all of it.
    """
    state, terminal = folder / "state", folder / "terminal"
    given = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    given |= {"GHAPP_GITHUB_API_URL": github.api_url, "GHAPP_GITHUB_WEB_URL": web_url or github.url}
    given |= {"GHAPP_STATE_DIR": str(state), "COLUMNS": "120", **(more or {})}
    with terminal.open("wb") as out:
        command = [sys.executable, "-m", "ghapp", "up", "--port", str(port)]
        process = subprocess.Popen(command, env=given, stdout=out, stderr=out)
    try:
        app = Running(process, terminal, state, f"http://127.0.0.1:{port}")
        assert wait_for(lambda: f"{app.base}/" in app.terminal_output(), 60), app.log()
        assert app.listens(), "an address is printed when it answers"
        yield app
    finally:
        process.send_signal(end_by)
        code = process.wait(30)
    assert code == 0, app.terminal_output()
    assert not app.listens()
