"""Staged incidents of pods: each is what one guard of the reaper exists for. See `staged`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster import TruePod
from tests.simulation.lies import Lie
from tests.simulation.scenario import HOUR, Kind
from tests.simulation.world import Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine
    from tests.simulation.staged import Staged

SETTLES = 900.0
LASTS = 2 * HOUR
MANY, HALF = 14, 0.5

AFTER_ITS_BEGIN = 90.0
"""A crash comes so long after the job's begin: GitHub's clock, which dates that, may be a minute ahead of ours."""


class StagedPods:
    """Stages one incident in a cluster of its own; on days that have none."""

    def __init__(self, engine: Engine, staged: Staged) -> None:
        self._engine, self._staged = engine, staged
        self.may_happen = not engine.pod_life.pools and engine.pod_life.limits.mode == "act"

    @property
    def incidents(self) -> tuple[Callable[[], object], ...]:
        """All that may happen."""
        return (
            self._work_without_deliveries,
            self._work_without_a_registration,
            self._finish_while_github_is_away,
            self._remove_everyone,
            self._fail_in_a_mass,
            self._fail_while_github_is_away,
            self._register_and_never_connect,
            self._end_late_in_another_run,
            self._end_unnoticed,
        )

    # ---- what happens

    def _work_without_deliveries(self) -> None:
        """Runners lose their registrations at work; only lists have shown that they work."""
        machines = self._staged.pool(3, sends_deliveries=False)
        self._start(machines[0])
        self._after(SETTLES, partial(self._work_and_vanish, machines[:2]))

    def _work_without_a_registration(self) -> None:
        """The same, of jobs that deliveries reported."""
        machines = self._staged.pool(3)
        self._start(machines[0])
        self._after(SETTLES, partial(self._work_and_vanish, machines[:2]))

    def _finish_while_github_is_away(self) -> None:
        """Jobs end, and the pods stay with ended containers; then GitHub gives no answer for most of an hour."""
        machines = self._staged.pool(3, kind=Kind.EPHEMERAL)
        self._start(machines[0])

        def work() -> None:
            for machine in machines[:2]:
                self._pod_of(machine).is_decided = True
                self._engine.fleet.take_job(machine, lasting=20.0)
                self._after(25.0, partial(self._engine.pod_life.end, self._pod_of(machine)))

        self._after(SETTLES, work)
        self._after(SETTLES + 200.0, partial(self._staged.begin_weather, Lie.UNAVAILABLE, 2400.0, 1.0))

    def _remove_everyone(self) -> None:
        """All runners of the organization are removed by their controllers, and the containers of some hang."""
        machines = self._staged.pool(3)
        self._start(machines[0])

        def remove() -> None:
            for machine in machines:
                self._pod_of(machine).is_decided = True
            self._engine.fleet.scale_down(self._engine.world.idle(), reported=True)

        self._after(SETTLES, remove)

    def _fail_in_a_mass(self) -> None:
        """The agents of many pods never register: of one pool, or two in each of several pools."""
        many = (1, MANY) if self._staged.random.random() < HALF else (4, 2)
        machines = [self._staged.pool(1)[0] for _pool in range(many[0])]
        self._start(*machines, is_named_by_pod=True)
        for machine in machines:
            self._after(SETTLES, partial(self._engine.pod_life.fail, machine.pool, many[1]))

    def _fail_while_github_is_away(self) -> None:
        """The agents of two pods never register, and GitHub gives no answer from soon after that on."""
        [machine] = self._staged.pool(1)
        self._start(machine, is_named_by_pod=True)
        self._after(SETTLES, partial(self._engine.pod_life.fail, machine.pool, 2))
        self._after(SETTLES + 30.0, partial(self._staged.begin_weather, Lie.UNAVAILABLE, 700.0, 1.0))

    def _register_and_never_connect(self) -> None:
        """Pods work for a repository. Registrations of their names were made, never connected, and are removed."""
        machines = self._staged.pool(2)
        self._start(machines[0])
        for number in range(2):
            name = f"unused-{number}"
            self._after(SETTLES, partial(self._engine.pod_life.work_elsewhere, machines[0].pool, name))
            self._after(SETTLES + 5.0, partial(self._register_unused, name))

    def _register_unused(self, name: str) -> None:
        engine, pod = self._engine, self._engine.cluster.pods[name]
        machine = engine.world.register(pod.pool, engine.now, name, online=False)
        engine.pod_life.own(machine, pod)
        self._after(300.0, partial(engine.fleet.scale_down, [machine], reported=True))

    def _end_late_in_another_run(self) -> None:
        """An agent crashes at work, its container works for a repository since, and its job ends ten minutes late."""
        machines = self._staged.pool(3)
        self._start(machines[0])

        def crash(machine: Machine, pod: TruePod) -> None:
            self._engine.fleet.lose([machine], for_good=True)
            self._engine.pod_life.work_for_a_repository(pod)

        def work() -> None:
            for machine in machines[:2]:
                self._engine.fleet.take_job(machine, lasting=200.0)
                self._after(AFTER_ITS_BEGIN, partial(crash, machine, self._pod_of(machine)))

        self._after(SETTLES, work)

    def _end_unnoticed(self) -> None:
        """Containers end for good, and GitHub shows their runners online for twenty minutes more.

        Others are started again after four minutes, and of others the proxies end; GitHub shows their runners offline.
        """
        machines = self._staged.pool(6)
        self._start(machines[0])

        def end() -> None:
            for machine in machines[:2]:
                self._engine.pod_life.end(self._pod_of(machine), noticed_after=1200.0)
            for machine in machines[2:4]:
                self._engine.pod_life.start_again(self._pod_of(machine), 240.0)
            for machine in machines[4:]:
                self._engine.pod_life.end_proxy(self._pod_of(machine), 1200.0)

        self._after(SETTLES, end)

    # ---- how it happens

    def _start(self, *machines: Machine, is_named_by_pod: bool = False) -> None:
        """The pools of these runners have pods, and the reaper runs."""
        pools = [each.pool for each in machines]
        self._engine.pod_life.stage(pools, LASTS, are_named_by_pod=is_named_by_pod)

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self._engine.after(seconds, action)

    def _pod_of(self, machine: Machine) -> TruePod:
        return self._engine.cluster.pods[machine.name]

    def _work_and_vanish(self, machines: list[Machine]) -> None:
        for machine in machines:
            self._engine.fleet.take_job(machine, lasting=LASTS)
            lists = 3 * self._engine.scenario.config.interval
            self._after(lists, partial(self._engine.fleet.vanish, [machine], 3 * HOUR))
