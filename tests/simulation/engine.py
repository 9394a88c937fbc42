"""Virtual time: one heap of events, processes that are killed and frozen between steps, and the weather."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from random import Random
from typing import Any

from ghapp.installations.installation import NEEDED, Installation
from ghapp.installations.pool_matching import pool_of
from ghapp.queue.jobs import BRIEF_BACKOFF_SECONDS, TIMEOUT_SECONDS
from ghapp.remediation.fuse import Position
from ghapp.runners.evidence import is_absent
from ghapp.runners.verdict import LONGEST_JOB_SECONDS, State, judge, unknown_job_seconds
from tests.simulation.calls import Steps
from tests.simulation.changes import Changes
from tests.simulation.claiming import Claiming
from tests.simulation.cluster import Cluster
from tests.simulation.deliveries import Deliveries
from tests.simulation.driver import Driver, Tick
from tests.simulation.fleet import Fleet, Refused
from tests.simulation.github import ACCOUNT, HOURLY_LIMIT, INSTALLATION, GitHub, NoAnswer, NotFound
from tests.simulation.invariants import Audit, Violation
from tests.simulation.lies import Lie, Weather, jump_of
from tests.simulation.pod_audit import PodAudit
from tests.simulation.pod_life import PodLife
from tests.simulation.reaper import Reaper
from tests.simulation.scenario import HOUR, MIDNIGHT, scenario
from tests.simulation.staged import Staged
from tests.simulation.store import Store
from tests.simulation.world import Machine, World

RECOVERY_SECONDS = 20.0
"""Seconds until another worker requeues the job of a dead worker."""

MISHAP = 0.03
"""Probability that a process dies or freezes at a step, while such weather lasts."""


@dataclass(slots=True, eq=False)
class Process:
    """A job in some worker."""

    key: str
    make: Callable[[Process], Steps]
    retries: bool
    steps: Steps | None = None
    began: float = 0.0
    tries: int = 0
    frozen: bool = False
    overtaken: bool = False


class Engine:
    """One simulated day, determined by one seed."""

    def __init__(self, seed: int, *, tracing: bool = False) -> None:
        self.seed, self.tracing, self.story = seed, tracing, []
        self.random = Random(seed)
        self.changes = Changes(self, scenario(self.random))
        self.scenario = self.changes.scenario
        self.now, self.skew, self.steps = MIDNIGHT, 0.0, 0
        self._heap: list[tuple[float, int, Callable[[], Any]]] = []
        self._order = 0
        self._alive: dict[str, Process] = {}
        self._version = -1
        self.running = ""
        """The kind of the process that runs now."""
        self.world = World()
        self.github = GitHub(self.world, self.random, lambda: self.now)
        self.store = Store(Installation(INSTALLATION, "acme", ACCOUNT, NEEDED))
        self.audit = Audit(self)
        self.fleet = Fleet(self, self.world)
        self.deliveries = Deliveries(self)
        self.driver = Driver(self, self.store, self.github)
        self.claiming = Claiming(self)
        self.cluster = Cluster(self)
        self.pod_life = PodLife(self)
        self.pod_audit = PodAudit(self)
        self.staged = Staged(self)
        self.reaper = Reaper(self, self.pod_life.pools, self.pod_life.limits)
        self.github.on_delete, self.store.on_confirmed = self.audit.deleting, self.audit.confirmed
        self.store.on_missing, self.github.on_shown = self.audit.missing, self.audit.shown
        self.github.on_paged = self.audit.paged
        self.store.on_forgotten = self.audit.forgotten
        self.store.is_rolled_back = lambda: Lie.ROLLED_BACK in self.github.lies

    # ---- time

    def run(self) -> None:
        """Run the day.

        Raises:
            Violation: an invariant does not hold; the message names the invariant and the time.
        """
        self.fleet.begin()
        self.claiming.begin()
        self.changes.begin()
        self.pod_life.begin()
        for episode in self.scenario.episodes:
            for window in episode.weather:
                self.at(window.begins, lambda window=window: self.begin_weather(window))
                self.at(window.ends, lambda window=window: self.end_weather(window))
        self.driver.due_at(self.now + self.random.uniform(0.0, self.scenario.config.interval))
        self.staged.begin()
        self.at(self.staged.ends, self.audit.closing)
        while self.now < self.staged.ends:
            self.now, _, action = heappop(self._heap)
            self.steps += 1
            action()

    def at(self, when: float, action: Callable[[], Any]) -> None:
        self._order += 1
        heappush(self._heap, (max(when, self.now), self._order, action))

    def after(self, seconds: float, action: Callable[[], Any]) -> None:
        self.at(self.now + seconds, action)

    def trace(self, what: str, **facts: Any) -> None:
        """Add a line to the trace, if it is printed."""
        if self.tracing:
            self.story.append(
                f"{self.now - MIDNIGHT:10.3f}  {what}  " + "  ".join(f"{k}={v}" for k, v in facts.items())
            )

    # ---- processes

    def start(self, key: str, make: Callable[[Process], Steps], *, after: float = 0.0, retries: bool = False) -> None:
        """Enqueue a job; at most one is queued or runs per key."""
        if key not in self._alive:
            process = self._alive[key] = Process(key, make, retries)
            self.after(after, lambda: self._step(process))

    def _step(self, me: Process) -> None:
        if me.steps is None:
            me.steps, me.began, me.frozen, me.overtaken = me.make(me), self.now, False, False
        self.running = me.key.partition("-")[0]
        if me.overtaken or (me.frozen and not self._thaw(me)):
            self._over(me, failed=True)
            return
        try:
            wait = next(me.steps)
        except StopIteration:
            self._over(me, failed=False)
        except (NoAnswer, NotFound, Refused) as error:
            self.trace("failed", job=me.key, why=repr(error))
            self._over(me, failed=True)
        else:
            self._wait(me, wait)

    def _wait(self, me: Process, wait: float) -> None:
        lies = self.github.lies
        if Lie.FREEZES in lies and self.random.random() < MISHAP:
            wait += self.random.choice((1.0, 9.0, 60.0, 90.0))
            me.frozen = True
            self.store.freeze(me, self.now)
            self.trace("freezes", job=me.key, seconds=wait)
        dies = Lie.KILLS in lies and self.random.random() < MISHAP
        if dies or self.now + wait - me.began > TIMEOUT_SECONDS:
            self.trace("is killed", job=me.key)
            self.store.freeze(me, self.now)
            self._again_in(me, RECOVERY_SECONDS)
            return
        self.after(wait, lambda: self._step(me))

    def _thaw(self, me: Process) -> bool:
        """A sweep or a confirmation that lost its lock may write once more before it notices."""
        me.frozen = False
        me.overtaken = not self.store.thaw(me, self.now)
        return not me.overtaken or me.key == "sweep" or me.key.startswith("confirm")

    def _over(self, me: Process, *, failed: bool) -> None:
        self.store.release(me)
        if failed and me.retries and me.tries < len(BRIEF_BACKOFF_SECONDS):
            me.tries += 1
            self._again_in(me, BRIEF_BACKOFF_SECONDS[me.tries - 1])
        else:
            del self._alive[me.key]

    def _again_in(self, me: Process, seconds: float) -> None:
        me.steps = None
        self.after(seconds, lambda: self._step(me))

    # ---- weather

    def begin_weather(self, window: Weather) -> None:
        lie = window.lie
        self.trace("from now on:", lie=lie.value, degree=window.degree)
        self.github.lies[lie] = window
        match lie:
            case Lie.RENAMED:
                self.github.login = f"acme-{self.random.randrange(1000)}"
            case Lie.SETTLING:
                self.store.token = None
            case Lie.SPENT:
                spent = int(HOURLY_LIMIT * self.scenario.config.budget.share) - self.random.randint(0, 30)
                others = max(0, spent - self.github.used)
                self.github.used += others
                self.github.unanswered += others
            case Lie.CLOCK:
                self._jump(jump_of(window))
        self._discover_installation()

    def end_weather(self, window: Weather) -> None:
        self.trace("over:", lie=window.lie.value)
        del self.github.lies[window.lie]
        if window.lie is Lie.CLOCK:
            self._jump(0.0)
        self.audit.cleared(window)
        self._discover_installation()

    def _jump(self, skew: float) -> None:
        self.skew = skew
        self.driver.wait_for_due()

    def _discover_installation(self) -> None:
        """By a delivery at once, or by the next discovery."""
        self.after(self.random.choice((1.0, 300.0)), lambda: self.start("discover", self.driver.discover))

    # ---- quiet times

    def skip(self) -> bool:
        """Whether sweeps were left out that change nothing but the time of the last survey: see `_is_settled`.

        The last two before anything happens are swept.
        """
        now, interval, store = self.driver.clock(), self.scenario.config.interval, self.store
        changed, self._version = store.version != self._version, store.version
        if changed or self._alive or self.github.lies or store.survey.failing_since is not None:
            return False
        while isinstance(self._heap[0][2], Tick) and self._heap[0][2].dated != store.due:
            heappop(self._heap)
        sweeps = int((self._heap[0][0] - self.now) // interval) - 2
        if sweeps <= 0 or store.survey.swept_at is None or not self._is_settled(now):
            return False
        store.survey = replace(store.survey, swept_at=store.survey.swept_at + sweeps * interval)
        self.audit.skipped(sweeps * interval)
        self.driver.due_at(now + sweeps * interval)
        return True

    def _is_settled(self, now: float) -> bool:
        """Whether no state, no fuse and no plan can change while GitHub's answers do not."""
        store, config = self.store, self.scenario.config
        acts = self.changes.mode == "act"
        if acts and any(fuse.position is Position.PROVING for fuse in store.fuses.values()):
            return False
        window = config.fuse.window_seconds + 2 * config.interval
        stopped = [fuse.stopped_at for fuse in store.fuses.values() if fuse.position is Position.STOPPED]
        everyone = store.runners.values() if stopped else ()
        changes = [at for each in everyone for at in (each.confirmed_at, each.back_at)]
        if any(at is not None and self.audit.covered(at) < window for at in (*stopped, *changes)):
            return False  # a stopped fuse closes when nothing has changed for a window that lists cover
        held = store.paused | {pool for pool, fuse in store.fuses.items() if fuse.position is Position.STOPPED}
        if any(map(self._is_news, self.world.registered())):
            return False
        for each in store.runners.values():
            state = judge(each, store.survey, now, config.evidence).state
            if state is State.INVALIDATED:
                pool = pool_of(each.labels, each.custom_labels, self.changes.rules)
                if acts and each.replaced_at is None and pool not in held:
                    return False
            elif state is State.SUSPECT and unknown_job_seconds(each) == LONGEST_JOB_SECONDS:
                continue
            elif state is not State.RETIRED and (is_absent(each) or (each.registered and not each.online)):
                return False
            elif state is not State.RETIRED and each.registered and not self.world.machines[each.id].registered:
                return False  # no list shows it any more
        return True

    def _is_news(self, machine: Machine) -> bool:
        """Whether the next list shows this registered machine otherwise than its record says."""
        evidence = self.store.runners.get(machine.id)
        return evidence is None or is_absent(evidence) or evidence.online != machine.online


def simulate(seed: int, *, tracing: bool = False) -> Engine:
    """Run one seed to its end; a `Violation` has the seed's number."""
    engine = Engine(seed, tracing=tracing)
    try:
        engine.run()
    except Violation as violation:
        violation.add_note(f"seed {seed}: python -m tests.simulation {seed} --trace")
        raise
    return engine


__all__ = ["HOUR", "Engine", "Process", "simulate"]
