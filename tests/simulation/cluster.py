"""The API server, and the true state of the pods. Answers are current, stale, or missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ghapp.pods.pod import RUNNER_CONTAINER, Container, Ended, Pod
from tests.simulation.lies import Lie
from tests.simulation.scenario import Pool
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

OWNER_LABEL = "ghapp.dev/owner"
HALF = 0.5
KEPT_SECONDS = 900.0
"""A deleted pod can be shown by a stale list for no longer than this."""


class Unreachable(Exception):  # noqa: N818 - what the API server is
    """The API server gave no answer."""


class Conflict(Exception):  # noqa: N818 - the API server's word
    """The pod is another one, or has changed since it was read."""


@dataclass(slots=True, eq=False)
class TruePod:
    """One pod.

    Attributes:
        machine: the runner whose process is, or was, in its container; None before it registers, and for a runner of a
            repository, which no list of the organization shows.
        hidden: a runner of a repository works in it.
        fails: its agent never registers.
        has_proxy: no container is called `runner`; the one that is taken for the agent's is a proxy.
        proxy_ended_at: when that proxy ended, for good; None while it runs.
        started_at: when its container last started; None: never.
        ended_at: when its container ended; None while it runs or waits.
        for_good: an ended container is not started again.
        is_final: its phase is final as well.
        restarts: how often its container was started again.
        is_decided: its controller has made up its mind: it takes the pod down, or forgets it.
        deleting_since, gone_at: when its deletion was accepted, and when the pod no longer exists.
        versions: what the API server shows, from when on; None: nothing.
    """

    name: str
    pool: Pool
    created_at: float
    machine: Machine | None = None
    hidden: bool = False
    fails: bool = False
    has_proxy: bool = False
    proxy_ended_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    for_good: bool = False
    is_final: bool = False
    restarts: int = 0
    is_decided: bool = False
    deleting_since: float | None = None
    gone_at: float | None = None
    versions: list[tuple[float, Pod | None]] = field(default_factory=list)

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def exists(self) -> bool:
        """True if its deletion was not requested."""
        return self.deleting_since is None

    @property
    def is_dead(self) -> bool:
        """True if no process runs in it, and none will be started again."""
        return self.ended_at is not None and self.for_good

    def changed(self, now: float) -> None:
        """The API server has a new version of it."""
        value = None if self.gone_at is not None else self._value(len(self.versions))
        self.versions.append((now, value))

    def shown(self, at: float) -> Pod | None:
        """The version of that time."""
        return next((value for since, value in reversed(self.versions) if since <= at), None)

    def _value(self, version: int) -> Pod:
        phase = "Pending" if self.started_at is None else "Failed" if self.is_dead and self.is_final else "Running"
        return Pod(
            self.pool.name,
            self.name,
            self.uid,
            str(version),
            self.created_at,
            phase=phase,
            labels={OWNER_LABEL: self.pool.name},
            service_account=self.name,
            deleting_since=self.deleting_since,
            runner=self._proxy() if self.has_proxy else self._agent(RUNNER_CONTAINER),
            container="proxy" if self.has_proxy else RUNNER_CONTAINER,
            others=(self._agent("agent") or Container("agent"),) if self.has_proxy else (),
        )

    def _agent(self, name: str) -> Container | None:
        if self.started_at is None:
            return None
        if self.ended_at is None:
            return Container(name, running_since=self.started_at, restarts=self.restarts)
        ended = Ended(137 if self.for_good else 3, started_at=self.started_at, finished_at=self.ended_at)
        return Container(name, ended=ended, restarts=self.restarts)

    def _proxy(self) -> Container | None:
        if self.proxy_ended_at is None:
            return self._agent("proxy")
        return Container("proxy", ended=Ended(0, started_at=self.created_at, finished_at=self.proxy_ended_at))


class Cluster:
    """The API server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.pods: dict[str, TruePod] = {}
        self.accounts: set[str] = set()

    # ---- what happens to pods

    def add(self, pod: TruePod) -> TruePod:
        """A controller creates it, with a ServiceAccount of its own."""
        self.pods[pod.name] = pod
        self.accounts.add(pod.name)
        pod.changed(pod.created_at)
        return pod

    def take_down(self, pod: TruePod, seconds: float) -> None:
        """Its deletion is accepted; the pod is removed after that many seconds."""
        if not pod.exists:
            return
        now = self._engine.now
        pod.deleting_since = now
        pod.changed(now)
        if pod.machine is not None and not pod.is_dead:
            self.end_process(pod.machine)
        self._engine.after(seconds, lambda: self._gone(pod))

    def _gone(self, pod: TruePod) -> None:
        pod.gone_at = self._engine.now
        pod.changed(pod.gone_at)

    def end_process(self, machine: Machine) -> None:
        """The runner ends with its pod or container, and never comes back."""
        machine.dead = True
        machine.go_offline(self._engine.now)
        if machine.job is not None:
            machine.job.dead = True
        if machine.fate is Fate.VANISHED:
            machine.fate = Fate.LOST

    def forget(self) -> None:
        """Removes pods that no list can show any longer."""
        since = self._engine.now - KEPT_SECONDS
        for pod in [each for each in self.pods.values() if each.gone_at is not None and each.gone_at < since]:
            del self.pods[pod.name]

    # ---- what is asked

    def list_pods(self, pool: Pool) -> list[Pod]:
        """All of a namespace. Raises: Unreachable."""
        found = [self._shown(each) for each in self.pods.values() if each.pool is pool]
        return [each for each in found if each is not None]

    def read(self, name: str) -> Pod | None:
        """One. Raises: Unreachable."""
        return self._shown(self.pods[name]) if name in self.pods else None

    def delete(self, pod: Pod) -> bool:
        """DELETE with preconditions on uid and version, which are never stale. The answer may be lost.

        Returns:
            False if the pod no longer existed.

        Raises:
            Unreachable: no answer.
            Conflict: it is not what was read.
        """
        random = self._engine.pod_life.random
        if Lie.API_AWAY in self._engine.github.lies and random.random() < HALF:
            raise Unreachable
        found = self.pods.get(pod.name)
        now = self._engine.now
        current = None if found is None else found.shown(now)
        if found is None or current is None:
            return False
        if found.deleting_since is not None or not is_unchanged(current, pod):
            raise Conflict(pod.name)
        self._engine.pod_audit.deleting(found)
        self.take_down(found, random.uniform(1.0, 30.0))
        self._require_answer()
        return True

    def delete_account(self, name: str) -> None:
        """Raises: Unreachable."""
        self._require_answer()
        self.accounts.discard(name)

    def _shown(self, pod: TruePod) -> Pod | None:
        self._require_answer()
        now, stale = self._engine.now, self._engine.github.lies.get(Lie.STALE_PODS)
        value = pod.shown(now if stale is None else now - stale.degree)
        return None if value is None else value._replace(read_at=now)  # the answer's date is true all the same

    def _require_answer(self) -> None:
        if Lie.API_AWAY in self._engine.github.lies:
            raise Unreachable


def is_unchanged(pod: Pod, read: Pod) -> bool:
    """The preconditions of a DELETE: same uid and version as read."""
    return (pod.uid, pod.version) == (read.uid, read.version)
