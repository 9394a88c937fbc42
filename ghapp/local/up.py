"""Everything on one machine: an embedded Redis, the roles as processes, and, with `--sandbox`, a GitHub to try it on.

Each role is a process of its own, as in a deployment; one that dies is started again. They end in the reverse
order of their start. Without the App's credentials only the web role starts; the others follow when /setup has
obtained them.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ghapp.credentials import kept
from ghapp.errors import ConfigurationError, GhappError
from ghapp.local.local_redis import EmbeddedRedis, supervised_redis
from ghapp.local.port_check import require_free
from ghapp.settings import Settings

BEHIND = ("worker", "worker", "clock")
"""The roles behind the web role; `watch` is one more where there is a cluster to be watched."""

STOP_SECONDS = 10.0
SANDBOX_START_SECONDS = 20.0

SANDBOX_POLICY = """
[sweep]
interval_seconds = 4
[evidence]
confirm_seconds = 4
startup_seconds = 10
offline_seconds = 30
[fuse]
cooldown_seconds = 20
[remediation]
mode = "act"
[report]
repository = "acme/.github"
{pools}
shard_label = "shard"
active_url = "{active_url}"
min_online = 3
deploy_repository = "acme/infra"
"""
"""The last pool is the blue/green one."""

SANDBOX_POOL = """
[[pools]]
org = "acme"
name = "{name}"
labels = ["{name}"]
replacer = "cloudevents"
url = "{url}"
secret_env = "CONTROLLER_SECRET"
"""


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


class Site:
    """What runs on this machine.

    Attributes:
        settings: what the roles run with; without credentials until /setup has obtained them.
        sandbox: the simulated GitHub, if it was brought.
        setup_key: what /setup asks of other machines; None when there was nothing to set up.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        sandbox: Sandbox | None,
        start: Callable[[str, Mapping[str, str]], _Role],
        own_redis: EmbeddedRedis | None = None,
    ) -> None:
        """`start` starts a role and answers for its end."""
        self._environ, self._start, self._own_redis = environ, start, own_redis
        self.settings, self.sandbox = Settings.read(environ), sandbox
        self.setup_key: str | None = None
        if self.settings.credentials is None:
            self.setup_key = secrets.token_urlsafe(24)
            self._roles = [start("web", {**environ, "GHAPP_SETUP_KEY": self.setup_key})]
        else:
            self._roles = [start(role, environ) for role in ("web", *_behind(self.settings))]

    def tend(self) -> None:
        """Start again what died, and the roles that waited for the App; to be called again and again."""
        _heed_interruption()
        if self._own_redis is not None:
            self._own_redis.revive()
        for role in self._roles:
            role.revive()
        if self.settings.credentials is None and kept(self.settings.state_dir) is not None:
            self.settings = Settings.read(self._environ)
            self._roles += [self._start(role, self._environ) for role in _behind(self.settings)]


def _heed_interruption() -> None:
    """End the task that tends, if it was asked to and has missed that.

    Ctrl-C cancels it once. Until Python 3.12, `asyncio.wait_for` drops a cancellation that comes while what it waits
    for is done, and Redis' client waits so with each command: we would go on for ever.
    """
    with suppress(RuntimeError):  # nobody's task: there is nothing to miss
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


def _behind(settings: Settings) -> tuple[str, ...]:
    return (*BEHIND, "watch") if settings.cluster and settings.namespaces else BEHIND


Show = Callable[[Site], None]


def up(environ: Mapping[str, str], *, sandbox: bool, show: Show) -> None:
    """Run until `show` returns or is interrupted, and leave nothing running.

    Args:
        environ: the environment; the roles get it too, with what is added here.
        sandbox: bring a simulated GitHub; nothing outside this machine is asked, and nothing is kept.
        show: given what runs here; has to tend it.

    Raises:
        ConfigurationError: the configuration is wrong, or the address is taken.
    """
    # Containers and service managers end us by SIGTERM: as by Ctrl-C, nothing is to be left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        environ = dict(environ)
        settings = Settings.read(environ)
        require_free(*settings.listen)
        bench = None
        home = settings.state_dir
        if sandbox:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ghapp-")))
            host, port = settings.listen
            bench = stack.enter_context(_sandbox(home, f"http://{host}:{port}/webhook"))
            environ |= _sandbox_environment(bench.description, home)
        _make(home)
        own = None
        if settings.redis_url is None:
            own = stack.enter_context(supervised_redis(home / "redis", durable=not sandbox))
            environ["GHAPP_REDIS_URL"] = own.url
        if sandbox:
            _leave_word(home, environ)
        log_file = stack.enter_context(home.joinpath("ghapp.log").open("ab"))
        show(Site(environ, bench, lambda name, environ: stack.enter_context(_role(name, environ, log_file)), own))


def _leave_word(home: Path, environ: Mapping[str, str]) -> None:
    """For commands in another terminal: what they need of the environment, to be read by a shell."""
    ours = {name: value for name, value in environ.items() if name.startswith("GHAPP_") or name == "CONTROLLER_SECRET"}
    ours["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}"
    file = home / "env"
    file.touch(mode=0o600)
    file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in ours.items()))


def _make(state_dir: Path) -> None:
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"GHAPP_STATE_DIR: cannot make {state_dir}: {error.strerror}") from None


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
    # Nothing but what is drawn there may come to the terminal.
    with ready.open("wb") as out, folder.joinpath("sandbox.log").open("wb") as log_file:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            [sys.executable, "-m", "ghapp.sandbox", "--rollout", "--port", "0", "--webhook-url", webhook_url],
            stdout=out,
            stderr=log_file,
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
    names = ("linux-4vcpu", "linux-8vcpu", "gpu", "rollout")
    pools = "".join(SANDBOX_POOL.format(name=name, url=sandbox["controller_url"]) for name in names)
    active_url = f"{sandbox['url']}/_sandbox/orgs/acme/active-shard"
    policy, key = folder / "ghapp.toml", folder / "app.pem"
    policy.write_text(SANDBOX_POLICY.format(pools=pools, active_url=active_url))
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
