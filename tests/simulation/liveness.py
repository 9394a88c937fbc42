"""Liveness: what must happen in time, judged by when lists could be read and when nothing lied.

Safety, what must never happen, is in `invariants`, which extends this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.churn import CHURN_SECONDS
from ghapp.remediation.decision import deliveries_flow
from ghapp.remediation.fuse import Fuse, FuseReason, Position, fuse_of
from ghapp.runners.absence import RunnerList
from ghapp.runners.delivery_lag import HOLD_SECONDS
from ghapp.runners.evidence import LIST_LASTS_SECONDS, STALE_LIST_SECONDS, is_absent, missing_since
from ghapp.runners.verdict import DOUBTFUL_JOB_SECONDS
from tests.simulation.batches import Batches
from tests.simulation.bound import noticed_within, tail_of
from tests.simulation.lies import Lie, Weather
from tests.simulation.scenario import MIDNIGHT, Kind, Pool
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

JOB_LIFE = 120.0
"""An answer is recorded at most this many seconds after it was given."""

ACT_LIFE = 15.0
"""Reports during these seconds come too late: the last look, the DELETE and the event of one runner."""


class Violation(AssertionError):  # noqa: N818 - that is what it is
    """An invariant does not hold."""


@dataclass(slots=True)
class Loss:
    """A runner that is truly lost, and since when no lie, pause or stopped fuse delays its replacement."""

    machine: Machine
    fair_since: float


class ShownBusy(NamedTuple):
    """GitHub returned a runner busy: with which job, 0 for none, as in a stale list."""

    job: int
    at: float
    """By our clock."""
    is_ahead: bool
    """True if our clock was ahead of the true time."""

    def is_over(self, job: int, ended_at: float) -> bool:
        """True if the end of that job explains it. An end that looks earlier is another job's."""
        return self.job == job and not (self.is_ahead and ended_at < self.at)


class Accepted(NamedTuple):
    """A request that a controller accepted; both times are by our clock, like a fuse's."""

    pool: str
    granted_at: float
    at: float


class Liveness:
    """Watches that losses, requests and fuses go on in time on one simulated day."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._losses: dict[int, Loss] = {}
        self._requests: dict[int, Loss] = {}
        """Requests that no controller accepted yet, by runner."""
        self._shown_working: dict[int, ShownBusy] = {}
        """Runners that GitHub last returned busy."""
        self._paged: dict[int, ShownBusy | None] = {}
        """The same of the last page of a list that had them; None for an idle one."""
        self._jobs_of: defaultdict[int, set[int]] = defaultdict(set)
        """By runner: the jobs that deliveries reported since it has its record."""
        self._needy_since: dict[str, float] = {}
        """By pool: since when written-off losses wait while its jobs do."""
        self._batches = Batches(engine)
        self._fair_since = engine.now
        self._skewed_until = 0.0
        self._paused_at = 0.0
        self._disturbed_at: dict[str, float] = {}
        """By pool: its last loss, return or new registration."""
        self._lost_at: dict[str, float] = {}
        """By pool: its last loss, on days with changes, too."""
        self._needed_at: dict[str, float] = {}
        """By pool: when something last held its stopped fuse, or a job waited for it."""
        self._complete_at: float | None = None
        """When the last sweep with a complete list began."""
        self._failing_since: float | None = None
        """When the first sweep without a complete list began since."""
        self._covered: list[tuple[float, float]] = []
        """Spans between complete lists, as `covered` counts them; a quiet hour is one span."""
        self._accepted: dict[str, Accepted] = {}
        """By event, its first acceptance: a crash after that sends it again, and changes nothing."""
        self._answers: dict[int, float] = {}
        """By runner: when GitHub last answered about it."""

    def require(self, holds: object, what: str) -> None:
        if not holds:
            self._engine.trace(f"VIOLATION: {what}")
            raise Violation(f"seed {self._engine.seed}, {self._engine.now - MIDNIGHT:.1f} s: {what}")

    # ---- what could be seen, and when it was fair weather

    def list_recorded(self, look: RunnerList, at: float) -> None:
        """The sweep that began then recorded its list; of one that is killed before that nothing is known."""
        if look.flaw is None:
            self.completed(at)
        else:
            self.failed(at)

    def failed(self, at: float) -> None:
        """A sweep had no answer, or none that counts."""
        if self._failing_since is None:
            self._failing_since = at

    def completed(self, at: float) -> None:
        """A sweep that began then had a complete list."""
        before = self._complete_at if self._failing_since is None else None
        self._complete_at, self._failing_since = at, None
        if before is None or at <= before:
            return
        begins = max(before, at - LIST_LASTS_SECONDS)
        if self._covered and self._covered[-1][1] == begins:
            begins = self._covered.pop()[0]
        self._covered.append((begins, at))

    @property
    def sees_github(self) -> bool:
        """Whether the last complete list is fresh, and no sweep since has long failed."""
        now, stale_seconds = self._engine.driver.clock(), self._engine.scenario.config.evidence.stale_seconds
        if self._complete_at is None or now - self._complete_at > stale_seconds + 1.0:
            return False
        return self._failing_since is None or now - self._failing_since <= JOB_LIFE

    def covered(self, since: float) -> float:
        """Seconds since then that lie between two complete lists with none that failed between them."""
        seconds = sum(max(0.0, ended - max(began, since)) for began, ended in self._covered)
        if self._complete_at is None or self._failing_since is not None:
            return seconds
        return seconds + self._engine.driver.clock() - self._complete_at

    def skipped(self, seconds: float) -> None:
        """Sweeps were skipped that would have been complete and would have listed all runners."""
        interval, last = self._engine.scenario.config.interval, self._complete_at
        assert last is not None, "nothing is settled while lists fail"
        for each in range(int(seconds / interval)):
            self.completed(last + interval * (1 + each))
        for runner_id in self._answers:
            self._answers[runner_id] += seconds

    @property
    def is_skewed(self) -> bool:
        """Whether our clock is off, or was a while ago."""
        return bool(self._engine.skew) or self._engine.now < self._skewed_until

    @property
    def is_fair(self) -> bool:
        """True without any lie, once the tail of the last one is over."""
        return not self._engine.github.lies and self._engine.now >= self._fair_since

    def cleared(self, window: Weather) -> None:
        """A lie ended: bounds count again once its tail is over."""
        self._fair_since = max(self._fair_since, self._engine.now + tail_of(window, self._engine.scenario.config))
        if window.lie is Lie.CLOCK:
            self._skewed_until = self._engine.now + 3600.0

    def resumed(self, stopped: Iterable[str]) -> None:
        """A person resumed: all bounds restart, and stopped fuses prove again."""
        for loss in self._losses.values():
            loss.fair_since = self._engine.now
        self._batches.restart(self._engine.changes.true_name(pool) for pool in stopped)

    def paused(self) -> None:
        """A person stopped a pool, or all."""
        self._paused_at = self._engine.now

    def _is_held(self, pool: Pool) -> bool:
        """Whether nothing may be asked for in this pool, and that was so a moment ago."""
        name, now = self._engine.changes.name_of(pool), self._engine.now
        return name in self._engine.store.paused and now - self._paused_at > ACT_LIFE

    # ---- every loss is noticed in time

    def lost(self, machine: Machine) -> None:
        """A registration is lost for good: a replacement is due, if the loss is distinguishable from a job's end."""
        self._lost_at[machine.pool.name] = self._engine.now
        if not self._engine.changes.happen:  # else the bound has the rounds of further losses
            self.disturbed(machine.pool)
        evidence = self._engine.store.runners.get(machine.id)
        had_job = machine.last_job_over_at is not None or machine.job is not None
        is_proven = machine.pool.kind is Kind.UNSAID_PERSISTENT and len(self._jobs_of[machine.id]) > 1
        may_be_spent = had_job and machine.pool.kind is not Kind.PERSISTENT and not is_proven
        # Without deliveries of its jobs, a runner last shown busy is kept for as long as the longest job.
        may_be_spent = may_be_spent or self._was_shown_busy(machine)
        if not machine.is_disproved and evidence is not None and evidence.retired_at is not None:
            return  # nothing contradicted the report for certain so far
        is_replaced = evidence is not None and evidence.event_id in self._engine.store.events  # if not yet accepted
        if evidence is None or not evidence.registered or evidence.not_needed_at is not None:
            return  # unknown; or written off, and back between two lists alone: a job that waits brings it back
        if not may_be_spent and not is_replaced:
            self._losses[machine.id] = Loss(machine, self._engine.now)

    def forgotten(self, runner_id: int) -> None:
        """The record of a runner that left was deleted: if it returns, its earlier jobs prove nothing of its kind."""
        self._jobs_of.pop(runner_id, None)

    def registered_again(self, machine: Machine) -> None:
        """A lost machine has a new registration under its name: nothing is due any more."""
        self._losses.pop(machine.id, None)
        self.disturbed(machine.pool)

    def came_back(self, machine: Machine) -> None:
        """A registration returned. One whose absence was never confirmed was not lost: its return disturbs nothing."""
        evidence = self._engine.store.runners.get(machine.id)
        if evidence is None or evidence.confirmed_at is not None:
            self.disturbed(machine.pool)

    def disturbed(self, pool: Pool) -> None:
        """Further losses and returns in a pool restart its fuse's rounds."""
        self._disturbed_at[pool.name] = self._engine.now
        for loss in self._losses.values():
            if loss.machine.pool is pool:
                loss.fair_since = self._engine.now

    def _in_time(self) -> None:
        engine = self._engine
        if engine.github.lies or engine.changes.mode != "act":
            self._fair_since = max(self._fair_since, engine.now)
        self._requests_leave()
        for loss in self._losses.values():
            pool = loss.machine.pool
            stopped = fuse_of(engine.store.fuses, engine.changes.name_of(pool)).position is Position.STOPPED
            if self._is_deferred(loss.machine) or stopped:
                loss.fair_since = engine.now  # deferred, and reported as such
            if self._is_held_by_deliveries(loss.machine):
                loss.fair_since = engine.now  # reported as DeliveriesBehind, for an hour at most
            if self._was_shown_busy(loss.machine) or self._seems_at_work(loss.machine):
                loss.fair_since = engine.now  # for as long as the longest job
            waited = engine.now - max(loss.fair_since, self._fair_since)
            bound = noticed_within(
                engine.scenario.config, sum(each.machine.pool is pool for each in self._losses.values())
            ) + (self._of_changes if engine.changes.happen else 0.0)
            self.require(
                waited <= bound,
                f"runner {loss.machine.id} is lost, and nothing is done in {waited:.0f} s of {bound:.0f}",
            )

    def all_requested(self, lost: Iterable[Machine]) -> None:
        """All of these losses must have been asked for by now, even where their fuse stopped for a while."""
        for machine in lost:
            evidence = self._engine.store.runners.get(machine.id)
            is_over = evidence is None or evidence.replaced_at is not None or machine.successor is not None
            self.require(is_over, f"runner {machine.id} of {machine.pool.name} is lost, and was never asked for")

    @property
    def _of_changes(self) -> float:
        """What the bound has more on days with changes: controllers that are late, and pools that are deaf in turn."""
        scenario = self._engine.scenario
        rounds = self._prove_seconds + 2 * scenario.config.interval
        return 2 * 3600.0 + len(scenario.pools) * rounds

    def _is_deferred(self, machine: Machine) -> bool:
        """Whether something that is reported holds up this runner's replacement."""
        engine, changes = self._engine, self._engine.changes
        is_claimed = machine.name in engine.claiming.held()
        is_paused = changes.name_of(machine.pool) in engine.store.paused
        return is_claimed or is_paused or not changes.is_configured(machine.pool) or changes.refuses(machine.pool)

    @property
    def _prove_seconds(self) -> float:
        return self._engine.scenario.config.fuse.prove_seconds

    def _seems_at_work(self, machine: Machine) -> bool:
        """Whether a list shows it busy soon after its job's end, as a stale one does: it is kept for an hour then."""
        evidence = self._engine.store.runners.get(machine.id)
        if evidence is None or evidence.confirmed_at is not None or evidence.job_ended_at is None:
            return False
        if (
            evidence.first_404_at is not None
            and self._engine.driver.clock() - evidence.first_404_at > DOUBTFUL_JOB_SECONDS
        ):
            return False
        shown_at = evidence.observed_at if evidence.last_shown_at is None else evidence.last_shown_at
        return evidence.busy and 0.0 < (shown_at or 0.0) - evidence.job_ended_at <= STALE_LIST_SECONDS

    def _was_shown_busy(self, machine: Machine) -> bool:
        """Whether GitHub last returned it busy, with a job whose end was not reported."""
        return machine.id in self._shown_working

    def _is_held_by_deliveries(self, machine: Machine) -> bool:
        """Whether its confirmation is deferred because deliveries are behind, for no longer than that may last."""
        evidence = self._engine.store.runners.get(machine.id)
        if evidence is None or machine.registered or evidence.confirmed_at is not None:
            return False
        deferred_at, limit = evidence.deliveries_behind_at, HOLD_SECONDS + 3 * self._engine.scenario.config.interval
        is_deferred = deferred_at is not None and is_absent(evidence) and deferred_at >= missing_since(evidence)
        return is_deferred and self.covered(machine.fate_at) <= limit

    def _requests_leave(self) -> None:
        """A request leaves when nothing holds it: neither a change of the configuration nor time drops it."""
        engine = self._engine
        for runner_id, request in [*self._requests.items()]:
            machine, evidence = request.machine, engine.store.runners.get(runner_id)
            again = machine.successor
            if machine.registered or again is not None or machine.removal_reported or machine.fate is Fate.SPENT:
                del self._requests[runner_id]  # withdrawn
                continue
            name = engine.changes.name_of(machine.pool)
            is_held = fuse_of(engine.store.fuses, name).holds_requests or self._is_deferred(machine)
            at_work = evidence is not None and evidence.running_job is not None
            if is_held or at_work or machine.absences > 1:
                request.fair_since = engine.now
            waited = engine.now - max(request.fair_since, self._fair_since)
            self.require(waited <= 3600.0, f"the request for runner {runner_id} does not leave in {waited:.0f} s")

    # ---- fuses and written-off losses do not wait for a person

    def _goes_on(self) -> None:
        """The fuse of persistent runners goes on when a runner came of its batch: a stopped one however late."""
        engine = self._engine
        if not self.is_fair or self.is_skewed:
            return
        for pool in engine.scenario.pools:
            fuse, disturbed_at = self._fuse(engine.changes.name_of(pool)), self._disturbed_at.get(pool.name, 0.0)
            is_stopped = fuse.position is Position.STOPPED and fuse.reason is FuseReason.BATCH_NEVER_ONLINE
            is_undisturbed = disturbed_at <= (fuse.grants_since or 0.0)
            may_go_on = (is_stopped and is_undisturbed) or self._awaits_its_batch_alone(pool, fuse)
            batch_at = fuse.batch_at  # an older version drops it: its batch is not known then
            if pool.kind is not Kind.PERSISTENT or not may_go_on or batch_at is None:
                continue
            batch = [
                each.at for each in self._accepted.values() if each.pool == pool.name and each.granted_at >= batch_at
            ]
            came = sorted(
                each.born
                for each in engine.world.registered(pool)
                if batch and each.online and max(batch) < each.born < max(batch) + 3000.0 and not each.is_successor
            )
            members = [each for each in engine.store.runners.values() if pool.name in each.custom_labels]
            lost_again = sum(
                each.confirmed_at is not None and each.first_seen > (fuse.grants_since or 0.0) for each in members
            )
            # Those that may have left by themselves explain newcomers: missing since and not confirmed, or reported.
            lost_again += sum(
                (each.confirmed_at is None and is_absent(each) and missing_since(each) > batch_at)
                or (each.retired_at is not None and each.retired_at > batch_at - CHURN_SECONDS)
                for each in members
            )
            if len(came) <= lost_again or (not is_stopped and len(batch) < fuse.batch):
                continue
            explained_to = [
                each.confirmed_at
                for each in members
                if each.confirmed_at is not None and is_absent(each) and missing_since(each) > batch_at
            ]
            if is_stopped:
                waits = {came[-1]: 0.0, fuse.stopped_at or 0.0: 0.0, max(explained_to, default=0.0): 0.0}
            else:  # returned registrations hold the next batch for a window, and other losses do not
                window_seconds = engine.scenario.config.fuse.window_seconds
                waits = {came[lost_again]: 0.0, max(batch): self._prove_seconds, disturbed_at: window_seconds}
            late = min(self.covered(at) - seconds for at, seconds in {**waits, self._fair_since: 0.0}.items())
            bound = 4 * engine.scenario.config.interval + JOB_LIFE
            self.require(
                late <= bound,
                f"{pool.name} is {fuse.position} for {late:.0f} s, and its batch has {len(came)} successors",
            )

    def _awaits_its_batch_alone(self, pool: Pool, fuse: Fuse) -> bool:
        """Whether a fuse proves its batch, and nothing else holds up its pool: no mode, pause, claim or other fuse."""
        engine, config = self._engine, self._engine.scenario.config
        if fuse.position is not Position.PROVING or engine.changes.mode != "act":
            return False
        machines = (each for each in engine.world.recent.values() if each.pool is pool)
        is_long_in_act = engine.now - engine.changes.mode_since > config.fuse.window_seconds
        is_whole_closed = self._fuse(ALL_POOLS).position is Position.CLOSED
        return is_long_in_act and is_whole_closed and not any(map(self._is_deferred, machines))

    def _are_needed(self) -> None:
        """Losses that were written off are asked for when a job waits that they could take."""
        engine, now = self._engine, self._engine.now
        queued = {name for job in engine.fleet.known_jobs().queued for name in job.labels}
        may_ask = self.is_fair and self._has_deliveries()
        for pool in engine.scenario.pools:
            if not may_ask or pool.name not in queued or not self._is_needy(pool):
                self._needy_since.pop(pool.name, None)
                continue
            since = now - self._needy_since.setdefault(pool.name, now)
            bound = 4 * engine.scenario.config.interval
            self.require(
                since <= bound, f"a job waits for {pool.name}, and its written-off losses do for {since:.0f} s"
            )

    def _is_needy(self, pool: Pool) -> bool:
        """Whether a loss of the pool is written off that a waiting job could take: no runner is idle or awaited."""
        engine = self._engine
        if engine.changes.name_of(pool) in engine.store.paused:
            return False
        members = [each for each in engine.store.runners.values() if pool.name in each.custom_labels]
        awaited = any(
            each.confirmed_at is not None
            and each.not_needed_at is None
            and (each.replaced_at is None or engine.driver.clock() - each.replaced_at < self._prove_seconds)
            for each in members
        )
        waits = any(each.not_needed_at is not None and each.reregistered_as is None for each in members)
        return waits and not awaited and not engine.world.idle(pool)

    def _settles(self) -> None:
        """A stopped fuse does not wait for a person when nothing changes, and no job waits for what is lost."""
        engine = self._engine
        window, interval = engine.scenario.config.fuse.window_seconds, engine.scenario.config.interval
        queued = {name for job in engine.fleet.known_jobs().queued for name in job.labels}
        for pool in engine.scenario.pools:
            fuse = self._fuse(engine.changes.name_of(pool))
            if fuse.position is not Position.STOPPED:
                continue
            if pool.name in queued or self._is_held(pool) or engine.github.lies or not self._has_deliveries():
                self._needed_at[pool.name] = engine.now
            changed = (self._needed_at, self._disturbed_at, self._lost_at)
            unsettled_at = max(each.get(pool.name, 0.0) for each in changed)
            since = max(unsettled_at, self._fair_since, fuse.stopped_at or engine.now)
            for_seconds = engine.now - since
            bound = 2 * window + 4 * interval + noticed_within(engine.scenario.config, pool.size + 1)
            self.require(for_seconds <= bound, f"{pool.name} is stopped for {for_seconds:.0f} s, and no job needs it")

    def _has_deliveries(self) -> bool:
        runners = self._engine.store.runners.values()
        return deliveries_flow(runners, self._engine.driver.clock())

    def _fuse(self, pool: str) -> Fuse:
        return self._engine.store.fuses.get(pool, Fuse())
