"""Checks the reaper of labelled pods: whether it runs each minute, what blocks it, and its unfinished deletions."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.doctor.finding import Finding, ok, warning
from ghapp.doctor.probe import probe
from ghapp.health.leaks.orphan import Orphan
from ghapp.health.leaks.reaper_status import is_overdue
from ghapp.health.leaks.tick import Guard
from ghapp.log import redact
from ghapp.report.documents import timestamp
from ghapp.settings import Settings
from ghapp.store.leaks import Tick
from ghapp.store.stores import Stores, open_stores

GROUP = "cluster"
REDIS_FAILED = "fix Redis, see redis above"
FUSE_GUARDS = (Guard.MASS_LEAK, Guard.FUSE_NOT_CLOSED)


async def check(settings: Settings, url: str | None) -> list[Finding]:
    """Checks the stored state of the reaper of each org that has one."""
    if url is None or not settings.namespaces:
        return []

    async def check_records() -> list[Finding]:
        async with open_stores(url) as stores:
            return [each for found in await _of_records(settings, stores) for each in found]

    return await probe(GROUP, "reapers", check_records, REDIS_FAILED)


async def _of_records(settings: Settings, stores: Stores) -> list[list[Finding]]:
    store, found = stores.leaks, []
    for each in await stores.installations.all():
        has_pods = any(pool.namespace for pool in settings.pools_of(each.org))
        if not has_pods or each.suspended or settings.of(each.org).leaks.mode == "off":
            continue
        last, begun, now = await store.last(each.id), await store.unfinished(each.id), await stores.now()
        found.append([of_tick(each.org, last, now), *of_unfinished(each.org, begun, now)])
    return found


def of_tick(org: str, last: Tick, now: float) -> Finding:
    """Judges the last tick, and how long ago it was."""
    if is_overdue(last.at, now):
        text = "it did not run in the last day" if last.at is None else f"it last ran at {_time_of(last.at)}"
        fix = "start `ghapp clock` and `ghapp worker`; no leak is reaped until then"
        return warning(GROUP, "reaper", text, fix, org)
    if last.trouble:
        since = "" if last.trouble_since is None else f" since {_time_of(last.trouble_since)}"
        fix = "fix that; the reaper then continues by itself. It reaps nothing without a complete snapshot"
        return warning(GROUP, "reaper", f"blocked{since}: {redact(last.trouble)}", fix, org)
    if last.never_runners:
        text = f"{last.never_runners} of {last.stamped} pods with the owner label never ran a runner, and are kept"
        fix = "name a label in [leaks] owner_label that the runners' pods have, and no other pods in their namespaces"
        return warning(GROUP, "reaper", text, fix, org)
    if last.held:
        text = f"{last.held} leaked pods are held back by the fuse{_examples(last, FUSE_GUARDS)}{_kept(last)}"
        fix = "check whether their runners work; `ghapp resume` restarts a stopped fuse"
        return warning(GROUP, "reaper", text, fix, org)
    if unnamed := last.kept.get(Guard.UNNAMED):
        text = f"{unnamed} running pods are unclaimed, and the names of their runners are unknown"
        fix = "claim them with their `runner_name`, or delete those that do no work; they are never reaped"
        return warning(GROUP, "reaper", f"{text}{_examples(last, (Guard.UNNAMED,))}{_kept(last)}", fix, org)
    text = f"{last.stamped} pods with the owner label; {last.reaped} reaped in the last minute"
    waiting = {
        "deferred": last.deferred,
        "reported only": last.would_reap,
        "without a known owner": last.without_owner,
    }
    parts = ", ".join([text, *(f"{count} {what}" for what, count in waiting.items() if count)])
    return ok(GROUP, "reaper", f"{parts}{_kept(last)}{_examples(last, (Guard.NEVER_STARTED,))}", org)


def _kept(last: Tick) -> str:
    """Returns how many pods each guard keeps, as text."""
    counts = ", ".join(f"{count} {guard}" for guard, count in sorted(last.kept.items()))
    return f"; kept: {counts}" if counts else ""


def _examples(last: Tick, guards: Sequence[Guard]) -> str:
    found = [each for guard in guards for each in last.examples.get(guard, ())]
    named = ", ".join(f"{place} (created {_time_of(created_at)})" for place, created_at in found)
    return f": {named}" if named else ""


def of_unfinished(org: str, begun: Sequence[Orphan], now: float) -> list[Finding]:
    """Warns of deletions that should have been finished: each tick finishes those that the previous tick left."""
    late = [each for each in begun if is_overdue(each.found_at, now)]
    if not late:
        return []
    first = late[0]
    text = f"{len(late)} begun and not finished, the first at {_time_of(first.found_at)}: {first.namespace}/{first.pod}"
    fix = "each tick tries again: check the permissions of worker, and that `[leaks]` is not in dry-run"
    return [warning(GROUP, "unfinished deletions", text, fix, org)]


def _time_of(at: float) -> str:
    return timestamp(float(int(at)))
