"""Staged incidents: late on some days, in fair weather, what one rule exists for happens to pools of its own.

What chance brings about once in thousands of days happens here on purpose: a pool is lost while another one's url is
dead, a runner returns while its request is on its way. It has its own random numbers, and begins when everything else
is over, so that the day before it is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from random import Random
from typing import TYPE_CHECKING

from ghapp.remediation.churn import CHURN_SECONDS
from ghapp.remediation.fuse import Position
from ghapp.runners.evidence import Evidence
from tests.simulation.calls import CALL
from tests.simulation.github import PER_PAGE
from tests.simulation.lies import Lie, Weather
from tests.simulation.scenario import DAY, HOUR, MIDNIGHT, Controller, Kind, Pool
from tests.simulation.staged_pods import StagedPods
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

BEGINS, LASTS = MIDNIGHT + DAY - 4 * HOUR, 9 * HOUR
"""All episodes and their tails are over by then; the longest bound of a loss fits into it."""

SETTLES = 900.0
"""New pools are left alone for so long: longer than the fuse's window, in which newcomers count as proof."""

BUSY_LASTS = HOUR
"""For so long a busy pool works on after its loss, which heals well within that."""

LOOKS_EACH = 3.0
LOOKS_FOR = 2 * HOUR


class Staged:
    """Stages one incident."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.random = engine, Random(f"staged on day {engine.seed}")
        acts = engine.scenario.config.remediation.mode == "act"
        self._pods = StagedPods(engine, self)
        self._incident = self._choose()
        self.happens = engine.changes.happen and acts and self._incident is not None
        self.ends = BEGINS + LASTS if self.happens else engine.scenario.ends
        self._pools = 0
        self._on_plan: Callable[[Machine], object] | None = None
        self._on_request: Callable[[Machine], object] | None = None
        self._on_confirmation: Callable[[int], object] | None = None

    def begin(self) -> None:
        """Schedule it."""
        if self.happens:
            self._engine.at(BEGINS, self._begin)

    def _begin(self) -> None:
        """A person resumes everything, all urls answer, no job waits; deliveries arrive."""
        engine = self._engine
        engine.changes.hear_all()
        engine.fleet.cancel_queue()
        engine.driver.resume()
        engine.after(30.0, self._stage)

    def _stage(self) -> None:
        [helper] = self.pool(1)
        self._engine.after(300.0, partial(self._engine.fleet.take_job, helper, lasting=20.0))
        if self._incident is not None:
            self._engine.trace(f"staged: {self._incident.__name__}")
            self._incident()

    def _choose(self) -> Callable[[], object] | None:
        """One each day in turn, so that each is staged equally often; None where its day has a cluster already."""
        incidents = (*self.incidents, *self._pods.incidents)
        turn, place = divmod(self._engine.seed, len(incidents))
        if turn % 5 == 4:  # so that another incident moves no other to another day
            is_last = place == len(incidents) - 1
            if is_last:
                return self._lose_in_a_busy_pool if turn % 2 else self._deny_those_at_work_in_a_busy_pool
            return self.further_incidents[place % len(self.further_incidents)]
        chosen = incidents[place]
        return chosen if chosen in self.incidents or self._pods.may_happen else None

    @property
    def incidents(self) -> tuple[Callable[[], object], ...]:
        """All that may happen."""
        return (
            self._lose_beside_a_dead_url,
            self._pause_what_is_granted,
            self._succeed_late,
            self._crash_while_it_grants,
            self._queue_for_the_written_off,
            self._lose_on_and_on,
            self._return_after_the_removal,
            self._rename_what_is_stopped,
            self._register_as_it_is_planned,
            self._return_as_the_request_leaves,
            self._return_as_it_is_confirmed,
            self._lose_sight_of_an_empty_pool,
            self._finish_unreported,
            self._hide_by_lists_and_gets,
            self._write_off_beside_a_job,
        )

    @property
    def further_incidents(self) -> tuple[Callable[[], object], ...]:
        """Incidents of each fifth turn; the last day of such a turn has a busy pool."""
        return (
            self._churn_slowly,
            self._lose_the_successors,
            self._suspect_beside_a_mass_loss,
            self._change_the_mode_in_between,
            self._be_shown_idle_at_work,
        )

    # ---- at certain moments

    def planned(self, runner_ids: Iterable[int]) -> None:
        """The plan is made, and not yet recorded."""
        for runner_id in runner_ids:
            machine = self._engine.world.machines[runner_id]
            if self._on_plan is not None and self._is_ours(machine) and machine.fate is Fate.LOST:
                act, self._on_plan = self._on_plan, None
                act(machine)

    def leaves(self, runner_id: int) -> None:
        """A request is on its way to its controller."""
        machine = self._engine.world.machines[runner_id]
        if self._on_request is not None and self._is_ours(machine) and machine.fate is Fate.VANISHED:
            act, self._on_request = self._on_request, None
            self._engine.after(CALL / 2, partial(act, machine))

    def confirming(self, suspects: Mapping[int, Evidence]) -> None:
        """A confirmation of these suspects begins; it has no control list yet."""
        if self._on_confirmation is not None and suspects:
            self._on_confirmation(len(suspects))

    # ---- what happens

    def _lose_beside_a_dead_url(self) -> None:
        """Two pools lose all their runners at once, and the url of one is dead for hours."""
        deaf, well = self.pool(4), self.pool(8)
        self._engine.after(SETTLES - 1.0, partial(self._engine.changes.go_deaf, deaf[0].pool, LASTS))
        self._engine.after(SETTLES, partial(self._lose, deaf + well))

    def _pause_what_is_granted(self) -> None:
        """The same, but its requests are granted, and then it is paused."""
        engine, held, well = self._engine, self.pool(4), self.pool(8)
        pool = held[0].pool

        def pause() -> None:
            engine.driver.pause(engine.changes.name_of(pool))
            engine.changes.hear_all()

        engine.after(SETTLES - 1.0, partial(engine.changes.go_deaf, pool, LASTS))
        engine.after(SETTLES, partial(self._lose, held + well))
        engine.after(SETTLES, partial(self._when, partial(self._has, held, "granted_at"), pause))

    def _succeed_late(self) -> None:
        """The runners that come for a batch come after its time."""
        machines = self.pool(6, Controller.LATE)
        self._engine.after(SETTLES, partial(self._lose, machines))
        for _job in range(6):  # else the fuse would close by itself before they come
            self._engine.after(SETTLES, partial(self._engine.fleet.queue_job, machines[0].pool))

    def _crash_while_it_grants(self) -> None:
        """Redis crashes a second after the plan was made, and has lost the grant and its request."""
        self._on_plan = lambda _machine: self._engine.changes.forget_a_second()
        self._engine.after(SETTLES, partial(self._lose, self.pool(3)[:2]))

    def _queue_for_the_written_off(self) -> None:
        """No runner comes, no job waits, and the losses are written off. An hour later a job waits for the pool."""
        machines = self.pool(6, Controller.NEVER)
        self._engine.after(SETTLES, partial(self._lose, machines))
        wait = partial(self._engine.after, self.random.choice((60.0, 4000.0)))
        queue = partial(self._engine.fleet.queue_job, machines[0].pool)
        when = partial(self._has, machines, "not_needed_at")
        self._engine.after(SETTLES, partial(self._when, when, partial(wait, queue)))

    def _lose_on_and_on(self) -> None:
        """Two runners return after a mass loss, and then one more is lost each eight minutes."""
        engine, machines = self._engine, self.pool(16)
        pool = machines[0].pool
        engine.after(SETTLES, partial(self._lose, machines[:12]))
        engine.after(SETTLES, partial(engine.fleet.vanish, machines[12:14], LASTS))

        def come_back() -> None:
            for machine in machines[12:14]:
                engine.fleet.come_back(machine)

        engine.after(SETTLES, partial(self._when, partial(self._has, machines, "granted_at"), come_back))

        def lose_one() -> None:
            self._lose(engine.world.registered(pool)[:1])
            engine.fleet.register(pool)

        at = SETTLES + 400.0
        while at < LASTS - 2.5 * HOUR:
            engine.after(at, lose_one)
            at += 480.0

    def _return_after_the_removal(self) -> None:
        """A registration returns just after its removal was found to be done, while its request is held."""
        engine, machines = self._engine, self.pool(4)
        pool = machines[0].pool

        def pause() -> None:
            engine.driver.pause(engine.changes.name_of(pool))
            engine.after(2.0, partial(engine.fleet.come_back, machines[0]))
            engine.after(1800.0, engine.driver.resume)

        engine.after(SETTLES - 1.0, partial(engine.changes.go_deaf, pool, 1800.0))
        engine.after(SETTLES, partial(engine.fleet.vanish, machines[:1], HOUR))
        engine.after(SETTLES, partial(self._when, partial(self._has, machines, "removed_at"), pause))

    def _rename_what_is_stopped(self) -> None:
        """No runner comes, the fuse stops, and the pool is renamed."""
        engine, machines = self._engine, self.pool(10, Controller.NEVER)
        pool = machines[0].pool
        engine.after(SETTLES, partial(self._lose, machines))
        after = self.random.choice((5.0, 120.0))
        rename = partial(engine.after, after, partial(engine.changes.rename, pool))
        engine.after(SETTLES, partial(self._when, partial(self._is_stopped, pool), rename))

    def _register_as_it_is_planned(self) -> None:
        """A lost machine registers again under its name between the last list and the removal."""
        self._on_plan = self._engine.changes.register_again
        self._engine.after(SETTLES, partial(self._lose, self.pool(4)[:2]))

    def _return_as_the_request_leaves(self) -> None:
        """A registration returns, and a controller asks for it, while the request for its replacement is on its way."""
        engine, machines = self._engine, self.pool(3)

        def come_back(machine: Machine) -> None:
            engine.fleet.come_back(machine)
            if not engine.github.lies:
                engine.driver.check(machine.id)

        self._on_request = come_back
        engine.after(SETTLES, partial(engine.fleet.vanish, machines[:1], 2 * HOUR))

    def _return_as_it_is_confirmed(self) -> None:
        """A confirmed loss whose pod is claimed returns, and the claim ends, as others are about to be confirmed."""
        engine = self._engine
        others = ceil((len(engine.world.registered()) + 6) / PER_PAGE) + 1
        first, *machines = self.pool(1 + others)

        def come_back(suspects: int) -> None:
            is_whole = suspects >= ceil(engine.store.survey.total / PER_PAGE)
            if is_whole and first.fate is Fate.VANISHED and self._has([first], "confirmed_at"):
                self._on_confirmation = None
                engine.fleet.come_back(first)
                engine.claiming.release(first.name)

        self._on_confirmation = come_back
        engine.after(SETTLES - 1.0, partial(engine.claiming.claim, first.name, first.name, 2 * HOUR, None))
        engine.after(SETTLES, partial(engine.fleet.vanish, [first], 3 * HOUR))
        lose = partial(self._lose, machines)
        engine.after(SETTLES, partial(self._when, partial(self._has, [first], "confirmed_at"), lose))

    def _lose_sight_of_an_empty_pool(self) -> None:
        """A pool that is lost for good stops, and GitHub gives no answer until its records are forgotten."""
        machines = self.pool(3, Controller.NEVER)
        self._engine.after(SETTLES, partial(self._lose, machines))
        blind = partial(self.begin_weather, Lie.UNAVAILABLE, 9900.0, 1.0)
        self._engine.after(SETTLES, partial(self._when, partial(self._is_stopped, machines[0].pool), blind))

    def _finish_unreported(self) -> None:
        """Ephemeral runners finish short jobs between two lists, and the deliveries of that fail for a while.

        So does the delivery of a long job that a persistent one begins, whose registration vanishes then. Another one
        is lost meanwhile: its confirmation waits for them for an hour at most.
        """
        kind = self.random.choice((Kind.EPHEMERAL, Kind.EPHEMERAL, Kind.UNSAID_EPHEMERAL))
        machines, at_work = self.pool(4, kind=kind), self.pool(1)

        def work() -> None:
            self._engine.fleet.fail_deliveries(self.random.choice((1200.0, 7 * HOUR)))
            self._lose(machines[3:])
            for machine in machines[:2]:
                self._engine.fleet.take_job(machine, lasting=5.0)
            self._engine.fleet.take_job(at_work[0], lasting=3 * HOUR)
            self._engine.after(5.0, partial(self._engine.fleet.vanish, at_work, 2 * HOUR))

        self._engine.after(SETTLES, partial(self._when, self._was_just_swept, work, 1.0))

    def _be_shown_idle_at_work(self) -> None:
        """Lists show runners busy, with jobs that no delivery names, and then idle; then their registrations vanish."""
        engine, fleet = self._engine, self._engine.fleet
        at_work = self.pool(8, kind=Kind.EPHEMERAL, sends_deliveries=False)[:2]
        idle_at = SETTLES + self.random.choice((200.0, 600.0))
        for machine in at_work:
            engine.after(SETTLES, partial(fleet.take_job, machine, lasting=5 * HOUR, reported=False))
        engine.after(idle_at, partial(self.begin_weather, Lie.IDLE, 2 * HOUR, 1.0))
        engine.after(idle_at + self.random.choice((70.0, 400.0)), partial(fleet.vanish, at_work, 3 * HOUR))

    def _lose_in_a_busy_pool(self) -> None:
        """Most idle runners of a pool are lost in which more departures await their newcomers than a batch has runners.

        Its own churn explains all newcomers; only jobs show that the runners that wait are lost.
        """

        def lose(idle: list[Machine]) -> None:
            self._lose(idle)
            self._engine.after(BUSY_LASTS, partial(self._engine.audit.all_requested, idle))

        self._work_in_a_busy_pool(Controller.FAST, SETTLES, lose, lambda: ())

    def _deny_those_at_work_in_a_busy_pool(self) -> None:
        """GitHub denies most idle runners of such a pool, and gives them jobs, whose starts alone it reports late.

        Their jobs seem to wait, although later ones were taken. No request has a successor, which would prove a batch,
        and the pool has not grown for as long as its churn is looked at.
        """
        denied: list[Machine] = []

        def deny(idle: list[Machine]) -> None:
            denied.extend(idle)
            self._engine.fleet.vanish(idle, BUSY_LASTS)

        begins = SETTLES + CHURN_SECONDS
        self._work_in_a_busy_pool(Controller.NEVER, begins, deny, lambda: [each for each in denied if each.job is None])

    def _work_in_a_busy_pool(
        self,
        controller: Controller,
        begins: float,
        act: Callable[[list[Machine]], object],
        denied: Callable[[], Sequence[Machine]],
    ) -> None:
        """Jobs go on in a large pool; `act` gets most of its idle runners. Denied ones are given long jobs first."""
        engine, boots, prefers_old = self._engine, self.random.choice((20.0, 40.0)), self.random.random() < 0.5
        pool = self.pool(40, controller, Kind.EPHEMERAL, boot_seconds=boots)[0].pool

        def work() -> None:
            idle, at_work = engine.world.idle(pool), denied()
            if at_work:
                engine.fleet.take_job(at_work[0], lasting=2 * BUSY_LASTS, late=2 * BUSY_LASTS)
            elif idle:
                engine.fleet.take_job(idle[0] if prefers_old else self.random.choice(idle), lasting=20.0)

        def stage() -> None:
            idle = engine.world.idle(pool)
            act(idle[: max(2, len(idle) * 2 // 3)])

        for at in range(60, int(begins + BUSY_LASTS), 3):
            engine.after(float(at), work)
        engine.after(begins, stage)

    def _hide_by_lists_and_gets(self) -> None:
        """Lists leave out live runners, and do not add up; GETs of all runners answer 404."""
        self.pool(6)
        self._engine.after(SETTLES, partial(self.begin_weather, Lie.GETS_404, 1500.0, 1.0))
        self._engine.after(SETTLES, partial(self.begin_weather, Lie.MISCOUNTS, 1500.0, 0.5))

    def _write_off_beside_a_job(self) -> None:
        """A pool is stopped, and a job waits for it; the installation stops for others, which are written off."""
        engine, fuse = self._engine, self._engine.scenario.config.fuse
        stopped = self.pool(6, Controller.NEVER)
        present = len(engine.world.registered())
        pairs = max(2, ceil(fuse.fraction * present / (2 - 2 * fuse.fraction)) + 1)
        others = [each for _ in range(min(pairs, 10)) for each in self.pool(2, Controller.NEVER)]
        engine.after(SETTLES, partial(engine.fleet.queue_job, stopped[0].pool))
        engine.after(SETTLES, partial(self._lose, stopped))
        lose = partial(engine.after, 700.0, partial(self._lose, others))
        engine.after(SETTLES, partial(self._when, partial(self._is_stopped, stopped[0].pool), lose))

    def _churn_slowly(self) -> None:
        """Half of a pool vanishes for hours and no request helps, while others finish jobs and new ones boot slowly."""
        boots, apart = self.random.choice((330.0, 480.0, 900.0)), self.random.choice((150, 700, 1100))
        machines = self.pool(24, Controller.NEVER, Kind.EPHEMERAL, boot_seconds=boots)
        pool, engine = machines[0].pool, self._engine

        def finish_one() -> None:
            idle = [each for each in engine.world.registered(pool) if each.job is None]
            for machine in idle[-1:]:
                engine.fleet.take_job(machine, lasting=20.0)

        for at in range(60, int(LASTS - 4 * HOUR), apart):
            engine.after(float(at), finish_one)
        for _job in range(30):
            engine.after(2 * HOUR, partial(engine.fleet.queue_job, pool))
        engine.after(2 * HOUR, partial(engine.fleet.vanish, machines[:10], LASTS))

    def _lose_the_successors(self) -> None:
        """What runners are lost for goes on: each one that comes is lost again a little later."""
        engine, machines = self._engine, self.pool(20)
        pool = machines[0].pool

        def lose_newcomers() -> None:
            newcomers = [each for each in engine.world.registered(pool) if each not in machines]
            self._lose([each for each in newcomers if engine.now - each.born > 150.0])

        engine.after(SETTLES, partial(self._lose, machines[:14]))
        for _job in range(20):
            engine.after(SETTLES, partial(engine.fleet.queue_job, pool))
        for at in range(int(SETTLES), int(SETTLES + 2 * HOUR), 60):
            engine.after(float(at), lose_newcomers)

    def _suspect_beside_a_mass_loss(self) -> None:
        """Half of a pool is lost, and each few minutes a GET of a live runner answers 404, once."""
        engine, machines = self._engine, self.pool(20)

        def miss_one() -> None:
            machine = machines[-1]
            engine.fleet.vanish([machine], 8.0)
            if not engine.github.lies:
                engine.driver.check(machine.id)

        engine.after(SETTLES, partial(self._lose, machines[:12]))
        for _job in range(20):
            engine.after(SETTLES, partial(engine.fleet.queue_job, machines[0].pool))
        for at in range(int(SETTLES) + 100, int(LASTS - 3 * HOUR), 400):
            engine.after(float(at), miss_one)

    def _change_the_mode_in_between(self) -> None:
        """Registrations vanish for hours, no request helps, and a person changes to dry-run for a while."""
        engine, machines = self._engine, self.pool(12, Controller.NEVER)
        engine.after(SETTLES, partial(engine.fleet.vanish, machines[:8], LASTS))
        for _job in range(12):
            engine.after(SETTLES, partial(engine.fleet.queue_job, machines[0].pool))
        lasts = self.random.choice((300.0, 1200.0))
        engine.after(SETTLES + 200.0, partial(engine.changes.set_mode, "dry-run", lasts))

    # ---- how it happens

    def pool(
        self,
        size: int,
        controller: Controller = Controller.FAST,
        kind: Kind = Kind.PERSISTENT,
        *,
        sends_deliveries: bool = True,
        boot_seconds: float = 0.0,
    ) -> list[Machine]:
        """Another pool, whose runners register now."""
        self._pools += 1
        pool = Pool(
            f"staged-{self._pools}",
            size,
            kind,
            controller,
            sends_deliveries=sends_deliveries,
            boot_seconds=boot_seconds,
        )
        self._engine.changes.add(pool)
        return [self._engine.world.register(pool, self._engine.now) for _ in range(size)]

    @staticmethod
    def is_barren(pool: Pool) -> bool:
        """Whether no request of a staged pool has a runner: its newcomers are churn, and prove nothing."""
        return pool.name.startswith("staged-") and pool.controller is Controller.NEVER

    @staticmethod
    def _is_ours(machine: Machine) -> bool:
        return machine.pool.name.startswith("staged-")

    def _lose(self, machines: Iterable[Machine]) -> None:
        """They are lost, and none registers again by itself."""
        self._engine.fleet.lose([each for each in machines if each.job is None], for_good=True)

    def begin_weather(self, lie: Lie, seconds: float, degree: float) -> None:
        """It begins now."""
        window = Weather(lie, self._engine.now, self._engine.now + seconds, degree)
        self._engine.begin_weather(window)
        self._engine.after(seconds, partial(self._engine.end_weather, window))

    def _when(self, holds: Callable[[], bool], act: Callable[[], object], each: float = LOOKS_EACH) -> None:
        """Do it once that is true."""
        until = self._engine.now + LOOKS_FOR

        def look() -> None:
            if holds():
                act()
            elif self._engine.now < until:
                self._engine.after(each, look)

        look()

    def _has(self, machines: Iterable[Machine], step: str) -> bool:
        """Whether the record of one of them has that date."""
        records = (self._engine.store.runners.get(each.id) for each in machines)
        return any(each is not None and getattr(each, step) is not None for each in records)

    def _is_stopped(self, pool: Pool) -> bool:
        fuse = self._engine.store.fuses.get(self._engine.changes.name_of(pool))
        return fuse is not None and fuse.position is Position.STOPPED

    def _was_just_swept(self) -> bool:
        swept_at = self._engine.store.survey.swept_at or 0.0
        return 2.0 < self._engine.driver.clock() - swept_at < 6.0
