"""The arrival of jobs: at random, so many that each pool reaches its load."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from ghapp.sandbox.config import Pace, PoolConfig
from ghapp.sandbox.fleet.events import Timers

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
