"""What people, controllers and Redis change in the midst of a day, and lost machines that register again.

It has its own random numbers, so that the days without it are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from ghapp.remediation.plan import Mode
from tests.simulation.scenario import Controller, Episode, Pool, Scenario
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

DAYS_WITH_CHANGES = 0.75
"""The share of days on which anything of this happens."""

OFTEN = 0.5

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
        self.happen = self._random.random() < DAYS_WITH_CHANGES
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
            for _ in range(self._random.randint(1, MOST_IN_AN_EPISODE)):
                self._engine.at(self._random.uniform(episode.begins, episode.ends), self._happen)
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

    def add(self, pool: Pool) -> None:
        """One more pool is configured; one with labels `*` stays the last."""
        self.scenario = self._engine.scenario = replace(self.scenario, pools=(pool, *self.scenario.pools))
        self._rules = {pool.name: self._rule(pool), **self._rules}
        self._engine.store.version += 1

    def hear_all(self) -> None:
        """All urls answer again."""
        self._deaf.clear()

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

    # ---- what happens

    def _happen(self) -> None:
        """One of the things that happen, to a pool and to another one where there are several."""
        pool = self._random.choice(self.scenario.pools)
        if self._has_catch_all and self._random.random() < OFTEN:
            pool = self.scenario.pools[-1]  # of which runners are that no list shows
        others = [each for each in self.scenario.pools if each is not pool]
        what: Callable[[Pool, Pool], object] = self._random.choice(
            (
                self._register_as_the_url_answers,
                self._change_while_requests_wait,
                self._lose_beside_a_pool_that_waits,
                self._lose_all,
                self._rename_in_a_mass_loss,
                self._lose_at_work,
                self._forget_seconds,
                self._dry_run_first,
                self._report_a_mistaken_removal,
                self._remove_before_any_list,
                self._lose_again_and_again,
            )
        )
        self._engine.trace(f"happens: {what.__name__}", pool=pool.name)
        what(pool, self._random.choice(others) if others else pool)

    def _register_as_the_url_answers(self, pool: Pool, _: Pool) -> None:
        """A machine registers again half a minute before its pool's url answers: no list has it before the request."""
        wait = self._random.uniform(200.0, 900.0)
        self.go_deaf(pool, wait)
        self._lose_some(pool, 2)
        self._engine.after(wait - 30.0, partial(self._one_registers_again, pool))

    def _change_while_requests_wait(self, pool: Pool, _: Pool) -> None:
        self.go_deaf(pool, 420.0)
        self._lose_some(pool, 2)
        after = self._random.uniform(150.0, 350.0)
        match self._random.choice(("mode", "pause", "rename", "leave out")):
            case "mode":
                self._engine.after(after, partial(self.set_mode, self._random.choice(("dry-run", "off")), 3000.0))
            case "pause":
                self._engine.after(after, lambda: self._engine.driver.pause(self.name_of(pool)))
                self._engine.after(after + 3000.0, self._engine.driver.resume)
            case "rename":
                self._engine.after(after, partial(self.rename, pool))
            case "leave out":
                self._engine.after(after, partial(self._leave_out, pool, self._random.uniform(60.0, 1800.0)))

    def _lose_beside_a_pool_that_waits(self, pool: Pool, other: Pool) -> None:
        """One pool waits for a reason of its own, and another one, which is well, loses all its runners."""
        match self._random.choice(("deaf", "paused", "left out")):
            case "deaf":
                self.go_deaf(pool, self._random.choice((7200.0, 86_400.0)))
            case "paused":
                self._engine.driver.pause(self.name_of(pool))
                self._engine.after(7200.0, self._engine.driver.resume)
            case "left out":
                self._leave_out(pool, 18_000.0)
        self._lose_some(pool, 4)
        self._engine.after(self._random.uniform(0.0, 400.0), partial(self._lose_some, other, 99))

    def _lose_all(self, pool: Pool, _: Pool) -> None:
        self._lose_some(pool, 99)

    def _rename_in_a_mass_loss(self, pool: Pool, _: Pool) -> None:
        here = self._engine.world.registered(pool)
        self._engine.fleet.vanish(here[: len(here) * 3 // 4], 1500.0)
        self._engine.after(self._random.uniform(150.0, 600.0), partial(self.rename, pool))

    def _lose_at_work(self, pool: Pool, _: Pool) -> None:
        self._engine.fleet.lose([each for each in self._engine.world.registered(pool) if each.busy])

    def _forget_seconds(self, pool: Pool, _: Pool) -> None:
        """Redis crashes, and has lost what was written in its last second, while losses are granted."""
        self._lose_some(pool, 2)
        for _each in range(4):
            self._engine.after(self._random.uniform(30.0, 300.0), self.forget_a_second)

    def _dry_run_first(self, pool: Pool, _: Pool) -> None:
        self.set_mode("dry-run", 900.0)
        self._lose_some(pool, 2)
        self._engine.after(800.0, partial(self.go_deaf, pool, 3 * 3600.0))

    def _report_a_mistaken_removal(self, pool: Pool, _: Pool) -> None:
        """A controller says that it removed a runner that lives on, and that is lost some minutes later."""
        idle = [each for each in self._engine.world.idle(pool) if each.id in self._engine.store.runners]
        for machine in idle[:1] if self._is_clear() else ():
            self._engine.driver.controller_says_removed(machine.id)
            self._engine.after(290.0, partial(self._lose_after_all, machine))

    def _remove_before_any_list(self, pool: Pool, _: Pool) -> None:
        """A controller creates a runner, says at once that it removes it, and does that after a list."""
        if not self._is_clear():
            return
        machine = self._engine.world.register(pool, self._engine.now)
        self._engine.driver.controller_says_removed(machine.id)
        interval = self.scenario.config.interval
        self._engine.after(min(1.2 * interval, 55.0), partial(self._remove, machine))

    def _lose_again_and_again(self, pool: Pool, _: Pool) -> None:
        """A mass loss, two runners that are hidden for a moment, and then one more loss each nine minutes."""
        here = self._engine.world.registered(pool)
        self._lose_some(pool, len(here) * 3 // 4)
        self._engine.after(150.0, lambda: self._engine.fleet.vanish(self._engine.world.registered(pool)[:2], 75.0))
        for number in range(30):
            self._engine.after(400.0 + 500.0 * number, partial(self._lose_some, pool, 1))

    # ---- how it happens

    def _is_clear(self) -> bool:
        """Whether lists show what is so, at dates that hold: a report can be compared with them."""
        return not self._engine.github.lies and not self._engine.audit.is_skewed

    def _lose_some(self, pool: Pool, most: int) -> None:
        self._engine.fleet.lose(self._engine.world.registered(pool)[:most])

    def go_deaf(self, pool: Pool, seconds: float) -> None:
        """The pool's url refuses everything."""
        self._deaf.add(pool.name)
        self._engine.after(seconds, partial(self._deaf.discard, pool.name))

    def set_mode(self, mode: Mode, seconds: float) -> None:
        if self.mode == "act":
            self._use_mode(mode)
            self._engine.after(seconds, partial(self._use_mode, "act"))

    def _use_mode(self, mode: Mode) -> None:
        self._engine.trace("the mode changes", mode=mode)
        self.mode, self.mode_since = mode, self._engine.now
        self._engine.store.version += 1

    def rename(self, pool: Pool) -> None:
        """It is configured under another name. A pool that is paused keeps its name: pauses are kept by name."""
        if pool.name in self._rules and self.name_of(pool) not in self._engine.store.paused:
            name = f"{pool.name} renamed at {self._engine.now:.0f}"
            self._rules[pool.name] = self._rule(pool, name)
            self._engine.store.version += 1

    def _leave_out(self, pool: Pool, seconds: float) -> None:
        """The configuration lacks the pool for a while."""
        if self._has_catch_all:
            return  # its runners would be of that pool
        if len(self._rules) > 1 and pool.name in self._rules and self.name_of(pool) not in self._engine.store.paused:
            rule = self._rules.pop(pool.name)
            self._engine.store.version += 1
            self._engine.after(seconds, partial(self._put_back, pool, rule))

    def _put_back(self, pool: Pool, rule: Rule) -> None:
        """A pool with labels `*` is the last one again."""
        known = {**self._rules, pool.name: rule}
        self._rules = {each.name: known[each.name] for each in self.scenario.pools if each.name in known}
        self._engine.store.version += 1

    def forget_a_second(self) -> None:
        """Redis crashes in a second, and has what it has now."""
        engine, store = self._engine, self._engine.store
        before = store.remembered()

        def crash() -> None:
            store.recall(before)
            engine.audit.forgot(since=engine.now - 1.0)
            engine.driver.deliver_again(engine.now - 1.0)

        engine.after(1.0, crash)

    def _one_registers_again(self, pool: Pool) -> None:
        lost = [
            each
            for each in self._engine.world.recent.values()
            if each.pool is pool and each.fate in (Fate.LOST, Fate.DELETED)
        ]
        for machine in lost[-1:]:
            if not pool.kind.ephemeral:
                self.register_again(machine)

    def _lose_after_all(self, machine: Machine) -> None:
        if machine.registered and machine.job is None and not machine.removal_reported and self._is_clear():
            self._engine.fleet.lose([machine])

    def _remove(self, machine: Machine) -> None:
        if machine.registered and self._is_clear():
            self._engine.world.leave(machine, Fate.SCALED_DOWN, self._engine.now)
            self._engine.audit.disturbed(machine.pool)
            self._engine.store.version += 1

    # ---- machines

    def confirming(self, suspects: Iterable[int]) -> None:
        """At this moment a suspect is seen, and missed once more: what follows is a first 404, not the second."""
        if not self.happen or self._engine.github.lies or self._random.random() > 0.2:
            return
        for runner_id in suspects:
            machine = self._engine.world.machines[runner_id]
            if machine.fate is Fate.VANISHED:
                self._engine.fleet.come_back(machine)
                self._engine.driver.check(runner_id)
                self._engine.fleet.vanish([machine], 900.0)
                self._engine.driver.check(runner_id)
                return

    def lost(self, machines: Iterable[Machine]) -> None:
        """Some lost machines register again under their names, with a new id."""
        if not self.happen:
            return
        for machine in machines:
            if self._random.random() < REGISTERS_AGAIN and not machine.pool.kind.ephemeral:
                after = self._random.choice((5.0, 40.0, 120.0, 600.0, 3600.0))
                self._engine.after(after, partial(self.register_again, machine))

    def register_again(self, machine: Machine) -> None:
        """A lost machine registers under its name, with a new id."""
        if (
            machine.fate in (Fate.LOST, Fate.DELETED)
            and machine.successor is None
            and machine.name not in {each.name for each in self._engine.world.registered()}
        ):
            self._engine.trace("registers again", runner=machine.id)
            machine.successor = self._engine.world.register(machine.pool, self._engine.now, machine.name)
            machine.successor.is_successor = True
            self._engine.audit.registered_again(machine)
            self._engine.store.version += 1

    def _elsewhere(self, episode: Episode) -> None:
        """Runners of repositories: only deliveries name them, and no list ever shows them."""
        at = episode.begins
        while (at := at + self._random.expovariate(1 / 60.0)) < episode.ends:
            self._engine.at(at, self._engine.fleet.work_elsewhere)
