"""The invariants of every step, checked against the true state and not against the records.

What must never happen is here; what must happen in time is in `liveness`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.decision import Pools
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.status import ReplacementStage, ReplacementStatus
from ghapp.remediation.steps import LOOK_LASTS_SECONDS
from ghapp.runners.absence import RunnerList
from ghapp.runners.delivery_lag import HOLD_SECONDS
from ghapp.runners.evidence import STALE_LIST_SECONDS, Evidence, Registration, Survey
from ghapp.runners.observations import REPORT_SETTLES_SECONDS
from ghapp.runners.verdict import State, judge
from tests.simulation.github import HOURLY_LIMIT
from tests.simulation.liveness import ACT_LIFE, JOB_LIFE, Accepted, Liveness, Loss, ShownBusy, Violation
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

__all__ = ["ACT_LIFE", "JOB_LIFE", "Audit", "Violation"]

SHARES = {Purpose.ACT: 0.9}
"""The contract's share for confirmations and removals; sweeps stop at the configured share."""


class Audit(Liveness):
    """Watches one simulated day."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._looks: dict[int, tuple[bool, Registration | None]] = {}
        self._looked_at: dict[int, float] = {}
        self._events: dict[tuple[int, int], set[str]] = defaultdict(set)
        self._granted_at: dict[str, float] = {}
        """By event, when its replacement was granted."""
        self._tripped_at: dict[str, float] = {}
        """By pool, when its fuse last left `closed`."""
        self._answered_404: set[int] = set()
        self._controlled: dict[int, float] = {}
        """By runner that was recorded as absent: when a control list was begun that showed it."""
        self._shown_busy: dict[int, tuple[int, float]] = {}
        """By runner: the job it truly ran when a list last showed it busy, and the time of that list; see `_shown_idle`."""
        self.last_total = 0
        """How many runners the last complete list had."""
        self.replaced = self.noticed = 0

    # ---- 1. a working runner is never removed

    def confirmed(self, evidence: Evidence) -> None:
        """An invalidated runner was absent from GitHub: a liveness probe may act on this state."""
        machine = self._engine.world.machines[evidence.id]
        self.require(
            self._was_absent(machine), f"runner {evidence.id} is confirmed lost, and was registered all the time"
        )
        self.require(
            evidence.running_job is None, f"runner {evidence.id} is confirmed lost while a job is known to run"
        )
        apart = (evidence.confirmed_at or 0.0) - (evidence.first_404_at or 0.0)
        needed = self._engine.scenario.config.evidence.confirm_seconds - 1.0
        self.require(apart >= needed, f"runner {evidence.id} is confirmed lost by two 404s {apart:.1f} s apart")

    def _was_absent(self, machine: Machine) -> bool:
        """True if it may be absent from what was read: it is not registered, or returned while a job was running."""
        return not machine.registered or self._engine.now - machine.spans[-1][0] < JOB_LIFE

    def answered_404(self, runner_id: int) -> None:
        """GitHub answered a GET of this runner with 404."""
        self._answered_404.add(runner_id)

    def missing(self, evidence: Evidence) -> None:
        """A first 404 is recorded only if GitHub answered 404."""
        self.require(
            evidence.id in self._answered_404, f"runner {evidence.id} is missing, and GitHub never answered 404"
        )

    def delivered(self, runner_id: int, job_id: int, started_at: float, over_at: float | None) -> None:
        """A delivery about a job of this runner took effect: its end can be distinguished from a loss."""
        machine = self._engine.world.machines[runner_id]
        _, shown_at = self._shown_busy.get(runner_id, (0, 0.0))
        self._jobs_of[runner_id].add(job_id)
        is_behind = self._engine.fleet.clock_offset < 0.0  # the end is dated before the list, as another job's would be
        shown = self._shown_working.get(runner_id)
        if over_at is not None and shown is not None and shown.is_over(job_id, over_at) and not is_behind:
            del self._shown_working[runner_id]
        if over_at is not None and over_at >= shown_at:
            self._shown_busy.pop(runner_id, None)  # the job that ended then explains what lists showed before
        job = machine.job
        is_running = over_at is None and job is not None and job.id == job_id
        if (is_running or over_at is not None) and started_at > machine.removal_reported_at:
            machine.removal_reported = False  # a job proves that the report was mistaken, as a list does
            is_long_after = started_at > machine.removal_reported_at + REPORT_SETTLES_SECONDS
            machine.is_disproved = machine.is_disproved or (is_running and is_long_after)
        for each in (machine, machine.job):
            if each is machine or (each is not None and each.id == job_id):
                each.first_delivery_at = self._engine.now if each.first_delivery_at is None else each.first_delivery_at

    def _was_reported(self, at: float | None) -> bool:
        """True if it was reported before the current action began."""
        return at is not None and self._engine.now - at > ACT_LIFE

    def is_known_busy(self, machine: Machine) -> bool:
        """True if its job can be known: by a delivery, or because GitHub showed the runner busy."""
        job = machine.job
        return job is not None and (
            self._was_reported(job.first_delivery_at) or self._shown_busy.get(machine.id, (0,))[0] == job.id
        )

    def looked_again(self, runner_id: int, answer: Registration | None) -> None:
        self._looks[runner_id] = (self._engine.world.machines[runner_id].registered, answer)
        self._looked_at[runner_id] = self._engine.now
        self.answered(runner_id)

    def deleting(self, machine: Machine) -> None:
        """DELETE is about to take a registration that exists."""
        was_there, shown = self._looks.get(machine.id, (True, None))
        asked_for = machine.pool.replace_offline_after_seconds is not None and shown is not None and not shown.online
        self._unclaimed(machine, "deleted")
        self.require(not machine.busy, f"runner {machine.id} is deleted while a job runs on it")
        self.require(asked_for or not was_there, f"runner {machine.id} works, and is deleted")

    def _unclaimed(self, machine: Machine, done: str) -> None:
        """7: a runner whose pod is claimed is not removed or replaced."""
        claimed_for = self._engine.claiming.held_for(machine.name)
        self.require(claimed_for <= ACT_LIFE, f"runner {machine.id} is {done}, and claimed for {claimed_for:.0f} s")

    def about_to_remove(self, evidence: Evidence, survey: Survey, now: float) -> None:
        """6: a runner in state unknown is never removed."""
        state = judge(evidence, survey, now - JOB_LIFE, self._engine.scenario.config.evidence).state
        self.require(state is not State.UNKNOWN, f"runner {evidence.id} is unknown, and removed")

    def asked_for(self, runner_id: int, event_id: str) -> None:
        """A replace event."""
        machine = self._engine.world.machines[runner_id]
        was_there, _ = self._looks.get(runner_id, (True, None))
        self._acts("a replacement is asked for")
        self.require(not machine.registered or not was_there, f"runner {runner_id} works, and is replaced")
        known_busy = machine.busy and self.is_known_busy(machine)
        self.require(not known_busy, f"runner {runner_id} is replaced while a job runs on it")
        again, looked_at = machine.successor, self._looked_at.get(runner_id, self._engine.now)
        lives_on = again is not None and again.registered and again.here_since <= looked_at
        left_well = lives_on or (machine.fate is Fate.SPENT and self._was_reported(machine.first_delivery_at))
        self.require(not left_well, f"runner {runner_id} was {machine.fate.value}, and is replaced")
        self._no_delivery_is_missing(machine)
        self._unclaimed(machine, "replaced")
        self.require(not machine.removal_reported, f"runner {runner_id} was removed by its controller, and is replaced")
        # 5. no double replacement for one loss
        ids = self._events[runner_id, machine.absences]
        ids.add(event_id)
        self.require(len(ids) == 1, f"runner {runner_id} is replaced twice for one loss: {sorted(ids)}")
        self.replaced += 1
        self._requests[runner_id] = Loss(machine, self._engine.now)
        if self._losses.pop(runner_id, None) is not None:
            self.noticed += 1

    def _no_delivery_is_missing(self, machine: Machine) -> None:
        """9: no runner is replaced while GitHub's log has as failed what shows that it finished, or that it works.

        For an hour at most. The dates of the log are compared with ours: within the model, GitHub's clock must agree
        with ours for that.
        """
        job, left_at = machine.job, machine.spans[-1][1]
        is_finished, is_dated = machine.fate is Fate.SPENT, not (self.is_skewed or self._engine.fleet.clock_offset)
        failed = self._engine.deliveries.missing_of(machine.id, over=is_finished)
        if failed is None or left_at is None or not is_dated:
            return
        if not is_finished:
            known = self._engine.store.runners[machine.id]
            if job is None or job.id != failed.delivery.job_id or job.dead:
                return
            if (known.last_shown_at or 0.0) > job.started_at:
                return  # a list showed it idle since, which nothing contradicts
        is_known = self._engine.now - failed.at > ACT_LIFE and self.covered(left_at) < HOLD_SECONDS - JOB_LIFE
        what = "the end of its job" if is_finished else "the start of the job on it"
        self.require(not is_known, f"runner {machine.id} is replaced, and {what} is known to be missing")

    def _acts(self, what: str) -> None:
        changes = self._engine.changes
        acts = changes.mode == "act" or self._engine.now - changes.mode_since < ACT_LIFE
        self.require(acts, f"{what}, and the mode is {changes.mode}")

    def leaves(self, runner_id: int) -> None:
        """A request leaves: it may have waited for long."""
        machine = self._engine.world.machines[runner_id]
        self._acts(f"the request for runner {runner_id} leaves")
        self.require(not self._is_held(machine.pool), f"the request for runner {runner_id} leaves, and is paused")
        self._not_back(machine, "is requested")

    def ends_itself(self, evidence: Evidence) -> None:
        """A liveness probe gets the answer that its container's runner is lost."""
        machine = self._engine.world.machines[evidence.id]
        self._acts(f"runner {evidence.id} ends itself")
        self.require(not self._is_held(machine.pool), f"runner {evidence.id} ends itself, and is paused")
        asked_at = evidence.granted_at or 0.0
        is_old = self._engine.driver.clock() - asked_at > 3600.0 + JOB_LIFE
        self.require(not is_old, f"runner {evidence.id} ends itself long after its replacement was granted")
        self.require(self._is_fresh(evidence), f"runner {evidence.id} ends itself by a list that is too old")

    def is_asked_for(self, evidence: Evidence) -> None:
        """A controller that polls gets the answer to replace the runner."""
        machine = self._engine.world.machines[evidence.id]
        self.require(not self._is_held(machine.pool), f"runner {evidence.id} is to be replaced, and is paused")
        if self.is_fair and machine.successor is not None:
            since = self._engine.now - machine.successor.here_since
            late = 3 * self._engine.scenario.config.interval + JOB_LIFE
            is_back = machine.successor.registered and since > late
            self.require(
                not is_back, f"runner {evidence.id} is to be replaced, and its machine is back for {since:.0f} s"
            )

    def is_shown(self, evidence: Evidence, status: ReplacementStatus, *, is_asked_for: bool) -> None:
        """What people are shown to happen next to a runner is the answer that controllers get at that moment."""
        is_under_way = status.stage in (ReplacementStage.GRANTED, ReplacementStage.REMOVED)
        self.require(
            is_under_way or not is_asked_for, f"runner {evidence.id} is to be replaced, and shown as {status.stage}"
        )

    def _is_fresh(self, evidence: Evidence) -> bool:
        """By a list, or by GitHub's answer about this runner: a confirmation asks for it while lists do not add up."""
        survey, limits = self._engine.store.survey, self._engine.scenario.config.evidence
        answered_at = max(survey.swept_at or 0.0, self._answers.get(evidence.id, 0.0))
        return self.is_skewed or self._engine.driver.clock() - answered_at <= limits.stale_seconds + JOB_LIFE

    def _not_back(self, machine: Machine, done: str) -> None:
        """Controllers act by name: nothing is asked for whose machine is registered again, and was so at the look."""
        again, looked_at = machine.successor, self._engine.now - LOOK_LASTS_SECONDS - ACT_LIFE
        is_back = again is not None and again.registered and again.here_since < looked_at
        self.require(not is_back, f"runner {machine.id} {done}, and its machine is registered again")

    # ---- 8. time counts only while we can see

    def turned(self, pool: str, before: Fuse | None, after: Fuse) -> None:
        """A fuse changed: it may stop only after its batch had all of `prove_seconds`, by complete lists.

        One that tripped again, and continues with an earlier batch, gives it that time once more.
        """
        if pool == ALL_POOLS:
            self._stops_for_others(before, after)
        self._batches.turned(after)
        pool = self._engine.changes.true_name(pool)
        if before is not None and before.position is Position.CLOSED and after.position is Position.PROVING:
            self._tripped_at[pool] = self._engine.now
        if after.position is not Position.STOPPED or (before is not None and before.position is Position.STOPPED):
            return
        pools = {pool} if pool != ALL_POOLS else {each.name for each in self._engine.scenario.pools}
        # A batch's time begins when its last request is accepted. What was granted before it is of an earlier batch, or
        # of none, however late its request is accepted.
        batch_at = before.batch_at if before is not None else None
        since = max(after.grants_since or 0.0, batch_at or 0.0)
        accepted = [each.at for each in self._accepted.values() if each.pool in pools and each.granted_at >= since]
        if not accepted or self.is_skewed:
            return
        tripped_at, whole = self._tripped_at.get(pool, 0.0), self._engine.store.fuses.get(ALL_POOLS, Fuse())
        if whole.position is not Position.CLOSED:  # its batch may have failed in this pool alone
            tripped_at = min(tripped_at, self._tripped_at.get(ALL_POOLS, 0.0))
        covered = self.covered(max(*accepted, tripped_at))
        needed = self._engine.scenario.config.fuse.prove_seconds - 1.0
        self.require(covered >= needed, f"the fuse of {pool} stops after {covered:.0f} s that lists cover")

    def _stops_for_others(self, before: Fuse | None, after: Fuse) -> None:
        """The installation's fuse does not stop for requests of pools that wait alone."""
        engine, reason = self._engine, FuseReason.REQUEST_NOT_ACCEPTED
        if after.position is not Position.STOPPED or after.reason is not reason or (before and before.reason is reason):
            return
        rules = {each.name for each in engine.changes.rules}
        waiting = [
            engine.world.machines[each.id].pool
            for each in engine.store.runners.values()
            if each.granted_at is not None and each.replaced_at is None
        ]
        names = {engine.changes.name_of(pool) for pool in waiting if not self._is_held(pool)}
        names = {each for each in names & rules if self._fuse(each).position is not Position.STOPPED}
        self.require(names, "the installation's fuse stops for requests of pools that wait alone")

    def accepted(self, runner_id: int, event_id: str) -> None:
        """A controller took a request for a replacement."""
        self._batches.accepted(event_id)
        self._requests.pop(runner_id, None)
        pool, at = self._engine.world.machines[runner_id].pool.name, self._engine.driver.clock()
        self._accepted.setdefault(event_id, Accepted(pool, self._granted_at[event_id], at))

    # ---- 2. every loss is noticed in time: `liveness`

    def closing(self) -> None:
        """At the end of the day."""
        self._in_time()
        self._settles()
        self._engine.pod_audit.closing()

    def written_off(self, runner_id: int) -> None:
        """A loss is written off: its pool's batches had no effect, and no job waits for it."""
        machine = self._engine.world.machines[runner_id]
        queued = machine.pool.sends_deliveries and any(
            machine.pool.name in each.labels for each in self._engine.fleet.known_jobs().queued
        )
        self.require(not queued, f"runner {runner_id} is written off, and a job waits for {machine.pool.name}")
        self.require(self._was_absent(machine), f"runner {runner_id} is written off, and works")
        self._losses.pop(runner_id, None)

    # ---- 3. the budget is never overspent

    def called(self, purpose: Purpose, sent_at: float) -> None:
        """A call has reached GitHub."""
        engine, github = self._engine, self._engine.github
        if self.is_skewed:
            return  # the budget depends on our clock
        share = SHARES.get(purpose, engine.scenario.config.budget.share)
        spent = github.used - github.unanswered
        self.require(spent <= HOURLY_LIMIT * share + 1, f"{github.used} calls are spent, of {share:.0%} for {purpose}")
        found = github.wait_requested_at < sent_at and engine.now < github.wait_until
        self.require(not found, "GitHub is called during its rate limit")

    # ---- 4. the fuse lets the first batch through, and the next when that one is online

    def judged(self, pools: Pools, now: float) -> None:
        """Checks the states from which the plan is made."""
        self._in_time()
        self._goes_on()
        self._are_needed()
        self._settles()
        true_name = self._engine.changes.true_name
        fuses = {
            true_name(pool): each for pool, each in self._engine.store.fuses.items() if pool in {*pools, ALL_POOLS}
        }
        self._batches.count({true_name(pool): members for pool, members in pools.items()}, now, fuses)
        for members in pools.values():
            for evidence, state in members:
                self._fresh(evidence, state, now)
                self._is_seen_again(evidence)

    def recorded(self, runner_id: int) -> None:
        """A replacement is recorded for the grant whose request was accepted, and for no other."""
        evidence = self._engine.store.runners.get(runner_id)
        holds = evidence is None or evidence.replaced_at is None or evidence.event_id in self._accepted
        self.require(holds, f"runner {runner_id} has a replacement that was not requested by its grant")

    def _is_seen_again(self, evidence: Evidence) -> None:
        """A runner that is registered again is not lost once a list shows it that cannot be of before."""
        machine, engine = self._engine.world.machines[evidence.id], self._engine
        if evidence.confirmed_at is None or not machine.registered or not self.is_fair or self.is_skewed:
            return
        back_for = engine.now - (machine.spans[-1][0] or 0.0)
        bound = STALE_LIST_SECONDS + 2 * engine.scenario.config.interval + ACT_LIFE
        self.require(back_for <= bound, f"runner {evidence.id} is lost, and was registered for {back_for:.0f} s")

    def granted(self, fresh: Mapping[int, str], now: float) -> None:
        """Checks the granted runners, each with its pool."""
        for runner_id, pool in fresh.items():
            evidence = self._engine.store.runners[runner_id]
            self._granted_at[evidence.event_id or ""] = now
            state = judge(evidence, self._engine.store.survey, now, self._engine.scenario.config.evidence).state
            is_lost = state in (State.INVALIDATED, State.OFFLINE)
            self.require(is_lost, f"runner {runner_id} is {state.value}, and granted")
            paused = pool in self._engine.store.paused and self._engine.now - self._paused_at > JOB_LIFE
            self.require(not paused, f"runner {runner_id} is granted, and {pool} is paused")
            shown_at, known_at = (
                self._controlled.get(runner_id, 0.0),
                max(evidence.confirmed_at or 0.0, evidence.observed_at or 0.0),
            )
            is_shown = shown_at > known_at and not self.is_skewed
            self.require(not is_shown, f"runner {runner_id} is granted, and a control list has shown it since")
            if evidence.confirmed_at is not None:
                unproven = self._batches.granted(self._engine.changes.true_name(pool), evidence)
                self.require(not unproven, unproven)

    # ---- 6. answers rest on recent observations

    def looked(self, look: RunnerList, at: float) -> None:
        """A list was evaluated. A flawed list is no evidence of absence; a churned one only the second time."""
        if look.flaw is None:
            self.last_total = look.total
            self._engine.pod_audit.swept(look.runners.values(), at)
        for runner in look.runners.values():
            self._keep_shown(runner.id, self._paged[runner.id])
            machine = self._engine.world.machines[runner.id]
            known = self._engine.store.runners.get(runner.id)
            if runner.busy and machine.busy and known is not None and known.busy:
                self._shown_busy[runner.id] = (machine.job.id, self._engine.now)
            else:
                self._shown_idle(machine)
            reported_for = at - self._engine.skew - machine.removal_reported_at
            if machine.registered and look.flaw is None and reported_for > REPORT_SETTLES_SECONDS:
                machine.removal_reported, machine.is_disproved = False, True
        covered = {*look.runners}
        if look.flaw is None:
            missed = (each for each in self._engine.store.runners.values() if each.id not in covered)
            covered |= {
                each.id for each in missed if not look.churned or each.absent_since or each.missing_from_partial_list_at
            }
        for runner_id in covered:
            self.answered(runner_id, at)

    def paged(self, runner: Registration) -> None:
        """A page of a list has this registration: it counts as shown if the list is read to its end."""
        self._paged[runner.id] = self._job_shown(runner)

    def shown(self, runner: Registration) -> None:
        """GitHub returned this registration."""
        machine = self._engine.world.machines[runner.id]
        self._keep_shown(runner.id, self._job_shown(runner))
        if not runner.busy:
            self._shown_idle(machine)
        if machine.registered and self._engine.now - machine.removal_reported_at > REPORT_SETTLES_SECONDS:
            machine.removal_reported = False  # its controller would have acted by then

    def _shown_idle(self, machine: Machine) -> None:
        """GitHub returned it idle, perhaps while it works. Only of an ephemeral runner can that be known to be wrong."""
        if not machine.pool.kind.ephemeral_in_lists:
            self._shown_busy.pop(machine.id, None)

    def _job_shown(self, runner: Registration) -> ShownBusy | None:
        """The job with which GitHub returns it busy; None if it is idle."""
        machine = self._engine.world.machines[runner.id]
        if not runner.busy or not (machine.busy or self._engine.github.lies):
            return None
        job = machine.job.id if machine.job is not None else 0
        return ShownBusy(job, self._engine.driver.clock(), is_ahead=self._engine.skew > 0.0)

    def _keep_shown(self, runner_id: int, shown: ShownBusy | None) -> None:
        if shown is None:
            self._shown_working.pop(runner_id, None)
        else:
            self._shown_working[runner_id] = shown

    def answered(self, runner_id: int, at: float | None = None) -> None:
        """GitHub answered about this runner."""
        at = self._engine.driver.clock() if at is None else at
        self._answers[runner_id] = max(at, self._answers.get(runner_id, at))

    def controlled(self, control: RunnerList, absent: Collection[int], at: float) -> None:
        """The control list of a confirmation was folded; these runners were recorded as absent."""
        self._controlled |= {each: at for each in absent if each in control.runners and not self.is_skewed}
        for each in {*absent} & {*control.runners}:
            self._keep_shown(each, self._paged[each])

    def forgot(self, since: float) -> None:
        """Redis was killed, and has forgotten what was written since then: its last second."""
        self._controlled.clear()
        for machine in self._engine.world.recent.values():
            machine.removal_reported &= machine.removal_reported_at < since

    def _fresh(self, evidence: Evidence, state: State, now: float) -> None:
        self.require(isinstance(state, State), f"runner {evidence.id} is in no state: {state}")
        if state in (State.HEALTHY, State.STARTING, State.OFFLINE, State.SUSPECT):
            age = now - self._answers.get(evidence.id, 0.0)
            limit = self._engine.scenario.config.evidence.stale_seconds + 1.0
            self.require(age <= limit, f"runner {evidence.id} is {state}, by an observation {age:.0f} s old")
