"""What Redis keeps, in memory. Each method is one atomic step, like its twin in `ghapp.store`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from math import inf

from ghapp.incidents.settled import Settled
from ghapp.installations import pacing
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Allowance, BudgetLimits, Purpose
from ghapp.leaks.guards import TickMemory
from ghapp.leaks.leak_fuse import LeakFuse, ReapedPod
from ghapp.leaks.orphan import Orphan
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import Fuse, FuseReason
from ghapp.runners.evidence import Evidence, Fold, Survey
from ghapp.runners.verdict import Reason
from ghapp.store.budget import FAR_SECONDS, FLIGHT_SECONDS
from ghapp.timings import NORMAL
from tests.simulation.github import HOURLY_LIMIT, GitHub, NoAnswer


@dataclass(slots=True)
class Budget:
    """The budget of `ghapp.store.budget`, whose rules are Lua there."""

    used: int = 0
    reset: float = 0.0
    held: float = 0.0
    flights: list[float] = field(default_factory=list)
    """When each call under way is counted no longer."""

    def enter(self, now: float, purpose: Purpose, limits: BudgetLimits) -> None:
        """Raises: NoAnswer: the call may not go."""
        if 0 < self.held - now <= FAR_SECONDS:
            raise NoAnswer(Reason.BUDGET_SPENT)
        self.flights = [until for until in self.flights if until > now]
        spent = self.used + len(self.flights) + 1
        if 0 < self.reset - now <= FAR_SECONDS and spent > HOURLY_LIMIT * pacing.call_limits(purpose, limits).share:
            raise NoAnswer(Reason.BUDGET_SPENT)
        self.flights.append(now + FLIGHT_SECONDS)

    def leave(self, github: GitHub, now: float, *, is_answered: bool) -> None:
        """The call is over; take note of its answer's headers."""
        del self.flights[:1]
        if not is_answered:
            return
        reset = (github.hour + 1) * 3600.0
        believable = self.reset - now <= FAR_SECONDS
        if (believable and reset < self.reset) or (reset == self.reset and github.used < self.used):
            return
        self.used, self.reset = github.used, reset

    def hold(self, now: float, seconds: float) -> None:
        """Records GitHub's rate limit answer: no calls until then."""
        self.held = max(self.held, now + seconds)

    def left(self, now: float) -> Allowance:
        """As `next_sweep_in` wants it."""
        resets_in = _ahead(self.reset, now)
        return Allowance(HOURLY_LIMIT, self.used if resets_in > 0 else 0, resets_in, _ahead(self.held, now))


def _ahead(at: float, now: float) -> float:
    return at - now if 0 < at - now <= FAR_SECONDS else 0.0


def older(evidence: Evidence) -> Evidence:
    """As the version before writes it: without the fields that it does not know."""
    return evidence._replace(remains=None, last_replaced_at=None, not_needed_at=None)


def older_fuse(fuse: Fuse) -> Fuse:
    """The same of a fuse."""
    return replace(fuse, batch_at=None, stopped_at=None, tripped_for=FuseReason.NONE)


@dataclass(slots=True)
class Store:
    """All that outlives a process."""

    installation: Installation
    runners: dict[int, Evidence] = field(default_factory=dict)
    survey: Survey = field(default_factory=Survey)
    settled: Settled | None = None
    """The last sweep whose judgement holds; every write of a runner deletes it."""
    is_judging: bool = False
    """The mark of a sweep that reads the records, in place of `settled`."""
    fuses: dict[str, Fuse] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    events: dict[str, int] = field(default_factory=dict)
    """The runner of each replace event in the stream."""
    unsent: set[str] = field(default_factory=set)
    """Those that no controller answered 2xx yet."""
    known_jobs: set[int] = field(default_factory=set)
    guids: set[int] = field(default_factory=set)
    budget: Budget = field(default_factory=Budget)
    due: float = 0.0
    enrolled: bool = True
    token: float | None = None
    """When the shared token was minted."""
    pod_claims: dict[str, PodClaim] = field(default_factory=dict)
    """What controllers say of their pods; by the pod's name, which is the runner's."""
    claims: dict[str, tuple[object, float]] = field(default_factory=dict)
    reaper_memory: TickMemory = field(default_factory=TickMemory)
    begun: dict[str, Orphan] = field(default_factory=dict)
    """Deletions of pods that are not finished, by the pods' uids."""
    reaper_fuses: dict[str, LeakFuse] = field(default_factory=dict)
    reaped: dict[str, ReapedPod] = field(default_factory=dict)
    on_confirmed: Callable[[Evidence], None] = lambda _evidence: None
    on_missing: Callable[[Evidence], None] = lambda _evidence: None
    on_forgotten: Callable[[int], None] = lambda _runner_id: None
    is_rolled_back: Callable[[], bool] = lambda: False
    """Whether an older version writes just now."""
    version: int = 0
    """Counts what changed; that who is absent is so still, is no change."""

    def revise(self, folds: Mapping[int, Fold], known: Mapping[int, Evidence] | None = None) -> dict[int, Evidence]:
        """Fold into each record as it is now; `known` as read before, and read again where someone was faster."""
        revised: dict[int, Evidence] = {}
        for runner_id, fold in folds.items():
            before = (self.runners if known is None else known).get(runner_id)
            after = fold(before)
            if after is not before:
                stored = self.runners.get(runner_id)
                if stored is not before:
                    before, after = stored, fold(stored)
                if after is not before:
                    self._write(runner_id, after)
            if after is not None:
                revised[runner_id] = after
        return revised

    def remembered(self) -> Store:
        """What Redis has on its disk now."""
        copies = {each: copy(getattr(self, each)) for each in ("runners", "fuses", "events", "unsent", "known_jobs")}
        return replace(self, **copies)

    def recall(self, before: Store) -> None:
        """Redis was killed, and has what it had on its disk."""
        self.runners, self.fuses, self.survey = before.runners, before.fuses, before.survey
        self.events, self.unsent, self.known_jobs = before.events, before.unsent, before.known_jobs
        self.settled, self.is_judging = None, False
        self.version += 1

    def begin_to_judge(self) -> None:
        """Marks that a sweep reads the records."""
        self.settled, self.is_judging = None, True

    def settle(self, settled: Settled) -> None:
        """Keeps the judgement unless a record was written meanwhile."""
        if self.is_judging:
            self.settled, self.is_judging = settled, False

    def _write(self, runner_id: int, after: Evidence | None) -> None:
        before = self.runners.get(runner_id)
        if not self.is_rolled_back():
            self.settled, self.is_judging = None, False
        if before is None or after is None or after._replace(observed_at=before.observed_at) != before:
            self.version += 1
        if after is not None and self.is_rolled_back():
            after = older(after)
        if after is not None and after.confirmed_at is not None and (before is None or before.confirmed_at is None):
            self.on_confirmed(after)
        if after is not None and after.first_404_at is not None and (before is None or before.first_404_at is None):
            self.on_missing(after)
        if after is None:
            del self.runners[runner_id]
            self.on_forgotten(runner_id)
        else:
            self.runners[runner_id] = after

    def save_fuse(self, pool: str, before: Fuse | None, after: Fuse) -> bool:
        """False when it is not what it was, and nothing was recorded."""
        if self.fuses.get(pool) != before:
            return False
        self.version += 1
        self.fuses[pool] = older_fuse(after) if self.is_rolled_back() else after
        return True

    def append(self, event_id: str, runner_id: int) -> bool:
        """Whether nothing was appended under that id before."""
        if event_id in self.events:
            return False
        self.events[event_id] = runner_id
        self.unsent.add(event_id)
        return True

    def take(self, key: str, holder: object, at: float) -> bool:
        """Acquire a lock unless another holder has it. A living holder renews it for as long as it needs it."""
        owner, until = self.claims.get(key, (holder, 0.0))
        if owner is not holder and until > at:
            return False
        self.claims[key] = (holder, inf)
        return True

    def freeze(self, holder: object, at: float) -> None:
        """A dead holder renews nothing: its locks expire."""
        for key, (owner, until) in self.claims.items():
            if owner is holder:
                self.claims[key] = (holder, min(until, at + NORMAL.lock_seconds))

    def thaw(self, holder: object, at: float) -> bool:
        """A holder renews again; False if one of its locks expired meanwhile."""
        mine = {key: until for key, (owner, until) in self.claims.items() if owner is holder}
        self.claims.update((key, (holder, inf)) for key, until in mine.items() if until > at)
        return all(until > at for until in mine.values())

    def release(self, holder: object, key: str | None = None) -> None:
        """Release one lock of a holder, or all of them."""
        for each in [each for each, (owner, _) in self.claims.items() if owner is holder and key in (None, each)]:
            del self.claims[each]
