"""The configuration of a sandbox: organizations, their pools, the durations of work.

Everything has a default: `SandboxConfig()` is the organization `acme` with 300 runners at work. The same shape is read
from JSON by `python -m ghapp.sandbox`; unknown keys are refused.
"""

from __future__ import annotations

from typing import Literal

import msgspec

#: Labels that GitHub itself assigns to a Linux runner, and that cannot be removed.
READ_ONLY_LABELS = ("self-hosted", "linux", "x64")

#: A pool with a label that starts so is a shard.
SHARD_LABEL = "shard:"

#: Runners of repositories and enterprises have ids of their own, by default.
FIRST_ELSEWHERE_ID = 900_000_001

PoolPods = Literal["", "arc", "own"]
"""How the runners of a pool run in the simulated cluster: not at all, by ARC, or by a controller of one's own."""

LEAST_PRIVILEGE = {
    "organization_self_hosted_runners": "write",
    "checks": "write",
    "actions": "read",
    "metadata": "read",
}


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runners of one kind.

    Attributes:
        labels: custom labels; default: the pool's name.
        ephemeral: whether a runner runs one job and is deregistered.
        load: the average share of busy runners; near 1, jobs begin to queue.
        pods: whether its runners are pods, where the sandbox has a cluster.
    """

    name: str
    size: int
    labels: tuple[str, ...] = ()
    ephemeral: bool = True
    load: float = 0.35
    pods: PoolPods = ""

    @property
    def custom_labels(self) -> tuple[str, ...]:
        """Returns the labels that distinguish this pool from others."""
        return self.labels or (self.name,)

    @property
    def all_labels(self) -> tuple[str, ...]:
        """GitHub's own labels, then the custom ones."""
        return READ_ONLY_LABELS + self.custom_labels


def pools_of(runners: int) -> tuple[PoolConfig, ...]:
    """Returns the default pools of an organization with so many runners: two ephemeral and a persistent, busy one."""
    gpu = runners // 10
    large = runners * 7 // 30
    return (
        PoolConfig(name="linux-4vcpu", size=runners - large - gpu),
        PoolConfig(name="linux-8vcpu", size=large),
        PoolConfig(name="gpu", size=gpu, ephemeral=False, load=0.95),
    )


def with_rollout(pools: tuple[PoolConfig, ...]) -> tuple[PoolConfig, ...]:
    """Returns pools with the same number of runners, some of them in two shards of a blue/green pool, `rollout`.

    Users' jobs run on purple; pink is the inactive shard, for deployments.
    """
    first, *others = pools
    labels = {shard: ("rollout", f"{SHARD_LABEL}{shard}") for shard in ("purple", "pink")}
    shards = [
        PoolConfig(name="rollout-purple", size=4, labels=labels["purple"], ephemeral=False, load=0.5),
        PoolConfig(name="rollout-pink", size=4, labels=labels["pink"], ephemeral=False, load=0.0),
    ]
    left = first.size - sum(shard.size for shard in shards)
    return (msgspec.structs.replace(first, size=left), *others, *shards)


def with_pods(pools: tuple[PoolConfig, ...]) -> tuple[PoolConfig, ...]:
    """Returns pools with the same number of runners, some of them in two pools whose runners are pods."""
    first, *others = pools
    in_cluster = (
        PoolConfig(name="k8s-arc", size=12, load=0.5, pods="arc"),
        PoolConfig(name="k8s-pods", size=12, load=0.5, pods="own"),
    )
    left = first.size - sum(pool.size for pool in in_cluster)
    return (msgspec.structs.replace(first, size=left), *others, *in_cluster)


class OrgConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An organization.

    Attributes:
        installed: whether the sandbox's App is already installed there.
        repository_pools: runners that are registered at a repository, by its name. They take no jobs.
        hosted_runners: names of the larger runners that GitHub hosts for it, which are their labels. They take no jobs.
        enterprise: the slug of the enterprise that shares its runners with it; empty without one.
    """

    login: str = "acme"
    pools: tuple[PoolConfig, ...] = pools_of(300)
    repositories: tuple[str, ...] = ("api", "web", "infra", ".github")
    repository_pools: dict[str, tuple[PoolConfig, ...]] = {}
    hosted_runners: tuple[str, ...] = ()
    enterprise: str = ""
    installed: bool = True


class EnterpriseConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An enterprise, whose runners take no jobs."""

    slug: str = "acme-corp"
    pools: tuple[PoolConfig, ...] = (PoolConfig(name="shared", size=4, ephemeral=False),)


class Pace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations in seconds, as (shortest, longest); with `speed` 10 everything is ten times as fast.

    Attributes:
        job: a job's run.
        boot: from the request for a runner to its registration, which is offline at first.
        settle: from the registration until the runner is online.
    """

    job: tuple[float, float] = (20.0, 120.0)
    boot: tuple[float, float] = (2.0, 6.0)
    settle: tuple[float, float] = (1.0, 3.0)
    speed: float = 1.0


class SandboxConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole sandbox.

    Attributes:
        seed: decides names, jobs and durations; the same seed gives the same events.
        quiet: no jobs at all.
        ticking: whether the fleet follows the wall clock; without it only `Control.step` moves it.
        app: whether an App exists from the start; without one it must come from the manifest flow.
        callback_urls: where GitHub may send people after they signed in; a loopback address permits every port.
        webhook_url: where the App's deliveries are sent; none are sent without it.
        webhook_secret: of the App's hook; a random one when empty.
        controller_secret: `whsec_…`, expected by the simulated runner controller; a random one when empty.
        api_path: the only path of the REST API, such as `/api/v3`; empty: both there and at the root.
        rate_limit: calls per installation and hour.
        latency_seconds: added to each REST call.
        first_elsewhere_id: where ids of runners of repositories and enterprises begin; ids of their own by default.
    """

    orgs: tuple[OrgConfig, ...] = (OrgConfig(),)
    enterprises: tuple[EnterpriseConfig, ...] = (EnterpriseConfig(),)
    pace: Pace = Pace()
    seed: int = 1
    quiet: bool = False
    ticking: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    api_path: str = ""
    app: bool = True
    permissions: dict[str, str] = msgspec.field(default_factory=lambda: dict(LEAST_PRIVILEGE))
    events: tuple[str, ...] = ("workflow_job",)
    callback_urls: tuple[str, ...] = ("http://127.0.0.1/sign-in/callback",)
    webhook_url: str = ""
    webhook_secret: str = ""
    controller_secret: str = ""
    rate_limit: int = 5000
    latency_seconds: float = 0.0
    first_elsewhere_id: int = FIRST_ELSEWHERE_ID

    def __post_init__(self) -> None:
        if self.api_path and (not self.api_path.startswith("/") or self.api_path.endswith("/")):
            raise ValueError("api_path begins with a slash and does not end with one")
