"""The life of the fleet: jobs, controllers that replace runners, incidents, and deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ghapp.remediation.job_proof import KnownJobs
from ghapp.workflow_jobs import job as workflow_job
from ghapp.workflow_jobs.demand import known_jobs
from tests.simulation.lies import Lie
from tests.simulation.scenario import HOUR, Controller, Episode, Pool
from tests.simulation.world import JOB_LEASE, Fate, Job, Machine, World, living

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

SECONDS_BETWEEN_JOBS = 60.0
AUTOSCALED_WITHIN = 20.0


class Refused(Exception):  # noqa: N818 - what a controller does
    """The controller did not answer 2xx."""


class Delivery(NamedTuple):
    """A `workflow_job` delivery; `at` by GitHub's clock."""

    guid: int
    job_id: int
    runner_id: int
    runner_name: str
    over: bool
    at: float
    started_at: float


def _reported_job(job_id: int, pool: Pool, queued_at: float) -> workflow_job.Job:
    """A job as the delivery of its queueing reports it."""
    return workflow_job.Job(job_id, "queued", (pool.name,), "acme/app", queued_at)


class Fleet:
    """Schedules all events of the fleet."""

    def __init__(self, engine: Engine, world: World) -> None:
        self.engine, self.world, self.random = engine, world, engine.random
        self._accepted: set[str] = set()
        self._guids = 0
        self.clock_offset = self.random.choice((0.0, 0.0, 60.0, -60.0))  # GitHub's clock, by which deliveries are dated
        self._lively_until = 0.0
        self._returns_as_planned = False
        self._fails_until, self._redelivered_after = 0.0, 0.0
        self._unreported: dict[int, Job] = {}
        self._queue: list[Pool] = []
        """The pool of each job that waits for a runner."""
        self._reported: dict[int, workflow_job.Job] = {}
        """Jobs that deliveries reported as queued, until an hour after they were reported as over."""

    def known_jobs(self) -> KnownJobs:
        """Jobs as reported by deliveries; those that wait for the queue of the day are as old as can be."""
        now = self.engine.driver.clock()
        waiting = [_reported_job(0, pool, now) for pool in self._queue if pool.sends_deliveries]
        self._reported = {each: job for each, job in self._reported.items() if (job.ended_at or now) >= now - HOUR}
        return known_jobs([*waiting, *self._reported.values()], now)

    def queue_job(self, pool: Pool) -> None:
        """One more job waits for a runner of the pool."""
        self._queue.append(pool)
        self.engine.store.version += 1

    def delivered(self, delivery: Delivery) -> None:
        """A delivery reported that a job has started, or is over."""
        job = self._reported.get(delivery.job_id)
        if job is not None and delivery.over:
            job = job._replace(status="over", ended_at=delivery.at)
        elif job is not None and job.status == "queued":
            job = job._replace(status="running")
        if job is not None:
            self._reported[job.id] = job._replace(runner_id=delivery.runner_id, started_at=delivery.started_at)

    def cancel_queue(self) -> None:
        """No job waits any longer."""
        self._queue.clear()

    def fail_deliveries(self, seconds: float) -> None:
        """Deliveries fail for a minute, and are redelivered that many seconds later."""
        self._fails_until, self._redelivered_after = self.engine.now + 60.0, seconds

    def begin(self) -> None:
        """Start every pool, and schedule the day."""
        scenario = self.engine.scenario
        for pool in scenario.pools:
            for _ in range(pool.size):
                self.world.register(pool, self.engine.now)
        for episode in scenario.episodes:
            self.engine.at(episode.begins - 300.0, partial(self._live, episode))
            for incident in episode.incidents:
                self.engine.at(incident.at, partial(self._incident, incident.what))
            self.engine.at(
                episode.ends + self.random.uniform(600.0, 5400.0), partial(self._incident, "a person resumes")
            )

    # ---- jobs

    def _live(self, episode: Episode) -> None:
        self._lively_until = episode.ends
        self.world.forget(self.engine.now)
        self._next_job()

    def _next_job(self) -> None:
        if self.engine.now > self._lively_until:
            return
        self.engine.after(self.random.expovariate(1 / SECONDS_BETWEEN_JOBS), self._next_job)
        idle = list(living(self.world.idle()))
        for pool in [each for each in self._queue if any(machine.pool is each for machine in idle)]:
            self._queue.remove(pool)
            idle = [each for each in idle if each.pool is pool]
            break
        if idle:
            self.take_job(self.random.choice(idle))
        elif len(self._queue) < 5:
            self._queue.append(self.random.choice(self.engine.scenario.pools))

    def confirming(self, runner_ids: Iterable[int]) -> None:
        """Their absence is about to be confirmed: at this moment a delivery reports an earlier job of one of them."""
        self.engine.changes.confirming(runner_ids)
        for runner_id in runner_ids:
            job = self._unreported.pop(runner_id, None)
            if job is not None and job.over_at is None:
                self._deliver(self.world.machines[runner_id], job, over=False, at_once=True)

    def take_job(self, machine: Machine, *, lasting: float = 0.0, reported: bool = True, late: float = 0.0) -> Job:
        """A runner is given a job, whose start is reported so many seconds late."""
        job = self.world.take_job(machine, self.engine.now)
        self.engine.trace("job begins", job=job.id, runner=machine.id)
        if reported:
            if machine.pool.sends_deliveries:
                self._reported[job.id] = _reported_job(job.id, machine.pool, self.engine.now + self.clock_offset)
            self._deliver(machine, job, over=False, late=late)
        lasts = lasting or self.random.choice((20.0, 120.0, 400.0, 1200.0))
        self.engine.after(lasts, partial(self._finish, machine, job))
        return job

    def _finish(self, machine: Machine, job: Job) -> None:
        if machine.job is not job:
            return
        if job.dead and self.engine.now < machine.fate_at + JOB_LEASE:
            self.engine.at(machine.fate_at + JOB_LEASE, partial(self._finish, machine, job))
            return
        self.world.finish(machine, self.engine.now)
        self.engine.store.version += 1
        self.engine.trace("job ends", job=job.id, runner=machine.id)
        self._deliver(machine, job, over=True)
        if machine.fate is Fate.SPENT:
            boots = machine.pool.boot_seconds or self.random.uniform(1.0, AUTOSCALED_WITHIN)
            self.engine.after(boots, partial(self.register, machine.pool))

    def _deliver(self, machine: Machine, job: Job, *, over: bool, at_once: bool = False, late: float = 0.0) -> None:
        if not machine.pool.sends_deliveries:
            return
        random, doubled, has_failed = self.random, False, False
        delay, at = late + random.uniform(0.5, 3.0), self.engine.now + self.clock_offset
        if Lie.DELIVERIES in self.engine.github.lies:
            doubled = random.random() < 0.3
            fortune = random.random()
            if fortune < 0.1:
                return  # lost for good
            if fortune < 0.5:
                delay = random.uniform(60.0, 600.0)  # late, or failed and redelivered
                has_failed = self.engine.deliveries.draw_failure()
        if self.engine.now < self._fails_until:
            delay, has_failed = self._redelivered_after, True
        self._guids += 1
        delivery = Delivery(self._guids, job.id, machine.id, machine.name, over, at, job.started_at + self.clock_offset)
        if has_failed:
            self.engine.deliveries.fail(delivery)
        if at_once:
            self.engine.driver.deliver(delivery)
            return
        for copy in range(1 + doubled):
            self.engine.after(delay + copy * random.uniform(0.0, 60.0), partial(self.engine.driver.deliver, delivery))

    # ---- controllers

    def accept(self, event_id: str, runner_id: int) -> None:
        """A replace event reaches the pool's controller.

        Raises:
            Refused: it is not accepted, now.
        """
        window = self.engine.github.lies.get(Lie.REFUSES)
        if window is not None and self.random.random() < window.degree:
            raise Refused
        machine = self.world.machines[runner_id]
        if self.engine.changes.refuses(machine.pool):
            raise Refused
        if event_id in self._accepted:
            return
        self._accepted.add(event_id)
        if machine.fate is Fate.VANISHED:
            machine.fate = Fate.LOST  # its pod is taken down
        match machine.pool.controller:
            case Controller.FAST:
                self.engine.after(self.random.uniform(5.0, 30.0), partial(self.register, machine.pool))
            case Controller.SLOW:
                self.engine.after(self.random.uniform(60.0, 240.0), partial(self.register, machine.pool))
            case Controller.LATE:
                self.engine.after(self.random.uniform(360.0, 1200.0), partial(self.register, machine.pool))
            case Controller.HALF if runner_id % 2:
                self.engine.after(self.random.uniform(5.0, 120.0), partial(self.register, machine.pool))
            case Controller.TWO:
                for _ in range(2):
                    self.engine.after(self.random.uniform(5.0, 120.0), partial(self.register, machine.pool))
            case Controller.NEVER | Controller.HALF:
                pass

    def register(self, pool: Pool) -> None:
        """A controller has made one more runner."""
        self.engine.store.version += 1
        machine = self.world.register(pool, self.engine.now)
        self.engine.trace("registers", runner=machine.id, pool=pool.name)

    # ---- incidents

    def _incident(self, what: str) -> None:
        self.engine.trace(what)
        random, pool = self.random, self.random.choice(self.engine.scenario.pools)
        here = self.world.registered(pool)
        match what:
            case "one is lost":
                self.lose(here[:1])
            case "several are lost":
                for machine in here[: random.randint(2, 4)]:
                    self.engine.after(random.uniform(0.0, 120.0), partial(self.lose, [machine]))
            case "a pool is lost":
                self.lose(here)
            case "all are lost":
                self.lose(self.world.registered())
            case "one vanishes and returns":
                self.vanish(here[:1], random.uniform(10.0, 900.0))
            case "many vanish and return":
                self.vanish(here[: max(1, len(here) * 3 // 4)], random.uniform(10.0, 1500.0))
            case "many vanish and return by halves":
                half = len(here) // 2
                self.vanish(here[:half], random.uniform(60.0, 400.0))
                self.vanish(here[half:], random.uniform(400.0, 3000.0))
            case "those at work lose their registrations":
                self.vanish([each for each in here if each.busy], random.uniform(1800.0, 6 * 3600.0))
            case "one crashes, and its agent takes another job":
                for machine in [each for each in here if each.busy and not each.pool.kind.ephemeral][:1]:
                    self._crash(machine)
            case "one takes a job, and its registration goes before that is reported":
                for machine in [each for each in self.world.idle(pool) if each.online][:1]:
                    self._unreported[machine.id] = self.take_job(machine, lasting=1200.0, reported=False)
                    self.vanish([machine], 3 * 3600.0)
            case "one returns as it is planned for":
                self.vanish(here[:1], 3600.0)
                self._returns_as_planned = True
            case "scaled down by half in silence":
                idle = self.world.idle(pool)
                self.scale_down(idle[: (len(idle) + 1) // 2], reported=False)
            case "some go offline":
                self._go_offline(random.sample(here, k=(len(here) + 1) // 2))
            case "one is reconfigured":
                for machine in self.world.idle(pool)[:1]:
                    self.world.configure_again(machine, self.engine.now)
            case "scaled up":
                for _ in range(random.randint(1, 8)):
                    self.engine.after(random.uniform(0.0, 30.0), partial(self.register, pool))
            case "scaled down, reported" | "scaled down, unreported":
                self.scale_down(self.world.idle(pool)[: random.randint(1, 3)], reported=what.endswith(", reported"))
            case "a person pauses":
                self.engine.driver.pause(random.choice((self.engine.changes.name_of(pool), None)))
            case "a person resumes":
                self.engine.driver.resume()

    def planned(self, runner_ids: Iterable[int]) -> None:
        """The plan is made and not yet recorded: a granted runner is back, and may be read at this moment."""
        runner_ids = list(runner_ids)
        self.engine.staged.planned(runner_ids)
        for runner_id in runner_ids:
            machine = self.world.machines[runner_id]
            if self._returns_as_planned and machine.fate is Fate.VANISHED and not self.engine.github.lies:
                self._returns_as_planned = False
                self.come_back(machine)
                if self.random.random() < 0.5:
                    self.engine.driver.check(runner_id)

    def _crash(self, machine: Machine) -> None:
        """The agent crashes and is started again: GitHub fails its old job ten minutes later, and sends a delivery.

        By then it runs another one, and loses its registration.
        """
        job, machine.job = machine.job, None
        self.engine.trace("crashes", runner=machine.id, job=job.id)
        self.engine.after(JOB_LEASE, partial(self._deliver, machine, job, over=True))
        self.engine.after(30.0, partial(self._work_again, machine))

    def _work_again(self, machine: Machine) -> None:
        if machine.registered and machine.job is None:
            self.take_job(machine, lasting=1800.0)
            self.engine.after(JOB_LEASE, partial(self.vanish, [machine], 3 * 3600.0))

    def lose(self, machines: list[Machine], *, for_good: bool = False) -> None:
        """Their registrations are lost; unless it is for good, some register again under their names."""
        lost = [machine for machine in machines if machine.registered]
        self.engine.store.version += 1  # the next sweep is not skipped
        for machine in lost:
            self.world.leave(machine, Fate.LOST, self.engine.now)
            self.engine.audit.lost(machine)
        self.engine.changes.lost(() if for_good else lost)

    def work_elsewhere(self) -> None:
        """A runner that no list shows takes a job, and both are over soon."""
        machine = self.world.register_elsewhere(self.engine.scenario.pools[-1], self.engine.now)
        self.world.latest_job += 1
        job = Job(self.world.latest_job, machine.id, self.engine.now)
        self._deliver(machine, job, over=False)
        self.engine.after(30.0, partial(self._deliver, machine, job, over=True))

    def vanish(self, machines: list[Machine], seconds: float) -> None:
        self.engine.store.version += 1
        for machine in machines:
            if not machine.registered:
                continue
            self.world.leave(machine, Fate.VANISHED, self.engine.now)
            self.engine.trace("vanishes", runner=machine.id)
            self.engine.after(seconds, partial(self.come_back, machine))

    def come_back(self, machine: Machine) -> None:
        self.engine.store.version += 1
        self.world.come_back(machine, self.engine.now)
        self.engine.trace("returns", runner=machine.id)
        self.engine.audit.came_back(machine)

    def _go_offline(self, machines: list[Machine]) -> None:
        for machine in machines:
            machine.go_offline(self.engine.now)
            self.engine.after(self.random.uniform(60.0, 2400.0), machine.come_online)

    def scale_down(self, machines: list[Machine], *, reported: bool) -> None:
        """Their controller removes them."""
        for machine in machines:
            self.world.leave(machine, Fate.SCALED_DOWN, self.engine.now)
            self.engine.audit.disturbed(machine.pool)
            if reported:
                self.engine.after(
                    self.random.uniform(0.0, 3.0), partial(self.engine.driver.controller_says_removed, machine.id)
                )
