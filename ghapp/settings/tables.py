"""The tables of the policy and of its pools, with defaults. Tables that a rule reads are defined beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ghapp.deaths.rerun import RerunRules
from ghapp.installations.pacing import BudgetLimits
from ghapp.leaks.guards import LeakLimits
from ghapp.remediation.fuse import FuseLimits
from ghapp.remediation.plan import RemediationLimits
from ghapp.runners.verdict import Limits
from ghapp.versions.lifetime import VersionLimits
from ghapp.workflow_jobs.queue_check import QueueLimits


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """The `[sweep]` table: seconds between sweeps of one installation, and requests in flight for it."""

    interval_seconds: float = 60.0
    concurrency: int = 10


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The `[deliveries]` table."""

    redeliver_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The `[report]` table: `owner/repository` of the fleet's check run; None for no report."""

    repository: str | None = None


NotifyTopic = Literal["fuse", "blind", "unserved", "gate", "version"]


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The `[notify]` table: the conditions of which `GHAPP_NOTIFY_URLS` are notified."""

    events: tuple[NotifyTopic, ...] = ("fuse", "blind", "unserved", "gate", "version")


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """One of `[[pools]]`: runners of `org` with all of `labels` (`*`: every runner), and how they are replaced.

    `namespace` is the one of their pods, whatever the replacer. The other keys are for the gate of a blue/green pool.

    Attributes:
        shard_label: a runner label `shard:pink` puts the runner on shard pink, if this is `shard`.
        shard_groups: alternatively, the runner group decides: shard → the group's id.
        shard_name: alternatively, the runner's name decides: a pattern with the group `(?P<shard>…)`.
        active_command: prints the name of the active shard; run without a shell, with no variables but PATH, HOME,
            LANG and those of `active_env`.
        active_url: answers with that name; an alternative to the command.
        active_env: names of further variables for the command.
        min_online: minimum of a shard's runners that must be online, unless a request has its own.
        settle_seconds: how long the gate must keep passing.
        runner_name: `pod` if its runners have the names of their pods, as those of ARC and just-in-time runners.
        deploy_repository: `owner/name` of the deployed commits; the gate's check run is posted on them.
        rerun: whether jobs whose runner died are run again.
    """

    org: str
    name: str
    labels: tuple[str, ...] = ()
    replacer: Literal["cloudevents", "arc", "pods", "none"] = "none"
    url: str | None = None
    secret_env: str | None = None
    namespace: str | None = None
    replace_offline_after_seconds: float | None = None
    runner_name: Literal["pod"] | None = None
    shard_label: str | None = None
    shard_groups: Mapping[str, int] = field(default_factory=dict)
    shard_name: str | None = None
    active_command: tuple[str, ...] = ()
    active_url: str | None = None
    active_env: tuple[str, ...] = ()
    min_online: int = 1
    settle_seconds: float | None = None
    deploy_repository: str | None = None
    rerun: RerunRules = field(default_factory=RerunRules)

    @property
    def active_source(self) -> str:
        """The key that names the active shard's source; empty without one."""
        return "active_command" if self.active_command else "active_url" if self.active_url else ""


@dataclass(frozen=True, slots=True)
class Policy:
    """All tables of one org."""

    sweep: SweepSettings = field(default_factory=SweepSettings)
    evidence: Limits = field(default_factory=Limits)
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    fuse: FuseLimits = field(default_factory=FuseLimits)
    remediation: RemediationLimits = field(default_factory=RemediationLimits)
    deliveries: DeliverySettings = field(default_factory=DeliverySettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    leaks: LeakLimits = field(default_factory=LeakLimits)
    queue: QueueLimits = field(default_factory=QueueLimits)
    notify: NotifySettings = field(default_factory=NotifySettings)
    versions: VersionLimits = field(default_factory=VersionLimits)
