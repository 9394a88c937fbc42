"""The runners of an organization, from both sides: GitHub's registrations and the processes on their machines.

With the versions of the runner application, and the events of runners and their jobs.
"""

from __future__ import annotations

import heapq
import itertools
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Literal

from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob

NEWEST = "2.337.0"

_AS_OF_SEPTEMBER: Mapping[str, str | None] = {
    "2.325.0": "2025-09-11T13:58:34Z",
    "2.328.0": "2025-12-16T17:40:26Z",
    "2.329.0": "2026-01-23T17:10:35Z",
    "2.330.0": "2026-03-13T18:34:13Z",
    "2.331.0": "2026-04-30T21:52:20Z",
    "2.332.0": "2026-05-25T15:23:35Z",
    "2.333.0": "2026-05-29T17:27:54Z",
    "2.333.1": "2026-06-30T15:52:45Z",
    "2.334.0": "2026-08-10T17:08:55Z",
    "2.335.0": "2026-08-14T16:59:37Z",
    "2.335.1": "2026-09-24T15:30:55Z",
    "2.336.0": "2026-11-05T08:04:55Z",
    NEWEST: None,
}
"""What GitHub's endpoint answered on 2026-09-29, by version."""

DEFAULT_GROUP_ID = 1
DEFAULT_GROUP_NAME = "Default"
NAME_ALPHABET = string.ascii_lowercase + string.digits
#: Ended runners that are kept.
FORMER_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class VersionEnd:
    """When a version gets its last jobs, and when it can last register (epoch seconds); None: no date yet."""

    jobs_end_at: float | None = None
    registration_ends_at: float | None = None


class VersionSchedule:
    """All released versions. Of any other GitHub answers 404."""

    def __init__(self) -> None:
        self._ends = {
            version: VersionEnd(None if text is None else datetime.fromisoformat(text).timestamp())
            for version, text in _AS_OF_SEPTEMBER.items()
        }

    def find(self, version: str) -> VersionEnd | None:
        """Returns the dates of a version; None if it was never released."""
        return self._ends.get(version)

    def put(self, version: str, end: VersionEnd) -> None:
        """Releases a version, or changes its dates."""
        self._ends[version] = end

    def gives_jobs(self, version: str, now: float) -> bool:
        """True if runners of the version get jobs."""
        end = self._ends.get(version, VersionEnd())
        return end.jobs_end_at is None or now < end.jobs_end_at


@dataclass(slots=True)
class GroupAccess:
    """The repositories that may use the one runner group.

    Attributes:
        visibility: `all`, or `selected`.
        repositories: names of the selected ones.
    """

    visibility: Literal["all", "selected"] = "all"
    repositories: tuple[str, ...] = ()

    def admits(self, repository: str) -> bool:
        """True if the repository's jobs go to the group's runners."""
        return self.visibility == "all" or repository in self.repositories


@dataclass(slots=True, eq=False)
class Runner:
    """One runner.

    Attributes:
        online: its connection, as GitHub shows it.
        alive: True while the process runs. Without its registration it is a zombie.
        held: busy without a job, as real runners sometimes are.
        replaces: id of the runner that this one replaces.
        version: of the runner application; empty: GitHub lists none, as GitHub Enterprise Server.
        refused: True if its process ended because GitHub gives its version no jobs.
    """

    id: int
    name: str
    pool: str
    labels: tuple[str, ...]
    ephemeral: bool
    online: bool = False
    alive: bool = True
    held: bool = False
    job: SandboxJob | None = None
    replaces: int | None = None
    version: str = NEWEST
    refused: bool = False

    @property
    def busy(self) -> bool:
        """Returns GitHub's `busy`."""
        return self.held or self.job is not None

    @property
    def waiting(self) -> bool:
        """True if it would take a job now, were it registered."""
        return self.online and self.alive and not self.busy


class Roster:
    """The runners of one organization, by GitHub's registrations and by their processes.

    Attributes:
        registered: what GitHub lists, by id.
        zombies: runners whose registration was lost and whose process still runs, by id.
        version: changes with everything that a list of runners would show; code that changes a runner calls `touch`.
    """

    def __init__(self, rng: Random, first_id: int) -> None:
        self.registered: dict[int, Runner] = {}
        self.zombies: dict[int, Runner] = {}
        self.version = 0
        self._former: dict[int, Runner] = {}
        self._names: set[str] = set()
        self._ids = itertools.count(first_id)
        self._rng = rng

    def touch(self) -> None:
        """Records that something changed that a list shows."""
        self.version += 1

    def enrol(
        self,
        *,
        pool: str,
        labels: tuple[str, ...],
        ephemeral: bool,
        name: str = "",
        replaces: int | None = None,
        version: str = NEWEST,
    ) -> Runner:
        """Adds a registration, offline at first; its name is derived from the pool unless it has one."""
        name = name or self._new_name(pool)
        self._names.add(name)
        runner = Runner(next(self._ids), name, pool, labels, ephemeral, replaces=replaces, version=version)
        self.registered[runner.id] = runner
        self.touch()
        return runner

    def lose(self, runner: Runner) -> None:
        """Deletes the registration; the process stays."""
        self.zombies[runner.id] = self.registered.pop(runner.id)
        self.touch()

    def restore(self, runner: Runner) -> None:
        """Restores the lost registration, with its old id."""
        self.registered[runner.id] = self.zombies.pop(runner.id)
        self.touch()

    def end(self, runner: Runner) -> None:
        """Ends the process, and deletes its registration."""
        runner.alive = runner.online = False
        self.zombies.pop(runner.id, None)
        if self.registered.pop(runner.id, None) is not None:
            self.touch()
        self._names.discard(runner.name)
        self._former[runner.id] = runner
        if len(self._former) > FORMER_KEPT:
            del self._former[next(iter(self._former))]

    def find(self, runner_id: int) -> Runner | None:
        """Returns a runner, also an ended one."""
        for place in (self.registered, self.zombies, self._former):
            if runner_id in place:
                return place[runner_id]
        return None

    def choose(self, count: int, pool: str | None = None) -> list[Runner]:
        """Returns so many registered runners at random, idle ones first, of one pool or any."""
        candidates = [r for r in self.registered.values() if pool is None or r.pool == pool]
        self._rng.shuffle(candidates)
        candidates.sort(key=lambda runner: not runner.waiting)
        return candidates[:count]

    def _new_name(self, pool: str) -> str:
        while True:
            name = f"{pool}-{''.join(self._rng.choices(NAME_ALPHABET, k=5))}"
            if name not in self._names:
                return name


Act = Callable[[float], None]


class Timers:
    """Scheduled calls, in order of time and, at the same time, of entry."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Act]] = []
        self._serial = itertools.count()

    def at(self, when: float, act: Act) -> None:
        """Schedules `act` for `when` (epoch seconds); it is called with that time."""
        heapq.heappush(self._entries, (when, next(self._serial), act))

    def run_until(self, now: float) -> None:
        """Runs everything due by `now`, each at its own time, including what that schedules."""
        while self._entries and self._entries[0][0] <= now:
            when, _, act = heapq.heappop(self._entries)
            act(when)


@dataclass(frozen=True, slots=True)
class JobMoved:
    """A job was queued, started or completed; `job` is a copy from that moment."""

    action: JobAction
    job: SandboxJob
    at: float


@dataclass(frozen=True, slots=True)
class RunnerOnline:
    """A newly registered runner is ready for work."""

    runner: Runner
    at: float


@dataclass(frozen=True, slots=True)
class RunnerEnded:
    """An ephemeral runner did its one job; its process has ended and its registration is deleted."""

    runner: Runner
    at: float


FleetEvent = JobMoved | RunnerOnline | RunnerEnded
