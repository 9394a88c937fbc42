"""Deletes leaked pods, one by one: check again, record, delete, publish, and delete the ServiceAccount.

Each deletion is recorded before it begins, so that the next tick finishes what a crash interrupted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ghapp.cluster.api import Cluster
from ghapp.cluster.api_errors import RefusedError
from ghapp.errors import ClusterError, ClusterForbiddenError, ConflictError
from ghapp.installations.installation import Installation
from ghapp.leaks.guards import LeakLimits, TickMemory, TickResult, leaks
from ghapp.leaks.orphan import Orphan, orphan
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.leaks.store import Leaks
from ghapp.log import logger
from ghapp.pods.pod import Pod
from ghapp.replace.pods import delete_account, require_permissions
from ghapp.report.metrics import ORPHANS_REAPED
from jobs.context import JobContext
from jobs.deaths.death_recorder import DeathRecorder
from jobs.events.publish import publish_orphan
from jobs.leaks.github_status import query_runners
from jobs.leaks.snapshot import Snapshot, names_of, pool_for, snapshot_of_pods

log = logger(__name__)

REAPED, GONE, CHANGED, KEPT, FAILED, SKIPPED = "reaped", "gone", "changed", "kept", "failed", "skipped"
"""The outcomes of a leak, as they are counted: `gone` before its deletion, `changed` into another pod, `kept` for a
late claim, `failed` in the cluster. `skipped` is the outcome of a tick.
"""


@dataclass(slots=True)
class Reaper:
    """Deletes the leaks of one org in one tick.

    Attributes:
        trouble: the last error; empty while there is none.
        outcomes: the number of pods by outcome.
        claimed: uids of leaks with a claim just before their deletion, which the next tick must know.
    """

    context: JobContext
    installation: Installation
    cluster: Cluster
    limits: LeakLimits
    store: Leaks
    trouble: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    claimed: set[str] = field(default_factory=set)
    _permitted: dict[str, bool] = field(default_factory=dict)

    async def finish_begun(self) -> None:
        """Finishes deletions that an earlier tick began, except in a namespace that RBAC forbids to read.

        Raises:
            ClusterError: a pod cannot be read for another reason.
        """
        for found in await self.store.unfinished(self.installation.id):
            try:
                pod = await self.cluster.pod(found.namespace, found.pod)
            except ClusterForbiddenError as error:
                self.trouble = str(error)
                continue
            if pod is None or (pod.uid == found.uid and pod.deleting_since is not None):
                await self._finish(found)
                continue
            if pod.uid != found.uid:  # a successor, and the ServiceAccount is its own by now
                await self._publish(found)
            await self.store.done(self.installation.id, found)  # if the pod still exists, it is judged again

    async def reap_all(self, reaping: TickResult, seen: Snapshot) -> None:
        """Reaps each leak of the snapshot `seen`.

        After a failure of the cluster, the rest waits for the next tick; a refusal concerns its pod alone.
        """
        for pod in reaping.reap:
            try:
                outcome = (
                    await self._reap(pod, reaping.memory, seen) if await self._may_delete(pod.namespace) else FAILED
                )
            except ConflictError as conflict:
                log.info("pod changed, retrying", pod=pod.name, why=str(conflict))
                outcome = CHANGED
            except (ClusterForbiddenError, RefusedError) as error:  # it may concern this pod alone, as a policy does
                self.trouble, outcome = str(error), FAILED
            except ClusterError as error:
                self.trouble = str(error)
                await self.count(FAILED)
                return
            if outcome != REAPED:  # REAPED is counted where it is published, once, also after a crash
                await self.count(outcome)

    async def count(self, outcome: str) -> None:
        """Counts one outcome."""
        self.outcomes[outcome] += 1
        await self.context.counters.add(ORPHANS_REAPED, org=self.installation.org, outcome=outcome)

    async def _may_delete(self, namespace: str) -> bool:
        """True if ghapp may delete both Pod and ServiceAccount: it deletes both or neither."""
        if namespace not in self._permitted:
            try:
                await require_permissions(self.cluster, namespace)
                self._permitted[namespace] = True
            except ClusterForbiddenError as error:
                self.trouble, self._permitted[namespace] = str(error), False
        return self._permitted[namespace]

    async def _reap(self, pod: Pod, memory: TickMemory, seen: Snapshot) -> str:
        """Reads this pod again first, and deletes it as it is now, if it still is a leak; returns the outcome.

        Raises:
            ConflictError: the pod changed after that read.
            ClusterError: no answer; the next tick sees whether the pod was deleted.
        """
        pods_at, fresh = self.context.clock(), await self.cluster.pod(pod.namespace, pod.name)
        if fresh is None or fresh.uid != pod.uid:
            return GONE
        found = await self._judge_again(fresh, pods_at, memory, seen)
        if found is None:
            return KEPT
        recorder = DeathRecorder(
            self.context.settings, self.cluster, self.context, self.context.queue_redis, self.context.clock
        )
        await recorder.record_before_deletion(fresh)
        if not await self.store.begin(self.installation.id, found):
            raise ClusterError("too many deletions were begun and are not finished")
        try:
            is_ours = await self.cluster.delete_pod(fresh.namespace, fresh.name, fresh.uid, fresh.version)
        except ConflictError:
            await self.store.done(self.installation.id, found)
            raise
        if not is_ours:  # another client deleted it after that read: no deletion of ours, and no proof of a batch
            await self._delete_account(found)
            return GONE
        await self._finish(found)
        return REAPED

    async def _judge_again(self, pod: Pod, pods_at: float, memory: TickMemory, before: Snapshot) -> Orphan | None:
        """Judges the pod again by current records, after a query to GitHub; None if a guard keeps it now."""
        org, called = self.installation.org, memory.names[pod.uid]
        answer = await self._github_status_of(pod, called, before)
        names = names_of(pod, before.look.claims, memory)
        seen = await snapshot_of_pods(self.context, self.installation, [pod], pods_at, memory, only=names)
        activity = {
            name: known  # a list or a delivery that came meanwhile may keep the pod; it never releases the pod
            if known.has_session
            else known._replace(
                busy=answer.busy if name == called else None,
                online=answer.online,
                registered=answer.registered,
                offline_too_long=known.offline_too_long and answer.offline_too_long,
            )
            for name, known in seen.look.runners.items()
        }
        now, alone = self.context.clock(), memory._replace(pods=0, claims=0)
        again = leaks(seen.look._replace(runners=activity), now, self.limits, alone)
        if pod.uid not in again.memory.since:
            self.claimed.add(pod.uid)
        if not again.reap:
            guards = [guard.value for _, guard in (*again.kept, *again.held)]
            log.info("pod kept", installation=self.installation.id, org=org, pod=pod.name, guards=guards)
            return None
        name = again.memory.names[pod.uid]
        pool = pool_for(self.context.settings, org, pod.namespace, seen.known.latest(name))
        never_named = pod.uid in again.never_named
        since = again.memory.since[pod.uid]
        return orphan(pod, name, pool, activity[name], since, now, never_named=never_named)

    async def _github_status_of(self, pod: Pod, called: str, before: Snapshot) -> RunnerActivity:
        """Queries GitHub again, for earlier deletions took time. Sends no query if none was needed before."""
        answer = before.look.runners[called]
        if answer.has_session is None:
            return answer
        alone = before._replace(look=before.look._replace(runners={called: answer}))
        asked = await query_runners(self.context, self.installation, alone, [pod], {pod.uid: called}, enough=1)
        return asked.runners[called]

    async def _finish(self, found: Orphan) -> None:
        """Publishes the deletion, and deletes the ServiceAccount."""
        await self._publish(found)
        await self._delete_account(found)

    async def _delete_account(self, found: Orphan) -> None:
        """Deletes the pod's ServiceAccount, which finishes the deletion. A failure is retried in the next tick."""
        try:
            await delete_account(self.cluster, found.namespace, found.pod)
        except ClusterError as error:
            self.trouble = str(error)
            return
        await self.store.done(self.installation.id, found)

    async def _publish(self, found: Orphan) -> None:
        """Records and publishes a reaped pod, once, however often it is called."""
        now = self.context.clock()  # after the deletion, which took a request to the cluster
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
            evidence=[text for _, _, text in found.evidence],
        )
        await self.count(REAPED)
