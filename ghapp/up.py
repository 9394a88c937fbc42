"""Everything on one machine: an embedded Redis, the roles as processes, and, with `--sandbox`, a GitHub to try it on.

Each role is a process of its own, as in a deployment; one that dies is started again. They end in the reverse
order of their start.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ghapp.embedded import embedded_redis
from ghapp.errors import ConfigurationError, GhappError
from ghapp.settings import Settings

ROLES = ("web", "worker", "worker", "clock")
STOP_SECONDS = 10.0
SANDBOX_START_SECONDS = 20.0

SANDBOX_POLICY = """
[sweep]
interval_seconds = 4
[evidence]
confirm_seconds = 4
startup_seconds = 10
[fuse]
cooldown_seconds = 20
{pools}
"""

SANDBOX_POOL = """
[[pools]]
org = "acme"
name = "{name}"
labels = ["{name}"]
replacer = "cloudevents"
url = "{url}"
secret_env = "CONTROLLER_SECRET"
"""

Show = Callable[[Settings, "Sandbox | None", Callable[[], None]], None]


class Sandbox:
    """The simulated GitHub, as a process, and its levers."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """`description` is the line that the process printed when it was ready."""
        self.description = description

    def lose(self, org: str, pool: str, count: int) -> list[int]:
        """Registrations vanish; the ids."""
        import httpx

        url = f"{self.description['url']}/_sandbox/orgs/{org}/lose"
        answer = httpx.post(url, json={"count": count, "pool": pool}, timeout=5.0)
        answer.raise_for_status()
        ids = answer.json()
        return list(ids["ids"] if isinstance(ids, dict) else ids)


def up(environ: Mapping[str, str], *, sandbox: bool, show: Show) -> None:
    """Run until `show` returns or is interrupted, and leave nothing running.

    Args:
        environ: the environment; the roles get it too, with what is added here.
        sandbox: bring a simulated GitHub; nothing outside this machine is asked, and nothing is kept.
        show: given the settings, the sandbox, and a function that starts again what died.
    """
    with ExitStack() as stack:
        environ = dict(environ)
        bench = None
        if sandbox:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ghapp-")))
            host, port = Settings.read(environ).listen
            bench = stack.enter_context(_sandbox(folder, f"http://{host}:{port}/webhook"))
            environ |= _sandbox_environment(bench.description, folder)
        settings = Settings.read(environ)
        if settings.credentials is None:
            raise ConfigurationError("GHAPP_APP_ID: not set; try `ghapp up --sandbox`, or give the App's credentials")
        if settings.redis_url is None:
            home = folder if sandbox else settings.state_dir
            environ["GHAPP_REDIS_URL"] = stack.enter_context(embedded_redis(home / "redis", durable=not sandbox))
            settings = Settings.read(environ)
        log_file = stack.enter_context((settings.state_dir if not sandbox else folder).joinpath("ghapp.log").open("ab"))
        roles = [stack.enter_context(_role(role, environ, log_file)) for role in ROLES]

        def revive() -> None:
            for role in roles:
                role.revive()

        show(settings, bench, revive)


class _Role:
    """One role's process."""

    def __init__(self, name: str, environ: Mapping[str, str], log_file: Any) -> None:
        self._name, self._environ, self._log = name, environ, log_file
        self.process = self._start()

    def revive(self) -> None:
        """Start it again if it has ended."""
        if self.process.poll() is not None:
            self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C is for `up`, which ends its roles one after the other.
        return subprocess.Popen(  # noqa: S603 - our own interpreter and a constant name
            [sys.executable, "-m", "ghapp", self._name],
            env=dict(self._environ),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )


@contextmanager
def _role(name: str, environ: Mapping[str, str], log_file: Any) -> Iterator[_Role]:
    role = _Role(name, {**environ, "GHAPP_LOG_FORMAT": "json"}, log_file)
    try:
        yield role
    finally:
        end(role.process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and end it if it does not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _sandbox(folder: Path, webhook_url: str) -> Iterator[Sandbox]:
    ready = folder / "sandbox.json"
    with ready.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            [sys.executable, "-m", "ghapp.sandbox", "--port", "0", "--webhook-url", webhook_url],
            stdout=out,
            start_new_session=True,
        )
    try:
        ends = time.monotonic() + SANDBOX_START_SECONDS
        while not (text := ready.read_text()).endswith("\n"):
            if process.poll() is not None or time.monotonic() > ends:
                raise GhappError("the sandbox did not start; try `python -m ghapp.sandbox` to see why")
            time.sleep(0.05)
        yield Sandbox(json.loads(text))
    finally:
        end(process)


def _sandbox_environment(sandbox: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """What a deployment would be given, for the sandbox's App and its stand-in for a controller."""
    pools = "".join(
        SANDBOX_POOL.format(name=name, url=sandbox["controller_url"]) for name in ("linux-4vcpu", "linux-8vcpu", "gpu")
    )
    policy, key = folder / "ghapp.toml", folder / "app.pem"
    policy.write_text(SANDBOX_POLICY.format(pools=pools))
    key.touch(mode=0o600)
    key.write_text(sandbox["private_key"])
    return {
        "GHAPP_CONFIG": str(policy),
        "GHAPP_STATE_DIR": str(folder),
        "GHAPP_GITHUB_API_URL": sandbox["api_url"],
        "GHAPP_GITHUB_WEB_URL": sandbox["url"],
        "GHAPP_APP_ID": str(sandbox["app_id"]),
        "GHAPP_PRIVATE_KEY_FILE": str(key),
        "GHAPP_WEBHOOK_SECRET": sandbox["webhook_secret"],
        "CONTROLLER_SECRET": sandbox["controller_secret"],
    }
