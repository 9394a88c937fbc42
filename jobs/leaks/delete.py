"""Deletes leaked pods, one by one: check again, record, delete, publish, and delete the ServiceAccount.

What is about to be deleted is recorded first, so that the next tick finishes what a crash has left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ghapp.cluster.api import Cluster
from ghapp.errors import ClusterError, ClusterForbiddenError, ConflictError
from ghapp.health.installation import Installation
from ghapp.health.leaks.guards import LeakLimits, TickMemory, TickResult, leaks
from ghapp.health.leaks.orphan import Orphan, orphan
from ghapp.health.leaks.runner_activity import RunnerActivity
from ghapp.health.pods.pod import Pod
from ghapp.log import logger
from ghapp.replace.pods import delete_account, require_permissions
from ghapp.store.leaks import Leaks
from jobs.context import JobContext
from jobs.deaths.death_recorder import DeathRecorder
from jobs.events.publish import publish_orphan
from jobs.leaks.github_status import query_runners
from jobs.leaks.snapshot import Snapshot, names_of, pool_for, snapshot_of_pods

log = logger(__name__)

REAPED, GONE, CHANGED, SPARED, FAILED, SKIPPED = "reaped", "gone", "changed", "spared", "failed", "skipped"
"""What became of a leak, as it is counted: gone before it was deleted, not what it was, claimed at the last moment,
not accepted by the cluster. And of a tick: skipped."""


@dataclass(slots=True)
class Reaper:
    """One org's, for one tick.

    Attributes:
        trouble: what was last in the way; empty while nothing is.
        outcomes: how many of each.
        claimed: uids of leaks that had a claim just before their deletion: the next tick must not forget it.
    """

    context: JobContext
    installation: Installation
    cluster: Cluster
    limits: LeakLimits
    store: Leaks
    trouble: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    claimed: set[str] = field(default_factory=set)
    _leave: dict[str, bool] = field(default_factory=dict)

    async def finish_begun(self) -> None:
        """Finish what an earlier tick began.

        Raises:
            ClusterError: a pod cannot be read.
        """
        for found in await self.store.unfinished(self.installation.id):
            pod = await self.cluster.pod(found.namespace, found.pod)
            if pod is None or (pod.uid == found.uid and pod.deleting_since is not None):
                await self._finish(found)
                continue
            if pod.uid != found.uid:  # a successor: the ServiceAccount is its own by now
                await self._tell(found)
            await self.store.done(self.installation.id, found)  # if the pod is still there, it is judged again

    async def reap_all(self, reaping: TickResult, seen: Snapshot) -> None:
        """Reap each, judged by what was `seen`; where the cluster gives no answer, the rest waits for the next tick."""
        for pod in reaping.reap:
            try:
                outcome = await self._reap(pod, reaping.memory, seen) if await self._may(pod.namespace) else FAILED
            except ConflictError as conflict:
                log.info("pod changed, retrying", pod=pod.name, why=str(conflict))
                outcome = CHANGED
            except ClusterError as error:
                self.trouble = str(error)
                await self.count(FAILED)
                return
            if outcome != REAPED:  # that one is counted where it is published, once, whatever crashes
                await self.count(outcome)

    async def count(self, outcome: str) -> None:
        """Count one."""
        self.outcomes[outcome] += 1
        await self.context.counters.add("ghapp_orphans_reaped_total", org=self.installation.org, outcome=outcome)

    async def _may(self, namespace: str) -> bool:
        """Pod and ServiceAccount go together, or neither does."""
        if namespace not in self._leave:
            try:
                await require_permissions(self.cluster, namespace)
                self._leave[namespace] = True
            except ClusterForbiddenError as error:
                self.trouble, self._leave[namespace] = str(error), False
        return self._leave[namespace]

    async def _reap(self, pod: Pod, memory: TickMemory, seen: Snapshot) -> str:
        """Look at this one again, the pod first; delete it as it is now, if it still is a leak.

        Raises:
            ConflictError: it changed after that.
            ClusterError: no answer; the next tick sees whether it was deleted.
        """
        pods_at, fresh = self.context.clock(), await self.cluster.pod(pod.namespace, pod.name)
        if fresh is None or fresh.uid != pod.uid:
            return GONE
        found = await self._judged_again(fresh, pods_at, memory, seen)
        if found is None:
            return SPARED
        coroner = DeathRecorder(
            self.context.settings, self.cluster, self.context, self.context.queue_redis, self.context.clock
        )
        await coroner.record_before_deletion(fresh)
        if not await self.store.begin(self.installation.id, found):
            raise ClusterError("too many deletions were begun and are not finished")
        try:
            await self.cluster.delete_pod(fresh.namespace, fresh.name, fresh.uid, fresh.version)
        except ConflictError:
            await self.store.done(self.installation.id, found)
            raise
        await self._finish(found)
        return REAPED

    async def _judged_again(self, pod: Pod, pods_at: float, memory: TickMemory, before: Snapshot) -> Orphan | None:
        """By what is known this very moment, GitHub asked first; None when something speaks for it by now."""
        org, called = self.installation.org, memory.names[pod.uid]
        answer = await self._github_status_of(pod, called, before)
        names = names_of(pod, before.look.claims, memory)
        seen = await snapshot_of_pods(self.context, self.installation, [pod], pods_at, memory, only=names)
        heard = {
            name: known._replace(
                busy=answer.busy if name == called else None,
                online=answer.online,
                registered=answer.registered,
                offline_too_long=known.offline_too_long and answer.offline_too_long,
            )
            for name, known in seen.look.runners.items()
        }
        now, alone = self.context.clock(), memory._replace(pods=0, claims=0)
        again = leaks(seen.look._replace(runners=heard), now, self.limits, alone)
        if pod.uid not in again.memory.since:
            self.claimed.add(pod.uid)
        if not again.reap:
            guards = [guard.value for _, guard in (*again.kept, *again.held)]
            log.info("pod kept", installation=self.installation.id, org=org, pod=pod.name, guards=guards)
            return None
        name = again.memory.names[pod.uid]
        pool = pool_for(self.context.settings, org, pod.namespace, seen.known.latest(name))
        return orphan(pod, name, pool, heard[name], again.memory.since[pod.uid], now)

    async def _github_status_of(self, pod: Pod, called: str, before: Snapshot) -> RunnerActivity:
        """GitHub's answer again, for earlier deletions took time. No query where none was needed."""
        answer = before.look.runners[called]
        if answer.has_session is None:
            return answer
        alone = before._replace(look=before.look._replace(runners={called: answer}))
        asked = await query_runners(self.context, self.installation, alone, [pod], {pod.uid: called}, enough=1)
        return asked.runners[called]

    async def _finish(self, found: Orphan) -> None:
        """The pod is deleted or terminating: publish it, and delete its ServiceAccount. A failure is retried."""
        await self._tell(found)
        try:
            await delete_account(self.cluster, found.namespace, found.pod)
        except ClusterError as error:
            self.trouble = str(error)
            return
        await self.store.done(self.installation.id, found)

    async def _tell(self, found: Orphan) -> None:
        """Once, however often it is called."""
        now = self.context.clock()  # after the deletion, for which the cluster was asked
        await self.store.reaped(self.installation.id, found, now)
        if not await publish_orphan(self.context, self.installation, found, now):
            return
        log.warning(
            "orphan reaped",
            installation=self.installation.id,
            org=self.installation.org,
            namespace=found.namespace,
            pod=found.pod,
            node=found.node,
            runner=found.runner_name,
            unclaimed_seconds=round(found.found_at - found.unclaimed_since),
            evidence=[said for _, _, said in found.evidence],
        )
        await self.count(REAPED)
