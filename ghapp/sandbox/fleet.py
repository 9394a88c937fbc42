"""The living fleet of one organization: a discrete-event model that reads no clock and does no I/O.

Whoever owns it calls `step(now)`; everything that was due by then happens at its own time, in order, so that the same
seed lives the same life however large the steps are.
"""

from __future__ import annotations

import heapq
import itertools
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Literal

from ghapp.sandbox.config import Pace, PoolConfig
from ghapp.sandbox.jobs import Job, JobAction, Repository
from ghapp.sandbox.runners import Runner

NAME_ALPHABET = string.ascii_lowercase + string.digits
FAILING_SHARE = 0.06

#: Runners and jobs that are over and still remembered.
FORMER_KEPT = 20_000
JOBS_KEPT = 5_000


@dataclass(frozen=True, slots=True)
class JobMoved:
    """A job was queued, taken or finished; `job` is a copy from that moment."""

    action: JobAction
    job: Job
    at: float


@dataclass(frozen=True, slots=True)
class RunnerOnline:
    """A newly registered runner is ready for work."""

    runner: Runner
    at: float


@dataclass(frozen=True, slots=True)
class RunnerEnded:
    """An ephemeral runner did its one job; its process and its registration are gone."""

    runner: Runner
    at: float


Happening = JobMoved | RunnerOnline | RunnerEnded
Deletion = Literal["deleted", "busy", "absent"]


class Fleet:
    """Runners, their jobs and their pools.

    Attributes:
        registered: what GitHub lists, by id.
        zombies: runners whose registration was lost and whose process is still there, by id.
        former: runners that are over, by id, the oldest forgotten first.
        queue: jobs that wait for a runner, oldest first.
        jobs: recent jobs in any status, by id.
        version: changes with everything that a list of runners would show.
    """

    def __init__(
        self,
        pools: Sequence[PoolConfig],
        repositories: Sequence[Repository],
        *,
        pace: Pace,
        rng: Random,
        first_id: int,
        now: float,
        quiet: bool,
    ) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.repositories = list(repositories)
        self.registered: dict[int, Runner] = {}
        self.zombies: dict[int, Runner] = {}
        self.former: dict[int, Runner] = {}
        self.queue: list[Job] = []
        self.jobs: dict[int, Job] = {}
        self.version = 0
        self.quiet = True
        self._pace = pace
        self._rng = rng
        self._runner_ids = itertools.count(first_id)
        self._job_ids = itertools.count(40_000_000_000 + first_id)
        self._names: set[str] = set()
        self._idle: dict[frozenset[str], dict[int, Runner]] = {}
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._serial = itertools.count()
        self._season = 0
        self._happened: list[Happening] = []
        for pool in pools:
            for _ in range(pool.size):
                self._settle(self.register(pool.name), now)
        self._happened.clear()
        self.set_quiet(quiet, now)

    def step(self, now: float) -> list[Happening]:
        """Lives until `now` (epoch seconds) and tells what happened since the last step."""
        while self._agenda and self._agenda[0][0] <= now:
            at, _, act = heapq.heappop(self._agenda)
            act(at)
        happened, self._happened = self._happened, []
        return happened

    def set_quiet(self, quiet: bool, now: float) -> None:
        """Stops the arrival of jobs, or lets it begin again; what runs goes on."""
        if quiet == self.quiet:
            return
        self.quiet = quiet
        self._season += 1
        if not quiet:
            for pool in self.pools.values():
                self._expect_arrival(pool, now)

    # Runners come and go

    def register(self, pool_name: str, *, replaces: int | None = None) -> Runner:
        """A new registration of a pool's runner whose process has just started; GitHub shows it offline."""
        pool = self.pools[pool_name]
        return self._enrol(
            Runner(
                id=next(self._runner_ids),
                name=self._new_name(pool_name),
                pool=pool_name,
                labels=pool.all_labels,
                ephemeral=pool.ephemeral,
                replaces=replaces,
            )
        )

    def register_jit(self, name: str, labels: tuple[str, ...]) -> Runner:
        """A just-in-time registration: nobody has started a process for it yet."""
        self._names.add(name)
        pool = next((p.name for p in self.pools.values() if set(p.labels or (p.name,)) <= set(labels)), "")
        return self._enrol(
            Runner(id=next(self._runner_ids), name=name, pool=pool, labels=labels, ephemeral=True, alive=False)
        )

    def boot(self, pool_name: str, now: float, *, replaces: int | None = None) -> None:
        """Wishes for a runner: it registers after the boot time, and is online a little later."""
        self._at(
            now + self._lasting(self._pace.boot),
            lambda at: self.come_online_soon(self.register(pool_name, replaces=replaces), at),
        )

    def come_online_soon(self, runner: Runner, now: float) -> None:
        """Lets a registered runner be online after the settling time."""
        self._at(now + self._lasting(self._pace.settle), partial(self._settle, runner))

    def delete(self, runner_id: int) -> Deletion:
        """GitHub's DELETE: refused for a busy runner; a process that still worked cleans up and ends."""
        runner = self.registered.get(runner_id)
        if runner is None:
            return "absent"
        if runner.busy:
            return "busy"
        self._end(runner)
        return "deleted"

    def tear_down(self, runner_id: int) -> Runner | None:
        """What a controller does to a runner's machine; a registration that is left behind goes offline."""
        runner = self.find(runner_id)
        if runner is None:
            return None
        if runner.id in self.zombies:
            self._end(runner)
        elif runner.id in self.registered:
            runner.alive = False
            self._go_offline(runner)
        return runner

    def find(self, runner_id: int) -> Runner | None:
        """A runner that is or was, registered or not."""
        for place in (self.registered, self.zombies, self.former):
            if runner_id in place:
                return place[runner_id]
        return None

    def named(self, name: str) -> Runner | None:
        """The registered runner of that name."""
        return next((r for r in self.registered.values() if r.name == name), None)

    def choose(self, count: int, pool: str | None = None) -> list[Runner]:
        """So many registered runners at random, idle ones first, of one pool or any."""
        candidates = [r for r in self.registered.values() if pool is None or r.pool == pool]
        self._rng.shuffle(candidates)
        candidates.sort(key=lambda runner: not runner.waiting)
        return candidates[:count]

    # What goes wrong

    def lose(self, runners: Iterable[Runner]) -> None:
        """Their registrations vanish; their processes know nothing of it."""
        for runner in runners:
            self._rest(runner)
            self.zombies[runner.id] = self.registered.pop(runner.id)
            self.version += 1

    def restore(self, runners: Iterable[Runner], now: float) -> None:
        """Lost registrations come back, under the same ids."""
        for runner in runners:
            self.registered[runner.id] = self.zombies.pop(runner.id)
            self.version += 1
            self._offer(runner, now)

    def take_offline(self, runners: Iterable[Runner], *, alive: bool) -> None:
        """Their connections drop; `alive` says whether there still is a process behind."""
        for runner in runners:
            runner.alive = alive
            self._go_offline(runner)

    def bring_online(self, runners: Iterable[Runner], now: float) -> None:
        """Their connections are back, and so are their processes."""
        for runner in runners:
            runner.alive = True
            runner.online = True
            self.version += 1
            self._offer(runner, now)

    def hold(self, runners: Iterable[Runner], now: float, *, busy: bool) -> None:
        """Makes them busy without a job, or lets them go."""
        for runner in runners:
            self._rest(runner)
            runner.held = busy
            self.version += 1
            self._offer(runner, now)

    # Jobs

    def submit(self, repository: Repository, labels: tuple[str, ...], now: float) -> Job:
        """A job is queued; the first idle runner that bears all its labels takes it at once."""
        job_id = next(self._job_ids)
        job = Job(
            id=job_id,
            run_id=job_id - 30_000_000_000,
            repository=repository,
            labels=labels,
            head_sha=repository.head_sha,
            created_at=now,
            duration=self._lasting(self._pace.job),
        )
        self.jobs[job.id] = job
        _forget_oldest(self.jobs, JOBS_KEPT)
        repository.record_run(job.run_id, now, job)
        self._tell("queued", job, now)
        runner = self._idle_runner_for(job)
        if runner is None:
            self.queue.append(job)
        else:
            self._start(job, runner, now)
        return job

    def finish(self, job: Job, now: float, conclusion: str) -> None:
        """Ends a running job; an ephemeral runner leaves with it and its pool wishes for another."""
        runner = self.find(job.runner_id) if job.runner_id is not None else None
        if job.status != "in_progress" or runner is None:
            return
        job.status, job.conclusion, job.completed_at = "completed", conclusion, now
        runner.job = None
        self.version += 1
        self._tell("completed", job, now)
        if not runner.ephemeral:
            self._offer(runner, now)
            return
        self._end(runner)
        self._happened.append(RunnerEnded(runner, now))
        if runner.pool in self.pools:
            self.boot(runner.pool, now)

    def _start(self, job: Job, runner: Runner, at: float) -> None:
        self._rest(runner)
        runner.job = job
        job.status, job.started_at = "in_progress", at
        job.runner_id, job.runner_name = runner.id, runner.name
        self.version += 1
        self._tell("in_progress", job, at)
        conclusion = "failure" if self._rng.random() < FAILING_SHARE else "success"
        self._at(at + job.duration, lambda end: self.finish(job, end, conclusion))

    def _offer(self, runner: Runner, at: float) -> None:
        """Gives a runner that became free the oldest job it can take, or lets it wait."""
        if not runner.waiting or runner.id not in self.registered:
            return
        labels = frozenset(runner.labels)
        for job in self.queue:
            if labels.issuperset(job.labels):
                self.queue.remove(job)
                self._start(job, runner, at)
                return
        self._idle.setdefault(labels, {})[runner.id] = runner

    def _idle_runner_for(self, job: Job) -> Runner | None:
        for labels, runners in self._idle.items():
            if runners and labels.issuperset(job.labels):
                return next(iter(runners.values()))
        return None

    def _expect_arrival(self, pool: PoolConfig, at: float) -> None:
        shortest, longest = self._pace.job
        per_second = pool.load * pool.size * self._pace.speed / ((shortest + longest) / 2)
        if per_second > 0:
            self._at(at + self._rng.expovariate(per_second), partial(self._arrive, pool=pool, season=self._season))

    def _arrive(self, at: float, *, pool: PoolConfig, season: int) -> None:
        # An arrival expected before the fleet was last quieted belongs to a season that is over.
        if season == self._season:
            self.submit(self._rng.choice(self.repositories), pool.all_labels, at)
            self._expect_arrival(pool, at)

    def _settle(self, runner: Runner, at: float) -> None:
        if runner.id in self.registered and not runner.online:
            runner.online = True
            self.version += 1
            self._happened.append(RunnerOnline(runner, at))
            self._offer(runner, at)

    def _enrol(self, runner: Runner) -> Runner:
        self.registered[runner.id] = runner
        self.version += 1
        return runner

    def _end(self, runner: Runner) -> None:
        """The process and whatever registration there was are gone."""
        self._rest(runner)
        runner.alive = runner.online = False
        if self.registered.pop(runner.id, None) is not None:
            self.version += 1
        self.zombies.pop(runner.id, None)
        self._names.discard(runner.name)
        self.former[runner.id] = runner
        _forget_oldest(self.former, FORMER_KEPT)

    def _go_offline(self, runner: Runner) -> None:
        self._rest(runner)
        runner.online = False
        self.version += 1

    def _rest(self, runner: Runner) -> None:
        """Takes a runner out of those that wait for jobs."""
        self._idle.get(frozenset(runner.labels), {}).pop(runner.id, None)

    def _tell(self, action: JobAction, job: Job, at: float) -> None:
        self._happened.append(JobMoved(action, replace(job), at))

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._serial), act))

    def _lasting(self, span: tuple[float, float]) -> float:
        return self._rng.uniform(*span) / self._pace.speed

    def _new_name(self, pool: str) -> str:
        while True:
            name = f"{pool}-{''.join(self._rng.choices(NAME_ALPHABET, k=5))}"
            if name not in self._names:
                self._names.add(name)
                return name


def _forget_oldest(kept: dict[int, Any], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
