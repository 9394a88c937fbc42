"""Records how a runner ended, before its pod is deleted: the log line, the death, and the job that examines it.

Each at least once, also after a crash: a death is identified by its pod and its end, so a repeated record adds
nothing but the log that the first one could not read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from redis import Redis as SyncRedis

from ghapp.cluster.api import Cluster
from ghapp.cluster.failure_grace import FailureGrace
from ghapp.cluster.request import PODS, ClusterRequest
from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death, died, ended_before_deletion, has_worked, is_of, vanished
from ghapp.deaths.job_death import completed_by_log, completed_by_pod, is_job_death_of
from ghapp.deaths.metrics import CLEAN_EXITS, DEATHS
from ghapp.deaths.store import identity
from ghapp.errors import ClusterError, ClusterForbiddenError, ClusterUnavailableError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import metric_pool, runner_pool
from ghapp.log import logger, redact
from ghapp.notifications.event_ids import death_id
from ghapp.pods.degraded_sources import logs_source
from ghapp.pods.pod import Pod, is_in, registered_at
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Evidence
from ghapp.settings import Settings
from ghapp.store.stores import Stores

log = logger(__name__)

MOST_UNPUBLISHED = 500
"""Asked for again by one list; the next one asks for more."""

LOG_SECONDS = 5.0
"""For the first request for a log: a death is recorded without its log after this, and other ends are not held up."""

Clock = Callable[[], float]


class RecordedEnd(NamedTuple):
    """What `record_end` did.

    Attributes:
        is_new: False if the end was recorded before.
        lacks_log: True if its death has no log, and a later request may get it (`add_log`).
    """

    is_new: bool
    lacks_log: bool = False


class _LogAnswer(NamedTuple):
    """The last lines of a runner; `may_come`: there was no answer, and a later request may get one."""

    lines: tuple[str, ...] = ()
    may_come: bool = False


@dataclass(frozen=True, slots=True)
class DeathRecorder:
    """Records deaths.

    Attributes:
        settings: for the namespaces of the pools.
        cluster: asked for the last lines of a runner.
        stores: where deaths are kept.
        queue_redis: where jobs are enqueued.
        clock: epoch seconds.
        grace: since when the right to read logs is refused.
    """

    settings: Settings
    cluster: Cluster
    stores: Stores
    queue_redis: SyncRedis
    clock: Clock = time.time
    grace: FailureGrace = field(default_factory=FailureGrace)

    async def record_end(self, pod: Pod) -> RecordedEnd:
        """Records that a runner's container has ended, with its log if the first request for it is answered.

        The death comes first, because reports wait for it; a log that only cannot be read now is added later.
        """
        if pod.ended is None or pod.runner is None:
            return RecordedEnd(is_new=False)
        log_answer = await self._read_log(pod, LOG_SECONDS)
        ahead, _ = await self._cluster_times(pod)
        death = died(pod, log_answer.lines, self.clock(), ahead)
        installation, evidence = await self._find_owner(pod)
        is_new = await self._record(pod, death, installation, evidence)
        lacks_log = log_answer.may_come and await self._find_without_log(installation, pod, death) is not None
        return RecordedEnd(is_new, lacks_log)

    async def add_log(self, pod: Pod) -> bool:
        """Asks again for the log of a recorded end, and adds it to the death.

        Args:
            pod: as it is shown now, with the same end: after a later end of its container, the log is of that end.

        Returns:
            True if the death still lacks its log, and a later request may get it.
        """
        installation, _ = await self._find_owner(pod)
        ahead, _ = await self._cluster_times(pod)
        death = died(pod, (), self.clock(), ahead)
        if installation is None or await self._find_without_log(installation, pod, death) is None:
            return False
        log_answer = await self._read_log(pod, None)
        known = await self._find_without_log(installation, pod, death)
        if known is not None:
            await self._add_log(installation, known, died(pod, log_answer.lines, self.clock(), ahead))
        return log_answer.may_come

    async def record_before_deletion(self, pod: Pod) -> None:
        """Record the end of a runner whose pod is about to be deleted, unless it is on record.

        The watch may be away, and does not see the pod again. The runner's last lines are not asked for: the right to
        read them is the watch's.
        """
        if pod.has_ended:
            ahead, _ = await self._cluster_times(pod)
            await self._record(pod, died(pod, (), self.clock(), ahead), *await self._find_owner(pod))

    async def _read_log(self, pod: Pod, first_within: float | None) -> _LogAnswer:
        """Returns the last log lines of a runner that has ended; a death is recorded without them, too.

        Args:
            pod: as shown.
            first_within: seconds for the first request; None for a further one: how often one pod's log is asked for
                shows nothing of the other pods' logs.
        """
        degraded, place = self.stores.degraded_sources, logs_source(pod.namespace)
        is_restarted = pod.runner is not None and pod.runner.ended is None
        try:
            async with asyncio.timeout(first_within):
                lines = await self.cluster.log(pod, previous=is_restarted)
        except (ClusterError, TimeoutError) as failure:  # of one pod, it may mean that the pod or its node was lost
            error = failure if isinstance(failure, ClusterError) else _unanswered(pod)
            may_come = isinstance(error, ClusterUnavailableError)
            is_of_all = first_within is not None or not may_come
            if is_of_all and self.grace.lasts(place, error):
                await degraded.record(place, redact(str(error)))
            return _LogAnswer(may_come=may_come)
        self.grace.over(place)
        await degraded.over(place)
        return _LogAnswer(tuple(map(redact, lines)))

    async def check_log_rights(self, namespace: str) -> bool:
        """Checks whether RBAC permits to read the runners' logs, and records a refusal.

        It is recorded again each time, because the record expires after minutes. A log that something else forbids to
        read, as the kubelet may, is forbidden until one can be read: an access review knows nothing of that.

        Returns:
            False if nothing is known to forbid it.
        """
        degraded, place = self.stores.degraded_sources, logs_source(namespace)
        lacking: ClusterForbiddenError | None = None
        try:
            for call in log_reads(namespace):
                await self.cluster.require(call)
        except ClusterForbiddenError as error:
            lacking = error
        except ClusterError:
            return self.grace.refusal(place) is not None
        refusal = self.grace.refusal(place) or lacking  # read now: a log may have been refused meanwhile
        if refusal is None or (refusal.by_rbac and lacking is None):
            if self.grace.forget_refusal(place):
                await degraded.over(place)
            return False
        if self.grace.lasts(place, refusal):
            await degraded.record(place, redact(str(refusal)))
        return True

    async def record_vanished(self, pod: Pod, found_at: float | None = None) -> bool:
        """Records a pod that disappeared before its end was seen; False if nothing ran, or if the end is on record.

        A pod that was last seen before its container ran may have run all the same, while no watch saw it: then GitHub
        has seen its runner, or given it a job.

        Args:
            pod: as last seen.
            found_at: when it was found missing; None: now.
        """
        if pod.has_ended:
            return False
        installation, evidence = await self._find_owner(pod)
        now, (_, next_created_at) = self.clock(), await self._cluster_times(pod)
        death = vanished(pod, now if found_at is None else min(now, found_at), next_created_at)
        is_its_own = evidence is not None and is_of(death, evidence)
        if not pod.is_running and (evidence is None or not is_its_own or not has_worked(evidence, pod)):
            return False
        return await self._record(pod, death, installation, evidence)

    async def _cluster_times(self, pod: Pod) -> tuple[float, float | None]:
        """Returns by how much the cluster's clock is ahead of ours, and when the next pod of this name was created."""
        view = await self.stores.pods.some(pod.namespace, [pod.name])
        if view is None:
            return 0.0, None
        other = view.pods.get(pod.name)
        is_next = other is not None and other.uid != pod.uid and other.created_at >= pod.created_at
        return view.ahead, other.created_at - view.ahead if other is not None and is_next else None

    async def enqueue_unpublished(self, namespace: str) -> None:
        """Enqueue deaths that a crash left recorded and not enqueued, however long ago."""
        deaths = self.stores.deaths
        for installation in await self._tenants(namespace):
            for death in await deaths.unpublished(installation.id, MOST_UNPUBLISHED):
                await self._enqueue_post_mortem(installation, death)

    async def _record(
        self, pod: Pod, death: Death, installation: Installation | None, evidence: Evidence | None
    ) -> bool:
        if installation is None:
            _log_death(death, pod, org=None)
            return True
        if await self._is_own_doing(pod, installation):
            _log_death(death, pod, org=installation.org, by_ghapp=True)
            return False
        deaths = self.stores.deaths
        if evidence is not None and is_of(death, evidence):
            death = death._replace(runner_id=evidence.id)
        known = await self._recorded_end(installation, pod, death)
        if known is not None and _is_published(pod, death, known):
            await self._add_log(installation, known, death)
            return False
        if evidence is not None and evidence.registered:  # deliveries alone lack the runner's labels
            rules = self.settings.pools_of(installation.org)
            death = death._replace(pool=runner_pool(evidence, rules))
        if known is not None and is_job_death_of(known, pod, death):
            if known.pod_uid != death.pod_uid:  # one death: the pod's facts complete what the job has shown
                await deaths.enrich(installation.id, completed_by_pod(known, death))
                _log_death(death, pod, org=installation.org)
                await self._enqueue_post_mortem(installation, known)
            elif known.exit_code == death.exit_code:
                await self._add_log(installation, known, death)
            return False
        _log_death(death, pod, org=installation.org)
        if not await deaths.record(installation.id, death):
            return False
        await self._count(installation.org, death)
        await self._enqueue_post_mortem(installation, death)
        return True

    async def _count(self, org: str, death: Death) -> None:
        pool = metric_pool(death.pool, self.settings.pools_of(org))
        if death.cause is Cause.CLEAN_EXIT:
            await self.stores.counters.add(CLEAN_EXITS, org=org, pool=pool)
        else:
            await self.stores.counters.add(DEATHS, org=org, pool=pool, cause=death.cause.value)

    async def _recorded_end(self, installation: Installation, pod: Pod, death: Death) -> Death | None:
        """Returns the last recorded end of this pod or of its runner; if there is none, the latest of that name.

        A later runner of the name may have died since.
        """
        deaths = self.stores.deaths
        latest = await deaths.of(installation.id, death.runner_name)
        if latest is None or latest.pod_uid == death.pod_uid or is_job_death_of(latest, pod, death):
            return latest
        others = await deaths.namesakes(installation.id, death.runner_name, pod.created_at - death.ahead)
        own = (each for each in others if each.pod_uid == death.pod_uid or is_job_death_of(each, pod, death))
        return next(own, latest)

    async def _find_without_log(self, installation: Installation | None, pod: Pod, death: Death) -> Death | None:
        """Returns the recorded death of this end if it has no log; None if it has one, or is not on record."""
        known = None if installation is None else await self._recorded_end(installation, pod, death)
        if known is None or known.runner_log:
            return None
        is_jobs = is_job_death_of(known, pod, death) and known.exit_code == death.exit_code
        return known if is_jobs or _is_published(pod, death, known) else None

    async def _add_log(self, installation: Installation, known: Death, death: Death) -> None:
        """Adds the log of an end to its recorded death that has none, and has the post-mortem updated."""
        if known.runner_log or not death.runner_log:
            return
        await self.stores.deaths.enrich(installation.id, completed_by_log(known, death))
        await self._enqueue_post_mortem(installation, known, "-log")

    async def _is_own_doing(self, pod: Pod, installation: Installation) -> bool:
        """True if ghapp ended it, by a replacement or as a leak: no death, no event, no check run, no advice."""
        if ended_before_deletion(pod):
            return False
        if await self.stores.own_deletions.has_any(installation.id, [pod.uid, *(owner.uid for owner in pod.owners)]):
            return True
        return await self.stores.leaks.was_reaped(installation.id, pod.uid)

    async def _enqueue_post_mortem(self, installation: Installation, death: Death, why: str = "") -> None:
        """Enqueues the post-mortem, in a thread, so that other ends are recorded while a durable Redis syncs.

        `why` makes the key of an update: the key of the first job may still be taken.
        """
        key = f"post-mortem-{death_id(installation, death)}{why}"
        arguments = (JobName.POST_MORTEM, installation.id, identity(death))
        await asyncio.to_thread(jobs.enqueue, self.queue_redis, *arguments, key=key)

    async def _find_owner(self, pod: Pod) -> tuple[Installation | None, Evidence | None]:
        """Returns the org of a runner, and the runner's record.

        Of several orgs in one namespace, the one that the pod's labels name, or the only one that knows the pod's name.
        In doubt none: its last lines are not for others to read.
        """
        label, runners = registered_at(pod.labels), self.stores.runners
        tenants = [each for each in await self._tenants(pod.namespace) if any(is_in(name, label) for name in each.own)]
        known: list[tuple[Installation, Evidence | None]] = []
        for installation in tenants:
            runner_id = (await runners.ids_of(installation.id, [pod.name])).get(pod.name)
            if runner_id is not None:
                evidence = (await runners.some(installation.id, [runner_id])).get(runner_id)
                known.append((installation, evidence))
        is_unambiguous = bool(label) or len(self._orgs(pod.namespace)) == 1
        if not known and len(tenants) == 1 and is_unambiguous:
            return tenants[0], None
        return known[0] if len(known) == 1 else (None, None)

    async def _tenants(self, namespace: str) -> list[Installation]:
        """The installations whose pools have their pods in that namespace."""
        orgs = self._orgs(namespace)
        return [each for each in await self.stores.installations.all() if each.org.lower() in orgs]

    def _orgs(self, namespace: str) -> set[str]:
        return {pool.org.lower() for pool in self.settings.pools if pool.namespace == namespace}


def log_reads(namespace: str) -> tuple[ClusterRequest, ...]:
    """Returns the requests, for pods of any name, that reading a log takes: the log, and whether it is of that pod."""
    return ClusterRequest("get", PODS, namespace, subresource="log"), ClusterRequest("get", PODS, namespace)


def _unanswered(pod: Pod) -> ClusterUnavailableError:
    call = ClusterRequest("get", PODS, pod.namespace, pod.name, "log")
    return ClusterUnavailableError(f"{call}: no answer in time")


def _is_published(pod: Pod, death: Death, known: Death) -> bool:
    """True if this end is on record. An unseen one is, if an end was seen after its container started."""
    if known.pod_uid != death.pod_uid:
        return False
    if death.exit_code is None:
        since = pod.runner.running_since if pod.runner is not None else None
        return known.exit_code is None or since is None or known.at >= since
    has_time = pod.ended is not None and pod.ended.finished_at is not None
    return known.exit_code == death.exit_code and (known.at == death.at or not has_time)


def _log_death(death: Death, pod: Pod, org: str | None, *, by_ghapp: bool = False) -> None:
    """The log line: a warning, unless the end was clean or meant by ghapp itself.

    `reason` is the kubelet's own where it has one, `classified` the one that explains the cause.
    """
    log_line = log.info if by_ghapp or death.cause is Cause.CLEAN_EXIT else log.warning
    log_line(
        "runner pod terminated",
        org=org,
        pod=death.pod,
        namespace=death.namespace,
        node=death.node,
        exitCode=death.exit_code,
        signal=death.signal,
        reason=(pod.ended.reason if pod.ended is not None else "") or death.reason,
        classified=death.reason,
        cause=death.cause.value,
        runner=death.runner_name,
        by_ghapp=by_ghapp,
    )
