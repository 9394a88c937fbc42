"""The true state: machines, registrations, jobs. The code under test sees it through `github` and deliveries only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from tests.simulation.scenario import Pool

JOB_LEASE = 600.0
"""GitHub ends the job of a machine that is dead after this."""


class Fate(StrEnum):
    """Why a registration is not there."""

    HERE = "here"
    LOST = "lost"
    VANISHED = "vanished for a while"
    SPENT = "removed when its one job was over"
    CONFIGURED_AGAIN = "reconfigured under its name"
    SCALED_DOWN = "removed by its controller"
    DELETED = "deleted by us"
    ELSEWHERE = "of a repository: no list has it"


@dataclass(slots=True)
class Job:
    """One job. `over_at` is None while GitHub thinks that it runs."""

    id: int
    runner_id: int
    started_at: float
    over_at: float | None = None
    dead: bool = False
    """The machine no longer exists; GitHub does not know yet."""
    first_delivery_at: float | None = None
    """When a delivery first reported it to us."""


@dataclass(slots=True)
class Machine:
    """One runner as it truly is.

    Attributes:
        spans: from when to when its registration existed; the last has no end while it does.
        first_delivery_at: when a delivery first named a job of it, so that its end can be distinguished from a loss.
        successor: the machine as which it was reconfigured.
        removal_reported: its controller reported the removal.
        offline_since: when its process last lost its connection to GitHub; None while it has one.
        dead: its process ended for good with its container or its pod, whatever GitHub still shows.
    """

    id: int
    name: str
    pool: Pool
    spans: list[list[float | None]]
    online: bool = True
    job: Job | None = None
    last_job_over_at: float | None = None
    fate: Fate = Fate.HERE
    fate_at: float = 0.0
    first_delivery_at: float | None = None
    removal_reported: bool = False
    removal_reported_at: float = 0.0
    is_disproved: bool = False
    """Whether GitHub contradicted that report for certain: later lists, or a job that began long after it."""
    absences: int = 0
    successor: Machine | None = None
    is_successor: bool = False
    offline_since: float | None = None
    dead: bool = False

    @property
    def registered(self) -> bool:
        return self.fate is Fate.HERE

    @property
    def busy(self) -> bool:
        """Whether a job truly runs on it: GitHub may think so for longer."""
        return self.job is not None and not self.job.dead

    @property
    def born(self) -> float:
        return self.spans[0][0] or 0.0

    @property
    def here_since(self) -> float:
        """When its registration came that exists now, or that existed last: it may have vanished, and returned."""
        return self.spans[-1][0] or 0.0

    def go_offline(self, now: float) -> None:
        """Its connection to GitHub drops."""
        self.online = False
        self.offline_since = now if self.offline_since is None else self.offline_since

    def come_online(self) -> None:
        """It reaches GitHub again, if its process still runs."""
        if not self.dead:
            self.online, self.offline_since = True, None

    def existed(self, at: float) -> bool:
        """Whether it was registered at a time."""
        return any((begun or 0.0) <= at and (ended is None or at < ended) for begun, ended in self.spans)


@dataclass(slots=True)
class World:
    """All machines, by id. Methods are what happens to them, at a true time."""

    machines: dict[int, Machine] = field(default_factory=dict)
    latest_id: int = 0
    latest_job: int = 0
    ended_jobs: dict[int, float] = field(default_factory=dict)
    recent: dict[int, Machine] = field(default_factory=dict)
    """Registered now or recently: those that lists and lies may contain."""

    def registered(self, pool: Pool | None = None) -> list[Machine]:
        return [each for each in self.recent.values() if each.registered and pool in (None, each.pool)]

    def idle(self, pool: Pool | None = None) -> list[Machine]:
        return [each for each in self.registered(pool) if each.job is None]

    def register(self, pool: Pool, now: float, name: str = "", *, online: bool = True) -> Machine:
        """A new registration. GitHub has no two of one name: it takes the place of an earlier one."""
        self.latest_id += 1
        name = name or f"{pool.name}-{self.latest_id}"
        machine = Machine(self.latest_id, name, pool, [[now, None]])
        if not online:
            machine.go_offline(now)
        for earlier in [each for each in self.registered() if each.name == name]:
            self.leave(earlier, Fate.CONFIGURED_AGAIN, now)
            earlier.successor, machine.is_successor = machine, True
        self.machines[machine.id] = self.recent[machine.id] = machine
        return machine

    def register_elsewhere(self, pool: Pool, now: float) -> Machine:
        """A runner of a repository: GitHub's ids are of one sequence."""
        self.latest_id += 1
        machine = Machine(self.latest_id, f"elsewhere-{self.latest_id}", pool, [[now, now]], fate=Fate.ELSEWHERE)
        self.machines[machine.id] = machine
        return machine

    def configure_again(self, machine: Machine, now: float) -> None:
        """The same machine gets a new registration under its name."""
        self.leave(machine, Fate.CONFIGURED_AGAIN, now)
        machine.successor = self.register(machine.pool, now, machine.name)
        machine.successor.is_successor = True

    def leave(self, machine: Machine, fate: Fate, now: float) -> None:
        """Its registration goes."""
        machine.fate, machine.fate_at = fate, now
        machine.absences += 1
        machine.spans[-1][1] = now
        if machine.job is not None and fate is not Fate.VANISHED:
            machine.job.dead = True

    def come_back(self, machine: Machine, now: float) -> None:
        if machine.fate is Fate.VANISHED:
            machine.fate, machine.fate_at = Fate.HERE, now
            machine.spans.append([now, None])

    def take_job(self, machine: Machine, now: float) -> Job:
        self.latest_job += 1
        machine.job = Job(self.latest_job, machine.id, now)
        return machine.job

    def finish(self, machine: Machine, now: float) -> Job | None:
        """Its job is over; the registration of an ephemeral one goes with it."""
        job, machine.job = machine.job, None
        if job is None:
            return None
        job.over_at = machine.last_job_over_at = self.ended_jobs[job.id] = now
        if machine.pool.kind.ephemeral:
            if machine.registered:
                self.leave(machine, Fate.SPENT, now)
            elif machine.fate is Fate.VANISHED:
                machine.fate = Fate.SPENT
        return job

    def forget(self, now: float) -> None:
        """Removes machines that left too long ago for lists and lies to contain."""
        former = [each for each in self.recent.values() if not each.registered and now - each.fate_at > 1800.0]
        for each in former:
            if each.fate is not Fate.VANISHED and each.job is None:
                del self.recent[each.id]


def living(machines: Iterable[Machine]) -> Iterator[Machine]:
    """Those that are registered and online."""
    return (each for each in machines if each.registered and each.online)
