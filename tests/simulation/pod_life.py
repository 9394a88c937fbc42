"""The life of the pods: controllers make them and take them down, forget them, claim them; incidents affect them.

A share of the days has a cluster. It draws by itself, so that days without one are as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from ghapp.leaks.guards import LeakLimits
from tests.simulation.cluster import TruePod
from tests.simulation.lies import Lie, cluster_weather
from tests.simulation.scenario import HOUR, Pool
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

OFTEN = 0.2
"""The share of days that have a cluster."""

TICK_SECONDS = 60.0
WARM_UP_SECONDS = 420.0
"""The reaper runs this long before an episode: longer than its grace."""

SETTLED_SECONDS = 9000.0
"""The reaper runs this long after lists that churned: their effects must end within it."""

OFTEN_FAILING = 0.6
"""The share of days with a cluster that have incidents of agents, too."""

NAMED_BY_POD = 0.6
"""The share of pools with `runner_name = "pod"`: their runners never have another name, nor belong to a repository."""

JUST_NOW = 0.2
"""The share of deletions with an event at the last moment."""

FORGOTTEN = 0.2
"""The share of pods that a controller forgets when their runner is finished."""

INCIDENTS = {
    "runners are partitioned from GitHub": 4,
    "runners update themselves": 3,
    "runners are started again under another name": 1,
    "runners are started again under their name": 1,
    "pods wait for a node": 3,
    "pods of runners with other names": 3,
    "pods leak": 4,
    "many pods leak": 2,
    "containers end for good": 2,
    "one takes a long job, and its registration goes": 3,
    "pods are claimed": 2,
}
"""Each with its weight."""

AGENT_INCIDENTS = {
    "agents never register": 4,
    "the agents of many pods never register": 2,
    "agents register late": 2,
    "the proxies of pods end": 3,
    "containers end, which GitHub notices late": 2,
}
"""The same: incidents of agents, which draw by themselves."""


class PodLife:
    """Controllers, kubelets and their failures."""

    def __init__(self, engine: Engine) -> None:
        self.random = random = Random(f"pods of {engine.seed}")
        self._engine, self._cluster, self._world = engine, engine.cluster, engine.world
        self._pod_of: dict[int, TruePod] = {}
        self._numbers = 0
        pools = engine.scenario.pools
        has_cluster = random.random() < OFTEN
        self.pools: Sequence[Pool] = random.sample(pools, k=random.randint(1, len(pools))) if has_cluster else ()
        self.limits = LeakLimits(mode=random.choices(("act", "dry-run"), (19, 1))[0])
        self.agents = Random(f"agents of day {engine.seed}")
        self.has_failing_agents = self.agents.random() < OFTEN_FAILING
        named_by_pod = [each.name for each in self.pools if self.agents.random() < NAMED_BY_POD]
        self.named_by_pod = frozenset(named_by_pod if self.has_failing_agents else ())

    def begin(self) -> None:
        """Schedule the pods of the day."""
        if not self.pools:
            return
        engine, random = self._engine, self.random
        self.reconcile()
        episodes = engine.scenario.episodes
        for episode in random.sample(episodes, k=min(len(episodes), random.choice((1, 1, 2)))):
            names = random.choices(tuple(INCIDENTS), tuple(INCIDENTS.values()), k=random.choice((1, 2, 2, 3)))
            for name in names:
                engine.at(random.uniform(episode.begins, episode.ends), partial(self._incident, name))
            names = self.agents.choices(tuple(AGENT_INCIDENTS), tuple(AGENT_INCIDENTS.values()), k=2)
            for name in names if self.has_failing_agents else ():
                engine.at(self.agents.uniform(episode.begins, episode.ends), partial(self._agent_incident, name))
            if random.random() < 0.3:
                window = cluster_weather(random, episode.begins, episode.ends)
                engine.at(window.begins, partial(engine.begin_weather, window))
                engine.at(window.ends, partial(engine.end_weather, window))
            slips = any(window.lie is Lie.SLIPS for window in episode.weather)
            ends = episode.ends + (SETTLED_SECONDS if slips else random.choice((900.0, 1500.0, 3600.0)))
            engine.at(episode.begins - WARM_UP_SECONDS, partial(self._tick, ends))

    def stage(self, pools: Sequence[Pool], lasts: float, *, are_named_by_pod: bool) -> None:
        """From now on these pools alone have pods; the reaper runs for so long."""
        self.pools = self._engine.reaper.pools = pools
        self.named_by_pod = frozenset(each.name for each in pools if are_named_by_pod)
        self._tick(self._engine.now + lasts)

    def own(self, machine: Machine, pod: TruePod) -> None:
        """A registration belongs to a pod, in which another agent may run: it gets no pod of its own."""
        self._pod_of[machine.id] = pod

    def work_elsewhere(self, pool: Pool, name: str) -> None:
        """A pod in which a runner of a repository works."""
        self._make(name, None, self._engine.now, pool).hidden = True

    def work_for_a_repository(self, pod: TruePod) -> None:
        """Its agent has crashed; its container restarts, and its next runner is one of a repository."""
        self._stop(pod, for_good=False)
        pod.machine, pod.hidden, pod.is_decided = None, True, True
        self._engine.after(10.0, partial(self._started, pod))

    def _tick(self, ends: float) -> None:
        self.reconcile()
        self._engine.start("reap", self._engine.reaper.reap)
        if self._engine.now < ends:
            self._engine.after(TICK_SECONDS, partial(self._tick, ends))

    # ---- controllers

    def reconcile(self) -> None:
        """Actions of controllers since the last call: a pod for each new runner, and the end of finished pods."""
        self._cluster.forget()
        for pod in list(self._cluster.pods.values()):
            self._see_to(pod)
        for machine in list(self._world.recent.values()):
            if machine.pool in self.pools and machine.registered and machine.id not in self._pod_of:
                self._make(machine.name, machine, since=machine.born)

    def _make(self, name: str, machine: Machine | None, since: float, pool: Pool | None = None) -> TruePod:
        """A pod whose container runs."""
        owner = machine.pool if machine is not None else pool or self.pools[0]
        pod = TruePod(name, owner, since - 10.0, machine, started_at=since)
        self._bind(pod, machine)
        return self._cluster.add(pod)

    def _bind(self, pod: TruePod, machine: Machine | None) -> None:
        pod.machine, pod.is_decided = machine, False
        if machine is not None:
            self._pod_of[machine.id], pod.fails = pod, False

    def _see_to(self, pod: TruePod) -> None:
        machine, random = pod.machine, self.random
        if machine is None or not pod.exists:
            return
        if machine.successor is not None:
            self._bind(pod, machine.successor)
            return
        if pod.is_decided or pod.started_at is None or machine.fate in (Fate.HERE, Fate.VANISHED):
            return
        evidence = self._engine.store.runners.get(machine.id)
        if machine.fate in (Fate.LOST, Fate.DELETED) and evidence is not None and evidence.replaced_at is None:
            return  # its controller was not informed
        pod.is_decided = True
        if random.random() < FORGOTTEN:
            self._engine.trace("its controller forgets", pod=pod.name)
            return
        self._cluster.take_down(pod, random.uniform(1.0, 60.0))

    # ---- at the last moment

    def chosen(self, pods: Sequence[TruePod]) -> None:
        """Before the reaper's last look at these pods: one is claimed at this moment, or its runner is back."""
        for pod in pods:
            if self.random.random() > JUST_NOW:
                continue
            if pod.machine is not None and pod.machine.fate is Fate.VANISHED:
                self._engine.fleet.come_back(pod.machine)
            else:
                self._claim(pod)

    def looked_again(self, pod: TruePod) -> None:
        """After the reaper's last look: at this moment the kubelet restarts the container, and its agent registers."""
        if pod.exists and not pod.is_dead and self.random.random() < JUST_NOW / 4:
            old = pod.machine
            if old is not None:
                self._cluster.end_process(old)
            self._started(pod)
            name = pod.name if pod.pool.name in self.named_by_pod else f"agent-{self._number()}"
            new = self._world.register(pod.pool, self._engine.now, name)
            if old is not None and old.name == name and old.successor is None:  # it was not registered any more
                old.successor, new.is_successor = new, True
                self._engine.audit.registered_again(old)
            self._bind(pod, new)

    # ---- incidents

    def _incident(self, what: str) -> None:
        self.reconcile()
        self._engine.trace(what)
        random, pool = self.random, self.random.choice(list(self.pools))
        pods = [each for each in self._cluster.pods.values() if self._is_idle(each)]
        random.shuffle(pods)
        some = pods[: random.randint(1, 3)]
        match what:
            case "runners are partitioned from GitHub":
                self._partition(pods[: max(1, round(len(pods) * random.choice((0.3, 1.0))))])
            case "runners update themselves":
                for pod in pods[: max(1, len(pods) // 2)]:
                    self._start_again(pod)
            case "runners are started again under another name":
                for pod in some:
                    is_named = pod.pool.name in self.named_by_pod
                    self._register_again(pod, pod.name if is_named else f"agent-{self._number()}")
            case "runners are started again under their name":
                for pod in some:
                    self._register_again(pod, pod.name)
            case "pods wait for a node":
                for _ in range(random.randint(1, 3)):
                    self._wait_for_node(pool)
            case "pods of runners with other names":
                for _ in range(random.randint(1, 4)):
                    self._other_name(pool)
            case "pods leak":
                self._leak(some)
            case "many pods leak":
                self._leak(pods)
            case "containers end for good":
                for pod in some:
                    self.end(pod)
            case "one takes a long job, and its registration goes":
                for pod in pods[:2]:
                    self._work_on(pod)
            case "pods are claimed":
                for pod in random.sample(sorted(self._cluster.pods), k=min(4, len(self._cluster.pods))):
                    self._claim(self._cluster.pods[pod])
        if random.random() < FORGOTTEN and pods:
            self._claim(random.choice(pods))

    def _agent_incident(self, what: str) -> None:
        self.reconcile()
        self._engine.trace(what)
        random, pool = self.agents, self.agents.choice(list(self.pools))
        pods = [each for each in self._cluster.pods.values() if self._is_idle(each)]
        random.shuffle(pods)
        some = pods[: random.randint(1, 4)]
        match what:
            case "agents never register":
                self.fail(pool, random.randint(1, 3))
            case "the agents of many pods never register":
                self.fail(pool, random.randint(8, 40))
            case "agents register late":
                for _ in range(random.randint(1, 3)):
                    self._register_late(pool)
            case "the proxies of pods end":
                for pod in some:
                    self._end_proxy(pod)
            case "containers end, which GitHub notices late":
                for pod in some:
                    self.end(pod, noticed_after=random.uniform(400.0, 1500.0))

    def fail(self, pool: Pool, count: int) -> None:
        """Pods whose agent never registers; a controller may claim some of them all the same."""
        for _ in range(count):
            pod = self._make(f"failed-{self._number()}", None, self._engine.now, pool)
            pod.fails = True
            if self.agents.random() < 0.1:
                self._engine.claiming.claim(pod.name, pod.name, self.agents.choice((90.0, 600.0)), None)

    def _register_late(self, pool: Pool) -> None:
        """Its agent needs minutes to register, but less than the grace."""
        pod = self._make(f"late-{self._number()}", None, self._engine.now, pool)

        def registers() -> None:
            if pod.exists:
                self._bind(pod, self._world.register(pod.pool, self._engine.now, pod.name))

        self._engine.after(self.agents.uniform(100.0, self.limits.grace_seconds - 20.0), registers)

    def _end_proxy(self, pod: TruePod) -> None:
        """GitHub may see the runner offline for a while."""
        self.end_proxy(pod, self.agents.choice((90.0, 1200.0)) if self.agents.random() < 0.7 else 0.0)

    def end_proxy(self, pod: TruePod, offline_for: float) -> None:
        """Its proxy ends, and its agent goes on."""
        pod.has_proxy, pod.proxy_ended_at = True, self._engine.now
        pod.changed(self._engine.now)
        if offline_for:
            self._offline(pod, offline_for)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    @staticmethod
    def _is_idle(pod: TruePod) -> bool:
        """Its runner waits for a job."""
        machine = pod.machine
        is_running = pod.exists and pod.started_at is not None and pod.ended_at is None
        return is_running and machine is not None and machine.registered and machine.online and machine.job is None

    def _claim(self, pod: TruePod) -> None:
        random = self.random
        called = pod.name if pod.machine is None else pod.machine.name
        seconds = random.choice((90.0, 150.0, 600.0, 1800.0))
        give_back_in = random.uniform(0.0, seconds) if random.random() < 0.5 else None
        self._engine.claiming.claim(pod.name, called, seconds, give_back_in)

    def _partition(self, pods: Sequence[TruePod]) -> None:
        """They are offline and registered, for minutes or hours; some are restarted meanwhile."""
        random = self.random
        seconds = random.choice((90.0, 300.0, 1200.0, 2 * HOUR))
        for pod in pods:
            self._offline(pod, seconds + random.uniform(0.0, 60.0))
            if random.random() < 0.3:
                self._engine.after(random.uniform(0.0, min(seconds, 1500.0)), partial(self._started, pod))

    def _offline(self, pod: TruePod, seconds: float) -> None:
        if pod.machine is not None:
            pod.machine.go_offline(self._engine.now)
            self._engine.after(seconds, pod.machine.come_online)

    def _start_again(self, pod: TruePod) -> None:
        """The agent updates itself."""
        self.start_again(pod, self.random.choice((2.0, 20.0, 120.0)))

    def start_again(self, pod: TruePod, down: float) -> None:
        """Its container ends, and is started again; GitHub shows its runner offline meanwhile."""
        self._offline(pod, down + self.random.uniform(5.0, 90.0))
        self._stop(pod, for_good=False)
        self._engine.after(down, partial(self._started, pod))

    def _stop(self, pod: TruePod, *, for_good: bool) -> None:
        pod.ended_at, pod.for_good = self._engine.now, for_good
        pod.changed(self._engine.now)

    def _started(self, pod: TruePod) -> None:
        if not pod.exists or pod.is_dead:
            return
        pod.restarts += pod.started_at is not None
        pod.started_at, pod.ended_at = self._engine.now, None
        pod.changed(self._engine.now)
        self._engine.trace("container starts", pod=pod.name)

    def _register_again(self, pod: TruePod, name: str) -> None:
        """Its registration is removed; its container restarts and registers: a new runner for GitHub."""
        old, now = pod.machine, self._engine.now
        if old is None:
            return
        if name == old.name:
            self._world.configure_again(old, now)
            new = old.successor
        else:
            new = self._world.register(pod.pool, now, name)
            old.dead = True  # its registration goes at once, or is left offline for a while
            old.go_offline(now)
            self._engine.after(self.random.choice((0.0, 600.0)), partial(self._engine.fleet.lose, [old]))
        self._bind(pod, new)
        self._stop(pod, for_good=False)
        down = self.random.choice((2.0, 30.0))
        self._offline(pod, down + 5.0)
        self._engine.after(down, partial(self._started, pod))

    def _wait_for_node(self, pool: Pool) -> None:
        """Its runner may be registered beforehand, like just-in-time runners; that registration may be removed."""
        random, now = self.random, self._engine.now
        name = f"slow-{self._number()}"
        machine = self._world.register(pool, now, name, online=False) if random.random() < 0.7 else None
        pod = TruePod(name, pool, now)
        self._bind(pod, machine)
        self._cluster.add(pod)
        waits = random.choice((200.0, 900.0, 2400.0, 2 * HOUR))
        if machine is not None and random.random() < 0.6:
            self._engine.after(random.uniform(100.0, 600.0), partial(self._engine.fleet.lose, [machine]))
        self._engine.after(waits, partial(self._placed, pod))

    def _placed(self, pod: TruePod) -> None:
        """It starts late. A pod whose registration was removed meanwhile fails at once."""
        if not pod.exists:
            return
        self._started(pod)
        if pod.machine is None:
            self._bind(pod, self._world.register(pod.pool, self._engine.now, pod.name))
        elif pod.machine.registered:
            self._offline(pod, 5.0)
        else:
            self.end(pod)

    def _other_name(self, pool: Pool) -> None:
        """A runner whose name differs from its pod's, or that belongs to a repository."""
        random, number = self.random, self._number()
        if pool.name in self.named_by_pod:
            return
        machine = None
        if random.random() < 0.7:
            machine = self._world.register(pool, self._engine.now, f"agent-{number}")
        pod = self._make(f"build-{number}", machine, self._engine.now, pool)
        pod.hidden = machine is None
        if random.random() < 0.4:
            self._claim(pod)

    def _leak(self, pods: Sequence[TruePod]) -> None:
        """Their registrations are removed, their containers hang, and their controller does not know."""
        for pod in pods:
            if pod.machine is not None:
                self._engine.fleet.lose([pod.machine])
                pod.is_decided = True
                self._engine.trace("leaks", pod=pod.name, runner=pod.machine.id)

    def end(self, pod: TruePod, noticed_after: float = 0.0) -> None:
        """Its process was killed; GitHub shows the runner offline afterwards."""
        if pod.machine is not None:
            machine = pod.machine
            machine.dead = True
            self._engine.after(noticed_after, lambda: machine.go_offline(self._engine.now))
        pod.is_final, pod.is_decided = self.random.random() < 0.5, True
        self._stop(pod, for_good=True)

    def _work_on(self, pod: TruePod) -> None:
        """A long job continues without its runner's registration."""
        machine, random = pod.machine, self.random
        if machine is None:
            return
        self._engine.fleet.take_job(machine, lasting=random.choice((1500.0, 3000.0)))
        self._engine.after(random.uniform(60.0, 400.0), partial(self._engine.fleet.vanish, [machine], 3 * HOUR))
