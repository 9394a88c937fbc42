"""Is this stamped pod nobody's: bears the owner label, no live claim backs it, and nothing says that it is at work.

"Stamped and unclaimed is a leak" was believed elsewhere, and killed live jobs within days: a claim can be gone while
the job runs. So a pod must stay unclaimed, and more than claims can speak for it. `jobs.reap` reads, in the order that
guard 1 wants, and deletes what is returned, on the condition of the pods' uids and versions. Pure; times are epoch
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ghapp.health.cluster.pod import ARC_KIND, Pod
from ghapp.health.cluster.podclaim import Claimed, claim_on
from ghapp.health.leaks.heard import Heard

TERMINAL_SECONDS = 900.0
"""A job that has been over for this long shields nobody."""

MOST_GAP_SECONDS = 150.0
"""Between two good looks. After a longer gap nobody knows whether a pod was claimed meanwhile."""


class Guard(StrEnum):
    """Why a pod is kept, or a whole tick skipped."""

    OFF = "Off"
    CLAIMS_READ_FIRST = "ClaimsReadFirst"
    READ_INCOMPLETE = "ReadIncomplete"
    READ_STALE = "ReadStale"
    READ_EMPTY = "ReadEmpty"
    DELETING = "Deleting"
    POD_OF_ARC = "PodOfArc"
    CLAIMED = "Claimed"
    WITHIN_GRACE = "WithinGrace"
    UNCLAIMED_BRIEFLY = "UnclaimedBriefly"
    JOB_BY_DELIVERY = "JobInProgress"
    GITHUB_UNKNOWN = "GitHubUnknown"
    SESSION_OPEN = "SessionOpen"
    JUST_STARTED = "JustStarted"


@dataclass(frozen=True, slots=True)
class LeakLimits:
    """The `[leaks]` table: which pods are looked at, after how long, and how many are reaped a minute.

    Attributes:
        owner_label: the label that stamps a pod as somebody's, whatever its value.
        grace_seconds: how old it must be, and for how long unclaimed.
        per_tick: at most so many are reaped a minute.
        mode: `dry-run` only tells, `off` does not even look.
    """

    owner_label: str = "ghapp.dev/owner"
    grace_seconds: float = 300.0
    per_tick: int = 25
    mode: Literal["act", "dry-run", "off"] = "act"


class Look(NamedTuple):
    """What was read for one tick, the pods first.

    Attributes:
        pods: of all namespaces.
        pods_at: when their listing was begun.
        claims: what controllers said, by the names of pods and of runners (`podclaim.by_name`). Those that have run
            out may be among them.
        runners: by the names of runners.
        claims_at: when the reading of claims and runners was begun.
        complete: whether every read was answered, and in full.
    """

    pods: Sequence[Pod]
    pods_at: float
    claims: Claimed
    runners: Mapping[str, Heard]
    claims_at: float
    complete: bool = True


class Memory(NamedTuple):
    """What one tick leaves to the next.

    Attributes:
        since: since when each pod, by uid, has been unclaimed without a gap.
        pods: how many stamped ones there were.
        claims: how many claims held.
        at: when the last good look was judged; None for never.
        names: what pods' runners are called, by the pods' uids, where a controller once said so: its claim may be
            gone while a delivery still speaks of that runner.
    """

    since: Mapping[str, float] = {}
    pods: int = 0
    claims: int = 0
    at: float | None = None
    names: Mapping[str, str] = {}


class Reaping(NamedTuple):
    """What one tick comes to.

    Attributes:
        reap: delete these now, oldest first.
        told: those that would be deleted, were it not for dry-run.
        deferred: leaks too, but too many for one tick.
        kept: the other stamped pods, each with the guard that keeps it.
        memory: for the next tick.
        skipped: why this tick judges nothing; None when it does.
    """

    reap: tuple[Pod, ...] = ()
    told: tuple[Pod, ...] = ()
    deferred: tuple[Pod, ...] = ()
    kept: tuple[tuple[Pod, Guard], ...] = ()
    memory: Memory = Memory()
    skipped: Guard | None = None


def leaks(look: Look, now: float, limits: LeakLimits, memory: Memory) -> Reaping:
    """Which stamped pods are nobody's. Each of these guards keeps one, or all.

    1. Pods are listed before claims are read: who is claimed between the two reads is not taken for unclaimed.
    2. Complete and fresh reads only. No pods, or no claims, where there were some a tick before: a bad read.
    3. The pod is older than `grace_seconds`.
    4. It has been unclaimed for that long without a gap: a claim that comes back starts its clock anew, and so does
       a gap of more than `MOST_GAP_SECONDS` between two good looks, or a clock that goes back. Claims are those of
       controllers, while they last, and jobs that deliveries show in progress.
    5. No job of its runner is in progress by delivery.
    6. Nor by GitHub, and it has no session there: a runner that is online works, or may be given a job at any moment,
       however unclaimed its pod is. GitHub says so, and freshly: no answer is not "idle".
    7. The container agrees: one that started less than `grace_seconds` ago has had no time to be claimed, and GitHub's
       word that it is busy or online is believed of every container but one that has ended.
    8. A job that has been over for `TERMINAL_SECONDS` overrules 5 to 7, for they kept leaks for hours: the runner's
       latest, in this very pod, and not where the runner is known to take further jobs.
    9. At most `per_tick`, oldest first; the others are deferred, and reported.
    10. The kill switch: `off` judges nothing, `dry-run` only tells.
    11. A pod that is being deleted already is left alone, and so is one of ARC's: ARC would start it again.
    """
    if limits.mode == "off":
        return Reaping(skipped=Guard.OFF)
    stamped = [pod for pod in look.pods if limits.owner_label in pod.labels]
    claims = len({id(claim) for claim in look.claims.values() if claim.is_live(now)})
    claims += sum(each.running for each in look.runners.values())
    if flaw := _flaw(look, now, memory, pods=len(stamped), claims=claims):
        counted = memory if flaw is not Guard.READ_EMPTY else memory._replace(pods=len(stamped), claims=claims)
        return Reaping(memory=counted, skipped=flaw)
    is_whole = memory.at is not None and 0.0 <= now - memory.at <= MOST_GAP_SECONDS
    before = memory.since if is_whole else {}
    names = {pod.uid: _runner_name(pod, look, memory) for pod in stamped}
    runners = {uid: look.runners.get(name, Heard()) for uid, name in names.items()}
    since = {pod.uid: before.get(pod.uid, now) for pod in stamped if not _is_claimed(pod, runners[pod.uid], look, now)}
    judged = [(pod, _guard(pod, runners[pod.uid], since.get(pod.uid), now, limits)) for pod in stamped]
    found = sorted((pod for pod, guard in judged if guard is None), key=lambda pod: (pod.created_at, pod.uid))
    chosen = tuple(found[: limits.per_tick])
    return Reaping(
        reap=chosen if limits.mode == "act" else (),
        told=chosen if limits.mode == "dry-run" else (),
        deferred=tuple(found[limits.per_tick :]),
        kept=tuple((pod, guard) for pod, guard in judged if guard is not None),
        memory=Memory(since, len(stamped), claims, now, names),
    )


def _flaw(look: Look, now: float, memory: Memory, *, pods: int, claims: int) -> Guard | None:
    """Guards 1 and 2: why nothing can be judged by this look."""
    if look.pods_at > look.claims_at:
        return Guard.CLAIMS_READ_FIRST
    if not look.complete:
        return Guard.READ_INCOMPLETE
    if now - look.pods_at > MOST_GAP_SECONDS:
        return Guard.READ_STALE
    is_emptied = (memory.pods > 0 and pods == 0) or (memory.claims > 0 and claims == 0)
    return Guard.READ_EMPTY if is_emptied else None


def _guard(pod: Pod, runner: Heard, since: float | None, now: float, limits: LeakLimits) -> Guard | None:
    """Guards 3 to 8 and 11: what keeps this pod; None for a leak. `since` is None for a claimed one."""
    if pod.deleting_since is not None:
        return Guard.DELETING
    if any(owner.kind == ARC_KIND for owner in pod.owners):
        return Guard.POD_OF_ARC
    if since is None:
        return Guard.CLAIMED
    if now - pod.created_at < limits.grace_seconds:
        return Guard.WITHIN_GRACE
    if now - since < limits.grace_seconds:
        return Guard.UNCLAIMED_BRIEFLY
    return None if _is_long_over(runner, pod, now) else _shield(pod, runner, now, limits)


def _shield(pod: Pod, runner: Heard, now: float, limits: LeakLimits) -> Guard | None:
    """Guards 5 to 7."""
    if runner.running:
        return Guard.JOB_BY_DELIVERY
    if runner.has_session is None:
        return Guard.GITHUB_UNKNOWN
    has_ended = pod.runner is not None and pod.runner.ended is not None
    if runner.has_session and not has_ended:
        return Guard.SESSION_OPEN
    started_at = pod.runner.running_since if pod.runner else None
    if started_at is not None and now - started_at < limits.grace_seconds:
        return Guard.JUST_STARTED
    return None


def _is_long_over(runner: Heard, pod: Pod, now: float) -> bool:
    """Guard 8. A job that ended before the pod was made was another's, of the same name."""
    if runner.over_at is None or runner.ephemeral is False:
        return False
    return runner.over_at >= pod.created_at and now - runner.over_at >= TERMINAL_SECONDS


def _is_claimed(pod: Pod, runner: Heard, look: Look, now: float) -> bool:
    """Whether a controller's claim holds it, or a job that began and is not known to be over."""
    return claim_on(look.claims, pod.name, now) is not None or (runner.running and runner.over_at is None)


def _runner_name(pod: Pod, look: Look, memory: Memory) -> str:
    """What its runner is called: as the pod is, unless its controller said otherwise, now or before."""
    claim = look.claims.get(pod.name)
    if claim is not None and claim.pod == pod.name:
        return claim.runner_name
    return memory.names.get(pod.uid, pod.name)
