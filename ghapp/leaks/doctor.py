"""Checks the reaper of stamped pods: whether it runs each minute, what blocks it, and its unfinished deletions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ghapp.doctor.finding import Finding, ok, probe, warning
from ghapp.doctor.roles import starting
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.reaper_status import is_overdue
from ghapp.leaks.store import Tick
from ghapp.leaks.tick import Guard
from ghapp.log import redact
from ghapp.settings import Settings
from ghapp.store.stores import Stores, open_stores
from ghapp.wording import time_of

GROUP = "cluster"
REDIS_FAILED = "fix Redis, see redis above"

KEPT: Mapping[Guard, tuple[str, str]] = {
    Guard.REAPER_STOPPED: (
        "are leaks, and the reaper is stopped",
        "find out why a deleted pod was in use; then `ghapp resume` starts the reaper again",
    ),
    Guard.FUSE_NOT_CLOSED: (
        "are leaks, and the fuse of their runners, or of all pools, is not closed",
        "one that is proving goes on by itself; `ghapp resume` restarts a stopped one",
    ),
    Guard.MASS_LEAK: (
        "are leaks, and wait until the batch before them has proven itself",
        "check whether the runners of these pods work",
    ),
    Guard.UNNAMED: (
        "run unclaimed, and the names of their runners are unknown",
        (
            'set `runner_name = "pod"` if their runners have the names of the pods, '
            "claim these pods with their `runner_name`, or delete those that do no work"
        ),
    ),
    Guard.SESSION_AFTER_JOB: (
        "have an ephemeral runner that is online or busy after its job",
        "check whether their processes hang, and delete the pods of those",
    ),
    Guard.BUSY_WHEN_LAST_SEEN: ("had a busy runner when GitHub last listed it", ""),
    Guard.NEVER_STARTED: ("never started", ""),
}
"""Pods that stay until something changes: what is the matter with them, and the fix; empty where nothing is wrong."""


async def check(settings: Settings, url: str | None, started_at: float | None = None) -> list[Finding]:
    """Checks the stored state of the reaper of each org that has one; `started_at`: when the workers started."""
    if url is None or not settings.namespaces:
        return []

    async def check_records() -> list[Finding]:
        async with open_stores(url) as stores:
            return [each for found in await _of_records(settings, stores, started_at) for each in found]

    return await probe(GROUP, "reapers", check_records, REDIS_FAILED)


async def _of_records(settings: Settings, stores: Stores, started_at: float | None) -> list[list[Finding]]:
    store, found = stores.leaks, []
    for each in await stores.installations.all():
        has_pods = any(pool.namespace for pool in settings.pools_of(each.org))
        if not has_pods or each.suspended or settings.of(each.org).leaks.mode == "off":
            continue
        last, begun, now = await store.last(each.id), await store.unfinished(each.id), await stores.now()
        found.append([of_tick(each.org, last, now, started_at), *of_unfinished(each.org, begun, now)])
    return found


def of_tick(org: str, last: Tick, now: float, started_at: float | None = None) -> Finding:
    """Judges the last tick, and how long ago it was; `started_at`: when the workers started, as by `starting`."""
    if is_overdue(last.at, now):
        if just_started := starting(started_at, now):
            return ok(GROUP, "reaper", f"it runs once a minute, and has not run yet: {just_started}", org)
        text = "it did not run in the last day" if last.at is None else f"it last ran at {time_of(last.at)}"
        fix = "start `ghapp clock` and `ghapp worker`; no leak is reaped until then"
        return warning(GROUP, "reaper", text, fix, org)
    texts, fixes = list[str](), list[str]()
    if last.trouble:
        since = "" if last.trouble_since is None else f" since {time_of(last.trouble_since)}"
        texts.append(f"blocked{since}: {redact(last.trouble)}")
        fixes.append(
            "fix that; the reaper then continues by itself. It reaps nothing in a namespace that it cannot read"
        )
    texts += _summary(last)
    for pool, (reason, pod) in last.stops.items():
        where = "" if pool == ALL_POOLS else f" in {pool or 'an unknown pool'}"
        texts.append(f"the reaper is stopped{where}: {reason} {pod}".rstrip())
    if last.never_runners:
        texts.append(f"{last.never_runners} never ran a runner")
        fixes.append("name a label in [leaks] owner_label that the runners' pods have, and no other pods there")
    for guard, (text, fix) in KEPT.items():
        if count := last.kept.get(guard):
            texts.append(f"{count} {text}{_examples(last, guard)}")
            fixes += [fix] if fix else []
    others = {guard: count for guard, count in last.kept.items() if guard not in {*KEPT, Guard.NO_RUNNER}}
    if others:
        kept = (f"{count} {guard}{_kept_pods(last, guard, count)}" for guard, count in sorted(others.items()))
        texts.append(f"kept: {', '.join(kept)}")
    text = "; ".join(texts)
    return warning(GROUP, "reaper", text, "; ".join(fixes), org) if fixes else ok(GROUP, "reaper", text, org)


def _summary(last: Tick) -> list[str]:
    counts = {
        "reaped in the last minute": last.reaped,
        "deferred": last.deferred,
        "reported only": last.would_reap,
        "without a known owner": last.without_owner,
    }
    reaped, *waiting = (f"{count} {what}" for what, count in counts.items() if count or what.startswith("reaped"))
    return [f"{last.stamped} pods with the owner label", ", ".join([reaped, *waiting])]


def _examples(last: Tick, guard: Guard) -> str:
    found = last.examples.get(guard, ())
    named = ", ".join(f"{place} (created {time_of(created_at)})" for place, created_at in found)
    return f": {named}" if named else ""


def _kept_pods(last: Tick, guard: str, count: int) -> str:
    named = last.kept_pods.get(guard, ())
    if not named:
        return ""
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return f" ({', '.join(named)}{more})"


def of_unfinished(org: str, begun: Sequence[Orphan], now: float) -> list[Finding]:
    """Warns of deletions that should have been finished: each tick finishes those that the previous tick left."""
    late = [each for each in begun if is_overdue(each.found_at, now)]
    if not late:
        return []
    first = late[0]
    text = f"{len(late)} begun and not finished, the first at {time_of(first.found_at)}: {first.namespace}/{first.pod}"
    fix = "each tick tries again: check the permissions of worker, and that `[leaks]` is not in dry-run"
    return [warning(GROUP, "unfinished deletions", text, fix, org)]
