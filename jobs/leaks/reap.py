"""Reaps leaked pods: read, judge, query GitHub about the few candidates, judge again, and delete.

A failed read skips the tick: nothing is reaped on partial knowledge. A namespace that RBAC forbids to read is left out.
The guards, by their numbers, are in the docstring of `ghapp.leaks.guards.leaks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ghapp.errors import ClusterError, ClusterForbiddenError, ConfigurationError, GhappError
from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS, namespaces_of
from ghapp.leaks.guards import Guard, TickMemory, TickResult, leaks
from ghapp.leaks.leak_fuse import LeakFuse
from ghapp.leaks.reaper_status import examples, kept_by_guard, kept_pods, leaking, stops
from ghapp.leaks.store import Leaks, Tick
from ghapp.log import logger, redact
from ghapp.pods.degraded_sources import leaks_source
from ghapp.pods.pod import Pod
from ghapp.queue.jobs import JobName
from ghapp.report.metrics import ORPHANS_REAPED
from jobs.context import JobContext
from jobs.each_installation import each_installation
from jobs.leaks.delete import REAPED, SKIPPED, Reaper
from jobs.leaks.github_status import GitHubStatus, query_jobs, query_runners
from jobs.leaks.snapshot import Snapshot, snapshot_of_pods, take_snapshot
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_where

log = logger(__name__)

SKIPS = {
    Guard.CLAIMS_READ_FIRST: "the clock went back while pods and claims were read",
    Guard.READ_STALE: "reading pods and claims took too long",
    Guard.READ_EMPTY: "there are no stamped pods, or no claims, where there were some a tick before",
}
"""Why a tick judges nothing, in words."""


async def reap(*installation_ids: int) -> None:
    """The job: one tick of each org."""
    await each_installation(JobName.REAP, reap_installation, installation_ids)


async def reap_installation(context: JobContext, installation_id: int) -> Tick | None:
    """Runs one tick; None if the org has no namespaces, the reaper is off, or another process holds the lock."""
    async with context.locks.acquire("reap", installation_id) as acquired:
        installation = await context.installations.one(installation_id)
        if not acquired or installation is None or installation.suspended:
            return None
        limits = context.settings.of(installation.org).leaks
        if limits.mode == "off" or not namespaces_of(context.settings.pools_of(installation.org)):
            return None
        if ALL_POOLS in await context.fuses.pauses(installation_id):
            limits = replace(limits, mode="dry-run")
        store = context.leaks
        before = await store.last(installation_id)
        namespaces = namespaces_of(context.settings.pools_of(installation.org))
        try:
            tick = await _tick(Reaper(context, installation, await context.cluster(), limits, store), before)
        except (ClusterError, ConfigurationError) as error:
            await _record_outage(context, before, namespaces, error)
            tick = before._replace(trouble=str(error) or type(error).__name__, reaped=0, deferred=0, would_reap=0)
            await context.counters.add(ORPHANS_REAPED, org=installation.org, outcome=SKIPPED)
        return await _account(context, installation, store, before, tick)


async def _tick(reaper: Reaper, before: Tick) -> Tick:
    """Finishes begun deletions, reads, judges, and reaps.

    Raises:
        ClusterError: a read failed; nothing was judged.
    """
    context, installation = reaper.context, reaper.installation
    if reaper.limits.mode == "act":
        await reaper.finish_begun()
    seen = await take_snapshot(context, installation, reaper.cluster, before.memory)
    if await query_jobs(context, installation, seen, before.memory):
        seen = await snapshot_of_pods(
            context, installation, seen.listed, seen.look.pods_at, before.memory, unread=seen.unread
        )
    reaper.trouble = "; ".join(seen.unread.values()) or reaper.trouble
    namespaces = namespaces_of(context.settings.pools_of(installation.org))
    await context.degraded_sources.over(*(leaks_source(name) for name in namespaces if name not in seen.unread))
    reaping, seen = await _judge(reaper, seen, before.memory)
    tick = Tick(
        reaping.memory,
        at=context.clock(),
        stamped=len(seen.look.pods),
        deferred=len(reaping.deferred),
        would_reap=len(reaping.would_reap),
        without_owner=seen.without_owner,
        never_runners=sum(guard is Guard.NO_RUNNER for _, guard in reaping.kept),
        held=len(reaping.held),
        kept=kept_by_guard(reaping),
        examples=examples(reaping),
        stops=stops(reaping.fuses),
        leaking=leaking(reaping, seen.look.fuse.pools),
        kept_pods=kept_pods(reaping),
    )
    if reaping.skipped is not None:
        await reaper.count(SKIPPED)
        return tick._replace(trouble=SKIPS.get(reaping.skipped, reaping.skipped.value))
    await reaper.store.remember(installation.id, tick)  # the clocks of pods continue, also after a crash
    await _record_fuses(context, installation, seen.look.fuse.fuses, reaping.fuses)
    await reaper.reap_all(reaping, seen)
    memory = reaping.memory.with_claim_on(reaper.claimed, context.clock())
    return tick._replace(memory=memory, reaped=reaper.outcomes[REAPED], trouble=reaper.trouble)


async def _record_outage(context: JobContext, before: Tick, namespaces: Iterable[str], error: GhappError) -> None:
    """Records that leaks are not seen if two ticks in a row got no answer: an API server may just restart.

    A refusal is an answer, and was recorded when it came.
    """
    if before.trouble and not isinstance(error, ClusterForbiddenError):
        for namespace in namespaces:
            await context.degraded_sources.record(leaks_source(namespace), redact(str(error)))


async def _record_fuses(
    context: JobContext, installation: Installation, before: Mapping[str, LeakFuse], after: Mapping[str, LeakFuse]
) -> None:
    """Records the reaper's fuses that changed. If an admin resumed one meanwhile, that is kept."""
    for pool, fuse in after.items():
        was = before.get(pool, LeakFuse())
        if fuse == was:
            continue
        await context.fuses.save_of_reaper(installation.id, pool, before.get(pool), fuse)
        if (fuse.position, fuse.batch) != (was.position, was.batch):
            log.warning(
                "reaper fuse changed",
                installation=installation.id,
                org=installation.org,
                pool=pool,
                position=fuse.position.value,
                batch=fuse.batch,
                reason=fuse.reason.value,
                pod=fuse.pod,
            )


async def _judge(reaper: Reaper, seen: Snapshot, memory: TickMemory) -> tuple[TickResult, Snapshot]:
    """Judges three times: without GitHub, to know which runners to query; with the last list; and with the answers.

    Returns:
        What to delete, and the snapshot with GitHub's answers.
    """
    context, activity, now = reaper.context, seen.look.runners, reaper.context.clock()
    without = {name: each._replace(busy=None) for name, each in activity.items()}
    blind = seen.look._replace(runners=without)
    first = leaks(blind, now, reaper.limits, memory)
    if first.skipped is not None:
        return first, seen._replace(look=blind)
    by_list = leaks(seen.look, now, reaper.limits, memory)
    found = {
        pod.uid for pod in (*by_list.reap, *by_list.would_reap, *by_list.deferred, *(pod for pod, _ in by_list.held))
    }
    unknown = {pod.uid for pod in _unknown(by_list)}
    waiting = [pod for pod in _unknown(first) if pod.uid in found | unknown]
    released = {pod.uid for pod in (*by_list.reap, *by_list.would_reap)} - {
        pod.uid for pod in (*first.reap, *first.would_reap)
    }
    enough = len(released)
    if unknown and not by_list.held:  # those that the list says nothing about may be leaks, too
        enough = reaper.limits.per_tick - len(first.reap) - len(first.would_reap)
    names = first.memory.names
    asked = GitHubStatus(without)
    if waiting:
        asked = await query_runners(context, reaper.installation, seen, waiting, names, enough)
    # The list may keep a pod without a query; it never releases one.
    kept = {names[pod.uid] for pod, guard in by_list.kept if guard is not Guard.GITHUB_UNKNOWN}
    runners = {
        **asked.runners,
        **{name: activity[name] for name in kept - {names[pod.uid] for pod in waiting} if name in activity},
    }
    look = seen.look._replace(runners=runners, unasked=frozenset(pod.uid for pod in asked.unasked))
    now = context.clock()  # again: GitHub was queried in between
    return leaks(look, now, reaper.limits, memory), seen._replace(look=look)


def _unknown(reaping: TickResult) -> list[Pod]:
    """Returns the pods that only a missing answer of GitHub keeps."""
    return [pod for pod, guard in reaping.kept if guard is Guard.GITHUB_UNKNOWN]


async def _account(context: JobContext, installation: Installation, store: Leaks, before: Tick, tick: Tick) -> Tick:
    """Records the tick, and logs an error when it begins."""
    now, org = context.clock(), installation.org
    since = (before.trouble_since if before.trouble else None) or now
    tick = tick._replace(at=now, trouble_since=since if tick.trouble else None)
    await store.remember(installation.id, tick)
    if tick.trouble and tick.trouble != before.trouble:
        log.warning("reaper failing", installation=installation.id, org=org, why=tick.trouble)
    if before.trouble and not tick.trouble:
        log.info("reaper recovered", installation=installation.id, org=org)
    if tick.deferred or tick.would_reap or tick.held:
        log.warning(
            "leaks deferred",
            installation=installation.id,
            org=org,
            deferred=tick.deferred,
            would_reap=tick.would_reap,
            held_by_fuse=tick.held,
        )
    if dict(tick.examples) != dict(before.examples):
        examples = {guard: list(pods) for guard, pods in tick.examples.items()}
        log.info("pods kept", installation=installation.id, org=org, kept=dict(tick.kept), examples=examples)
    return tick


async def _has_reaper(context: SchedulerContext, installation: Installation) -> bool:
    """True if the org's pools have namespaces, and the reaper is not off."""
    settings, org = context.settings, installation.org
    return settings.of(org).leaks.mode != "off" and bool(namespaces_of(settings.pools_of(org)))


REAP = PeriodicTask(
    "reap", 60.0, enqueue_where(JobName.REAP, _has_reaper), is_wanted=lambda settings: bool(settings.namespaces)
)
"""The ticks of the reaper. Its clocks advance only if the interval is less than `leaks.guards.MOST_GAP_SECONDS`."""
