"""A controller that claims and releases pods at random: a claimed pod's runner must not be replaced meanwhile."""

from __future__ import annotations

from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING

from ghapp.pods.pod_claim import Claimed, PodClaim, by_name
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

OFTEN = 0.3
"""The share of days on which pods are claimed at all."""

HALF = 0.5

LOOKS_AFTER_SECONDS = (0.0, 5.0, 30.0, 60.0, 90.0, 120.0, 300.0)
"""When the controller selects pods to claim, in seconds before and after each incident."""


class Claiming:
    """Claims and releases pods. It has its own random numbers, so that days without claims are as without it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._random = Random(f"claims of {engine.seed}")
        self._since: dict[str, float] = {}
        self._until: dict[str, float] = {}
        """By name: when the latest claim expires or expired (true time)."""

    def begin(self) -> None:
        """Schedule the claims of the day."""
        random = self._random
        if random.random() > OFTEN:
            return
        for episode in self._engine.scenario.episodes:
            for at in (episode.begins, *(incident.at for incident in episode.incidents)):
                self._engine.at(at + random.choice(LOOKS_AFTER_SECONDS), self._claim_some)

    def held(self) -> Claimed:
        """The active claims, by our clock."""
        now = self._engine.driver.clock()
        return by_name(each for each in self._engine.store.pod_claims.values() if each.is_live(now))

    def held_for(self, name: str) -> float:
        """Age of the active claim on that name in seconds; 0 for no claim. Undefined while clocks jump."""
        if name not in self.held() or self._engine.audit.is_skewed:
            return 0.0
        return self._engine.now - self._since[name]

    def _claim_some(self) -> None:
        """Lost runners and working ones: only the lost ones show whether claims are respected."""
        lost = [each for each in self._engine.world.recent.values() if each.fate is Fate.LOST]
        here = self._engine.world.registered()
        for machines in (lost, here):
            for machine in self._random.sample(machines, k=min(len(machines), self._random.randint(0, 4))):
                self._claim(machine)

    def _claim(self, machine: Machine) -> None:
        seconds = self._random.choice((60.0, 600.0, 3600.0))
        give_back_in = self._random.uniform(0.0, seconds) if self._random.random() < HALF else None
        self.claim(machine.name, machine.name, seconds, give_back_in)

    def claim(self, pod: str, runner_name: str, seconds: float, give_back_in: float | None) -> None:
        """A controller claims a pod, and may release it before the claim expires."""
        now, held = self._engine.driver.clock(), self.held()
        for name in (pod, runner_name):
            if name not in held:
                self._since[name] = self._engine.now
            self._until[name] = self._engine.now + seconds
        claim = PodClaim(pod, runner_name, None, now + seconds, now)
        self._engine.store.pod_claims[pod] = claim
        self._engine.trace("claims", pod=pod, runner=runner_name, seconds=seconds)
        if give_back_in is not None:
            self._engine.after(give_back_in, partial(self._give_back, pod, claim))

    def was_claimed_since(self, name: str, at: float) -> bool:
        """True if a claim on that name has been active since then, however briefly."""
        return self._until.get(name, 0.0) > at

    def unclaimed_for(self, name: str) -> float:
        """Seconds since the end of the last claim on that name; infinite if there was none."""
        return self._engine.now - self._until.get(name, -inf)

    def release(self, pod: str) -> None:
        """Its controller releases a pod at this moment."""
        self._give_back(pod, self._engine.store.pod_claims[pod])

    def _give_back(self, pod: str, claim: PodClaim) -> None:
        if self._engine.store.pod_claims.get(pod) is claim:
            self._engine.store.pod_claims[pod] = claim._replace(expires_at=self._engine.driver.clock())
            self._until[pod] = self._until[claim.runner_name] = self._engine.now
            self._engine.trace("gives back", pod=pod)
