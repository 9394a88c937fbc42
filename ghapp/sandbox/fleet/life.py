"""The simulated fleet of one organization: a discrete-event model that reads no clock and does no I/O.

Its owner calls `step(now)`; every event that was due by then happens at its own time, in order, so that the same
seed gives the same events for any size of the steps. Jobs arrive at random, so many that each pool reaches its load.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from ghapp.sandbox.config import Pace, PoolConfig
from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob, SandboxRepository
from ghapp.sandbox.fleet.runners import (
    NEWEST,
    FleetEvent,
    GroupAccess,
    JobMoved,
    Roster,
    Runner,
    RunnerEnded,
    RunnerOnline,
    Timers,
    VersionSchedule,
)

#: What people work on: the branch of each run begins with one of these.
TOPICS = ("fix-login", "cache", "upgrade-deps", "flaky-tests", "docs")
#: Completed jobs that are kept.
JOBS_KEPT = 5_000

FAILING_SHARE = 0.06
REFUSED_SECONDS = (2.0, 6.0)
"""How long a runner is online that GitHub refuses because of its version."""

#: Job ids are 64 bits wide on GitHub; these are, too, and far from any runner's id.
FIRST_JOB_ID = 40_000_000_000
FIRST_RUN_ID = 10_000_000_000


class JobBoard:
    """Jobs that wait for runners, and runners that wait for jobs. A job goes to a runner that has all its labels.

    Attributes:
        queue: jobs that wait for a runner, oldest first.
        jobs: recent jobs in any status, by id.
        access: of the runner group of all runners.
    """

    def __init__(self) -> None:
        self.access = GroupAccess()
        self.queue: list[SandboxJob] = []
        self.jobs: dict[int, SandboxJob] = {}
        self._idle: dict[frozenset[str], dict[int, Runner]] = {}

    def remember(self, job: SandboxJob) -> None:
        """Stores a job by its id."""
        self.jobs[job.id] = job
        if len(self.jobs) > JOBS_KEPT:
            oldest = next((each for each in self.jobs.values() if each.status == "completed"), job)
            del self.jobs[oldest.id]

    def runner_for(self, job: SandboxJob) -> Runner | None:
        """Returns an idle runner that can run a job; without one the job waits."""
        for labels, runners in self._idle.items() if self.access.admits(job.repository.name) else ():
            if runners and labels.issuperset(job.labels):
                return next(iter(runners.values()))
        self.queue.append(job)
        return None

    def job_for(self, runner: Runner) -> SandboxJob | None:
        """Returns the oldest job that an idle runner can run, which waits no longer; without one the runner waits."""
        labels = frozenset(runner.labels)
        for job in self.queue:
            if labels.issuperset(job.labels) and self.access.admits(job.repository.name):
                self.queue.remove(job)
                return job
        self._idle.setdefault(labels, {})[runner.id] = runner
        return None

    def rest(self, runner: Runner) -> None:
        """Removes a runner from those that wait for jobs."""
        self._idle.get(frozenset(runner.labels), {}).pop(runner.id, None)


#: Creates a job for a pool at a time.
Submit = Callable[[PoolConfig, float], None]


class Arrivals:
    """A stream of jobs for each pool, which can be stopped and resumed."""

    def __init__(self, pools: Iterable[PoolConfig], pace: Pace, rng: Random, timers: Timers, submit: Submit) -> None:
        self._pools = list(pools)
        self._loads = {pool.name: pool.load for pool in self._pools}
        self._pace = pace
        self._rng = rng
        self._timers = timers
        self._submit = submit
        self._quiet = True
        self._season = 0

    def set_quiet(self, quiet: bool, now: float) -> None:
        """Stops the stream, or resumes it."""
        if quiet == self._quiet:
            return
        self._quiet = quiet
        self._season += 1
        if not quiet:
            for pool in self._pools:
                self._expect(pool, now)

    def set_load(self, pool: str, load: float, now: float) -> None:
        """Changes the load of a pool from now on; its next arrivals are drawn again."""
        self._loads[pool] = load
        if not self._quiet:
            self._quiet = True
            self.set_quiet(quiet=False, now=now)

    def _expect(self, pool: PoolConfig, at: float) -> None:
        shortest, longest = self._pace.job
        per_second = self._loads[pool.name] * pool.size * self._pace.speed / ((shortest + longest) / 2)
        if per_second > 0:
            gap = self._rng.expovariate(per_second)
            self._timers.at(at + gap, partial(self._arrive, pool=pool, season=self._season))

    def _arrive(self, at: float, *, pool: PoolConfig, season: int) -> None:
        # An arrival that was planned before the fleet was last quieted is void.
        if season == self._season:
            self._submit(pool, at)
            self._expect(pool, at)


class FleetLife:
    """Runners, their pools and their jobs.

    Attributes:
        roster: the runners, registered or not.
        versions: until when GitHub gives jobs to the versions of the runner.
        starts_version: the version that new runners of a pool have, if it is not the newest, by pool.
    """

    def __init__(
        self,
        pools: Sequence[PoolConfig],
        repositories: Sequence[SandboxRepository],
        *,
        pace: Pace,
        rng: Random,
        first_id: int,
        now: float,
        quiet: bool,
        versions: VersionSchedule | None = None,
    ) -> None:
        self.versions = VersionSchedule() if versions is None else versions
        self.starts_version: dict[str, str] = {}
        self.pools = {pool.name: pool for pool in pools}
        self.roster = Roster(rng, first_id)
        self._repositories = list(repositories)
        self._pace = pace
        self._rng = rng
        self._timers = Timers()
        self._job_numbers = itertools.count(first_id)
        self._board = JobBoard()
        self._arrivals = Arrivals(pools, pace, rng, self._timers, self._submit_for)
        self._happened: list[FleetEvent] = []
        for pool in pools:
            for _ in range(pool.size):
                self._settle(now, runner=self.register(pool.name))
        self._happened.clear()
        self.set_quiet(quiet, now)

    def step(self, now: float) -> list[FleetEvent]:
        """Advances to `now` (epoch seconds) and returns the events since the last step."""
        self._timers.run_until(now)
        happened, self._happened = self._happened, []
        return happened

    def set_quiet(self, quiet: bool, now: float) -> None:
        """Stops the arrival of jobs, or resumes it; running jobs continue."""
        self._arrivals.set_quiet(quiet, now)

    def set_load(self, pool_name: str, load: float, now: float) -> None:
        """Changes the average share of a pool's busy runners."""
        self._arrivals.set_load(pool_name, load, now)

    @property
    def queue(self) -> list[SandboxJob]:
        """Returns jobs that wait for a runner, oldest first."""
        return self._board.queue

    @property
    def jobs(self) -> dict[int, SandboxJob]:
        """Returns recent jobs in any status, by id."""
        return self._board.jobs

    @property
    def access(self) -> GroupAccess:
        """Returns which repositories may use the runner group."""
        return self._board.access

    def restrict(self, access: GroupAccess, now: float) -> None:
        """Changes which repositories may use the runner group; idle runners then take the jobs they are allowed."""
        self._board.access = access
        for runner in [each for each in self.roster.registered.values() if each.waiting]:
            self._board.rest(runner)
            self._offer(runner, now)

    # Registration and end of runners

    def register(self, pool_name: str, *, replaces: int | None = None) -> Runner:
        """Registers a pool's runner whose process has just started; GitHub shows it offline."""
        pool = self.pools[pool_name]
        version = self.starts_version.get(pool_name, NEWEST)
        return self.roster.enrol(
            pool=pool_name, labels=pool.all_labels, ephemeral=pool.ephemeral, replaces=replaces, version=version
        )

    def register_jit(self, name: str, labels: tuple[str, ...]) -> Runner:
        """Registers a just-in-time runner, which has no process yet."""
        pool = next((p.name for p in self.pools.values() if set(p.custom_labels) <= set(labels)), "")
        runner = self.roster.enrol(pool=pool, labels=labels, ephemeral=True, name=name)
        runner.alive = False
        return runner

    def boot(self, pool_name: str, now: float, *, replaces: int | None = None) -> None:
        """Requests a runner: it registers after the boot time, and is online a little later."""
        self._timers.at(
            now + self._lasting(self._pace.boot),
            lambda at: self.come_online_soon(self.register(pool_name, replaces=replaces), at),
        )

    def come_online_soon(self, runner: Runner, now: float) -> None:
        """Schedules a registered runner to come online after the settling time."""
        self._timers.at(now + self._lasting(self._pace.settle), partial(self._settle, runner=runner))

    def set_version(self, runners: Iterable[Runner], version: str, now: float) -> None:
        """Changes the version of runners, as after an update; each then gets jobs or not."""
        for runner in runners:
            runner.version = version
            self.roster.touch()
        self.apply_versions(now)

    def apply_versions(self, now: float) -> None:
        """Stops the assignment of jobs to idle runners whose version has ended, and resumes it for others."""
        for runner in [each for each in self.roster.registered.values() if each.waiting]:
            self._board.rest(runner)
            self._offer(runner, now)

    def apply_versions_at(self, at: float) -> None:
        """The same, when the end of a version comes."""
        self._timers.at(at, self.apply_versions)

    def retire(self, runner: Runner, now: float) -> None:
        """Removes registration and process; a running job fails as one does that lost its runner."""
        job, runner.job = runner.job, None
        if job is not None:
            job.fail_without_runner()
            job.status, job.completed_at = "completed", now
            self._record("completed", job, now)
        self._end(runner)

    def tear_down(self, runner: Runner, now: float) -> None:
        """Removes a runner's machine, as a controller does; a remaining registration goes offline."""
        if runner.id in self.roster.registered:
            self.take_offline([runner], alive=False)
        else:
            self.retire(runner, now)

    # Failures

    def lose(self, runners: Iterable[Runner]) -> None:
        """Deletes their registrations; their processes do not notice."""
        for runner in runners:
            self._board.rest(runner)
            self.roster.lose(runner)

    def restore(self, runners: Iterable[Runner], now: float) -> None:
        """Restores lost registrations, with the same ids."""
        for runner in runners:
            self.roster.restore(runner)
            self._offer(runner, now)

    def take_offline(self, runners: Iterable[Runner], *, alive: bool) -> None:
        """Drops their connections; `alive`: the processes keep running."""
        for runner in runners:
            self._board.rest(runner)
            runner.alive, runner.online = alive, False
            self.roster.touch()

    def bring_online(self, runners: Iterable[Runner], now: float) -> None:
        """Restores their connections and processes."""
        for runner in runners:
            runner.alive = runner.online = True
            self.roster.touch()
            self._offer(runner, now)

    def hold(self, runners: Iterable[Runner], now: float, *, busy: bool) -> None:
        """Makes them busy without a job, or idle again."""
        for runner in runners:
            self._board.rest(runner)
            runner.held = busy
            self.roster.touch()
            self._offer(runner, now)

    # Jobs

    def submit(self, repository: SandboxRepository, labels: tuple[str, ...], now: float) -> SandboxJob:
        """Queues a job; an idle runner that has all its labels takes it at once."""
        number = next(self._job_numbers)
        job = SandboxJob(
            id=FIRST_JOB_ID + number,
            run_id=FIRST_RUN_ID + number,
            repository=repository,
            labels=labels,
            head_sha=repository.head_sha,
            created_at=now,
            duration=self._lasting(self._pace.job),
            branch=f"{TOPICS[number % len(TOPICS)]}-{number}",
        )
        repository.record_run(job.run_id, now, job)
        return self._queue(job, now)

    def rerun(self, job: SandboxJob, now: float, rerun_by: str = "") -> SandboxJob:
        """A job that is over is queued again, as a new job in the next attempt of its run, by that App or a person."""
        again = SandboxJob(
            id=FIRST_JOB_ID + next(self._job_numbers),
            run_id=job.run_id,
            repository=job.repository,
            labels=job.labels,
            head_sha=job.head_sha,
            created_at=now,
            duration=self._lasting(self._pace.job),
            attempt=job.attempt + 1,
            branch=job.branch,
            rerun_by=rerun_by,
        )
        return self._queue(again, now)

    def _queue(self, job: SandboxJob, now: float) -> SandboxJob:
        self._board.remember(job)
        self._record("queued", job, now)
        runner = self._board.runner_for(job)
        if runner is not None:
            self._start(job, runner, now)
        return job

    def unserved(self) -> list[SandboxJob]:
        """Returns the queued jobs whose labels no pool has, oldest first."""
        pools = [pool.all_labels for pool in self.pools.values()]
        return [job for job in self.queue if not any(set(job.labels) <= set(labels) for labels in pools)]

    def cancel(self, job: SandboxJob, now: float) -> None:
        """Completes a queued job, as its author does at GitHub."""
        self.queue.remove(job)
        job.status, job.conclusion, job.completed_at = "completed", "cancelled", now
        self._record("completed", job, now)

    def finish(self, job: SandboxJob, now: float, conclusion: str) -> None:
        """Completes a running job; an ephemeral runner ends with it, and its pool requests another."""
        runner = self.roster.find(job.runner_id) if job.runner_id is not None else None
        if job.status != "in_progress" or runner is None:
            return
        job.status, job.conclusion, job.completed_at = "completed", conclusion, now
        runner.job = None
        self.roster.touch()
        self._record("completed", job, now)
        if not runner.ephemeral:
            self._offer(runner, now)
            return
        self._end(runner)
        self._happened.append(RunnerEnded(runner, now))
        if runner.pool in self.pools:
            self.boot(runner.pool, now)

    def abandon(self, job: SandboxJob, now: float, conclusion: str) -> None:
        """Ends a running job whose runner died; an ephemeral runner's registration leaves with it."""
        if job.status != "in_progress":
            return
        job.status, job.conclusion, job.completed_at = "completed", conclusion, now
        runner = self.roster.find(job.runner_id) if job.runner_id is not None else None
        self._record("completed", job, now)
        if runner is None:
            return
        runner.job = None
        self.roster.touch()
        if runner.ephemeral:
            self._end(runner)

    def _start(self, job: SandboxJob, runner: Runner, at: float) -> None:
        self._board.rest(runner)
        runner.job = job
        job.status, job.started_at = "in_progress", at
        job.runner_id, job.runner_name = runner.id, runner.name
        self.roster.touch()
        self._record("in_progress", job, at)
        conclusion = "failure" if self._rng.random() < FAILING_SHARE else "success"
        self._timers.at(at + job.duration, lambda end: None if job.abandoned else self.finish(job, end, conclusion))

    def _offer(self, runner: Runner, at: float) -> None:
        """Gives a runner that became idle the oldest job it can run, or lets it wait.

        One whose version has ended gets none. If it is ephemeral, its process ends, and its pool requests another.
        """
        if runner.waiting and runner.id in self.roster.registered:
            if not self.versions.gives_jobs(runner.version, at):
                if runner.ephemeral:
                    self._timers.at(at + self._lasting(REFUSED_SECONDS), partial(self._refuse, runner))
                return
            job = self._board.job_for(runner)
            if job is not None:
                self._start(job, runner, at)

    def _submit_for(self, pool: PoolConfig, at: float) -> None:
        self.submit(self._rng.choice(self._repositories), pool.all_labels, at)

    def _settle(self, at: float, *, runner: Runner) -> None:
        if not runner.alive or runner.online:
            return
        runner.online = True
        if runner.id in self.roster.registered:
            self.roster.touch()
            self._happened.append(RunnerOnline(runner, at))
            self._offer(runner, at)

    def _refuse(self, runner: Runner, at: float) -> None:
        if not runner.waiting or self.versions.gives_jobs(runner.version, at):
            return
        runner.refused = True
        self._end(runner)
        self._happened.append(RunnerEnded(runner, at))
        if runner.pool in self.pools:
            self.boot(runner.pool, at)

    def _end(self, runner: Runner) -> None:
        self._board.rest(runner)
        self.roster.end(runner)

    def _record(self, action: JobAction, job: SandboxJob, at: float) -> None:
        self._happened.append(JobMoved(action, replace(job), at))

    def _lasting(self, span: tuple[float, float]) -> float:
        return self._rng.uniform(*span) / self._pace.speed
