"""Runs everything on one machine: a local Redis, the roles as processes, and, with `--sandbox`, a simulated GitHub.

Each role is a process of its own, as in a deployment, and is restarted if it exits. Processes are stopped in the
reverse order of their start; if `up` itself is killed, a watchdog stops them. Without App credentials only the web role
starts; the others start after /setup has stored the credentials.
"""

from __future__ import annotations

import http.client
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
from ghapp.errors import ConfigurationError, GhappError
from ghapp.exit_codes import MISUSED, REDIS_UNAVAILABLE
from ghapp.local.local_redis import EmbeddedRedis, supervised_redis
from ghapp.local.port_check import require_free
from ghapp.local.role_log import RoleLog
from ghapp.local.sandbox import CERTIFICATE_VARIABLES, Sandbox, isolated_environment, run_sandbox, sandbox_environment
from ghapp.local.supervised_process import SupervisedProcess, clock_time
from ghapp.local.watchdog import LAST, PYTHON, KeyMode, Watchdog, end, uninterrupted
from ghapp.proxies import NAMES as PROXIES
from ghapp.settings import Settings
from ghapp.settings.settings import CLUSTER, VARIABLES
from ghapp.state_directory import (
    file_problem,
    find_space_problem,
    is_missing,
    named_file_errors,
    prepare_state_directory,
)
from ghapp.store.connect import require

BACKGROUND_ROLES = ("worker", "worker", "clock")
"""The roles besides the web role; also `watch` if a cluster is configured."""


PRIVATE = 0o077
"""The umask of all processes: logs, Redis' data and credentials are for their owner alone."""

STARTING_SECONDS = 60.0
"""A role that refuses its configuration at its first start does so within this time, and ends `up`."""

ANSWER_SECONDS = 2.0


class Site:
    """The processes on this machine.

    Attributes:
        settings: the roles' settings; without credentials until /setup has stored them.
        sandbox: the simulated GitHub, if there is one.
        page_key: of this start (`ghapp.web.pages.page_key`).
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        sandbox: Sandbox | None,
        start: Callable[[str, Mapping[str, str]], RoleProcess],
        log_file: RoleLog,
        own_redis: EmbeddedRedis | None = None,
        watchdog: Watchdog | None = None,
        variable: str = "GHAPP_STATE_DIR",
    ) -> None:
        """`start` starts a role, and stops it at the end; `variable` names the directory for people."""
        self._variable, self._environ, self._start, self._log = variable, environ, start, log_file
        self._own_redis, self._watchdog = own_redis, watchdog
        self.settings, self.sandbox = Settings.read(environ), sandbox
        self.page_key = secrets.token_urlsafe(24)
        self._roles = [start("web", {**environ, "GHAPP_PAGE_KEY": self.page_key})]
        if self.settings.credentials is not None:
            self._roles += [start(role, environ) for role in _background_roles(self.settings)]

    def supervise(self) -> None:
        """Restarts processes that exited, and starts the roles that waited for the App; call it repeatedly.

        Raises:
            ConfigurationError: a role refused its configuration when it was first started.
        """
        if self._own_redis is not None:
            self._own_redis.supervise()
        for role in self._roles:
            role.supervise()
        if self.settings.credentials is None and kept(self.settings.state_dir) is not None:
            self.settings = Settings.read(self._environ)
            self._roles += [self._start(role, self._environ) for role in _background_roles(self.settings)]
        if self._watchdog is not None:
            self._watchdog.sync()

    def web_answers(self) -> bool:
        """True if the web role answers at its address."""
        host, port = self.settings.listen
        connection = http.client.HTTPConnection(reachable(host), port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def problems(self) -> list[str]:
        """Returns what does not work on this machine, in a line each: roles that cannot start, a full disk."""
        found = [problem for role in self._roles if (problem := role.problem()) is not None]
        if self._own_redis is not None and (problem := self._own_redis.problem()) is not None:
            found.append(problem)
        if is_missing(path := self.settings.state_dir):
            found.append(f"{self._variable}: {path} was deleted while ghapp ran; stop ghapp, and start it again")
        elif (problem := find_space_problem(path)) is not None:
            found.append(f"{self._variable}: {problem}")
        elif self._log.failure is not None:
            found.append(f"{self._variable}: the log cannot be written: {self._log.failure}")
        return found

    def warn(self, event: str, **facts: str | float) -> None:
        """Writes a line of `up` itself to the log."""
        self._log.warning(event, **facts)

    def terminal(self, key_mode: KeyMode | None) -> None:
        """Has the terminal restored if `up` is killed; None: it is as it was before."""
        if self._watchdog is not None:
            self._watchdog.terminal(key_mode)


def reachable(host: str) -> str:
    """Returns the address by which this machine reaches a server that listens at `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - looked up, not bound


def log_path(settings: Settings) -> Path:
    """Returns the path of the roles' log."""
    return settings.state_dir / "ghapp.log"


def local_url(settings: Settings) -> str:
    """Returns the URL of the web role for this machine."""
    host, port = settings.listen
    return http_address(reachable(host), port)


def http_address(host: str, port: int) -> str:
    """Returns the URL of a server at this host, which may be an IPv6 address."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _background_roles(settings: Settings) -> tuple[str, ...]:
    return (*BACKGROUND_ROLES, "watch") if settings.cluster and settings.namespaces else BACKGROUND_ROLES


Show = Callable[[Site], None]


def up(environ: Mapping[str, str], *, sandbox: bool, show: Show, report: Callable[[str], None]) -> None:
    """Runs until `show` returns or is interrupted, and leaves no process behind.

    Args:
        environ: the environment; the roles get it with a few additions.
        sandbox: True: with a simulated GitHub; no request leaves this machine, and no data is kept.
        show: called with the running site; must call its `supervise` repeatedly.
        report: called with lines for people before that: what is waited for.

    Raises:
        ConfigurationError: the configuration is invalid, the port is taken, or data cannot be kept.
        StoreUnavailableError: GHAPP_REDIS_URL is set, and does not answer.
    """
    # Containers and service managers send SIGTERM, which must stop all processes, as Ctrl-C does; a terminal that is
    # closed sends SIGHUP, which `nohup` has had ignored. A shell's background job has SIGINT ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    os.umask(PRIVATE)
    with ExitStack() as stack:
        if sandbox:
            folder = stack.enter_context(_temporary_directory())
            environ = isolated_environment(environ) | {"GHAPP_STATE_DIR": str(folder)}
        settings = Settings.read(environ)
        require_free(*settings.listen)
        if settings.redis_url is not None:
            require(settings.redis_url)
        home = settings.state_dir
        variable = "TMPDIR" if sandbox else "GHAPP_STATE_DIR"
        prepare_state_directory(home, variable)
        watchdog = Watchdog()
        stack.callback(watchdog.end)
        with named_file_errors(variable):
            log_file = stack.enter_context(closing(RoleLog(log_path(settings))))
        exited = partial(_warn_of_exit, log_file)
        own_redis = None
        if settings.redis_url is None:
            started = partial(watchdog.add, rank=LAST)
            own_redis = stack.enter_context(
                supervised_redis(
                    home / "redis",
                    durable=True,
                    started=started,
                    exited=exited,
                    waiting=report,
                    variable=variable,
                )
            )
            environ = {**environ, "GHAPP_REDIS_URL": own_redis.url}
        simulated = None
        if sandbox:
            webhook_url = f"{local_url(settings)}/webhook"
            simulated = stack.enter_context(run_sandbox(home, webhook_url, watchdog, environ))
            environ = {**environ, **sandbox_environment(simulated.description, home, local_url(settings))}
            _write_environment(home, environ)

        def start(name: str, environ: Mapping[str, str]) -> RoleProcess:
            return stack.enter_context(_role(name, environ, log_file, watchdog))

        show(Site(environ, simulated, start, log_file, own_redis, watchdog, variable))


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="ghapp-")
    except OSError as error:
        raise ConfigurationError(f"TMPDIR: cannot create a directory: {error.strerror}") from None
    with folder as path:
        yield Path(path)


def _write_environment(home: Path, environ: Mapping[str, str]) -> None:
    """Writes a shell script with the variables that commands in another terminal need.

    It also unsets those of another deployment, which would lead a command there.
    """
    proxies = [*PROXIES, "NO_PROXY"]
    names = [*VARIABLES, *CLUSTER, *CERTIFICATE_VARIABLES, *proxies, *map(str.lower, proxies), "CONTROLLER_SECRET"]
    ours = {name: environ[name] for name in names if name in environ}
    ours["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}"
    lines = [f"unset {' '.join(name for name in names if name not in ours)}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in ours.items()]
    file = home / "env"
    file.touch(mode=0o600)
    file.write_text("".join(f"{line}\n" for line in lines))


def _warn_of_exit(log_file: RoleLog, process: SupervisedProcess, exit_code: int, delay: float) -> None:
    log_file.warning("role exited, restarting", role=process.name, exit_code=exit_code, restart_in_seconds=delay)


class RoleProcess:
    """One role's process, which is started again when it exits."""

    def __init__(self, name: str, environ: Mapping[str, str], log_file: RoleLog, watchdog: Watchdog) -> None:
        """Starts the role."""
        self._name, self._environ, self._log, self._watchdog = name, environ, log_file, watchdog
        self._supervised = SupervisedProcess(name, self._start, self._exited)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that runs, or the one that exited last."""
        return self._supervised.process

    def supervise(self) -> None:
        """Starts the role again, after a delay, if it has exited.

        Raises:
            ConfigurationError: it refused its configuration at its first start; the message is its own.
        """
        self._supervised.supervise()

    def problem(self) -> str | None:
        """Returns in one line why the role does not run; None if it does."""
        if (at := self._supervised.next_start) is None:
            return None
        code = self.process.returncode
        why = f"exited: {self._refusal()}" if code in (MISUSED, REDIS_UNAVAILABLE) else f"exited with code {code}"
        if (failure := self._supervised.start_failure) is not None:
            why = f"cannot be started: {failure}"
        return f"{self._name} {why}; it is started again at {clock_time(at)}"

    def _refusal(self) -> str:
        """Returns the one line that a role printed before it exited with one of these codes."""
        return self._output.last_line().removeprefix("ghapp: ")

    def _exited(self, process: SupervisedProcess, exit_code: int, delay: float) -> None:
        is_starting = process.restarts == 0 and process.ran_seconds < STARTING_SECONDS
        if exit_code == MISUSED and is_starting:
            raise ConfigurationError(f"{self._refusal()} (the role {self._name})")
        _warn_of_exit(self._log, process, exit_code, delay)

    def _start(self) -> subprocess.Popen[bytes]:
        with uninterrupted():
            # In its own session, because Ctrl-C is for `up`, which stops its roles one after the other.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and a constant name
                [*PYTHON, "-m", "ghapp", self._name],
                env=dict(self._environ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._output = self._log.follow(process)
            self._watchdog.add(process)
        return process


@contextmanager
def _role(name: str, environ: Mapping[str, str], log_file: RoleLog, watchdog: Watchdog) -> Iterator[RoleProcess]:
    try:
        role = RoleProcess(name, {**environ, "GHAPP_LOG_FORMAT": "json"}, log_file, watchdog)
    except OSError as error:
        raise GhappError(f"the role {name} cannot be started: {file_problem(error)}") from None
    try:
        yield role
    finally:
        end(role.process)
