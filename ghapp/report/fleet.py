"""An org as far as it is known, and its runners by pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ghapp.health.cluster_summary import DeathSummary, StaleNamespace
from ghapp.health.leaks.reaper_status import ReaperStatus
from ghapp.health.pods.blockers import Blocker
from ghapp.health.pods.degraded_sources import DegradedSource
from ghapp.health.pods.phantom_kinds import Phantom
from ghapp.health.pool_matching import PoolRule, pool_of
from ghapp.health.remediation.fuse import WHOLE_INSTALLATION, Fuse, Position, fuse_of
from ghapp.health.remediation.plan import Mode
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.next_attempt import NextAttempt
from ghapp.health.runner.verdict import Limits, Reason, State, Verdict, judge
from ghapp.report.documents import is_healed

FOR_A_PERSON = frozenset(
    {
        Blocker.CLUSTER_UNCONFIGURED,
        Blocker.CLUSTER_FORBIDDEN,
        Blocker.RESOURCE_MISSING,
        Blocker.POD_OF_ARC,
        Blocker.POOL_NEVER_SEEN_THERE,
    }
)
"""What stands in the way of a replacement until somebody changes the configuration, here or in the cluster."""


class PauseView(Protocol):
    """A person stopped remediation."""

    @property
    def who(self) -> str:
        """The person."""

    @property
    def why(self) -> str:
        """In the person's own words."""

    @property
    def at(self) -> float:
        """Since when, in epoch seconds."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """An org, as far as it is known.

    Attributes:
        org: its login.
        web_url: of GitHub's pages, for links; without a slash at its end.
        runners: everyone's evidence. Those that were never registered with the org are not of the fleet.
        survey: how the last looks went.
        fuses: by pool, the installation's own among them; a pool that is not there has a closed one.
        pauses: by pool.
        org_pause: the whole org's.
        rules: the configured pools.
        mode: of `[remediation]`.
        limits: the `[evidence]` table.
        phantoms: what is counted as a runner and is none, and lasts.
        deaths: of the last day, latest first; clean exits left out.
        unseen: namespaces of its pools that nobody sees.
        hindrances: what keeps its cluster side from being seen, and why.
        leaks: what the reaper of stamped pods did, and what waits.
        login: what GitHub calls it, where that is not `org`; else empty.
        attempt: what prevents sweeps, and when the next attempt is due.
    """

    org: str
    web_url: str
    runners: Iterable[Evidence]
    survey: Survey
    fuses: Mapping[str, Fuse] = field(default_factory=dict)
    pauses: Mapping[str, PauseView] = field(default_factory=dict)
    org_pause: PauseView | None = None
    rules: Sequence[PoolRule] = ()
    mode: Mode = "act"
    limits: Limits = field(default_factory=Limits)
    phantoms: Sequence[Phantom] = ()
    deaths: Sequence[DeathSummary] = ()
    unseen: Sequence[StaleNamespace] = ()
    hindrances: Sequence[DegradedSource] = ()
    leaks: ReaperStatus = field(default_factory=ReaperStatus)
    login: str = ""
    attempt: NextAttempt = field(default_factory=NextAttempt)

    @property
    def whole_fuse(self) -> Fuse:
        """The fuse over the whole installation."""
        return self.fuses.get(WHOLE_INSTALLATION, Fuse())

    def is_stale(self, now: float) -> bool:
        """Whether the last complete list is so old that states turn to unknown, or there is none."""
        return self.survey.swept_at is None or now - self.survey.swept_at > self.limits.stale_seconds


class RunnerView(NamedTuple):
    """A runner of the fleet, and what is true of it."""

    evidence: Evidence
    verdict: Verdict

    @property
    def lost(self) -> bool:
        """Gone, and its replacement not accepted yet."""
        return self.verdict.state is State.INVALIDATED and not self.healed

    @property
    def healed(self) -> bool:
        """Lost, and no longer missed: its replacement was accepted."""
        return is_healed(self.evidence, self.verdict)

    @property
    def stuck(self) -> bool:
        """Lost, and what is in the way of its replacement does not go away by itself."""
        deletion = self.evidence.deletion
        return self.lost and deletion is not None and deletion.waits_for in FOR_A_PERSON


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as it stands.

    Attributes:
        name: its name.
        members: its runners that are registered, or lost and still missed.
        fuse: the one that decides for it: its own, or the installation's.
        pause: its own, or else the org's.
        mode: of `[remediation]`.
        count: how many members are in each state.
        healed: runners that were lost and have their replacement accepted; no members any more.
        written_off: runners that were lost and that the pool does without; no members any more.
    """

    name: str
    members: Sequence[RunnerView]
    fuse: Fuse
    pause: PauseView | None
    mode: Mode
    count: Counter[State]
    healed: Sequence[RunnerView] = ()
    written_off: Sequence[RunnerView] = ()

    @property
    def waits_for_a_person(self) -> bool:
        """Its fuse stopped; or somebody is lost, and a pause, a mode or the cluster holds the replacement back."""
        held = self.pause is not None or self.mode != "act"
        return self.fuse.position is Position.STOPPED or any(
            each.stuck or (held and each.lost) for each in self.members
        )

    @property
    def is_well(self) -> bool:
        """Everyone works or is replaced, and nothing is held back."""
        fine = (State.HEALTHY, State.STARTING)
        everyone = all(each.verdict.state in fine or each.evidence.replaced_at is not None for each in self.members)
        return everyone and self.fuse.position is Position.CLOSED and self.pause is None


def by_pool(fleet: FleetView, now: float) -> list[PoolView]:
    """Its pools by name: the configured ones, those of its runners, and those that something holds back."""
    members: dict[str, list[RunnerView]] = {rule.name: [] for rule in fleet.rules}
    held = (name for name, fuse in fleet.fuses.items() if fuse.position is not Position.CLOSED)
    for pool in {*fleet.pauses, *held} - {WHOLE_INSTALLATION}:
        members.setdefault(pool, [])
    for evidence in fleet.runners:
        if not evidence.registered:
            continue
        verdict = judge(evidence, fleet.survey, now, fleet.limits)
        if verdict.state is not State.RETIRED or verdict.reason is Reason.NOT_NEEDED:
            pool = pool_of(evidence.labels, evidence.custom_labels, fleet.rules)
            members.setdefault(pool, []).append(RunnerView(evidence, verdict))
    return [_pool(fleet, name, members[name]) for name in sorted(members)]


def _pool(fleet: FleetView, name: str, known: Sequence[RunnerView]) -> PoolView:
    members = [each for each in known if not each.healed and each.verdict.state is not State.RETIRED]
    return PoolView(
        name=name,
        members=members,
        fuse=fuse_of(fleet.fuses, name),
        pause=fleet.pauses.get(name, fleet.org_pause),
        mode=fleet.mode,
        count=Counter(each.verdict.state for each in members),
        healed=[each for each in known if each.healed],
        written_off=[each for each in known if each.verdict.state is State.RETIRED],
    )
