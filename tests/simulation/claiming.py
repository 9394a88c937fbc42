"""A controller that claims pods and gives them back, at random: whom it claims is not replaced for so long."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from ghapp.health.pods.pod_claim import Claimed, PodClaim, by_name
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

OFTEN = 0.3
"""The share of days on which pods are claimed at all."""

LOOKS_AFTER_SECONDS = (0.0, 5.0, 30.0, 60.0, 90.0, 120.0, 300.0)
"""When it looks for whom to claim, before and after all that befalls the fleet."""


class Claiming:
    """Claims, and gives back. It draws by itself, so that days on which it does nothing are as they were without it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._random = Random(f"claims of {engine.seed}")
        self._since: dict[str, float] = {}

    def begin(self) -> None:
        """Put the day's claims on the calendar."""
        random = self._random
        if random.random() > OFTEN:
            return
        for episode in self._engine.scenario.episodes:
            for at in (episode.begins, *(incident.at for incident in episode.incidents)):
                self._engine.at(at + random.choice(LOOKS_AFTER_SECONDS), self._claim_some)

    def held(self) -> Claimed:
        """The claims that hold, by our clock."""
        now = self._engine.driver.clock()
        return by_name(each for each in self._engine.store.pod_claims.values() if each.is_live(now))

    def held_for(self, name: str) -> float:
        """For how many seconds a claim on that name has held; 0 for none. While clocks jump, nobody can say."""
        if name not in self.held() or self._engine.audit.is_skewed:
            return 0.0
        return self._engine.now - self._since[name]

    def _claim_some(self) -> None:
        """Of those that are lost, and of those that work: where a claim does not hold, the lost ones tell."""
        lost = [each for each in self._engine.world.recent.values() if each.fate is Fate.LOST]
        here = self._engine.world.registered()
        for machines in (lost, here):
            for machine in self._random.sample(machines, k=min(len(machines), self._random.randint(0, 4))):
                self._claim(machine)

    def _claim(self, machine: Machine) -> None:
        seconds, now = self._random.choice((60.0, 600.0, 3600.0)), self._engine.driver.clock()
        if machine.name not in self.held():
            self._since[machine.name] = self._engine.now
        claim = PodClaim(machine.name, machine.name, None, now + seconds, now)
        self._engine.store.pod_claims[machine.name] = claim
        self._engine.say("claims", runner=machine.id, seconds=seconds)
        if self._random.random() < 0.5:
            self._engine.after(self._random.uniform(0.0, seconds), partial(self._give_back, machine.name, claim))

    def _give_back(self, name: str, claim: PodClaim) -> None:
        if self._engine.store.pod_claims.get(name) is claim:
            del self._engine.store.pod_claims[name]
            self._engine.say("gives back", name=name)
