"""An org's known state, and its runners grouped by pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ghapp.deaths.cluster_summary import StaleNamespace
from ghapp.deaths.patterns import DeathPattern, DeathSummary, RecentDeaths
from ghapp.gate.active_shard import Role
from ghapp.gate.gate_states import GateState
from ghapp.installations.pool_matching import ALL_POOLS, PoolMatcher
from ghapp.leaks.reaper_status import ReaperStatus
from ghapp.pods.degraded_sources import DegradedSource
from ghapp.pods.phantom_kinds import FoundSince, Phantom
from ghapp.pods.pod_claim import claim_on
from ghapp.remediation.fuse import Fuse, FuseLimits, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.status import (
    NO_REPLACEMENT,
    ReplacementStage,
    ReplacementStatus,
    is_lost,
    replacement_status,
)
from ghapp.report.links import PageLinks
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.next_attempt import NextAttempt
from ghapp.runners.verdict import Limits, Reason, State, Verdict
from ghapp.workflow_jobs.demand import PoolDemand, UnservedJob


class PressedButton(NamedTuple):
    """A press of a button of the check run: which (its label), when (epoch seconds), who, and its outcome."""

    label: str
    at: float
    who: str
    outcome: str


@dataclass(frozen=True, slots=True)
class FleetView:
    """An org's known state: what its page, its check run and its headline are made from.

    Attributes:
        view: what holds for all of its runners.
        web_url: base URL of GitHub's pages, for links; without a trailing slash.
        runners: evidence of all runners. Runners that were never registered with the org are ignored.
        phantoms: lasting phantoms.
        possible_phantoms: names of what the last check of the cluster found to be a phantom, and not for long enough.
        found_since: when each phantom was first found, by `phantom_kinds.key`.
        deaths: deaths of the last day without clean exits, latest first.
        death_patterns: what stands out among the deaths of the last week.
        recent_deaths: of the last hour; None without any.
        shard_roles: the role of each shard with a known runner, in lower case, by pool with shards.
        unseen: namespaces of the org's pools that are not read.
        degraded_sources: cluster sources that cannot be read, and why.
        leaks: what the reaper did and what it kept.
        login: the org's login at GitHub if that differs from `org`; else empty.
        settings_page: where an owner accepts the App's permissions; empty for an enterprise, whose token has them.
        attempt: what prevents sweeps, and when the next attempt is due.
        sweep_seconds: the configured time between sweeps.
        demand: jobs and runners by pool.
        unserved: jobs that no online runner can take and that have waited for long enough to be reported.
        slow: jobs that have waited for a busy pool for long enough to be reported.
        gates: the gates of deployed shards, by `gate_checks.place_of`.
        gate_failures: the sentence of the check by which a gate fails now; of gates that did not pass since the deploy.
        pressed: the last press of a button of the check run, of the last minutes; None without one.
        fuse_limits: the `[fuse]` table. A request without a successor for `prove_seconds` is reported, and so are as
            many suspects at once as would trip a fuse.
        pages_url: the address of this server's pages, for links; None if it is not known.
    """

    view: OrgView
    web_url: str
    runners: Iterable[Evidence]
    phantoms: Sequence[Phantom] = ()
    possible_phantoms: frozenset[str] = frozenset()
    found_since: FoundSince = field(default_factory=dict[str, float])
    deaths: Sequence[DeathSummary] = ()
    death_patterns: Sequence[DeathPattern] = ()
    recent_deaths: RecentDeaths | None = None
    shard_roles: Mapping[str, Mapping[str, Role]] = field(default_factory=dict)
    unseen: Sequence[StaleNamespace] = ()
    degraded_sources: Sequence[DegradedSource] = ()
    leaks: ReaperStatus = field(default_factory=ReaperStatus)
    login: str = ""
    settings_page: str = ""
    attempt: NextAttempt = field(default_factory=NextAttempt)
    sweep_seconds: float = 60.0
    demand: Sequence[PoolDemand] = ()
    unserved: Sequence[UnservedJob] = ()
    slow: Sequence[UnservedJob] = ()
    gates: Mapping[str, GateState] = field(default_factory=dict)
    gate_failures: Mapping[str, str] = field(default_factory=dict)
    fuse_limits: FuseLimits = field(default_factory=FuseLimits)
    pressed: PressedButton | None = None
    pages_url: str | None = None

    @property
    def org(self) -> str:
        """Its name."""
        return self.view.org

    @property
    def whole_fuse(self) -> Fuse:
        """The fuse over the whole installation."""
        return self.view.fuses.get(ALL_POOLS, Fuse())

    @property
    def org_pause(self) -> Pause | None:
        """The pause of the whole org."""
        return self.view.pauses.get(ALL_POOLS)

    @property
    def pool_pauses(self) -> dict[str, Pause]:
        """The pauses of single pools."""
        return {pool: pause for pool, pause in self.view.pauses.items() if pool != ALL_POOLS}

    @property
    def links(self) -> PageLinks:
        """Its pages."""
        return PageLinks(self.pages_url, self.org)

    def is_stale(self, now: float) -> bool:
        """True if the last complete list is older than `stale_seconds`, or there is no complete list."""
        swept_at = self.view.survey.swept_at
        return swept_at is None or now - swept_at > self.view.limits.stale_seconds


class RunnerView(NamedTuple):
    """A runner's evidence, its verdict, and what happens next to it."""

    evidence: Evidence
    verdict: Verdict
    replacement: ReplacementStatus = NO_REPLACEMENT

    @property
    def is_lost(self) -> bool:
        """True if the runner is lost, and its loss is neither healed nor over."""
        return self.replacement.is_open

    @property
    def state(self) -> State:
        """Its state as it is counted: `invalidated` while it is lost, also if ghapp removed it for being offline."""
        return State.INVALIDATED if self.is_lost else self.verdict.state

    def is_lasting_suspect(self, now: float, limits: Limits) -> bool:
        """True if it is suspect for longer than an observation counts, and than a confirmation takes.

        Each ephemeral runner is suspect for seconds.
        """
        since, patience = self.verdict.since, max(limits.stale_seconds, 2 * limits.confirm_seconds)
        return self.state is State.SUSPECT and since is not None and now - since > patience


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool's current state.

    Attributes:
        name: its name.
        members: registered runners, and lost runners whose successors are not online.
        fuse: the fuse in force: the pool's own, or the installation's.
        is_whole_fuse: True if the fuse in force is the installation's, and not closed.
        pause: the pool's own pause, or else the org's.
        count: number of members in each state.
        healed: lost runners whose successors are online; no longer members.
        unanswered: lost runners whose request was accepted, without a successor for an hour; no longer members.
        written_off: lost runners that the pool does not need; no longer members.
    """

    name: str
    members: Sequence[RunnerView]
    fuse: Fuse
    is_whole_fuse: bool
    pause: Pause | None
    count: Counter[State]
    healed: Sequence[RunnerView] = ()
    unanswered: Sequence[RunnerView] = ()
    written_off: Sequence[RunnerView] = ()

    @property
    def total(self) -> int:
        """The runners that GitHub lists, and the lost ones.

        A suspect is neither. Mostly it has left after its job, and its successor is listed: with both, a pool would
        seem to grow while deliveries are late.
        """
        return len(self.members) - self.count[State.SUSPECT]

    @property
    def fuse_text(self) -> str:
        """The position of the fuse in force, and whether it is not the pool's own."""
        return f"{self.fuse.position}{' (all pools)' if self.is_whole_fuse else ''}"

    @property
    def lost(self) -> list[RunnerView]:
        """The lost runners whose losses are neither healed nor over."""
        return [each for each in self.members if each.is_lost]

    @property
    def waits_for_a_person(self) -> bool:
        """True if the fuse is stopped, or nothing happens to a lost runner before a person acts."""
        return self.fuse.position is Position.STOPPED or any(each.replacement.is_stopped for each in self.lost)


def by_pool(fleet: FleetView, now: float) -> list[PoolView]:
    """Returns pools sorted by name: configured pools, pools of runners, pools with a pause or a tripped fuse."""
    view = fleet.view
    members: dict[str, list[RunnerView]] = {rule.name: [] for rule in view.rules}
    tripped = (name for name, fuse in view.fuses.items() if fuse.position is not Position.CLOSED)
    for pool in {*view.pauses, *tripped} - {ALL_POOLS}:
        members.setdefault(pool, [])
    matcher = PoolMatcher(view.rules)
    for evidence in fleet.runners:
        if not evidence.registered:
            continue
        verdict = view.verdict(evidence, now)
        if verdict.state is not State.RETIRED or verdict.reason is Reason.NOT_NEEDED:
            members.setdefault(matcher.pool(evidence), []).append(RunnerView(evidence, verdict))
    return [_pool(view, name, members[name], now) for name in sorted(members)]


def _pool(view: OrgView, name: str, known: Sequence[RunnerView], now: float) -> PoolView:
    terms = view.terms(name)
    members, healed, unanswered, written_off = (list[RunnerView]() for _ in range(4))
    for each in known:
        if each.verdict.reason is Reason.NOT_NEEDED:
            written_off.append(each)
        elif each.verdict.state in (State.HEALTHY, State.STARTING) and each.evidence.removed_at is None:
            members.append(each)
        else:
            claim = claim_on(view.claimed, each.evidence.name, now)
            found = each._replace(replacement=replacement_status(each.evidence, each.verdict, terms, now, claim))
            if found.is_lost or not is_lost(each.evidence, each.verdict):
                members.append(found)
            else:
                (healed if found.replacement.stage is ReplacementStage.HEALED else unanswered).append(found)
    return PoolView(
        name=name,
        members=members,
        fuse=terms.fuse,
        is_whole_fuse=terms.is_whole,
        pause=terms.pause,
        count=Counter(each.state for each in members),
        healed=healed,
        unanswered=unanswered,
        written_off=written_off,
    )
