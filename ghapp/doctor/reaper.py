"""The reaper of stamped pods: whether it looks each minute, what is in its way, and what it left half done."""

from __future__ import annotations

import time
from collections.abc import Sequence

from redis.asyncio import Redis

from ghapp.doctor.finding import Finding, ok, warning
from ghapp.doctor.probe import connected, probe
from ghapp.health.leaks.orphan import Orphan
from ghapp.health.leaks.reaper_status import is_overdue
from ghapp.health.leaks.tick import Guard
from ghapp.log import redact
from ghapp.report.documents import timestamp
from ghapp.settings import Settings
from ghapp.store.installations import Installations
from ghapp.store.leaks import Leaks, Tick

GROUP = "cluster"
BROKE_OFF = "mend Redis, above"
FUSE_GUARDS = (Guard.MASS_LEAK, Guard.FUSE_NOT_CLOSED)


async def look(settings: Settings, url: str | None) -> list[Finding]:
    """What the reapers have stored, of each org that has one."""
    if url is None or not settings.namespaces:
        return []

    async def recall() -> list[Finding]:
        async with connected(url) as redis:
            return [each for found in await _recalled(settings, redis) for each in found]

    return await probe(GROUP, "reapers", recall, BROKE_OFF)


async def _recalled(settings: Settings, redis: Redis) -> list[list[Finding]]:
    store, found = Leaks(redis), []
    for each in await Installations(redis).all():
        has_pods = any(pool.namespace for pool in settings.pools_of(each.org))
        if not has_pods or each.suspended or settings.of(each.org).leaks.mode == "off":
            continue
        last, begun, now = await store.last(each.id), await store.begun(each.id), time.time()
        found.append([of_tick(each.org, last, now), *of_unfinished(each.org, begun, now)])
    return found


def of_tick(org: str, last: Tick, now: float) -> Finding:
    """How the last tick went, and whether it was lately."""
    if is_overdue(last.at, now):
        said = "it has not looked in the last day" if last.at is None else f"it last looked at {_time_of(last.at)}"
        fix = "start `ghapp clock` and `ghapp worker`; until then no leak is reaped"
        return warning(GROUP, "reaper", said, fix, org)
    if last.trouble:
        since = "" if last.trouble_since is None else f" since {_time_of(last.trouble_since)}"
        fix = "it goes on by itself once that is mended; nothing is reaped on half a look"
        return warning(GROUP, "reaper", f"held up{since}: {redact(last.trouble)}", fix, org)
    if last.strangers:
        said = f"{last.strangers} of {last.stamped} pods that bear the owner label were never a runner's, and are kept"
        fix = "name a label by [leaks] owner_label that runners' pods bear, and nothing else in their namespaces"
        return warning(GROUP, "reaper", said, fix, org)
    if last.held:
        said = f"{last.held} leaked pods are held back by the fuse{_examples(last, FUSE_GUARDS)}{_kept(last)}"
        fix = "see whether their runners are alive; `ghapp resume` restarts a stopped fuse"
        return warning(GROUP, "reaper", said, fix, org)
    if unnamed := last.kept.get(Guard.UNNAMED):
        said = f"{unnamed} running pods are unclaimed, and their runners' names are not known"
        fix = "claim them with their `runner_name`, or delete those that do no work; they are never reaped"
        return warning(GROUP, "reaper", f"{said}{_examples(last, (Guard.UNNAMED,))}{_kept(last)}", fix, org)
    said = f"{last.stamped} stamped pods; in the last minute {last.reaped} were reaped"
    waiting = {"deferred": last.deferred, "only told": last.told, "nobody knows whose": last.nobodys}
    parts = ", ".join([said, *(f"{count} {what}" for what, count in waiting.items() if count)])
    return ok(GROUP, "reaper", f"{parts}{_kept(last)}{_examples(last, (Guard.NEVER_STARTED,))}", org)


def _kept(last: Tick) -> str:
    """How many pods each guard keeps."""
    counts = ", ".join(f"{count} {guard}" for guard, count in sorted(last.kept.items()))
    return f"; kept: {counts}" if counts else ""


def _examples(last: Tick, guards: Sequence[Guard]) -> str:
    found = [each for guard in guards for each in last.examples.get(guard, ())]
    named = ", ".join(f"{place} (created {_time_of(created_at)})" for place, created_at in found)
    return f": {named}" if named else ""


def of_unfinished(org: str, begun: Sequence[Orphan], now: float) -> list[Finding]:
    """Deletions that should have been finished by now: each tick finishes those that the one before it left."""
    late = [each for each in begun if is_overdue(each.found_at, now)]
    if not late:
        return []
    first = late[0]
    said = f"{len(late)} begun and not finished, the first at {_time_of(first.found_at)}: {first.namespace}/{first.pod}"
    fix = "each tick tries again: see the rights of worker, and that `[leaks]` is not in dry-run"
    return [warning(GROUP, "unfinished deletions", said, fix, org)]


def _time_of(at: float) -> str:
    return timestamp(float(int(at)))
