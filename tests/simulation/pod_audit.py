"""Invariants of the reaper, checked against the true state: it deletes no live pod, and deletes each leak in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, log2
from typing import TYPE_CHECKING, NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.guards import MOST_GAP_SECONDS, TERMINAL_SECONDS, TickResult
from ghapp.leaks.leak_fuse import PROVEN_SHARE
from ghapp.pods.pod import Pod
from ghapp.remediation.fuse import Position, threshold
from ghapp.runners.evidence import Registration
from ghapp.runners.verdict import may_run_an_unknown_job
from tests.simulation.cluster import TruePod
from tests.simulation.invariants import ACT_LIFE, JOB_LIFE
from tests.simulation.lies import Lie
from tests.simulation.pod_life import TICK_SECONDS
from tests.simulation.world import Fate, Machine

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

LOOK_SECONDS = 0.05
"""From GitHub's answer in the last look until the records are read."""

SLACK = 2.0
"""Tolerance between an event and its observation."""


class LookedAt(NamedTuple):
    """The true state of a pod at the last look before its deletion: signs of life, and rules that forbid deletion."""

    alive: str
    forbidden: str
    restarts: int


class PodAudit:
    """Watches the reaper of one simulated day."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._looks: dict[str, LookedAt] = {}
        self._deleted: list[tuple[float, str, str]] = []
        """When, of which pool, and the uid."""
        self._expected: Counter[str] = Counter()
        self._fair_since: dict[str, float] = {}
        self._named_at: dict[str, float] = {}
        """By name: the time of the last list that showed it online."""
        self._known: set[str] = set()
        self._connected: set[str] = set()
        self._looked_at: set[str] = set()
        self._listed_at = 0.0
        self._lacked_at: dict[str, float] = {}
        """By name: since when usable lists have lacked it. GitHub may hide a runner before it is removed."""
        self._waited_with: dict[str, int] = {}
        """By leak: the highest number of apparent leaks while it waited."""
        self._judged_at = 0.0
        self.reaped = 0

    @property
    def _grace(self) -> float:
        return self._engine.pod_life.limits.grace_seconds

    @property
    def _look_seconds(self) -> float:
        """Duration of the last look before a deletion: changes after its start may be missed."""
        return ACT_LIFE if Lie.FREEZES in self._engine.github.lies else LOOK_SECONDS

    # ---- what is seen

    def swept(self, runners: Iterable[Registration], at: float) -> None:
        """Records a usable list."""
        if not self._engine.pod_life.pools:
            return
        shown = {each.name: each.online or each.busy for each in runners}
        self._known |= shown.keys()
        for name in self._known - shown.keys():
            self._lacked_at.setdefault(name, at)
        for name in self._lacked_at.keys() & shown.keys():
            del self._lacked_at[name]
        self._connected, self._listed_at = {name for name in shown if shown[name]}, at

    def listed(self, pods: Sequence[Pod]) -> None:
        """Records the pods that the reaper listed: the expected number in each pool."""
        engine = self._engine
        paused = {pool.name for pool in engine.scenario.pools if engine.changes.name_of(pool) in engine.store.paused}
        pods = [each for each in pods if each.namespace not in paused]  # the namespace of a pool has its first name
        there = [each.namespace for each in pods if each.deleting_since is None]
        self._looked_at = {each.name for each in pods}
        self._expected = Counter([*there, *[ALL_POOLS] * len(there)])

    # ---- nothing that may be alive is deleted

    def looked_again(self, pod: Pod) -> None:
        """Records the true state at the end of the last look before a deletion."""
        found = self._engine.cluster.pods[pod.name]
        self._looks[pod.name] = LookedAt(self._alive(found), self._forbidden(found), found.restarts)
        self._engine.pod_life.looked_again(found)

    def deleting(self, pod: TruePod) -> None:
        """Checks a pod that the API server is about to delete."""
        require, look = self._engine.audit.require, self._looks[pod.name]
        require(not look.alive, f"pod {pod.name} is reaped: {look.alive}")
        require(not look.forbidden, f"pod {pod.name} is reaped: {look.forbidden}")
        require(pod.ended_at is None or pod.for_good, f"pod {pod.name} is reaped: its container is being started again")
        require(pod.restarts == look.restarts, f"pod {pod.name} is reaped: its container has just started again")
        require(self._engine.pod_life.limits.mode == "act", f"pod {pod.name} is reaped in dry-run")
        self.reaped += 1
        self._deleted.append((self._engine.now, pod.pool.name, pod.uid))
        for scope in (pod.pool.name, ALL_POOLS):
            self._within_a_batch(scope)

    def _within_a_batch(self, scope: str) -> None:
        """Guard 18: in a mass leak a first batch is deleted, and then at most as many as before and a first batch."""
        engine, limits = self._engine, self._engine.scenario.config.fuse
        times = [at for at, pool, _ in self._deleted if scope in (pool, ALL_POOLS)]
        count = sum(at > engine.now - limits.window_seconds for at in times)
        is_mass = count >= threshold(self._expected[scope], limits)
        in_batch = sum(at > engine.now - 0.9 * PROVEN_SHARE * limits.prove_seconds for at in times)
        is_stopped = any(fuse.position is Position.STOPPED for fuse in engine.store.reaper_fuses.values())
        is_allowed = in_batch <= len(times) - in_batch + limits.first_batch
        holds = engine.audit.is_skewed or not is_mass or is_allowed or is_stopped
        engine.audit.require(holds, f"{in_batch} pods of {scope} are reaped at once, of {self._expected[scope]}")

    def _alive(self, pod: TruePod) -> str:
        """Why this pod's runner works or could work; empty if it cannot."""
        machine, now = pod.machine, self._engine.now
        if pod.started_at is None:
            return "its container has never started"
        if pod.is_dead:
            return ""
        if pod.hidden:
            return "a runner of a repository works in it"
        if machine is None:
            return ""
        if machine.busy and self._engine.audit.is_known_busy(machine):
            return f"a job runs on its runner {machine.name}"
        if machine.name not in self._known and pod.pool.name in self._engine.pod_life.named_by_pod:
            return ""  # no list has ever had it: nothing distinguishes it from a runner that never registered
        if not machine.registered or now - (machine.spans[-1][0] or 0.0) <= self._look_seconds:
            return ""
        return (
            "" if self._is_given_up(machine) else f"its runner {machine.name} is registered, online: {machine.online}"
        )

    def _is_given_up(self, machine: Machine) -> bool:
        """True if its pool replaces offline runners and this one has been offline for that long."""
        patience, since = machine.pool.replace_offline_after_seconds, machine.offline_since
        if patience is None or since is None:
            return False
        return self._engine.audit.is_skewed or self._engine.audit.covered(since) >= patience - SLACK

    def _forbidden(self, pod: TruePod) -> str:
        """The rule, independent of the pod's runner, that forbids its deletion; empty if there is none."""
        engine, audit = self._engine, self._engine.audit
        if audit.is_skewed:
            return ""
        if engine.claiming.held_for(pod.name) > self._look_seconds:
            return "it is claimed"
        if 0.0 < engine.claiming.unclaimed_for(pod.name) < self._grace - SLACK:
            return "it was claimed a moment ago"
        if not audit.sees_github:
            return "GitHub cannot be seen"
        for scope in (engine.changes.name_of(pod.pool), ALL_POOLS):
            fuse = engine.store.fuses.get(scope)
            if fuse is not None and fuse.position is not Position.CLOSED:
                return f"the fuse of {scope} is {fuse.position.value}"
        if self._is_listed_online(pod):
            return "GitHub lists its runner online"
        if pod.is_dead or self._is_spent(pod.machine):
            return ""
        if pod.fails and (why := self._may_be_named(pod)):
            return why
        if engine.now - (pod.started_at or 0.0) < self._grace - SLACK:
            return "its container started a moment ago"
        if audit.last_total == 0:
            return "the last complete list has no runner at all"
        if pod.machine is not None and not pod.machine.registered:
            gone_at = min(pod.machine.fate_at, self._lacked_at.get(pod.machine.name, engine.now))
            if audit.covered(gone_at) < self._grace - SLACK:
                return f"its registration went {engine.now - gone_at:.0f} s ago"
        return ""

    def _is_listed_online(self, pod: TruePod) -> bool:
        """True if the last list shows its runner online, under the name that the reaper knows."""
        machine = pod.machine
        if (
            machine is None
            or machine.name != pod.name
            or not machine.registered
            or not machine.online
            or machine.name not in self._connected
        ):
            return False
        return self._engine.now - (machine.spans[-1][0] or 0.0) > self._look_seconds

    def _may_be_named(self, pod: TruePod) -> str:
        """Why a pod whose agent never registered must be kept: it may have a runner of an unknown name."""
        started_at, engine = pod.started_at or 0.0, self._engine
        if pod.pool.name not in engine.pod_life.named_by_pod:
            return "nothing says that its runner has its name"
        if engine.claiming.was_claimed_since(pod.name, started_at):
            return "a claim has named it since it started"
        covered = engine.audit.covered(started_at)
        return "" if covered >= self._grace - SLACK else f"lists cover {covered:.0f} s since it started"

    def _is_spent(self, machine: Machine | None) -> bool:
        """True if the only job of an ephemeral runner ended long ago."""
        over_at = None if machine is None else machine.last_job_over_at
        is_ephemeral = machine is not None and machine.pool.kind.ephemeral
        return is_ephemeral and over_at is not None and self._engine.now - over_at >= TERMINAL_SECONDS - 60.0

    # ---- every true leak is reaped in time

    def judged(self, reaping: TickResult) -> None:
        """Checks the result of a tick, before its deletions."""
        engine = self._engine
        named_at = self._named_at | dict.fromkeys(self._connected, self._listed_at)
        self._named_at = {name: at for name, at in named_at.items() if name in self._looked_at}  # a pause forgets
        leaks = [each for each in engine.cluster.pods.values() if self._is_leak(each)]
        waiting = [each for each in engine.cluster.pods.values() if each.exists and self._may_look_like_a_leak(each)]
        self._waited_with = {each.name: max(len(waiting), self._waited_with.get(each.name, 0)) for each in leaks}
        chosen = {each.name for each in reaping.reap}
        if engine.now - self._judged_at > MOST_GAP_SECONDS:
            self._fair_since.clear()  # the reaper did not run, or had no lists
        self._judged_at = engine.now
        self._fair_since = {each.name: self._fair_since.get(each.name, engine.now) for each in leaks}
        for pod in leaks:
            if self._is_hindered(pod):
                self._fair_since[pod.name] = engine.now
            waited = engine.now - self._fair_since[pod.name]
            bound = self._bound(self._waited_with[pod.name])
            in_time = waited <= bound or pod.name in chosen
            engine.audit.require(in_time, f"pod {pod.name} leaks, and is not reaped in {waited:.0f} s of {bound:.0f}")
        engine.pod_life.chosen([engine.cluster.pods[name] for name in sorted(chosen) if name in engine.cluster.pods])

    @staticmethod
    def _may_look_like_a_leak(pod: TruePod) -> bool:
        return pod.is_dead or pod.fails or (pod.machine is not None and not pod.machine.registered)

    def _is_leak(self, pod: TruePod) -> bool:
        """True for a permanent leak: no process or no registration, and no job."""
        machine = pod.machine
        if pod.fails and pod.exists:
            return pod.pool.name in self._engine.pod_life.named_by_pod
        if not pod.exists or pod.started_at is None or pod.hidden or machine is None:
            return False
        if pod.ended_at is not None and not pod.for_good:
            return False
        if machine.job is not None or machine.fate is Fate.VANISHED:
            return False
        if pod.is_dead:
            return not (machine.registered and machine.online)  # GitHub notices later
        return not machine.registered and machine.successor is None

    def _is_hindered(self, pod: TruePod) -> bool:
        """True if a guard may rightly keep it."""
        engine, audit = self._engine, self._engine.audit
        ours = None if pod.machine is None else pod.machine.id
        runners = [each for each in engine.store.runners.values() if each.id == ours or each.name == pod.name]
        if any(map(may_run_an_unknown_job, runners)):  # also an earlier registration of its name
            self._named_at.pop(pod.name, None)  # it is kept when its record is forgotten, too
            return True
        if any(each.running_job is not None for each in runners):
            return True  # no delivery reported its end
        if any(each.name == pod.name and not each.registered for each in runners):
            return True  # a runner of its name that no list shows, as one of a repository, may work in it for a day
        if engine.pod_life.limits.mode != "act" or not audit.is_fair or audit.is_skewed or not audit.sees_github:
            return True
        if any(fuse.position is not Position.CLOSED for fuse in engine.store.fuses.values()):
            return True
        is_paused = engine.changes.name_of(pod.pool) in engine.store.paused
        if engine.claiming.unclaimed_for(pod.name) <= 0.0 or is_paused:
            return True
        if any(fuse.position is Position.STOPPED for fuse in engine.store.reaper_fuses.values()):
            return True
        if pod.fails:
            started_at = pod.started_at or 0.0
            return audit.last_total == 0 or engine.claiming.was_claimed_since(pod.name, started_at)
        if pod.is_dead:
            return False
        never_named = self._named_at.get(pod.name, 0.0) < (pod.started_at or 0.0) + SLACK
        return audit.last_total == 0 or never_named

    def _bound(self, waiting: int) -> float:
        """Longest time in seconds from when no guard applies until its deletion.

        - two lists lack the registration, the second time for certain: 2 intervals; then it is confirmed as lost
        - unclaimed, absent and started for the grace, all at once
        - ticks: the one that began too early, the next, and one that a sweep delayed
        - of many, batches that double, each with its proof
        """
        config = self._engine.scenario.config
        looked = 2 * config.interval + config.evidence.startup_seconds + config.evidence.confirm_seconds
        batches = ceil(log2(1 + waiting / config.fuse.first_batch))
        return (
            looked
            + JOB_LIFE
            + self._grace
            + 3 * TICK_SECONDS
            + batches * (config.fuse.prove_seconds + 2 * TICK_SECONDS)
        )

    def closing(self) -> None:
        """At the end of the day each deletion is recorded, as completed or as begun."""
        store = self._engine.store
        for _, _, uid in self._deleted:
            self._engine.audit.require(uid in store.reaped or uid in store.begun, f"{uid} is deleted, and forgotten")
