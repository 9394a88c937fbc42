"""Status of the reaper, for people: whether it works, what it did in the last day, and what is waiting. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ghapp.leaks.leak_fuse import LeakFuse
from ghapp.leaks.tick import WAITS, Guard, TickResult
from ghapp.remediation.fuse import Position

DAY_SECONDS = 86_400.0

OVERDUE_SECONDS = 180.0
"""The reaper runs once a minute. After this time without a run it counts as stopped."""


MOST_EXAMPLES = 5
"""Maximum pods named for each guard; the others are counted."""

MOST_KEPT_NAMED = 3
"""The same for each of the other guards."""

REPORTED = (
    Guard.UNNAMED,
    Guard.NEVER_STARTED,
    Guard.SESSION_AFTER_JOB,
    Guard.BUSY_WHEN_LAST_SEEN,
    Guard.MASS_LEAK,
    Guard.FUSE_NOT_CLOSED,
    Guard.REAPER_STOPPED,
)
"""Guards whose pods are named to people: these pods stay until an admin acts."""

Example = tuple[str, float]
"""`namespace/pod`, and when the pod was created (epoch seconds, by the cluster's clock)."""


Stop = tuple[str, str]
"""A `StopReason`, and the deleted pod that was in use, as `namespace/pod`."""


MOST_LEAKING = 50


class LeakingPod(NamedTuple):
    """A pod without use that was not deleted. Fields are only ever appended.

    Attributes:
        since: since when it is unclaimed, or when it was created (epoch seconds).
        guard: the guard that keeps it; empty if it is only reported, or waits for its turn.
        pool: of its runner; empty if it is not known.
    """

    namespace: str
    pod: str
    runner_name: str
    since: float
    guard: str = ""
    pool: str = ""


class ReaperStatus(NamedTuple):
    """Status of one org's reaper.

    Attributes:
        reaped: stamped pods reaped in the last day.
        deferred: leaks deferred to a later tick by the last tick.
        would_reap: leaks only reported by the last tick, because of dry-run or a pause.
        held_up_since: since when the reaper could not judge or reap; None if it can, or not for long.
        never_runners: pods with the label that were never a runner's, at the last tick.
        held: leaks held back by the fuse, at the last tick.
        kept: number of pods kept by each guard of `REPORTED`, at the last tick.
        examples: the oldest pods of each guard of `REPORTED`.
        stops: why the reaper is stopped, by pool.
    """

    reaped: int = 0
    deferred: int = 0
    would_reap: int = 0
    held_up_since: float | None = None
    never_runners: int = 0
    held: int = 0
    kept: Mapping[str, int] = {}
    examples: Mapping[str, tuple[Example, ...]] = {}
    stops: Mapping[str, Stop] = {}


def kept_by_guard(result: TickResult) -> dict[str, int]:
    """Returns the number of stamped pods that each guard keeps, including the fuse's guards."""
    return dict(Counter(guard.value for _, guard in (*result.kept, *result.held)))


def examples(result: TickResult) -> dict[str, tuple[Example, ...]]:
    """Returns the oldest pods of each guard of `REPORTED`."""
    found: dict[str, tuple[Example, ...]] = {}
    oldest = sorted((*result.kept, *result.held), key=lambda each: (each[0].created_at, each[0].uid))
    for guard in REPORTED:
        pods = [(f"{pod.namespace}/{pod.name}", pod.created_at) for pod, by in oldest if by is guard]
        if pods:
            found[guard.value] = tuple(pods[:MOST_EXAMPLES])
    return found


def kept_pods(result: TickResult) -> dict[str, tuple[str, ...]]:
    """Returns the oldest pods that the other guards keep: these pods are in use, or may be."""
    found: dict[str, tuple[str, ...]] = {}
    for pod, guard in sorted(result.kept, key=lambda each: (each[0].created_at, each[0].uid)):
        named = found.get(guard.value, ())
        if guard not in {*REPORTED, Guard.NO_RUNNER} and len(named) < MOST_KEPT_NAMED:
            found[guard.value] = (*named, f"{pod.namespace}/{pod.name}")
    return found


def leaking(result: TickResult, pools: Mapping[str, str]) -> tuple[LeakingPod, ...]:
    """Returns the unused pods that the tick leaves: deferred, only reported, held, or kept; `pools` is by their uids.

    Those that are leaks once their grace is over come last.
    """
    kept = [(pod, guard.value) for pod, guard in (*result.held, *result.kept) if guard in REPORTED]
    found = [*((pod, "") for pod in (*result.would_reap, *result.deferred)), *kept]
    found += [(pod, guard.value) for pod, guard in result.kept if guard in WAITS and pod.uid in result.spent]
    found.sort(key=lambda each: (each[1] in WAITS, each[0].created_at, each[0].uid))
    names, since = result.memory.names, result.memory.since
    return tuple(
        LeakingPod(
            pod.namespace,
            pod.name,
            names.get(pod.uid, ""),
            since.get(pod.uid, pod.created_at),
            guard,
            pools.get(pod.uid, ""),
        )
        for pod, guard in found[:MOST_LEAKING]
    )


def stops(fuses: Mapping[str, LeakFuse]) -> dict[str, Stop]:
    """Returns why the reaper's fuses are stopped, by pool."""
    stopped = {pool: fuse for pool, fuse in fuses.items() if fuse.position is Position.STOPPED}
    return {pool: (fuse.reason.value, fuse.pod) for pool, fuse in sorted(stopped.items())}


def is_overdue(at: float | None, now: float) -> bool:
    """True if a task that runs each minute, last at `at`, has stopped. A clock that jumped counts as stopped."""
    return at is None or abs(now - at) > OVERDUE_SECONDS


def reaper_status(
    at: float | None,
    trouble_since: float | None,
    now: float,
    *,
    reaped: int,
    deferred: int,
    would_reap: int,
    never_runners: int,
    held: int = 0,
    kept: Mapping[str, int] | None = None,
    examples: Mapping[str, tuple[Example, ...]] | None = None,
    stops: Mapping[str, Stop] | None = None,
) -> ReaperStatus:
    """Returns the status at `now` after the last tick `at`; for a stopped reaper, only the pods that it reaped."""
    if is_overdue(at, now):
        return ReaperStatus(reaped)
    has_lasted = trouble_since is not None and now - trouble_since > OVERDUE_SECONDS
    reported = {guard.value: count for guard in REPORTED if (count := (kept or {}).get(guard, 0))}
    return ReaperStatus(
        reaped,
        deferred,
        would_reap,
        trouble_since if has_lasted else None,
        never_runners,
        held,
        reported,
        examples or {},
        stops or {},
    )
