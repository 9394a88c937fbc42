"""A simulation of re-runs: the real `rerun_job_of`, against a model of GitHub's runs, with answers that get lost.

Each seed is one job whose runner died, in a run with other jobs. Over some hours the run ends, persons cancel it or run
it again, the pool's mode, the fuse and the permission change, a newer run of the branch begins, a person presses the
button; GitHub's answers and workers get lost between any two steps. Checked at each request that GitHub accepts, and at
the end: a job is never run again twice by us; unasked, never one that must not be; and always one that may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.github_words import JobAnnotation
from ghapp.deaths.post_mortem import LOOKS_AFTER_SECONDS, JobFacts, may_have_failed_for_it
from ghapp.deaths.rerun import AUTO, Rerun, RerunRules, RerunState, RunFacts
from ghapp.errors import GitHubError, GitHubUnavailableError, PermissionMissingError
from ghapp.installations.installation import Installation
from ghapp.pods.assigned_job import JobOfRun
from ghapp.remediation.fuse import Fuse, Position
from ghapp.workflow_jobs.job import Job
from jobs.deaths import rerun as tries
from tests.simulation.liveness import Violation

DAY = 9 * 3600.0
JOB, RUN_ID, INSTALLATION, DEATH, POOL = 7, 70, 1, "death", "linux"
SHUTDOWN = "The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled."
KILLED = "Process completed with exit code 143."
STOPPED = (
    "The run was canceled by @mona.",
    'The job was canceled because "lint" failed.',
    "Canceling since a higher priority waiting request for 'ci' exists",
    "The job has exceeded the maximum execution time of 45m0s",
)


class Killed(BaseException):
    """The worker was killed at this point."""


class Change(NamedTuple):
    """Something that changes at a time."""

    at: float
    what: Callable[[], object]


class World:
    """GitHub's run, what persons do, and the worker that tries."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random, self.now = seed, Random(f"re-runs of day {seed}"), 0.0
        random = self.random
        self.attempt, self.over_at = 1, random.choice((0.0, 600.0, 3000.0, 20_000.0))
        self.reattempted = dict[str, int]()
        """By job name, its latest attempt above 1."""
        self.cancelled_at: float | None = None
        self.newer = (0.0, 0.0)
        self.mode, self.fuse_closed, self.granted = random.choices(("auto", "button", "off"), (8, 1, 1))[0], True, True
        self.rules = RerunRules(begun=random.random() < 0.5)
        self.event = random.choices(("push", "merge_group", "deployment"), (8, 1, 1))[0]
        self.conclusion = random.choices(("failure", "cancelled", "timed_out", "success"), (6, 2, 1, 1))[0]
        self.begun, self.failed_steps = random.random() < 0.5, random.choices((0, 1, 2), (12, 2, 1))[0]
        others: tuple[tuple[str, ...], ...] = ((), (SHUTDOWN,), (SHUTDOWN, KILLED), (SHUTDOWN, KILLED, KILLED))
        self.annotations = random.choice((*others, ("AssertionError: received a shutdown signal",)))
        if random.random() < 0.15:  # another job of the run had failed, so that the run is no cancelled one
            self.annotations += (random.choice(STOPPED),)
        self.completed_at = random.choice((1.0, 1.0, -20.0))
        """Of the job; its runner died at 0."""
        cause, reason = random.choice(
            (
                (Cause.VANISHED, "NodeLost"),
                (Cause.TERMINATED, "Evicted"),
                (Cause.TERMINATED, "StorageLimitExceeded"),
                (Cause.HOST_OOM, "OOMKilled"),
                (Cause.VANISHED, "PodGone"),
            )
        )
        self.namesake = random.choices((0, 1), (4, 1))[0]
        """The latest attempt of a second job of the name; 0 if there is none."""
        self.deploys = random.random() < 0.1
        job = DeadJob(JOB, "acme/api", deploys=self.deploys and random.random() < 0.5)  # else a later delivery shows it
        self.death = Death("vm-1", "vm-1", "node", 0.0, 137, 9, reason, cause, "", pool=POOL, job=job, pod_uid="uid")
        self.record: Rerun | None = None
        self.pressed_at: float | None = None
        self.ours = 0
        self.due: list[tuple[float, str, int, int]] = []
        """Tries that wait: when each is due, the person, how many tries came before it, and its waits."""
        self.todo: list[Change] = []
        self.flaky = random.random() < 0.6
        self.is_plain = random.random() < 0.2
        """Nothing is against it, and nothing changes but the run."""
        if self.is_plain:
            self.mode, self.event, self.conclusion, self.begun, self.failed_steps = (
                "auto",
                "push",
                "failure",
                False,
                0,
            )
            self.annotations = ()
            self.death = self.death._replace(cause=Cause.VANISHED, reason="NodeLost", job=job._replace(deploys=False))
            self.deploys = False

    # ---- GitHub

    @property
    def is_over(self) -> bool:
        return self.now >= self.over_at

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.flaky and self.random.random() < 0.08:
            raise GitHubUnavailableError("no answer")
        if self.flaky and self.random.random() < 0.03:
            raise Killed

    async def facts(self, _job_id: int) -> JobFacts:
        await self._answer()
        return self.job_facts()

    def job_facts(self) -> JobFacts:
        return JobFacts(
            JOB, "test", "a" * 40, over=True, conclusion=self.conclusion, completed_at=self.completed_at,
            step_failed=self.failed_steps > 0, run_id=RUN_ID, begun=self.begun, failed_steps=self.failed_steps,
        )  # fmt: skip

    async def annotations_of(self, _job_id: int) -> tuple[JobAnnotation, ...]:
        await self._answer()
        return tuple(map(JobAnnotation, self.annotations))

    async def run_facts(self, _run_id: int) -> RunFacts:
        await self._answer()
        return RunFacts(
            self.attempt,
            over=self.is_over,
            conclusion=("cancelled" if self.is_cancelled else "failure") if self.is_over else "",
            event=self.event,
            branch="main",
            workflow_id=5,
            newer_goes_on=self.newer_goes_on,
        )

    async def of_run(self, _run_id: int) -> list[JobOfRun]:
        await self._answer()
        latest = {"test": 1, "build": 1, **self.reattempted}
        rows = [(name, attempt) for name, most in latest.items() for attempt in range(1, most + 1)]
        rows += [("test", attempt) for attempt in {1, self.namesake} if self.namesake]
        return [JobOfRun(Job(1, "over", (), "acme/api", 0.0, name=name, attempt=attempt)) for name, attempt in rows]

    @property
    def is_cancelled(self) -> bool:
        return self.cancelled_at is not None and self.cancelled_at <= self.over_at

    @property
    def newer_goes_on(self) -> bool:
        return self.newer[0] <= self.now < self.newer[1]

    async def rerun(self, _job_id: int) -> None:
        """GitHub runs any job of a run again whose latest attempt is over; its answer may get lost, or the request."""
        await asyncio.sleep(0)
        lost = self.flaky and self.random.random() < 0.3
        if lost and self.random.random() < 0.5:
            if self.namesake and self.random.random() < 0.5:
                self.todo.append(Change(self.now + 30.0, lambda: self.is_over and self._rerun_namesake()))
            raise GitHubUnavailableError("the request got lost")
        if not self.granted:
            raise PermissionMissingError("no", accepted="actions=write", explanation="")
        if not self.is_over:
            raise PermissionMissingError("no", accepted="", explanation="This workflow run is already running")
        self._accepted()
        if lost:
            raise GitHubUnavailableError("the answer got lost")
        if self.flaky and self.random.random() < 0.1:
            raise Killed

    def _accepted(self) -> None:
        by = self.record.by if self.record is not None else ""
        self._require(self.record is not None, "a re-run is requested without a record of it")
        self.ours += 1
        self._require(self.ours == 1, "the job is run again twice")
        self._require(self.reattempted.get("test", 1) == 1, "a job is run again that a person ran again")
        self._require(self.attempt == 1, "a job of an older attempt is run again")
        self._require(self.mode != "off", "a job is run again in a pool whose re-runs are off")
        self._require(self.conclusion != "success", "a job is run again that did not fail")
        changed_mind = self.pressed_at is not None and (self.cancelled_at or 0.0) > self.pressed_at
        self._require(not (by != AUTO and self.is_cancelled and changed_mind), "a run is cancelled after the request")
        if by == AUTO:
            for why, is_so in self._against().items():
                self._require(not is_so, f"a job is run again unasked: {why}")
        self._begin_attempt("test")

    def _begin_attempt(self, *names: str) -> None:
        self.attempt += 1
        self.reattempted |= dict.fromkeys(names, self.attempt)
        self.over_at = self.now + self.random.choice((60.0, 3000.0))
        self.cancelled_at = None

    def _against(self) -> dict[str, bool]:
        """What is against an unasked re-run now, by this model's own reading of the world."""
        is_clusters = self.death.reason in ("NodeLost", "Evicted") and self.completed_at >= self.death.at
        is_platforms = SHUTDOWN in self.annotations or is_clusters
        return {
            "its pool does not ask for it": self.mode != "auto",
            "its cause is not listed": self.death.cause not in (Cause.VANISHED, Cause.TERMINATED),
            "it used up its pod": self.death.reason == "StorageLimitExceeded",
            "its own code failed": self.failed_steps > self.annotations.count(KILLED),
            "a person cancelled the run": self.is_cancelled,
            "GitHub ended it for another reason": any(each in STOPPED for each in self.annotations),
            "a person may have cancelled the job": self.conclusion == "cancelled" and not is_platforms,
            "it did not fail": self.conclusion == "success",
            "it is in a merge queue": self.event == "merge_group",
            "it deploys": self.event == "deployment" or self.deploys,
            "its steps had begun": self.begun and not self.rules.begun,
            "the fuse is not closed": not self.fuse_closed,
            "a newer run goes on": self.newer_goes_on,
            "the run goes on": not self.is_over,
            "it is not granted": not self.granted,
        }

    def _require(self, holds: object, what: str) -> None:
        if not holds:
            raise Violation(f"seed {self.seed}, {self.now:.0f} s: {what}")

    # ---- the stores

    async def of(self, *_: Any) -> Rerun | None:
        await asyncio.sleep(0)
        return self.record

    async def begin(self, _installation: int, rerun: Rerun) -> bool:
        await asyncio.sleep(0)
        if self.record is not None:
            return False
        self.record = rerun
        return True

    async def keep(self, _installation: int, rerun: Rerun) -> None:
        self.record = rerun

    async def forget(self, *_: Any) -> None:
        self.record = None

    async def grant_unasked(self, *_: Any) -> bool:
        return True

    @asynccontextmanager
    async def acquire(self, *_: Any) -> AsyncIterator[bool]:
        yield True

    def context(self) -> Any:
        async def one(value: Any) -> Any:
            return value

        async def nothing(*_: Any, **__: Any) -> None:
            return None

        permissions = {"actions": "write" if self.granted else "read"}
        installation = Installation(INSTALLATION, "acme", 1, permissions)
        fuses = {POOL: Fuse() if self.fuse_closed else Fuse(Position.PROVING, since=0.0)}
        rule = SimpleNamespace(name=POOL, labels=(POOL,), rerun=RerunRules(self.mode, begun=self.rules.begun))
        return SimpleNamespace(
            installations=SimpleNamespace(one=lambda _id: one(installation)),
            deaths=SimpleNamespace(one=lambda *_: one(self.death)),
            demand=SimpleNamespace(one=lambda *_: one(Job(JOB, "over", (), "acme/api", 0.0, deploys=self.deploys))),
            fuses=SimpleNamespace(all=lambda _id: one(fuses)),
            reruns=SimpleNamespace(
                of=self.of,
                begin=self.begin,
                keep=self.keep,
                forget=self.forget,
                note=nothing,
                noted=nothing,
                grant_unasked=self.grant_unasked,
            ),
            settings=SimpleNamespace(pools_of=lambda _org: [rule]),
            locks=SimpleNamespace(acquire=self.acquire, outliving_seconds=1.0),
            counters=SimpleNamespace(add=nothing),
            presses=SimpleNamespace(conclude=nothing, wait=nothing),
            installation_client=lambda *_: one(None),
            clock=lambda: self.now,
            ask=self.ask,
            first_waiting=self.first_waiting,
        )

    def ask(self, _name: object, *args: Any, key: str = "", after_seconds: float = 0.0) -> None:
        if key.startswith("rerun-"):
            _, _, by, *rest = args
            attempt, waited = rest or (0, 0)
            self.due.append((self.now + after_seconds, by, attempt, waited))

    def first_waiting(self, _name: object, keys: list[str]) -> tuple[str, float] | None:
        """The first of these tries that waits, and in how many seconds it is due."""
        waiting = {_key_of(by, attempt): at for at, by, attempt, _ in self.due if attempt}
        found = next((key for key in keys if key in waiting), None)
        return None if found is None else (found, max(0.0, waiting[found] - self.now))

    # ---- persons and time

    def changes(self) -> Iterable[Change]:
        random = self.random

        def at(share: float, what: Callable[[], object]) -> Iterable[Change]:
            if random.random() < share:
                yield Change(random.uniform(0.0, DAY), what)

        yield from at(0.15, self._cancel)
        yield from at(0.15, lambda: self.is_over and self._begin_attempt("test", "build"))
        yield from at(0.10, lambda: self.is_over and self._begin_attempt("build"))
        yield from at(0.40, lambda: self._set(newer=(self.now, self.now + random.choice((600.0, 9000.0)))))
        if self.namesake:
            yield from at(0.50, lambda: self.is_over and self._rerun_namesake())
        yield from at(0.20, lambda: self._set(mode=random.choice(("off", "button", "auto"))))
        for _ in range(2):
            yield from at(0.2, lambda: self._set(fuse_closed=not self.fuse_closed))
        yield from at(0.1, lambda: self._set(granted=not self.granted))
        yield from at(0.25, self._press)

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def _rerun_namesake(self) -> None:
        self._begin_attempt()
        self.namesake = self.attempt

    def _press(self) -> None:
        self.pressed_at = self.now
        self.due.append((self.now, "mona", 0, 0))

    def _cancel(self) -> None:
        if not self.is_over:
            self.cancelled_at, self.over_at = self.now, self.now

    def live(self) -> None:
        """Lives through the hours after the death."""
        looks, at = [], 0.0
        for after in (0.0, *LOOKS_AFTER_SECONDS):
            at += after
            looks.append(Change(at, self._look))
        changes = [] if self.is_plain else [*self.changes()]
        self.todo = [*changes, *looks]
        while self.todo or self.due:
            self.due.sort()
            self.todo.sort(key=lambda each: each.at)
            if self.due and (not self.todo or self.due[0][0] <= self.todo[0].at):
                at, by, attempt, waited = self.due.pop(0)
                if at > 2 * DAY:
                    break
                self.now = max(self.now, at)
                self._try(by, attempt, waited)
            else:
                change = self.todo.pop(0)
                self.now = max(self.now, change.at)
                change.what()
        self.now = max(self.now, DAY)
        self._is_served(is_steady=not changes)

    def _look(self) -> None:
        """A post-mortem is made, and asks for a re-run where its pool says so."""
        death = self.death._replace(job=self.death.job and self.death.job._replace(conclusion=self.conclusion))
        if not may_have_failed_for_it(death, self.job_facts()):
            return
        try:
            self._await(self._ask_unasked())
        except (GitHubError, Killed):  # the queue repeats it
            self.todo.append(Change(self.now + 60.0, self._look))

    async def _ask_unasked(self) -> None:
        context = self.context()
        installation = await context.installations.one(INSTALLATION)
        facts = await tries.rerun_facts(context, installation, self.death, self.job_facts(), "")
        facts = facts._replace(words=await tries.job_words(_jobs(self), JOB))
        await tries.request_if_automatic(context, facts, installation)

    def _try(self, by: str, attempt: int, waited: int) -> None:
        try:
            self._await(tries.rerun_job_of(self.context(), INSTALLATION, DEATH, by, attempt, waited))
        except GitHubError:
            pass  # it has enqueued its next try
        except Killed:
            self.due.append((self.now + 30.0, by, attempt, waited))  # the queue has the lost job again

    @staticmethod
    def _await(work: Any) -> None:
        try:
            while True:
                work.send(None)
        except StopIteration:
            pass

    def _is_served(self, *, is_steady: bool) -> None:
        """What was permitted from the beginning on was run again; no outcome stays unknown."""
        is_free = is_steady and not any(self._against().values())
        self._require(not is_free or self.attempt > 1, "a job that may be run again was not")
        is_accepted = self.record is not None and self.record.state is RerunState.ACCEPTED
        self._require(not is_accepted or "test" in self.reattempted, "a re-run is accepted that never happened")
        is_unknown = self.record is not None and self.record.state is RerunState.REQUESTED
        self._require(not is_unknown, "the outcome of a request stays unknown")


def _key_of(by: str, attempt: int) -> str:
    return f"rerun-{INSTALLATION}-{JOB}-{AUTO if by == AUTO else 'asked'}-{attempt}"


def _jobs(world: World) -> Any:
    return SimpleNamespace(
        facts=world.facts,
        annotations=world.annotations_of,
        run_facts=world.run_facts,
        of_run=world.of_run,
        rerun=world.rerun,
    )


def simulate(seed: int) -> World:
    """Lives through one day; raises a Violation if an invariant is broken."""
    world = World(seed)
    with patch.object(tries, "Jobs", lambda _client, _repository: _jobs(world)):
        world.live()
    return world
