"""Headlines of lost and missing runners, and of what holds up their replacement: fuses and pauses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import (
    FUSE_REASONS,
    Fuse,
    FuseReason,
    Position,
    fuse_name,
    proof_in_words,
    resume_command,
    threshold,
)
from ghapp.remediation.healing import HEALED_FOR_EACH_HIDDEN, SUCCESSOR_PATIENCE_SECONDS, lost_since
from ghapp.remediation.pause import Pause
from ghapp.remediation.status import (
    ReplacementBlocker,
    ReplacementStage,
    ReplacementStatus,
    is_unanswered,
)
from ghapp.report.fleet import FleetView, PoolView, RunnerView
from ghapp.report.headline import BY_ITSELF, Headline, HeadlineKind, Severity, first_since, runners_page
from ghapp.runners.verdict import State
from ghapp.untrusted_text import shell_command
from ghapp.wording import are, capitalized, clock_time, counted, duration, time_of
from ghapp.workflow_jobs.demand import PoolDemand

MOST_BLOCKERS = 3
"""What lost runners of one pool wait for, in one sentence."""


# ---- runners are lost


def loss_headlines(fleet: FleetView, pools: Sequence[PoolView], now: float) -> Iterator[Headline]:
    """Yields one for each pool with lost runners: what happens next to them."""
    demand = {each.pool: each for each in fleet.demand}
    last_of_all = _last_request([each for pool in pools for each in (*pool.lost, *pool.healed)], fleet.whole_fuse)
    for pool in pools:
        if not (lost := pool.lost):
            continue
        statuses, patience = [each.replacement for each in lost], fleet.fuse_limits.prove_seconds
        gap = BURST_CONFIRMATIONS * fleet.view.limits.confirm_seconds
        burst = _latest_burst(pool, gap)
        unanswered = [each for each in statuses if is_unanswered(each, now, patience)]
        worst = _worst(statuses)
        total = pool.total
        last_request_at = last_of_all if pool.is_whole_fuse else _last_request((*lost, *pool.healed), pool.fuse)
        batches = _batches_left(fleet, pool, pools, now)
        step, command = _step(fleet, pool, worst, unanswered, burst, last_request_at, batches)
        progress = _progress(statuses, burst, worst)
        missing = missing_at_once(fleet, pool, now)
        if missing:
            progress += f"; {len(missing):,} more {are(len(missing))} missing, and GitHub is asked for each"
        if pool.fuse.position is Position.STOPPED and not worst.is_stopped:
            name = fuse_name(ALL_POOLS if pool.is_whole_fuse else pool.name)
            progress += f"; {name} is stopped: {FUSE_REASONS[pool.fuse.reason]}"
        fuse = "fuse of all pools" if pool.is_whole_fuse else "fuse"
        effect = _effect(demand[pool.name]) if pool.name in demand else ""
        if (
            not missing
            and not unanswered
            and _is_settling(fleet, pool, statuses, burst.healed)
            and not burst.goes_on(now, gap)
        ):
            yield _settling(pool, burst, effect, step)
            continue
        yield Headline(
            HeadlineKind.LOST,
            Severity.CRITICAL if pool.waits_for_a_person else Severity.ATTENTION,
            f"{len(lost):,} of {counted(total, 'runner')} of {pool.name} {are(len(lost))} lost"
            f"{_latest(burst, lost)}{effect}: {progress}.",
            step,
            command,
            burst.since,
            runners_page(pool.name, State.INVALIDATED),
            pool.name,
            f"{len(lost):,} of {counted(total, 'runner')} lost"
            f"{'' if pool.fuse.position is Position.CLOSED else f', {fuse} {pool.fuse.position}'}",
            len(lost),
            f"{len(lost)} lost: {progress}",
            ranks_as=HeadlineKind.UNSEEN if len(unanswered) == len(lost) and step.startswith(BY_ITSELF) else None,
        )


def _is_settling(fleet: FleetView, pool: PoolView, statuses: Sequence[ReplacementStatus], healed: int) -> bool:
    """True if most of a pool's losses have healed, and nothing is left to be requested for the others."""
    goes_on = fleet.view.survey.failing_since is None and not pool.waits_for_a_person
    return _are_all_requested(statuses) and goes_on and healed >= HEALED_FOR_EACH_HIDDEN * len(statuses)


def _are_all_requested(statuses: Iterable[ReplacementStatus]) -> bool:
    return all(each.stage is ReplacementStage.REQUESTED for each in statuses)


def _settling(pool: PoolView, burst: _Burst, effect: str, step: str) -> Headline:
    """Returns the headline of a loss of which nothing is left but the last successors.

    The pool's own newcomers may hide them, so that it comes after all that is worse than jobs that wait long; until
    they are late, for then the controller may not replace any more.
    """
    left, healed = len(pool.lost), burst.healed
    rest = "the successor of 1 is not seen yet" if left == 1 else f"the successors of {left:,} are not seen yet"
    return Headline(
        HeadlineKind.LOST,
        Severity.ATTENTION,
        f"{healed:,} of {counted(healed + left, 'lost runner')} of {pool.name} are replaced, and {rest}{effect}.",
        step,
        "",
        burst.since,
        runners_page(pool.name, State.INVALIDATED),
        pool.name,
        f"{counted(left, 'successor')} not seen yet",
        left,
        f"{left} not seen yet",
        ranks_as=HeadlineKind.SLOW,
    )


BURST_CONFIRMATIONS = 3
"""Losses within so many times `confirm_seconds` of each other are one burst: consecutive sweeps may find them."""


class _Burst(NamedTuple):
    """Losses of a pool that began together: since when and until when (epoch seconds), and how many are how far."""

    since: float
    until: float
    lost: int = 0
    requested: int = 0
    healed: int = 0

    def goes_on(self, now: float, gap: float) -> bool:
        """True if runners are lost one after the other, the last one just now."""
        return self.until - self.since > gap and now - self.until <= gap


def _latest_burst(pool: PoolView, gap: float) -> _Burst:
    """Returns the losses since the first one that waits for its request, or else the latest burst of which one is lost.

    So an earlier loss, of which nothing is left but a late successor, makes a later one neither older nor smaller. A
    loss that comes after the others have healed, or more than `gap` seconds after the last one, begins another burst.
    """
    losses = [(lost_since(each.evidence), each) for each in (*pool.healed, *pool.lost)]
    latest = burst = _Burst(-inf, -inf)
    healed_at, is_waiting = -inf, False
    for began, each in sorted(losses, key=lambda loss: loss[0]):
        if not is_waiting and (began - burst.until > gap or began > healed_at):
            burst, healed_at = _Burst(began, began), -inf
        is_requested = each.is_lost and each.replacement.stage is ReplacementStage.REQUESTED
        burst = burst._replace(
            until=began,
            lost=burst.lost + each.is_lost,
            requested=burst.requested + is_requested,
            healed=burst.healed + (not each.is_lost),
        )
        latest = burst if burst.lost else latest
        healed_at = max(healed_at, inf if each.is_lost else each.evidence.healed_at or 0.0)
        is_waiting = is_waiting or (each.is_lost and not is_requested)
    return latest


def _latest(burst: _Burst, lost: Sequence[RunnerView]) -> str:
    """Returns how many of the lost runners were lost lately, and since when, if others were lost before."""
    return "" if burst.lost == len(lost) else f", {burst.lost:,} of them since {clock_time(burst.since)}"


def _effect(demand: PoolDemand) -> str:
    """Returns whether people feel a loss: how many jobs wait for the pool, and how many of its runners are idle."""
    jobs = f"{counted(demand.queued, 'job') if demand.queued else 'no job'} {'wait' if demand.queued > 1 else 'waits'}"
    runners = f"{counted(demand.idle, 'runner')} {are(demand.idle)} idle" if demand.idle else "no runner is idle"
    return f" ({jobs} for this pool, {runners})"


def _worst(statuses: Sequence[ReplacementStatus]) -> ReplacementStatus:
    """Returns the status that says most about what holds up a pool: what waits for a person, then what most share."""
    waiting = [each for each in statuses if each.stage is ReplacementStage.WAITING]
    common = Counter(each.blocked_by for each in waiting)
    return max(waiting or statuses, key=lambda each: (each.is_stopped, common[each.blocked_by]))


def _progress(statuses: Sequence[ReplacementStatus], burst: _Burst, worst: ReplacementStatus) -> str:
    """Returns how far the replacements are: `replacement requested for 9; 3 wait, …; 2 of 14 successors online`."""
    stages, lost, parts = Counter(each.stage for each in statuses), len(statuses), []
    requested, waiting = stages[ReplacementStage.REQUESTED], stages[ReplacementStage.WAITING]
    under_way = stages[ReplacementStage.GRANTED] + stages[ReplacementStage.REMOVED]
    if requested:
        parts.append(f"replacement requested{'' if requested == lost else f' for {requested:,}'}")
    if under_way:
        parts.append("replacement is under way" if under_way == lost else f"{under_way:,} being replaced")
    if waiting:
        parts += _waits(statuses, worst, lost)
    if burst.requested or burst.healed:
        latest = "" if burst.lost == lost else "the latest "
        parts.append(f"{burst.healed:,} of {latest}{counted(burst.lost + burst.healed, 'successor')} online")
    return "; ".join(parts)


def _waits(statuses: Sequence[ReplacementStatus], worst: ReplacementStatus, lost: int) -> Iterator[str]:
    """Returns how many wait for what: first for what the worst one waits for, then for what most of the others do."""
    groups: dict[ReplacementBlocker | None, list[ReplacementStatus]] = {worst.blocked_by: []}
    for each in statuses:
        if each.stage is ReplacementStage.WAITING:
            groups.setdefault(each.blocked_by, []).append(each)
    first, *others = groups.values()
    others.sort(key=len, reverse=True)
    for alike in (first, *others[: MOST_BLOCKERS - 1]):
        which = "" if len(alike) == lost else f"{len(alike):,} {'waits' if len(alike) == 1 else 'wait'}, "
        yield f"{which}{blocker_text(alike)}"
    if rest := sum(map(len, others[MOST_BLOCKERS - 1 :])):
        yield f"{rest:,} {'waits' if rest == 1 else 'wait'} for something else"


_OF_ONE_RUNNER: Mapping[ReplacementBlocker | None, tuple[str, str]] = {
    None: ("its replacement is the next one", "their replacements are the next ones"),
    ReplacementBlocker.JOB: ("a job runs on it by the last report", "jobs run on them by the last reports"),
    ReplacementBlocker.CLAIM: (
        "its controller claims that its pod is busy",
        "their controller claims that their pods are busy",
    ),
    ReplacementBlocker.LIMIT: (
        "it waits for its turn with the next sweep, which grants a limited number",
        "they wait for their turn with the next sweep, which grants a limited number",
    ),
    ReplacementBlocker.DELIVERIES_MISSING: (
        "deliveries are missing or late, and its job may have ended unseen; it is confirmed within an hour",
        "deliveries are missing or late, and their jobs may have ended unseen; they are confirmed within an hour",
    ),
}
"""What one runner waits for, and several, where the status of a runner says what is true of it alone."""


def blocker_text(alike: Sequence[ReplacementStatus]) -> str:
    """Returns what runners that wait for the same wait for, without what is true of one of them alone.

    Not every reader may see the number of a job, or the name of a pod.
    """
    words = _OF_ONE_RUNNER.get(alike[0].blocked_by)
    if words is not None and alike[0].stage is ReplacementStage.WAITING:
        return words[len(alike) > 1]
    texts = Counter(each.text for each in alike)
    if len(texts) > 1 and alike[0].blocked_by is ReplacementBlocker.GITHUB:
        return "GitHub gave no usable answer about them, and is asked again about each"
    return texts.most_common(1)[0][0]


def _step(
    fleet: FleetView,
    pool: PoolView,
    worst: ReplacementStatus,
    unanswered: Sequence[ReplacementStatus],
    burst: _Burst,
    last_request_at: float | None,
    batches: str,
) -> tuple[str, str]:
    """Returns what to do next about lost runners of a pool, and the command for it. `batches`: see `_batches_left`.

    The controller is not blamed for requests of batches that are proven: jobs prove them where the pool's own newcomers
    hide the successors.
    """
    org, prove_seconds = fleet.org, duration(fleet.fuse_limits.prove_seconds)
    proven_at, late = _proven_at(pool.fuse), ""
    first_at = min((each.since or 0.0 for each in unanswered), default=0.0)
    came = sum((each.evidence.healed_at or 0.0) >= first_at for each in pool.healed)
    if sum((each.since or 0.0) >= proven_at for each in unanswered) > came and not worst.is_stopped:
        since = "accepted the requests, and no runner came online"
        return f"find out why the controller of {pool.name} {since}; see its log and its machines", ""
    if unanswered and not worst.is_stopped:
        requests = f"{counted(len(unanswered), 'request')} of more than {prove_seconds} ago"
        have = "has no successor" if len(unanswered) == 1 else "have no successors"
        over_at = max(each.since or 0.0 for each in unanswered) + SUCCESSOR_PATIENCE_SECONDS
        late = f"{requests} {have} yet: late, or hidden by other newcomers; awaited until {clock_time(over_at)}"
        if worst.blocked_by is not ReplacementBlocker.FUSE:
            return f"wait: {late}", ""
    if pool.fuse.position is Position.STOPPED and not worst.is_stopped:
        return _after_stop(pool.fuse), _resume_stopped(fleet, pool)
    match worst.blocked_by:
        case ReplacementBlocker.OFF | ReplacementBlocker.DRY_RUN:
            return 'set [remediation] mode = "act" to have lost runners replaced, or replace them by hand', ""
        case ReplacementBlocker.PAUSE:
            is_own = pool.name in fleet.view.pauses and fleet.org_pause is None
            return _after_pause(pool.pause, has_lost=True), resume_command(org, pool.name if is_own else None)
        case ReplacementBlocker.FUSE if worst.is_stopped:
            return _after_stop(pool.fuse), _resume_stopped(fleet, pool)
        case ReplacementBlocker.FUSE:
            follows = _next_batch(pool, fleet.fuse_limits.prove_seconds, last_request_at)
            return f"wait{batches}: {follows}{late and f'; {late}'}", ""
        case ReplacementBlocker.NO_POOL:
            return f"add a [[pools]] table for {pool.name}", shell_command("ghapp", "init", "--org", org)
        case ReplacementBlocker.PERMISSION | ReplacementBlocker.CLUSTER:
            return "see what is forbidden or missing, and grant it", "ghapp doctor"
        case ReplacementBlocker.GITHUB:
            return "wait: replacement goes on by itself once GitHub answers", ""
        case _ if fleet.view.survey.failing_since is not None:
            return "wait: successors are seen once runners can be read", ""
        case _ if last_request_at is not None and _are_all_requested(each.replacement for each in pool.lost):
            by = clock_time(last_request_at + fleet.fuse_limits.prove_seconds)
            if burst.healed >= HEALED_FOR_EACH_HIDDEN * len(pool.lost):
                them, they_are = ("it", "it is") if len(pool.lost) == 1 else ("them", "they are")
                hidden = f"other new runners of the pool may hide {them}"
                return f"nothing to do: {they_are} awaited until {by} at most; {hidden}", ""
            return f"nothing to do: replacement goes on by itself; successors are expected by {by}", ""
        case _:
            return "nothing to do: replacement goes on by itself", ""


def _batches_left(fleet: FleetView, pool: PoolView, pools: Sequence[PoolView], now: float) -> str:
    """Returns for how many more batches the last lost runner of a pool waits, and until when at the pace so far.

    Its own fuse and that of all pools may both prove, and the slower one decides.
    """
    left, ends = 0, list[float | None]()
    for fuse, held in ((fleet.view.fuses.get(pool.name, Fuse()), [pool]), (fleet.whole_fuse, pools)):
        if fuse.position is Position.PROVING:
            waiting = sum(each.replacement.blocked_by is ReplacementBlocker.FUSE for of in held for each in of.lost)
            left = max(left, fuse.batches_left(waiting))
            ends.append(fuse.ends_at(waiting, fleet.fuse_limits))
    end = max((at or 0.0 for at in ends), default=0.0)
    until = "" if None in ends or end <= now else f", until about {clock_time(end)} at the pace so far"
    return f" for about {counted(left, 'more batch', 'more batches')}{until}" if left else ""


def _next_batch(pool: PoolView, prove_seconds: float, last_request_at: float | None) -> str:
    """Returns when a proving fuse goes on. The pool's own newcomers may hide successors until `prove_seconds` are over.

    That time is longer while lists fail, which a headline of its own says.
    """
    by = f"{duration(prove_seconds)} after its last request"
    if last_request_at is not None:
        by = f"by {clock_time(max(last_request_at, pool.fuse.since or 0.0) + prove_seconds)}"
    follows = f"the next batch follows when {proof_in_words(is_of_all=pool.is_whole_fuse)} of"
    batch_at = pool.fuse.batch_at or 0.0
    if any((each.evidence.replaced_at or 0.0) >= batch_at for each in pool.lost) or last_request_at is None:
        proof = f"{follows} this one's successors are online, as far as they can be distinguished from"
    else:  # the fuse takes fewer newcomers for successors than the surfaces do
        proof = f"this batch's successors seem to be online; {follows} them are certain not to be"
    return f"{proof} the pool's other new runners; {by} one suffices, and without any the fuse stops"


def _last_request(runners: Iterable[RunnerView], fuse: Fuse) -> float | None:
    """Returns when the last request of the fuse's present batch was accepted; None if none was."""
    times = [each.evidence.replaced_at or 0.0 for each in runners]
    return max((at for at in times if at > 0.0 and at >= (fuse.batch_at or 0.0)), default=None)


def _proven_at(fuse: Fuse) -> float:
    """Returns until when what was requested is proven (epoch seconds)."""
    began_at = fuse.batch_at if fuse.reason is FuseReason.BATCH_ONLINE else fuse.closed_at
    return began_at or 0.0


def _resume_stopped(fleet: FleetView, pool: PoolView) -> str:
    return resume_command(fleet.org, ALL_POOLS if pool.is_whole_fuse else pool.name)


def _after_pause(pause: Pause | None, *, has_lost: bool) -> str:
    """Returns what to do about a pause: a person has to decide whether lost runners wait for its end."""
    if pause is None or pause.until is None:
        return "resume when the reason is over"
    if has_lost:
        return f"decide whether the lost runners wait until the pause ends at {time_of(pause.until)}, or end it now"
    return f"wait until the pause ends at {time_of(pause.until)}, or end it now"


def _after_stop(fuse: Fuse) -> str:
    if fuse.reason is FuseReason.REQUEST_NOT_ACCEPTED:
        return "make the pool's url accept requests; they are repeated, and the fuse goes on by itself"
    if fuse.reason is FuseReason.UNREADABLE:
        return "resume: its record in Redis cannot be read"
    return "find out why no successor came online, then resume; it goes on by itself when one comes"


# ---- many runners that are missing at once


def suspect_headlines(fleet: FleetView, pools: Sequence[PoolView], now: float) -> Iterator[Headline]:
    """Suspects of one pool that would trip its fuse if they are confirmed. One whose job explains it does not count."""
    for pool in pools:
        missing = [] if pool.lost else missing_at_once(fleet, pool, now)  # the headline of its loss counts them
        if not missing:
            continue
        of_them = f"{len(missing):,} of {counted(len(pool.members), 'runner')} of {pool.name}"
        yield Headline(
            HeadlineKind.MASS_SUSPECT,
            Severity.ATTENTION,
            f"{of_them} {are(len(missing))} missing from GitHub's list at once: GitHub is asked for each, and none "
            f"counts as lost before a second 404, {fleet.view.limits.confirm_seconds:g} s after the first.",
            "wait: it is confirmed, or they are back, with the next sweeps",
            since=first_since(missing),
            page=runners_page(pool.name, State.SUSPECT),
            pool=pool.name,
            short=f"{counted(len(missing), 'runner')} missing at once",
            affected=len(missing),
            meaning="many suspect",
        )


def missing_at_once(fleet: FleetView, pool: PoolView, now: float) -> list[RunnerView]:
    """Returns the suspects of a pool, if so many would trip its fuse; else none."""
    missing = [
        each
        for each in pool.members
        if each.state is State.SUSPECT
        and each.replacement.blocked_by is not ReplacementBlocker.JOB
        and not each.is_lasting_suspect(now, fleet.view.limits)
    ]
    return missing if len(missing) >= threshold(len(pool.members), fleet.fuse_limits) else []


# ---- fuses of pools without a loss that waits


def fuse_headlines(fleet: FleetView, pools: Sequence[PoolView]) -> Iterator[Headline]:
    """Yields one for each fuse that is not closed, and whose pool has no headline for its losses."""
    losing = {pool.name for pool in pools if pool.lost}
    for pool, fuse in sorted(fleet.view.fuses.items()):
        is_whole = pool == ALL_POOLS
        if fuse.position is Position.CLOSED or (bool(losing) if is_whole else pool in losing):
            continue
        is_stopped = fuse.position is Position.STOPPED
        effect = "nothing more is replaced there" if is_stopped else "lost runners are replaced in batches"
        why = FUSE_REASONS[fuse.reason]
        yield Headline(
            HeadlineKind.FUSE,
            Severity.CRITICAL if is_stopped else Severity.ATTENTION,
            f"{capitalized(fuse_name(pool))} is {fuse.position}{f' ({why})' if why else ''}: {effect}.",
            _after_stop(fuse) if is_stopped else "nothing to do: it closes by itself",
            resume_command(fleet.org, pool) if is_stopped else "",
            fuse.stopped_at if is_stopped else fuse.since,
            "incidents",
            "" if is_whole else pool,
            f"fuse {fuse.position}",
        )


def lasting_suspect_headlines(fleet: FleetView, pools: Sequence[PoolView], now: float) -> Iterator[Headline]:
    """Suspects whose confirmation something holds up; others are confirmed or return within a sweep."""
    for pool in pools:
        if held := [each for each in pool.members if each.is_lasting_suspect(now, fleet.view.limits)]:
            why = _why_held([each.replacement for each in held])
            yield Headline(
                HeadlineKind.SUSPECT,
                Severity.ATTENTION,
                f"{counted(len(held), 'runner')} of {pool.name} {are(len(held))} missing from GitHub's list, and not "
                f"confirmed as lost: {why}.",
                "see what GitHub or its deliveries lack",
                "ghapp doctor",
                first_since(held),
                runners_page(pool.name, State.SUSPECT),
                pool.name,
                f"{counted(len(held), 'runner')} suspect",
                len(held),
                f"suspect: {why}",
            )


def _why_held(statuses: Sequence[ReplacementStatus]) -> str:
    """Returns what holds up the confirmation of most of the suspects."""
    (most, _), *_ = Counter(each.blocked_by for each in statuses).most_common(1)
    return blocker_text([each for each in statuses if each.blocked_by == most])


def pause_headlines(fleet: FleetView, pools: Sequence[PoolView]) -> Iterator[Headline]:
    """Yields one for each pause: who made it, why, and when it ends."""
    pauses: list[tuple[str, Pause]] = [] if fleet.org_pause is None else [("", fleet.org_pause)]
    pauses += sorted(fleet.pool_pauses.items(), key=lambda each: each[0])
    for pool, pause in pauses:
        where = f" in {pool}" if pool else ""
        why = f": {pause.why}" if pause.why else ""
        yield Headline(
            HeadlineKind.PAUSED,
            Severity.ATTENTION,
            f"Remediation is paused{where} by {pause.who}{why}; nothing more is requested there meanwhile.",
            _after_pause(pause, has_lost=any(each.lost for each in pools if not pool or each.name == pool)),
            resume_command(fleet.org, pool or None),
            pause.at,
            pool=pool,
            short=f"paused by {pause.who}",
        )
