"""Runs everything on one machine: a local Redis, the roles as processes, and, with `--sandbox`, a simulated GitHub.

Each role is a process of its own, as in a deployment, and is restarted if it exits. Processes are stopped in the
reverse order of their start; if `up` itself is killed, a watchdog stops them. Without App credentials only the web role
starts; the others start after /setup has stored the credentials.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from ghapp.credentials import kept
from ghapp.errors import ConfigurationError
from ghapp.local.local_redis import EmbeddedRedis, supervised_redis
from ghapp.local.port_check import require_free
from ghapp.local.role_log import RoleLog
from ghapp.local.sandbox import Sandbox, run_sandbox, sandbox_environment
from ghapp.local.watchdog import LAST, KeyMode, Watchdog, end, uninterrupted
from ghapp.settings import Settings

BACKGROUND_ROLES = ("worker", "worker", "clock")
"""The roles besides the web role; also `watch` if a cluster is configured."""

OPEN_PAGE = {"GHAPP_OPEN_PAGE": "1"}
"""For the web role: a browser on this machine may see the page, and press its buttons, without signing in."""


class Site:
    """The processes on this machine.

    Attributes:
        settings: the roles' settings; without credentials until /setup has stored them.
        sandbox: the simulated GitHub, if there is one.
        setup_key: the key of /setup for other machines; None if the App existed at the start.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        sandbox: Sandbox | None,
        start: Callable[[str, Mapping[str, str]], _Role],
        own_redis: EmbeddedRedis | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        """`start` starts a role, and stops it at the end."""
        self._environ, self._start, self._own_redis, self._watchdog = environ, start, own_redis, watchdog
        self.settings, self.sandbox = Settings.read(environ), sandbox
        self.setup_key: str | None = None
        if self.settings.credentials is None:
            self.setup_key = secrets.token_urlsafe(24)
            self._roles = [start("web", {**environ, **OPEN_PAGE, "GHAPP_SETUP_KEY": self.setup_key})]
        else:
            self._roles = [start("web", {**environ, **OPEN_PAGE})]
            self._roles += [start(role, environ) for role in _background_roles(self.settings)]

    def supervise(self) -> None:
        """Restarts processes that exited, and starts the roles that waited for the App; call it repeatedly."""
        if self._own_redis is not None:
            self._own_redis.restart_if_exited()
        for role in self._roles:
            role.restart_if_exited()
        if self.settings.credentials is None and kept(self.settings.state_dir) is not None:
            self.settings = Settings.read(self._environ)
            self._roles += [self._start(role, self._environ) for role in _background_roles(self.settings)]
        if self._watchdog is not None:
            self._watchdog.sync()

    def terminal(self, key_mode: KeyMode | None) -> None:
        """Has the terminal restored if `up` is killed; None: it is as it was before."""
        if self._watchdog is not None:
            self._watchdog.terminal(key_mode)


def _background_roles(settings: Settings) -> tuple[str, ...]:
    return (*BACKGROUND_ROLES, "watch") if settings.cluster and settings.namespaces else BACKGROUND_ROLES


Show = Callable[[Site], None]


def up(environ: Mapping[str, str], *, sandbox: bool, show: Show) -> None:
    """Runs until `show` returns or is interrupted, and leaves no process behind.

    Args:
        environ: the environment; the roles get it with a few additions.
        sandbox: True: with a simulated GitHub; no request leaves this machine, and no data is kept.
        show: called with the running site; must call its `supervise` repeatedly.

    Raises:
        ConfigurationError: the configuration is invalid, or the port is taken.
    """
    # Containers and service managers send SIGTERM, which must stop all processes, as Ctrl-C does; a terminal that is
    # closed sends SIGHUP, which `nohup` has had ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    with ExitStack() as stack:
        environ = dict(environ)
        settings = Settings.read(environ)
        require_free(*settings.listen)
        watchdog = Watchdog()
        stack.callback(watchdog.end)
        simulated = None
        home = settings.state_dir
        if sandbox:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ghapp-")))
            host, port = settings.listen
            simulated = stack.enter_context(run_sandbox(home, f"http://{host}:{port}/webhook", watchdog))
            environ |= sandbox_environment(simulated.description, home)
        _make(home)
        log_file = stack.enter_context(closing(RoleLog(home / "ghapp.log")))
        own_redis = None
        if settings.redis_url is None:
            started, exited = partial(watchdog.add, rank=LAST), partial(_warn_of_exit, log_file, "redis")
            own_redis = stack.enter_context(
                supervised_redis(home / "redis", durable=not sandbox, started=started, exited=exited)
            )
            environ["GHAPP_REDIS_URL"] = own_redis.url
        if sandbox:
            _write_environment(home, environ)

        def start(name: str, environ: Mapping[str, str]) -> _Role:
            return stack.enter_context(_role(name, environ, log_file, watchdog))

        show(Site(environ, simulated, start, own_redis, watchdog))


def _write_environment(home: Path, environ: Mapping[str, str]) -> None:
    """Writes the variables that commands in another terminal need, as a shell script."""
    ours = {
        name: environ[name]
        for name in environ
        if name.startswith("GHAPP_") or name in ("CONTROLLER_SECRET", "KUBECONFIG")
    }
    ours["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}"
    file = home / "env"
    file.touch(mode=0o600)
    file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in ours.items()))


def _make(state_dir: Path) -> None:
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"GHAPP_STATE_DIR: cannot create {state_dir}: {error.strerror}") from None


def _warn_of_exit(log_file: RoleLog, role: str, exit_code: int) -> None:
    log_file.warning("role exited, restarting", role=role, exit_code=exit_code)


class _Role:
    """One role's process."""

    def __init__(self, name: str, environ: Mapping[str, str], log_file: RoleLog, watchdog: Watchdog) -> None:
        self._name, self._environ, self._log, self._watchdog = name, environ, log_file, watchdog
        self.process = self._start()

    def restart_if_exited(self) -> None:
        """Starts it again if it has exited."""
        exit_code = self.process.poll()
        if exit_code is not None:
            _warn_of_exit(self._log, self._name, exit_code)
            self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with uninterrupted():
            # In its own session, because Ctrl-C is for `up`, which stops its roles one after the other.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and a constant name
                [sys.executable, "-m", "ghapp", self._name],
                env=dict(self._environ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._log.follow(process)
            self._watchdog.add(process)
        return process


@contextmanager
def _role(name: str, environ: Mapping[str, str], log_file: RoleLog, watchdog: Watchdog) -> Iterator[_Role]:
    role = _Role(name, {**environ, "GHAPP_LOG_FORMAT": "json"}, log_file, watchdog)
    try:
        yield role
    finally:
        end(role.process)
