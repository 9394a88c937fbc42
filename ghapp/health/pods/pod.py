"""What the cluster shows of one runner's pod, and of the object that ARC keeps for it. Values; no I/O.

A runner's object, pod and name are the same word, so a pod is matched to a runner by name. Times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

RUNNER_CONTAINER = "runner"
"""How ARC, and everybody after it, calls the container in which the agent runs."""

ARC_KIND = "EphemeralRunner"
"""What owns a runner's pod of ARC's."""

ORGANIZATION_LABEL = "actions.github.com/organization"
LONGEST_LABEL = 63

FRESH_SECONDS = 120.0
"""A view of the cluster that nobody has refreshed for so long counts nothing."""


class Ended(NamedTuple):
    """How a container ended: `state.terminated` or `lastState.terminated`."""

    exit_code: int
    signal: int | None = None
    reason: str = ""
    """`Completed`, `Error`, `OOMKilled`, …"""
    message: str = ""
    started_at: float | None = None
    finished_at: float | None = None


class Container(NamedTuple):
    """The runner's container. At most one of `running_since`, `ended` and `waiting` is set."""

    name: str
    running_since: float | None = None
    ended: Ended | None = None
    last_ended: Ended | None = None
    """How it ended before it was started again."""
    waiting: str = ""
    """`ImagePullBackOff`, `CrashLoopBackOff`, …"""
    restarts: int = 0


class Owner(NamedTuple):
    """An ownerReference."""

    kind: str
    name: str
    uid: str


class Pod(NamedTuple):
    """A runner's pod, as last read.

    Attributes:
        version: its `resourceVersion`, for preconditions.
        reason: the pod's own, as `Evicted` or `NodeLost`.
        disruption: the reason of its `DisruptionTarget` condition, as `PreemptionByScheduler`.
        deleting_since: when its deletion was asked for.
        runner: the container in which the agent runs; None when the kubelet has told of none.
        read_at: when it was read, by the clock of the API server, which also wrote when it was created: ages are told
            by it, for ours may be another. None where nobody told.
        container: what the container in which the agent runs is called, whether or not it was started yet.
        finalizers: what holds it, once it is being deleted.
        grace_ends_at: when the time to stop is over that its deletion gave it; None for one that is not being deleted.
    """

    namespace: str
    name: str
    uid: str
    version: str
    created_at: float
    phase: str = ""
    node: str = ""
    labels: Mapping[str, str] = {}
    owners: tuple[Owner, ...] = ()
    service_account: str = ""
    reason: str = ""
    message: str = ""
    disruption: str = ""
    deleting_since: float | None = None
    runner: Container | None = None
    read_at: float | None = None
    container: str = ""
    finalizers: tuple[str, ...] = ()
    grace_ends_at: float | None = None

    @property
    def age(self) -> float:
        """Seconds, when it was read; 0 where nobody told when that was."""
        return lasted(self.created_at, self.read_at)

    @property
    def container_age(self) -> float | None:
        """For how many seconds its runner's container had run then; None when it did not run."""
        since = None if self.runner is None else self.runner.running_since
        return None if since is None else lasted(since, self.read_at)

    @property
    def ended(self) -> Ended | None:
        """How its runner ended, now or the last time; None while nothing is known of an end."""
        if self.runner is None:
            return None
        return self.runner.ended or self.runner.last_ended

    @property
    def is_runners(self) -> bool:
        """Whether it is a runner's pod: one of ARC's, or one with a container of that name."""
        return self.container == RUNNER_CONTAINER or any(owner.kind == ARC_KIND for owner in self.owners)

    @property
    def is_running(self) -> bool:
        """Whether its runner's container runs right now."""
        return self.runner is not None and self.runner.running_since is not None


class EphemeralRunner(NamedTuple):
    """ARC's object for one runner (`actions.github.com/v1alpha1`), as last read.

    Attributes:
        name: of the object; `runner_name` is what GitHub calls the runner, the same word once it is registered.
        failures: how many of its pods have failed.
        job_id: the job it says that it runs; empty for none.
        scale_set: the name of its scale set.
        read_at: as a pod's.
        repository: of the job, `owner/name`; empty where ARC does not say.
    """

    namespace: str
    name: str
    uid: str
    version: str
    created_at: float
    phase: str = ""
    reason: str = ""
    message: str = ""
    runner_id: int | None = None
    runner_name: str = ""
    job_id: str = ""
    workflow_run_id: int | None = None
    failures: int = 0
    finalizers: tuple[str, ...] = ()
    deleting_since: float | None = None
    scale_set: str = ""
    org: str = ""
    read_at: float | None = None
    repository: str = ""

    @property
    def age(self) -> float:
        """Seconds, when it was read; 0 where nobody told when that was."""
        return lasted(self.created_at, self.read_at)

    @property
    def terminating_for(self) -> float:
        """Seconds, when it was read; 0 for one that is not being deleted, and where nobody told when that was."""
        return 0.0 if self.deleting_since is None else lasted(self.deleting_since, self.read_at)


def lasted(since: float, read_at: float | None) -> float:
    """Seconds from one moment to another by one clock; 0 where that is not known: never longer than it was."""
    return 0.0 if read_at is None else max(0.0, read_at - since)


def is_in(org: str, label: str) -> bool:
    """Whether an organization's label names this one. Its value may be cut, and missing."""
    return not label or label.lower() == org[:LONGEST_LABEL].lower()


def runner_container(names: Sequence[str], default: str | None = None) -> str | None:
    """Which of a pod's containers runs the agent: that called `runner`, else the pod's default one, else the first."""
    if not names:
        return None
    if RUNNER_CONTAINER in names:
        return RUNNER_CONTAINER
    return default if default in names else names[0]


def is_fresh(seen_at: float, now: float) -> bool:
    """Whether a view of the cluster still counts; another machine's clock may be a little ahead."""
    return abs(now - seen_at) < FRESH_SECONDS
