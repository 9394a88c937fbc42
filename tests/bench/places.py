"""What the bench runs: a Redis, roles, the bare server and a simulated GitHub, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from tests.support.policy import acting
from tests.support.ports import free_port

START_SECONDS = 60.0
STOP_SECONDS = 15.0
POOL = "linux-4vcpu"
WEBHOOK_SECRET = PAGE_KEY = "bench"
LIST_CALL = "GET /orgs/{org}/actions/runners"


def private_key() -> str:
    """A PEM for an App that no GitHub knows."""
    key = rsa.generate_private_key(65537, 2048)
    pem = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, pem, serialization.NoEncryption()).decode()


@contextmanager
def running(arguments: list[str], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`python …` in a session of its own, without any GHAPP_ variable but the given, until the block ends."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**inherited, **environ},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def await_listening(port: int, process: subprocess.Popen[bytes], log: Path, pause: float = 0.02) -> None:
    """Returns once the process listens; RuntimeError with its output when it does not."""
    ends = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < ends:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(pause)
        else:
            return
    raise RuntimeError(f"nobody listens at {port}: {log.read_text()[-2000:]}")


class Server(NamedTuple):
    """A server on the loopback: its port, and its process' id."""

    port: int
    process: int


@contextmanager
def web(redis_url: str, folder: Path, **environ: str) -> Iterator[Server]:
    """A `ghapp web` of an App."""
    port, log = free_port(), folder / "web.log"
    with running(["-m", "ghapp", "web"], web_environ(redis_url, port, **environ), log) as process:
        await_listening(port, process, log)
        yield Server(port, process.pid)


def web_environ(redis_url: str, port: int, **environ: str) -> dict[str, str]:
    """What a deployment gives to the role."""
    return {
        "GHAPP_REDIS_URL": redis_url,
        "GHAPP_LISTEN": f"127.0.0.1:{port}",
        "GHAPP_LOG_FORMAT": "json",
        "GHAPP_APP_ID": "1",
        "GHAPP_PRIVATE_KEY": private_key(),
        "GHAPP_WEBHOOK_SECRET": WEBHOOK_SECRET,
        **environ,
    }


@contextmanager
def bare(folder: Path, document: object = None) -> Iterator[Server]:
    """The bare server that answers this document."""
    port, log, answer = free_port(), folder / "bare.log", folder / "answer.json"
    answer.write_text(json.dumps(document))
    with running(["-m", "tests.bench.bare", str(port), str(answer)], {}, log) as process:
        await_listening(port, process, log)
        yield Server(port, process.pid)


class GitHub:
    """A simulated GitHub in a process of its own, and its controls."""

    def __init__(self, started: Mapping[str, Any], process: int) -> None:
        self.started, self.process = started, process
        self.installation = int(started["installations"]["acme"])

    def control(self, name: str, **arguments: Any) -> Any:
        """Calls a control of the sandbox, and returns its answer."""
        answer = httpx.post(f"{self.started['url']}/_sandbox/{name}", json=arguments, timeout=30.0)
        return answer.raise_for_status().json()

    def calls(self) -> dict[str, Any]:
        """The calls that it has seen, by operation."""
        return dict(self.account()["calls"])

    def account(self) -> dict[str, Any]:
        """All that it has seen."""
        return dict(httpx.get(f"{self.started['url']}/_sandbox/account", timeout=30.0).json())

    def environ(self, redis_url: str, folder: Path, policy: str = "") -> dict[str, str]:
        """What a role is given to work with it."""
        file = folder / "ghapp.toml"
        file.write_text(
            f"""
            {acting(policy)}
            [[pools]]
            org = "acme"
            name = "{POOL}"
            labels = ["{POOL}"]
            replacer = "cloudevents"
            url = "{self.started["controller_url"]}"
            secret_env = "CONTROLLER_SECRET"
            """
        )
        return {
            "GHAPP_CONFIG": str(file),
            "GHAPP_REDIS_URL": redis_url,
            "GHAPP_LOG_FORMAT": "json",
            "GHAPP_GITHUB_API_URL": self.started["api_url"],
            "GHAPP_APP_ID": str(self.started["app_id"]),
            "GHAPP_PRIVATE_KEY": self.started["private_key"],
            "GHAPP_WEBHOOK_SECRET": self.started["webhook_secret"],
            "CONTROLLER_SECRET": self.started["controller_secret"],
        }


@contextmanager
def github(folder: Path, runners: int, *, latency_seconds: float = 0.0, quiet: bool = True) -> Iterator[GitHub]:
    """One with an organization of so many runners."""
    org = OrgConfig(pools=(PoolConfig(name=POOL, size=runners),))
    config = SandboxConfig(orgs=(org,), quiet=quiet, latency_seconds=latency_seconds, rate_limit=15_000)
    given, log = folder / "sandbox.json", folder / "sandbox.log"
    given.write_bytes(msgspec.json.encode(config))
    with running(["-m", "ghapp.sandbox", "--config", str(given)], {}, log) as process:
        ends = time.monotonic() + START_SECONDS
        while not (text := log.read_text()).endswith("\n"):
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"the simulated GitHub did not start: {text}")
            time.sleep(0.05)
        yield GitHub(json.loads(text.splitlines()[-1]), process.pid)
