"""A runner's pod and ARC's object as the cluster shows them. Values; no I/O.

A runner's object, pod and registration have the same name, so pods are matched to runners by name. Times are epoch
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ghapp.installations.scope import ENTERPRISES

RUNNER_CONTAINER = "runner"
"""Name of the container that runs the agent, by ARC's convention."""

ARC_KIND = "EphemeralRunner"
"""Kind of the owner of ARC's pods."""

ORGANIZATION_LABEL = "actions.github.com/organization"
REPOSITORY_LABEL = "actions.github.com/repository"
ENTERPRISE_LABEL = "actions.github.com/enterprise"
"""ARC's labels of where a runner is registered; one of a repository has the first two."""

LONGEST_LABEL = 63

FRESH_SECONDS = 120.0
"""A view of the cluster older than this is ignored."""


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
    """A container. At most one of `running_since`, `ended` and `waiting` is set; none of an unreported one."""

    name: str
    running_since: float | None = None
    ended: Ended | None = None
    last_ended: Ended | None = None
    """Its end before the last restart."""
    waiting: str = ""
    """`ImagePullBackOff`, `CrashLoopBackOff`, …"""
    restarts: int = 0
    waiting_message: str = ""
    """The kubelet's message beside `waiting`."""

    @property
    def has_started(self) -> bool:
        """True if it ever ran, as reported by the kubelet."""
        has_end = self.ended is not None or self.last_ended is not None
        return has_end or self.running_since is not None or self.restarts > 0


class Owner(NamedTuple):
    """An ownerReference."""

    kind: str
    name: str
    uid: str


class Pod(NamedTuple):
    """A runner's pod, as last read.

    Attributes:
        version: its `resourceVersion`, for preconditions.
        reason: the pod's own reason, as `Evicted` or `NodeLost`.
        disruption: the reason of its `DisruptionTarget` condition, as `PreemptionByScheduler`.
        deleting_since: when its deletion was requested.
        runner: status of the container that runs the agent; None if the kubelet has not reported it.
        read_at: when it was read, by the API server's clock, which also dates the creation: ages are computed from it,
            because our clock may differ. None if unknown.
        container: name of the container that runs the agent, even before it was started.
        finalizers: finalizers that keep it during its deletion.
        grace_ends_at: end of the deletion's grace period; None if it is not being deleted.
        image: of the container that runs the agent, as its spec names it; empty if unknown.
        memory_limit: the one in force, of that container or else of the whole pod, as Kubernetes writes quantities
            (`8Gi`); empty without a limit.
        others: the other containers that may run the agent (`may_run_agent`), reported or not. Deaths are read from
            `runner` alone.
        init: its init containers that are reported and did not complete, in their order.
        unschedulable: the scheduler's message while no node takes it; empty once it has a node.
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
    image: str = ""
    memory_limit: str = ""
    others: tuple[Container, ...] = ()
    init: tuple[Container, ...] = ()
    unschedulable: str = ""

    @property
    def agents(self) -> tuple[Container, ...]:
        """All containers that may run the agent."""
        return self.others if self.runner is None else (self.runner, *self.others)

    @property
    def may_run(self) -> bool:
        """True if a container that may run the agent is running."""
        return any(each.running_since is not None for each in self.agents)

    @property
    def age(self) -> float:
        """Age in seconds when it was read; 0 if the time of the read is unknown."""
        return lasted(self.created_at, self.read_at)

    @property
    def container_age(self) -> float | None:
        """Seconds that the runner's container had run by then; None if it did not run."""
        since = None if self.runner is None else self.runner.running_since
        return None if since is None else lasted(since, self.read_at)

    @property
    def ended(self) -> Ended | None:
        """The runner's current or last end; None if no end is known."""
        if self.runner is None:
            return None
        return self.runner.ended or self.runner.last_ended

    @property
    def is_runners(self) -> bool:
        """True for a runner's pod: a pod of ARC's, or a pod with a container of that name."""
        return self.container == RUNNER_CONTAINER or any(owner.kind == ARC_KIND for owner in self.owners)

    @property
    def is_running(self) -> bool:
        """True if the runner's container is running."""
        return self.runner is not None and self.runner.running_since is not None

    @property
    def has_ended(self) -> bool:
        """True if an end of the runner is known, and its container was not started again."""
        return self.ended is not None and not self.is_running


class EphemeralRunner(NamedTuple):
    """ARC's object for one runner (`actions.github.com/v1alpha1`), as last read.

    Attributes:
        name: of the object; `runner_name` is the runner's name at GitHub, the same once it is registered.
        failures: number of its failed pods.
        job_id: its job according to ARC; empty if there is none.
        scale_set: name of its scale set.
        read_at: as for a pod.
        repository: of the job, `owner/name`; empty if ARC does not report it.
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
        """Age in seconds when it was read; 0 if the time of the read is unknown."""
        return lasted(self.created_at, self.read_at)

    @property
    def terminating_for(self) -> float:
        """Seconds since its deletion when it was read; 0 if it is not being deleted or the time is unknown."""
        return 0.0 if self.deleting_since is None else lasted(self.deleting_since, self.read_at)


def lasted(since: float, read_at: float | None) -> float:
    """Returns the seconds between two times of one clock; 0 if the read's time is unknown: never too long."""
    return 0.0 if read_at is None else max(0.0, read_at - since)


def registered_at(labels: Mapping[str, str]) -> str:
    """Returns the address of the scope that ARC's labels name, each part as cut as its label; empty without them."""
    if enterprise := labels.get(ENTERPRISE_LABEL, ""):
        return f"{ENTERPRISES}/{enterprise}"
    organization, repository = labels.get(ORGANIZATION_LABEL, ""), labels.get(REPOSITORY_LABEL, "")
    return f"{organization}/{repository}" if repository else organization


def is_in(org: str, address: str) -> bool:
    """True if an address of `registered_at` is this scope's; the labels may be missing, and their values may be cut."""
    return not address or address.lower() == "/".join(part[:LONGEST_LABEL] for part in org.lower().split("/"))


def runner_container(names: Sequence[str], default: str | None = None) -> str | None:
    """Returns the container that runs the agent: named `runner`, else the pod's default container, else the first."""
    if not names:
        return None
    if RUNNER_CONTAINER in names:
        return RUNNER_CONTAINER
    return default if default in names else names[0]


def may_run_agent(names: Sequence[str], sidecars: Sequence[str]) -> list[str]:
    """Returns the containers that may run the agent.

    A container `runner` does, by ARC's convention: docker-in-docker beside it proves nothing, and outlives it. Without
    one, any container may: `kubectl.kubernetes.io/default-container` often names a proxy. Init containers that are
    always restarted (`sidecars`) count too; others have ended before the agent starts.
    """
    return [RUNNER_CONTAINER] if RUNNER_CONTAINER in names else [*names, *sidecars]


def is_fresh(seen_at: float, now: float) -> bool:
    """True if a view of the cluster is recent enough; another machine's clock may be slightly ahead."""
    return abs(now - seen_at) < FRESH_SECONDS
