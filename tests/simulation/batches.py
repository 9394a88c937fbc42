"""Invariant 4: the fuse grants a first batch, and the next once that is online. Counted independently, from states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position
from ghapp.runners.evidence import Evidence, missing_since
from ghapp.runners.verdict import State, may_run_an_unknown_job
from tests.simulation.scenario import Pool
from tests.simulation.world import Fate

if TYPE_CHECKING:
    from tests.simulation.engine import Engine


JITTER_SECONDS = 5.0
"""A return is dated by the list that showed it, and judged slightly later."""

LOST = {State.INVALIDATED, State.SUSPECT}


@dataclass(slots=True)
class Mass:
    """A mass loss in a pool: when it began, and since when newcomers count as proof."""

    since: float
    proof_since: float
    most: int = 0
    """How many may be granted while registrations came back within the window; 0: none did."""
    most_since: float = 0.0
    """When the fuse tripped to which `most` applies. Grants of an earlier trip that healed do not count."""
    resumed: int = 0
    """Number of pools that a person resumed since; each has a new first batch."""
    alone: int = 0
    """The most pools that waited alone at one time: their share of the installation's batch was free for others."""
    holds: bool = True
    """True while the mass loss continues; single losses after the cooldown are not part of it."""


class Grant(NamedTuple):
    """One granted replacement."""

    at: float
    pool: str
    runner_id: int
    event_id: str


class Batches:
    """Compares the grants of each fuse in a mass loss with the newcomers that prove that replacing helps.

    A grant counts while it is valid, and permanently once a controller accepted its request. A grant that was revoked,
    or whose runner came back before acceptance, under its id or as a later registration, does not count.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mass: dict[str, Mass] = {}
        self._grants: list[Grant] = []
        self._accepted: set[str] = set()
        self._tripped: dict[float, float] = {}
        """By the fuse's `since`: when it was first observed, in true time, because our clock may have jumped."""

    def turned(self, after: Fuse) -> None:
        """Records a change of a fuse."""
        if after.since is not None:
            self._tripped.setdefault(after.since, self._engine.now)

    def count(
        self, pools: Mapping[str, Sequence[tuple[Evidence, State]]], now: float, fuses: Mapping[str, Fuse]
    ) -> None:
        """Counts the losses of all pools, immediately before the remediation plan is made."""
        for pool, members in pools.items():
            self._count(pool, _lost(members, fuses.get(pool, Fuse()), now, self._limits), members, now, fuses)
        whole = fuses.get(ALL_POOLS, Fuse())
        alone = {self._engine.changes.name_of(each) for each in self._alone()}
        alone |= {pool for pool, fuse in fuses.items() if fuse.position is Position.STOPPED}
        # Losses of a pool that waits alone are not part of the whole installation's mass loss.
        of_whole = {pool: members for pool, members in pools.items() if pool not in alone}
        several = {pool: _lost(members, whole, now, self._limits) for pool, members in of_whole.items()}
        everyone = [each for members in pools.values() for each in members]
        # Losses of a single pool concern its own fuse only, unless the installation's fuse has tripped already.
        is_spread = sum(lost > 0 for lost in several.values()) > 1 or whole.position is not Position.CLOSED
        if is_spread or ALL_POOLS in self._mass:
            self._count(ALL_POOLS, sum(several.values()) if is_spread else 0, everyone, now, fuses)

    def _count(
        self, pool: str, lost: int, members: Iterable[tuple[Evidence, State]], now: float, fuses: Mapping[str, Fuse]
    ) -> None:
        limits, at = self._limits, self._engine.now
        members, fuse = list(members), fuses.get(pool, Fuse())
        waits_since = [
            each.confirmed_at or 0.0
            for each, state in members
            if state is State.INVALIDATED and each.granted_at is None
        ]
        if self._is_over(fuse, now) and all(at > (fuse.closed_at or 0.0) for at in waits_since):
            self._mass.pop(pool, None)  # also if nothing was counted since the window ended
        mass = self._mass.get(pool)
        present = sum(state not in LOST | {State.RETIRED} for _, state in members)
        waiting = bool(waits_since)
        is_mass = lost >= max(limits.floor, ceil(limits.fraction * (present + lost)))
        if mass is not None:
            counted = [each for each, _ in members if pool != ALL_POOLS or not self._is_of_stopped(each, fuses)]
            back = [each.back_at for each in counted if each.back_at is not None and each.was_lost]
            returns = [at for at in back if at > (fuse.grants_since or now)]
            lately = bool(returns) and now - max(returns) < limits.window_seconds - JITTER_SECONDS
            if not lately:
                mass.most = 0
            elif not mass.most:
                # A mass loss may outlast its fuse: unconfirmable suspects remain while the fuse heals and trips again.
                # `allowed` counts the grants since the fuse last tripped, so only those are compared
                # with it. The return happened under this fuse, so its first batch is included.
                mass.most = max(limits.first_batch, fuse.allowed)
                mass.most_since = self._tripped.get(fuse.grants_since or 0.0, mass.since)
            mass.holds = is_mass or fuse.position is not Position.CLOSED
            mass.alone = max(mass.alone, len(self._alone())) if pool == ALL_POOLS else 0
        if is_mass:
            if mass is None and waiting:
                # The fuse may have tripped a while ago; one that closed without healing goes on with its batches.
                begun = at - limits.window_seconds
                since = min(begun, self._tripped.get(fuse.grants_since or 0.0, begun))
                self._mass[pool] = Mass(at, since)
        elif mass is not None and fuse.position is Position.CLOSED and not self._returned_lately(fuse, now):
            del self._mass[pool]

    def _is_of_stopped(self, evidence: Evidence, fuses: Mapping[str, Fuse]) -> bool:
        """True if its pool's own fuse stopped: then it does not count for the whole installation."""
        pool = self._engine.world.machines[evidence.id].pool.name
        return fuses.get(pool, Fuse()).position is Position.STOPPED

    @property
    def _limits(self) -> FuseLimits:
        return self._engine.scenario.config.fuse

    def _returned_lately(self, fuse: Fuse, now: float) -> bool:
        """True if registrations returned within the window: no new first batch is allowed."""
        is_for_returns = fuse.reason is FuseReason.REGISTRATIONS_RETURNED
        return is_for_returns and fuse.closed_at is not None and now - fuse.closed_at < self._limits.window_seconds

    def _is_over(self, fuse: Fuse, now: float) -> bool:
        """True if registrations returned, and the window after that is over."""
        return fuse.reason is FuseReason.REGISTRATIONS_RETURNED and not self._returned_lately(fuse, now)

    def restart(self, pools: Iterable[str]) -> None:
        """A person resumed these pools: each has a new first batch, in the installation's fuse also."""
        now, begun = self._engine.now, set(pools)
        if ALL_POOLS in self._mass:
            self._mass[ALL_POOLS].resumed += len(begun)
        self._mass |= {pool: Mass(now, now - self._limits.window_seconds) for pool in begun}

    def accepted(self, event_id: str) -> None:
        """Records that a controller accepted a request."""
        self._accepted.add(event_id)

    def granted(self, pool: str, evidence: Evidence) -> str:
        """Records a grant; returns the violation, or an empty string."""
        grant = Grant(self._engine.now, pool, evidence.id, evidence.event_id or "")
        if all(
            (each.runner_id, each.event_id) != grant[2:] for each in self._grants
        ):  # Redis may forget it, and repeat it
            self._grants.append(grant)
        return self._wrong(pool) or self._wrong(ALL_POOLS)

    def _wrong(self, pool: str) -> str:
        mass, is_whole = self._mass.get(pool), pool == ALL_POOLS
        if mass is None or not mass.holds:
            return ""
        granted = self._granted(pool, mass.since)
        machines = [each for each in self._engine.world.machines.values() if each.fate is not Fate.ELSEWHERE]
        proof = sum(
            each.born > mass.proof_since
            for each in machines
            if (is_whole or each.pool.name == pool) and not self._engine.staged.is_barren(each.pool)
        )
        if is_whole:
            mass.alone = max(mass.alone, len(self._alone()))
        batches = self._limits.first_batch * (1 + mass.resumed + mass.alone if is_whole else 1)
        if mass.most:
            since = max(mass.since, mass.most_since)
            of_fuse = self._granted(pool, since) - self._of_stopped(since, pool)
            if of_fuse > mass.most + batches - self._limits.first_batch:
                return f"{pool}: {of_fuse} are granted after registrations came back, and {mass.most} may be"
        if granted <= batches + 2 * proof:
            return ""
        return f"{pool}: {granted} are granted in a mass event, and {proof} newcomers prove that it helps"

    def _granted(self, pool: str, since: float) -> int:
        """Number of grants since then that count."""
        is_whole = pool == ALL_POOLS
        return sum(each.at >= since and (is_whole or each.pool == pool) and self._counts(each) for each in self._grants)

    def _of_stopped(self, since: float, pool: str) -> int:
        """Number of the installation's grants in pools that wait alone: those do not count."""
        if pool != ALL_POOLS:
            return 0
        alone = {each.name for each in self._alone()}
        return sum(each.at >= since and each.pool in alone and self._counts(each) for each in self._grants)

    def _counts(self, grant: Grant) -> bool:
        if grant.event_id in self._accepted:
            return True
        evidence = self._engine.store.runners.get(grant.runner_id)
        return evidence is not None and evidence.event_id == grant.event_id and evidence.reregistered_as is None

    def _alone(self) -> list[Pool]:
        """The pools that are stopped, paused or not configured."""
        changes, store = self._engine.changes, self._engine.store
        return [
            pool
            for pool in self._engine.scenario.pools
            if store.fuses.get(changes.name_of(pool), Fuse()).position is Position.STOPPED
            or changes.name_of(pool) in store.paused
            or not changes.is_configured(pool)
        ]


def _lost(members: Iterable[tuple[Evidence, State]], fuse: Fuse, now: float, limits: FuseLimits) -> int:
    lost = 0
    for evidence, state in members:
        if state is State.INVALIDATED:
            confirmed_at = evidence.confirmed_at or 0.0
            is_new = now - confirmed_at < limits.window_seconds and confirmed_at > (fuse.closed_at or 0.0)
            lost += evidence.granted_at is None or is_new
        elif state is State.SUSPECT:
            since = missing_since(evidence)
            is_new = now - since < limits.window_seconds and since > (fuse.closed_at or 0.0)
            lost += evidence.running_job is None and (is_new or not may_run_an_unknown_job(evidence))
    return lost
