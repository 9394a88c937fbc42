"""Invariant 4: the fuse lets the first batch through, and the next when that one is online. Counted anew, from states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from ghapp.health.evidence import Evidence
from ghapp.health.fuse import WHOLE_INSTALLATION, Fuse, FuseReason, Position
from ghapp.health.verdict import State

if TYPE_CHECKING:
    from tests.simulation.engine import Engine


LOST = {State.INVALIDATED, State.SUSPECT}


@dataclass(slots=True)
class Mass:
    """A pool that lost too many: since when, from when on newcomers count as proof, and what was granted since."""

    since: float
    proof_since: float
    granted: int = 0


class Batches:
    """What each fuse has let through in a mass event, against what proves that it helps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mass: dict[str, Mass] = {}

    def count_all(self, pools: Mapping[str, Sequence[tuple[Evidence, State]]], now: float, fuse: Fuse) -> None:
        """The whole installation, where several pools lose: those of one are its own fuse's."""
        losing = sum(any(state in LOST for _, state in members) for members in pools.values())
        if losing > 1 or WHOLE_INSTALLATION in self._mass:
            everyone = [each for members in pools.values() for each in members]
            self.count(WHOLE_INSTALLATION, everyone, now, fuse)

    def count(self, pool: str, members: Iterable[tuple[Evidence, State]], now: float, fuse: Fuse) -> None:
        """The plan is about to be made of these."""
        limits = self._engine.scenario.config.fuse
        lost = present = waiting = 0
        for evidence, state in members:
            if state is State.INVALIDATED:
                confirmed_at = evidence.confirmed_at or 0.0
                waiting += evidence.granted_at is None
                healed = evidence.granted_at is not None and confirmed_at <= (fuse.healed_at or 0.0)
                lost += evidence.granted_at is None or (now - confirmed_at < limits.window_seconds and not healed)
            elif state is State.SUSPECT:
                lost += evidence.running_job is None
            elif state is not State.RETIRED:
                present += 1
        mass, at = self._mass.get(pool), self._engine.now
        if lost >= max(limits.floor, ceil(limits.fraction * (present + lost))):
            if mass is None and waiting:
                self._mass[pool] = Mass(at, at - limits.window_seconds)  # the fuse may have tripped a while ago
        elif mass is not None and fuse.position is Position.CLOSED and not self._returned_lately(fuse, now):
            del self._mass[pool]

    def _returned_lately(self, fuse: Fuse, now: float) -> bool:
        """Registrations that come back buy no new first batch."""
        window = self._engine.scenario.config.fuse.window_seconds
        is_for_returns = fuse.reason is FuseReason.REGISTRATIONS_RETURNED
        return is_for_returns and fuse.healed_at is not None and now - fuse.healed_at < window

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
        machines = self._engine.world.machines.values()
        newcomers = [each for each in machines if pool in (each.pool.name, WHOLE_INSTALLATION)]
        proof = sum(each.born > mass.proof_since for each in newcomers)
        batches = first_batch * (1 + self._stopped() if pool == WHOLE_INSTALLATION else 1)
        if mass.granted <= batches + 2 * proof:
            return ""
        return f"{mass.granted} are granted in a mass event, and {proof} newcomers prove that it helps"

    def _stopped(self) -> int:
        """Pools whose own fuse stopped: what they took of the installation's batch another pool may have."""
        fuses = self._engine.store.fuses.items()
        return sum(fuse.position is Position.STOPPED for pool, fuse in fuses if pool != WHOLE_INSTALLATION)

    def called_off(self, pool: str) -> None:
        """One that was let through needs nothing: another may go in its place."""
        if (mass := self._mass.get(pool)) is not None:
            mass.granted -= 1
