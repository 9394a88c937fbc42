"""The reaper: `jobs.leaks.reap` and `jobs.leaks`, step by step. `ghapp.leaks` decides which pods are leaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import ALL_POOLS, pool_of
from ghapp.leaks import guards
from ghapp.leaks.github_queries import is_due, is_worth_a_query, with_answer, without_proof
from ghapp.leaks.guards import FuseView, Guard, LeakLimits, TickInputs, TickMemory, TickResult
from ghapp.leaks.leak_fuse import ReapedPod, reason_in_use
from ghapp.leaks.orphan import Orphan, orphan
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Pod
from ghapp.pods.pod_claim import by_name, claim_on
from ghapp.remediation.fuse_moves import open_pools
from ghapp.runners import observations
from ghapp.runners.evidence import Evidence
from ghapp.workflow_jobs.demand import Job
from jobs.leaks.github_status import MOST_JOBS, MOST_RUNNERS, GitHubStatus
from jobs.leaks.snapshot import RecordedRunners, Snapshot, names_of
from tests.simulation.calls import CALL, STEP, Calls, Steps
from tests.simulation.cluster import Conflict, Unreachable
from tests.simulation.folds import if_known
from tests.simulation.github import NoAnswer, NotFound
from tests.simulation.scenario import Pool

if TYPE_CHECKING:
    from tests.simulation.engine import Engine, Process


class Reaper(Calls):
    """Finds leaks, and deletes them.

    Attributes:
        pools: those that have pods, each in a namespace of its own.
        limits: the `[leaks]` table.
    """

    def __init__(self, engine: Engine, pools: Sequence[Pool], limits: LeakLimits) -> None:
        super().__init__(engine, engine.store, engine.github)
        self.cluster, self.pools, self.limits = engine.cluster, pools, limits

    def reap(self, me: Process) -> Steps:
        """`jobs.leaks.reap.reap_installation`."""
        if not self.store.take("reap", me, self.engine.now):
            return
        try:
            yield from self._tick(self.store.reaper_memory)
        except Unreachable:
            self.engine.trace("the API server gives no answer")
        self.store.release(me, "reap")

    def _tick(self, memory: TickMemory) -> Steps:
        if self.limits.mode == "act":
            yield from self._finish_begun()
        at = yield from self._look_at_all(memory)
        self.engine.pod_audit.listed(at.listed)
        if (yield from self._learn_of_jobs(at, memory)):
            at = yield from self._look_with(at.listed, at.look.pods_at, memory)
        reaping, at = yield from self._judge(at, memory)
        yield STEP
        self.store.reaper_memory = reaping.memory
        if self.engine.tracing:
            self.engine.trace("reaper", reap=_names(reaping.reap), **_kept(reaping))
        if reaping.skipped is not None:
            return
        self.engine.pod_audit.judged(reaping)
        yield STEP
        for pool, fuse in reaping.fuses.items():
            if self.store.reaper_fuses.get(pool) == at.look.fuse.fuses.get(pool):
                self.store.reaper_fuses[pool] = fuse
        yield STEP
        yield from self._reap_all(reaping, at)

    # ---- jobs.leaks.snapshot

    def _look_at_all(self, memory: TickMemory) -> Steps:
        began, pods = self.clock(), list[Pod]()
        for pool in self.pools:
            yield CALL
            pods += self.cluster.list_pods(pool)
        return (yield from self._look_with(pods, began, memory))

    def _look_with(
        self, pods: Sequence[Pod], pods_at: float, memory: TickMemory, *, only: Collection[str] | None = None
    ) -> Steps:
        known = yield from self._known(only)
        now, stale_seconds = self.clock(), self.config.evidence.stale_seconds
        names = {*known.runners_by_name, *known.jobs}.union(*(names_of(pod, known.claims, memory) for pod in pods))
        activity = {name: known.activity(name, now, stale_seconds, self._patience) for name in names}
        pools = {pod.uid: self._pool_for(pod, known, memory) for pod in pods}
        yield STEP
        everyone = (each for several in known.runners_by_name.values() for each in several)
        known_pools = {pool_of(each.labels, each.custom_labels, self.rules) for each in everyone}
        known_pools |= {rule.name for rule in self.rules}
        turned = open_pools(self.store.fuses, known_pools if only is None else self.store.fuses.keys())
        own_fuses = dict(self.store.reaper_fuses)
        began = [fuse.since for fuse in own_fuses.values() if fuse.since is not None]
        since = min([now - self.config.fuse.window_seconds, *began])
        reaped = [each for each in self.store.reaped.values() if only is None and each.at > since]
        in_use = {
            each.uid: reason_in_use(each, activity.get(each.runner_name, RunnerActivity()), pods) for each in reaped
        }
        not_closed = frozenset(uid for uid, pool in pools.items() if turned & {pool, ALL_POOLS})
        look = TickInputs(
            pods,
            pods_at,
            known.claims,
            activity,
            known.at,
            github_stale=known.is_github_stale(now, stale_seconds),
            list_empty=known.survey.total == 0,
            fuse=FuseView(
                self.config.fuse,
                pools,
                reaped,
                not_closed,
                own_fuses,
                {uid: reason for uid, reason in in_use.items() if reason},
            ),
            paused=frozenset(uid for uid, pool in pools.items() if pool in self.store.paused),
            survey=known.survey,
            bear_name=frozenset(pod.uid for pod in pods if pod.namespace in self.engine.pod_life.named_by_pod),
        )
        return Snapshot(look, known, pods)

    def _known(self, only: Collection[str] | None) -> Steps:
        at, claims = self.clock(), by_name(self.store.pod_claims.values())
        yield STEP
        same_name, jobs = defaultdict[str, list[Evidence]](list), defaultdict[str, list[Job]](list)
        for evidence in self.store.runners.values():
            if only is None or evidence.name in only:
                same_name[evidence.name].append(evidence)
        yield STEP
        return RecordedRunners(dict(same_name), dict(jobs), claims, self.store.survey, at)

    def _patience(self, evidence: Evidence) -> float | None:
        pool = pool_of(evidence.labels, evidence.custom_labels, self.rules)
        return next((each.replace_offline_after_seconds for each in self.rules if each.name == pool), None)

    def _pool_for(self, pod: Pod, known: RecordedRunners, memory: TickMemory) -> str:
        runner = known.latest(memory.names.get(pod.uid, pod.name))
        if runner is not None and runner.registered:
            return pool_of(runner.labels, runner.custom_labels, self.rules)
        changes = self.engine.changes  # the namespace of a pool has its first name
        return next(changes.name_of(pool) for pool in self.pools if pool.name == pod.namespace)

    # ---- jobs.leaks.github_status

    def _learn_of_jobs(self, at: Snapshot, memory: TickMemory) -> Steps:
        due = dict[int, Evidence]()
        now = self.clock()
        for pod in at.look.pods:
            names = names_of(pod, at.known.claims, memory)
            if any(claim_on(at.known.claims, name, now) for name in names):
                continue
            has_ended = pod.runner is not None and pod.runner.ended is not None
            for name in names:
                looks_over = has_ended or at.look.runners[name].busy is False
                for each in at.known.runners_by_name.get(name, ()):
                    if each.running_job is not None and each.running_job in self.store.known_jobs:
                        began = each.job_started_at or each.first_seen
                        if is_due(began, memory.at, now, looks_over=looks_over):
                            due[each.running_job] = each
        learned = False
        try:
            for job, evidence in list(due.items())[:MOST_JOBS]:
                end = yield from self.call(Purpose.REPORT, self.github.job_end, job)
                if end is not None:
                    fold = partial(
                        observations.job_found_over, job_id=job, at=self.clock(), completed_at=end.completed_at
                    )
                    self.store.revise({evidence.id: if_known(fold)})
                    self.audit.answered(evidence.id)
                    learned = True
        except (NoAnswer, NotFound):
            pass
        return learned

    def _ask_for_runners(self, at: Snapshot, waiting: Sequence[Pod], names: Mapping[str, str], enough: int) -> Steps:
        activity, same_name = at.look.runners, at.known.runners_by_name
        result = {name: word._replace(busy=None) for name, word in activity.items()}
        result |= {name: activity[name] for pod in waiting if activity[name := names[pod.uid]].has_session}
        worth = [
            pod for pod in waiting if is_worth_a_query(activity[names[pod.uid]], same_name.get(names[pod.uid], ()))
        ]
        left = sorted(worth, key=lambda pod: (pod.created_at, pod.uid))
        asked = 0
        try:
            while left and enough > 0 and asked < MOST_RUNNERS:
                several, left = left[: min(enough, MOST_RUNNERS - asked)], left[min(enough, MOST_RUNNERS - asked) :]
                asked += len(several)
                words = {}
                for name in sorted({names[pod.uid] for pod in several}):
                    found = yield from self.call(Purpose.REPORT, self.github.named, name)
                    if not found:
                        found = yield from self._get(without_proof(same_name.get(name, ())))
                    words[name] = with_answer(activity[name], same_name.get(name, ()), found)
                result |= words
                enough -= sum(word.has_session is False for word in words.values())
        except (NoAnswer, NotFound):
            return GitHubStatus(result)
        return GitHubStatus(result, tuple(pod for pod in left if activity[names[pod.uid]].has_session is False))

    def _get(self, records: Sequence[Evidence]) -> Steps:
        found = []
        for each in records:
            try:
                found.append((yield from self.call(Purpose.REPORT, self.github.runner, each.id)))
            except NotFound:
                continue
        return found

    # ---- jobs.leaks.reap

    def _judge(self, at: Snapshot, memory: TickMemory) -> Steps:
        activity = at.look.runners
        without = {name: word._replace(busy=None) for name, word in activity.items()}
        blind = at.look._replace(runners=without)
        first = guards.leaks(blind, self.clock(), self.limits, memory)
        if first.skipped is not None:
            return first, at._replace(look=blind)
        by_list = guards.leaks(at.look, self.clock(), self.limits, memory)
        found = {
            pod.uid
            for pod in (*by_list.reap, *by_list.would_reap, *by_list.deferred, *(pod for pod, _ in by_list.held))
        }
        unknown = {pod.uid for pod in _unknown(by_list)}
        waiting = [pod for pod in _unknown(first) if pod.uid in found | unknown]
        may_go = {pod.uid for pod in (*by_list.reap, *by_list.would_reap)} - {
            pod.uid for pod in (*first.reap, *first.would_reap)
        }
        enough = len(may_go)
        if unknown and not by_list.held:
            enough = self.limits.per_tick - len(first.reap) - len(first.would_reap)
        names = first.memory.names
        asked = GitHubStatus(without)
        if waiting:
            asked = yield from self._ask_for_runners(at, waiting, names, enough)
        kept = {names[pod.uid] for pod, guard in by_list.kept if guard is not Guard.GITHUB_UNKNOWN}
        runners = {
            **asked.runners,
            **{name: activity[name] for name in kept - {names[pod.uid] for pod in waiting} if name in activity},
        }
        look = at.look._replace(runners=runners, unasked=frozenset(pod.uid for pod in asked.unasked))
        return guards.leaks(look, self.clock(), self.limits, memory), at._replace(look=look)

    # ---- jobs.leaks.delete

    def _finish_begun(self) -> Steps:
        for found in sorted(self.store.begun.values(), key=lambda each: (each.found_at, each.uid)):
            yield CALL
            pod = self.cluster.read(found.pod)
            if pod is None or (pod.uid == found.uid and pod.deleting_since is not None):
                yield from self._finish(found)
            else:
                self.store.begun.pop(found.uid, None)

    def _reap_all(self, reaping: TickResult, at: Snapshot) -> Steps:
        for pod in reaping.reap:
            try:
                yield from self._reap(pod, reaping.memory, at)
            except Conflict:
                self.engine.trace("the pod has changed", pod=pod.name)
            except Unreachable:
                return

    def _reap(self, pod: Pod, memory: TickMemory, at: Snapshot) -> Steps:
        pods_at = self.clock()
        yield CALL
        fresh = self.cluster.read(pod.name)
        if fresh is None or fresh.uid != pod.uid:
            return
        found = yield from self._judge_again(fresh, pods_at, memory, at)
        if found is None:
            self.engine.trace("pod kept", pod=pod.name)
            return
        yield STEP
        self.store.begun[found.uid] = found
        yield CALL
        try:
            is_ours = self.cluster.delete(fresh)
        except Conflict:
            self.store.begun.pop(found.uid, None)
            raise
        if not is_ours:
            self.store.begun.pop(found.uid, None)
            return
        self.engine.trace(
            "DELETE", pod=pod.name, runner=found.runner_name, evidence=[each[2] for each in found.evidence]
        )
        yield STEP
        yield from self._finish(found)

    def _judge_again(self, pod: Pod, pods_at: float, memory: TickMemory, before: Snapshot) -> Steps:
        called = memory.names[pod.uid]
        word = yield from self._githubs_word(pod, called, before)
        names = names_of(pod, before.look.claims, memory)
        at = yield from self._look_with([pod], pods_at, memory, only=names)
        activity = {
            name: known
            if known.has_session
            else known._replace(
                busy=word.busy if name == called else None,
                online=word.online,
                registered=word.registered,
                offline_too_long=known.offline_too_long and word.offline_too_long,
            )
            for name, known in at.look.runners.items()
        }
        now, alone = self.clock(), memory._replace(pods=0, claims=0)
        again = guards.leaks(at.look._replace(runners=activity), now, self.limits, alone)
        self.engine.pod_audit.looked_again(pod)
        if pod.uid not in again.memory.since:
            self.store.reaper_memory = self.store.reaper_memory.with_claim_on({pod.uid}, now)
        if not again.reap:
            return None
        name = again.memory.names[pod.uid]
        pool = self._pool_for(pod, at.known, again.memory)
        never_named = pod.uid in again.never_named
        return orphan(pod, name, pool, activity[name], again.memory.since[pod.uid], now, never_named=never_named)

    def _githubs_word(self, pod: Pod, called: str, before: Snapshot) -> Steps:
        word: RunnerActivity = before.look.runners[called]
        if word.has_session is None:
            return word
        alone = before._replace(look=before.look._replace(runners={called: word}))
        asked = yield from self._ask_for_runners(alone, [pod], {pod.uid: called}, 1)
        return asked.runners[called]

    def _finish(self, found: Orphan) -> Steps:
        names = (found.pool, found.namespace, found.pod, found.runner_name)
        self.store.reaped.setdefault(
            found.uid, ReapedPod(found.uid, *names, was_registered=found.was_registered, at=self.clock())
        )
        yield CALL
        try:
            self.cluster.delete_account(found.pod)
        except Unreachable:
            return  # the next tick finishes it
        yield STEP
        self.store.begun.pop(found.uid, None)


def _unknown(reaping: TickResult) -> list[Pod]:
    return [pod for pod, guard in reaping.kept if guard is Guard.GITHUB_UNKNOWN]


def _names(pods: Sequence[Pod]) -> list[str]:
    return [pod.name for pod in pods]


def _kept(reaping: TickResult) -> dict[str, list[str]]:
    """For the trace: the pods that each guard keeps."""
    kept = defaultdict[str, list[str]](list)
    for pod, guard in (*reaping.kept, *reaping.held):
        kept[guard.value].append(pod.name)
    return dict(kept, **({"skipped": [reaping.skipped.value]} if reaping.skipped else {}))
