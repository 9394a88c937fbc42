"""Invariant 4: the fuse lets the first batch through, and the next when that one is online. Counted anew, from states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from ghapp.health.evidence import Evidence
from ghapp.health.fuse import Fuse, Position
from ghapp.health.verdict import State

if TYPE_CHECKING:
    from tests.simulation.engine import Engine


@dataclass(slots=True)
class Mass:
    """A pool that lost too many: since when, from when on newcomers count as proof, and what was granted since."""

    since: float
    proof_since: float
    granted: int = 0


class Batches:
    """What each pool's fuse has let through in a mass event, against what proves that it helps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mass: dict[str, Mass] = {}

    def count(self, pool: str, members: Iterable[tuple[Evidence, State]], now: float, fuse: Fuse) -> None:
        """The plan is about to be made of these."""
        limits = self._engine.scenario.config.fuse
        lost = present = waiting = 0
        returned_at = 0.0
        for evidence, state in members:
            if state is State.INVALIDATED:
                confirmed_at = evidence.confirmed_at or 0.0
                waiting += evidence.granted_at is None
                healed = evidence.granted_at is not None and confirmed_at <= (fuse.healed_at or 0.0)
                lost += now - confirmed_at < limits.window_seconds and not healed
            elif state is State.SUSPECT:
                lost += 1
            elif state is not State.RETIRED:
                present += 1
                returned_at = max(returned_at, evidence.back_at or 0.0)
        mass, at, config = self._mass.get(pool), self._engine.now, self._engine.scenario.config
        if mass is not None and returned_at - self._engine.skew > mass.since:
            self._mass[pool] = Mass(at, at - 2 * config.interval)  # who is seen only now counts, too
        elif lost >= max(limits.floor, ceil(limits.fraction * (present + lost))):
            if mass is None and waiting:
                self._mass[pool] = Mass(at, at - limits.window_seconds)  # the fuse may have tripped a while ago
        elif mass is not None and fuse.position is Position.CLOSED:
            del self._mass[pool]

    def begin_anew(self, pools: Iterable[str]) -> None:
        """A person resumed them."""
        now = self._engine.now
        self._mass |= {pool: Mass(now, now - self._engine.scenario.config.fuse.window_seconds) for pool in pools}

    def granted(self, pool: str) -> str:
        """One more is let through; what is wrong with that, or nothing."""
        mass, first_batch = self._mass.get(pool), self._engine.scenario.config.fuse.first_batch
        if mass is None:
            return ""
        mass.granted += 1
        newcomers = [each for each in self._engine.world.machines.values() if each.pool.name == pool]
        proof = sum(each.born > mass.proof_since for each in newcomers)
        if mass.granted <= first_batch + 2 * proof:
            return ""
        return f"{mass.granted} are granted in a mass event, and {proof} newcomers prove that it helps"

    def called_off(self, pool: str) -> None:
        """One that was let through needs nothing: another may go in its place."""
        if (mass := self._mass.get(pool)) is not None:
            mass.granted -= 1
