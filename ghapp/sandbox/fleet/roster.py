"""The runners of an organization: registered ones, ones that lost their registration, and ended ones."""

from __future__ import annotations

import itertools
import string
from random import Random

from ghapp.sandbox.fleet.runners import Runner
from ghapp.sandbox.fleet.versions import NEWEST

NAME_ALPHABET = string.ascii_lowercase + string.digits

#: Ended runners that are kept.
FORMER_KEPT = 20_000


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
