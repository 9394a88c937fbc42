"""What people, controllers and Redis change in the midst of a day, and lost machines that register again.

It has its own random numbers, and happens on half of the days, so that the others are as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from ghapp.health.remediation.plan import Mode
from tests.simulation.scenario import Controller, Episode, Pool, Scenario
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

OFTEN = 0.5
"""The share of days on which anything of this happens."""

MOST_IN_AN_EPISODE = 3

REGISTERS_AGAIN = 0.3
"""The share of lost machines that register again under their names."""

UNUSUAL = (Controller.LATE, Controller.HALF, Controller.TWO)


@dataclass(frozen=True, slots=True)
class Rule:
    """A pool as it is configured now."""

    name: str
    labels: tuple[str, ...]
    replace_offline_after_seconds: float | None
    shard_label: str | None = None


class Changes:
    """The configuration as it is now, and who changes it."""

    def __init__(self, engine: Engine, planned: Scenario) -> None:
        self._engine, self._random = engine, Random(f"changes of {engine.seed}")
        self.happen = self._random.random() < OFTEN
        self.scenario = self._with_unusual_controllers(planned) if self.happen else planned
        self.mode: Mode = planned.config.remediation.mode
        self.mode_since = 0.0
        self._has_catch_all = self.happen and self._random.random() < OFTEN
        self._rules = {pool.name: self._rule(pool) for pool in self.scenario.pools}
        self._deaf: set[str] = set()

    def begin(self) -> None:
        """Schedule the changes of the day."""
        if not self.happen:
            return
        for episode in self.scenario.episodes:
            for _ in range(self._random.randint(0, MOST_IN_AN_EPISODE)):
                self._engine.at(self._random.uniform(episode.begins, episode.ends), self._change)
            if self._has_catch_all:
                self._elsewhere(episode)

    # ---- the configuration

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The configured pools; one with labels `*` is the last of all."""
        return tuple(self._rules.values())

    def name_of(self, pool: Pool) -> str:
        """The name by which fuses and pauses know a pool now."""
        rule = self._rules.get(pool.name)
        return pool.name if rule is None else rule.name

    def true_name(self, name: str) -> str:
        """The pool that is called so now, or was."""
        return name.partition(" renamed")[0]

    def is_configured(self, pool: Pool) -> bool:
        return pool.name in self._rules or not self._rules

    def refuses(self, pool: Pool) -> bool:
        """Whether the pool's url answers no request."""
        return pool.name in self._deaf

    def _rule(self, pool: Pool, name: str = "") -> Rule:
        is_last = pool is self.scenario.pools[-1]
        labels = ("*",) if self._has_catch_all and is_last else pool.labels
        return Rule(name or pool.name, labels, pool.replace_offline_after_seconds)

    def _with_unusual_controllers(self, planned: Scenario) -> Scenario:
        pools = [
            replace(pool, controller=self._random.choice(UNUSUAL)) if self._random.random() < 0.4 else pool
            for pool in planned.pools
        ]
        return replace(planned, pools=tuple(pools))

    # ---- changes

    def _change(self) -> None:
        pool = self._random.choice(self.scenario.pools)
        change: Callable[[Pool], object] = self._random.choice(
            (self._set_mode, self._rename, self._leave_out, self._go_deaf, self._lose_at_work, self._forget_a_second)
        )
        self._engine.trace(f"a change: {change.__name__}", pool=pool.name)
        change(pool)

    def _set_mode(self, _: Pool) -> None:
        if self.mode == "act":
            self._use_mode(self._random.choice(("dry-run", "off")))
            self._engine.after(self._random.uniform(60.0, 3600.0), partial(self._use_mode, "act"))

    def _use_mode(self, mode: Mode) -> None:
        self._engine.trace("the mode changes", mode=mode)
        self.mode, self.mode_since = mode, self._engine.now
        self._engine.store.version += 1

    def _rename(self, pool: Pool) -> None:
        """A pool that is paused keeps its name: pauses are kept by name."""
        if pool.name in self._rules and self.name_of(pool) not in self._engine.store.paused:
            name = f"{pool.name} renamed at {self._engine.now:.0f}"
            self._rules[pool.name] = self._rule(pool, name)
            self._engine.store.version += 1

    def _leave_out(self, pool: Pool) -> None:
        if len(self._rules) > 1 and pool.name in self._rules and self.name_of(pool) not in self._engine.store.paused:
            rules = dict(self._rules)
            del self._rules[pool.name]
            self._engine.store.version += 1
            self._engine.after(self._random.uniform(60.0, 1800.0), partial(self._use_rules, rules))

    def _use_rules(self, rules: dict[str, Rule]) -> None:
        self._rules = (
            rules | self._rules if len(rules) == 1 else {each: self._rules.get(each, rules[each]) for each in rules}
        )
        self._engine.store.version += 1

    def _go_deaf(self, pool: Pool) -> None:
        """For a while, or for the rest of the day."""
        self._deaf.add(pool.name)
        self._engine.after(self._random.choice((600.0, 3600.0, 86_400.0)), partial(self._deaf.discard, pool.name))

    def _lose_at_work(self, pool: Pool) -> None:
        fleet = self._engine.fleet
        fleet.lose([each for each in self._engine.world.registered(pool) if each.busy])

    def _forget_a_second(self, _: Pool) -> None:
        """Redis crashes, and has lost what was written in its last second."""
        engine, store = self._engine, self._engine.store
        before = store.remembered()
        engine.after(1.0, lambda: (store.recall(before), engine.driver.deliver_again(engine.now - 1.0)))

    # ---- machines

    def lost(self, machines: Iterable[Machine]) -> None:
        """Some lost machines register again under their names, with a new id."""
        if not self.happen:
            return
        for machine in machines:
            if self._random.random() < REGISTERS_AGAIN and not machine.pool.kind.ephemeral:
                after = self._random.choice((5.0, 40.0, 120.0, 600.0, 3600.0))
                self._engine.after(after, partial(self._register_again, machine))

    def _register_again(self, machine: Machine) -> None:
        if (
            machine.fate in (Fate.LOST, Fate.DELETED)
            and machine.successor is None
            and machine.name not in {each.name for each in self._engine.world.registered()}
        ):
            self._engine.trace("registers again", runner=machine.id)
            machine.successor = self._engine.world.register(machine.pool, self._engine.now, machine.name)
            machine.successor.is_successor = True
            self._engine.audit.disturbed(machine.pool)

    def _elsewhere(self, episode: Episode) -> None:
        """Runners of repositories: only deliveries name them, and no list ever shows them."""
        at = episode.begins
        while (at := at + self._random.expovariate(1 / 60.0)) < episode.ends:
            self._engine.at(at, self._engine.fleet.work_elsewhere)
