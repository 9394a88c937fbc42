"""An org's known state, and its runners grouped by pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ghapp.health.cluster_summary import StaleNamespace
from ghapp.health.deaths.patterns import DeathPattern, DeathSummary
from ghapp.health.demand import PoolDemand, UnservedJob
from ghapp.health.leaks.reaper_status import ReaperStatus
from ghapp.health.pods.blockers import Blocker
from ghapp.health.pods.degraded_sources import DegradedSource
from ghapp.health.pods.phantom_kinds import Phantom
from ghapp.health.pool_matching import PoolMatcher, PoolRule
from ghapp.health.queue.job_queue import PauseView
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
        Blocker.POLICY_FORBIDS,
        Blocker.RESOURCE_MISSING,
        Blocker.POD_OF_ARC,
        Blocker.POOL_NEVER_SEEN_THERE,
    }
)
"""Blockers that stay until an admin changes the configuration of ghapp or of the cluster."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """An org's known state.

    Attributes:
        org: its login.
        web_url: base URL of GitHub's pages, for links; without a trailing slash.
        runners: evidence of all runners. Runners that were never registered with the org are ignored.
        survey: results of the last sweeps.
        fuses: by pool, including the installation's own; a missing pool has a closed fuse.
        pauses: by pool.
        org_pause: the pause of the whole org.
        rules: the configured pools.
        mode: of `[remediation]`.
        limits: the `[evidence]` table.
        phantoms: lasting phantoms.
        deaths: deaths of the last day without clean exits, latest first.
        death_patterns: what stands out among the deaths of the last week.
        unseen: namespaces of the org's pools that are not read.
        degraded_sources: cluster sources that cannot be read, and why.
        leaks: what the reaper did and what it kept.
        login: the org's login at GitHub if that differs from `org`; else empty.
        attempt: what prevents sweeps, and when the next attempt is due.
        demand: jobs and runners by pool.
        unserved: jobs that no online runner can take and that have waited for long enough to be reported.
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
    death_patterns: Sequence[DeathPattern] = ()
    unseen: Sequence[StaleNamespace] = ()
    degraded_sources: Sequence[DegradedSource] = ()
    leaks: ReaperStatus = field(default_factory=ReaperStatus)
    login: str = ""
    attempt: NextAttempt = field(default_factory=NextAttempt)
    demand: Sequence[PoolDemand] = ()
    unserved: Sequence[UnservedJob] = ()

    @property
    def whole_fuse(self) -> Fuse:
        """The fuse over the whole installation."""
        return self.fuses.get(WHOLE_INSTALLATION, Fuse())

    def is_stale(self, now: float) -> bool:
        """True if the last complete list is older than `stale_seconds`, or there is no complete list."""
        return self.survey.swept_at is None or now - self.survey.swept_at > self.limits.stale_seconds


class RunnerView(NamedTuple):
    """A runner's evidence and verdict."""

    evidence: Evidence
    verdict: Verdict

    @property
    def lost(self) -> bool:
        """True if the runner is invalidated and its replacement is not accepted yet."""
        return self.verdict.state is State.INVALIDATED and not self.healed

    @property
    def healed(self) -> bool:
        """True if the runner was lost and its replacement was accepted."""
        return is_healed(self.evidence, self.verdict)

    @property
    def stuck(self) -> bool:
        """True if the runner is lost and only an admin can clear what blocks its replacement."""
        deletion = self.evidence.deletion
        return self.lost and deletion is not None and deletion.waits_for in FOR_A_PERSON


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool's current state.

    Attributes:
        name: its name.
        members: registered runners, and lost runners whose replacement is not accepted.
        fuse: the fuse in force: the pool's own, or the installation's.
        pause: the pool's own pause, or else the org's.
        mode: of `[remediation]`.
        count: number of members in each state.
        healed: lost runners whose replacement was accepted; no longer members.
        written_off: lost runners that the pool does not need; no longer members.
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
        """True if the fuse stopped, or a pause, a mode or the cluster blocks the replacement of a lost runner."""
        is_held = self.pause is not None or self.mode != "act"
        return self.fuse.position is Position.STOPPED or any(
            each.stuck or (is_held and each.lost) for each in self.members
        )

    @property
    def is_well(self) -> bool:
        """True if every member works or is replaced, the fuse is closed, and there is no pause."""
        fine = (State.HEALTHY, State.STARTING)
        all_fine = all(each.verdict.state in fine or each.evidence.replaced_at is not None for each in self.members)
        return all_fine and self.fuse.position is Position.CLOSED and self.pause is None


def by_pool(fleet: FleetView, now: float) -> list[PoolView]:
    """Returns pools sorted by name: configured pools, pools of runners, pools with a pause or a tripped fuse."""
    members: dict[str, list[RunnerView]] = {rule.name: [] for rule in fleet.rules}
    tripped = (name for name, fuse in fleet.fuses.items() if fuse.position is not Position.CLOSED)
    for pool in {*fleet.pauses, *tripped} - {WHOLE_INSTALLATION}:
        members.setdefault(pool, [])
    matcher, survey, limits = PoolMatcher(fleet.rules), fleet.survey, fleet.limits
    for evidence in fleet.runners:
        if not evidence.registered:
            continue
        verdict = judge(evidence, survey, now, limits)
        if verdict.state is not State.RETIRED or verdict.reason is Reason.NOT_NEEDED:
            members.setdefault(matcher.pool(evidence), []).append(RunnerView(evidence, verdict))
    return [_pool(fleet, name, members[name]) for name in sorted(members)]


def _pool(fleet: FleetView, name: str, known: Sequence[RunnerView]) -> PoolView:
    members, healed, written_off = list[RunnerView](), list[RunnerView](), list[RunnerView]()
    for each in known:
        state = each.verdict.state
        if state is State.RETIRED:
            written_off.append(each)
        elif state is State.INVALIDATED and each.healed:
            healed.append(each)
        else:
            members.append(each)
    return PoolView(
        name=name,
        members=members,
        fuse=fuse_of(fleet.fuses, name),
        pause=fleet.pauses.get(name, fleet.org_pause),
        mode=fleet.mode,
        count=Counter(each.verdict.state for each in members),
        healed=healed,
        written_off=written_off,
    )
