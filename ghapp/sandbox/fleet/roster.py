"""Who is registered, who lost that, and who is over."""

from __future__ import annotations

import itertools
import string
from random import Random

from ghapp.sandbox.fleet.runners import Runner

NAME_ALPHABET = string.ascii_lowercase + string.digits

#: Runners that are over and still remembered.
FORMER_KEPT = 20_000


class Roster:
    """The runners of one organization in GitHub's books and outside of them.

    Attributes:
        registered: what GitHub lists, by id.
        zombies: runners whose registration was lost and whose process is still there, by id.
        version: changes with everything that a list of runners would show; whoever changes a runner says so by `touch`.
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
        """Something that a list shows has changed."""
        self.version += 1

    def enrol(
        self, *, pool: str, labels: tuple[str, ...], ephemeral: bool, name: str = "", replaces: int | None = None
    ) -> Runner:
        """A new registration, offline so far; its name is made after the pool unless it has one."""
        name = name or self._new_name(pool)
        self._names.add(name)
        runner = Runner(next(self._ids), name, pool, labels, ephemeral, replaces=replaces)
        self.registered[runner.id] = runner
        self.touch()
        return runner

    def lose(self, runner: Runner) -> None:
        """The registration is gone, the process stays."""
        self.zombies[runner.id] = self.registered.pop(runner.id)
        self.touch()

    def restore(self, runner: Runner) -> None:
        """The lost registration is back, under its old id."""
        self.registered[runner.id] = self.zombies.pop(runner.id)
        self.touch()

    def end(self, runner: Runner) -> None:
        """The process is gone, and so is whatever registration there was."""
        runner.alive = runner.online = False
        self.zombies.pop(runner.id, None)
        if self.registered.pop(runner.id, None) is not None:
            self.touch()
        self._names.discard(runner.name)
        self._former[runner.id] = runner
        if len(self._former) > FORMER_KEPT:
            del self._former[next(iter(self._former))]

    def find(self, runner_id: int) -> Runner | None:
        """A runner that is or was."""
        for place in (self.registered, self.zombies, self._former):
            if runner_id in place:
                return place[runner_id]
        return None

    def choose(self, count: int, pool: str | None = None) -> list[Runner]:
        """So many registered runners at random, those waiting for work first, of one pool or any."""
        candidates = [r for r in self.registered.values() if pool is None or r.pool == pool]
        self._rng.shuffle(candidates)
        candidates.sort(key=lambda runner: not runner.waiting)
        return candidates[:count]

    def _new_name(self, pool: str) -> str:
        while True:
            name = f"{pool}-{''.join(self._rng.choices(NAME_ALPHABET, k=5))}"
            if name not in self._names:
                return name
