"""May we act at all: one fuse a pool, so that a mistake about many runners costs at most a few.

closed → proving   too many lost within the window, or anything lost while it is on watch after healing
proving → proving  all replacements so far are online: the next batch is twice as large
proving → stopped  a batch did not come online in `prove_seconds`: acting does not help, a person must look
proving → closed   nothing waits any more, or lost registrations came back by themselves; then on watch
stopped → proving  a person resumed it

Where nothing is asked for (dry-run, off) nothing can be proven, and nobody comes online for our asking. Such a fuse
says what the first batch would be, and goes out when no more than a few were lost within the window. Nothing was
healed by that: whatever still waits when acting begins goes through proving first.

`turn` is pure: everything it needs is in the fuse, the tally of the pool and `now` (epoch seconds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil

from ghapp.health.evidence import Evidence, Survey
from ghapp.health.verdict import State, is_absent, is_offline_too_long, is_spent

FLOAT_NOISE = 1e-9
"""0.07 × 100 is a little more than 7."""


MOOT = {State.HEALTHY, State.STARTING, State.SUSPECT, State.RETIRED}
"""Nobody acts on a grant of such a runner any more: a fuse that waited for it would wait for ever."""


class Position(StrEnum):
    """Where a fuse stands."""

    CLOSED = "closed"
    PROVING = "proving"
    STOPPED = "stopped"


class FuseReason(StrEnum):
    """Why a fuse last turned."""

    NONE = ""
    MASS_LOSS = "MassLoss"
    LOSS_ON_WATCH = "LossOnWatch"
    BATCH_ONLINE = "BatchOnline"
    BATCH_NEVER_ONLINE = "BatchNeverOnline"
    HEALED = "Healed"
    REGISTRATIONS_RETURNED = "RegistrationsReturned"
    RESUMED = "Resumed"
    UNPROVEN = "Unproven"
    """Nothing was asked for, so that nothing could be proven; the mass loss is past."""


@dataclass(frozen=True, slots=True)
class FuseLimits:
    """The `[fuse]` table."""

    fraction: float = 0.2
    floor: int = 3
    window_seconds: float = 600.0
    first_batch: int = 3
    prove_seconds: float = 300.0
    cooldown_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Fuse:
    """A pool's fuse.

    Attributes:
        position: closed, proving or stopped.
        since: when it left `closed`, or was resumed; what is granted, accepted or comes online from then on counts.
        batch: how many the present batch lets through.
        allowed: how many all batches since `since` let through together.
        healed_at: when it last closed again; on watch until `cooldown_seconds` later.
        reason: why it last turned.
        by: who last resumed it, since it left `closed`; empty for nobody.
    """

    position: Position = Position.CLOSED
    since: float | None = None
    batch: int = 0
    allowed: int = 0
    healed_at: float | None = None
    reason: FuseReason = FuseReason.NONE
    by: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """A pool, counted.

    Attributes:
        lost: runners whose absence was confirmed within the window and not yet healed, and those about to be; where
            the pool asks for it, those that are, or were removed for being, offline for too long.
        expected: how many there were before: those present and lost, less the replacements among them.
        waiting: lost, and not yet granted.
        granted: let through since the fuse tripped.
        accepted: of those, replacements that were accepted (or called off).
        accepted_at: when the last of them was.
        newcomers: runners first seen after it tripped that have been online.
        departed: runners retired since, by nobody's grant; in a living pool each of them has a newcomer of its own.
        returned: lost runners whose registration came back after.
    """

    lost: int = 0
    expected: int = 0
    waiting: int = 0
    granted: int = 0
    accepted: int = 0
    accepted_at: float | None = None
    newcomers: int = 0
    departed: int = 0
    returned: int = 0


def tally(
    pool: Iterable[tuple[Evidence, State]],
    fuse: Fuse,
    now: float,
    limits: FuseLimits,
    patience: float | None = None,
    survey: Survey = Survey(),  # noqa: B008 - a value
) -> Tally:
    """Count a pool's runners, each with its present state, for `turn`.

    `patience`: offline for so many seconds is lost, too; None: never.
    """
    since = fuse.since if fuse.since is not None else now
    window_start = now - limits.window_seconds
    healed_at = fuse.healed_at or 0.0
    lost = present = waiting = granted = accepted = newcomers = departed = returned = replaced = 0
    accepted_at: float | None = None
    for evidence, state in pool:
        if state is State.INVALIDATED:
            waiting += evidence.granted_at is None
            confirmed_at = evidence.confirmed_at or 0.0
            # what waited when a fuse went out has not healed with it
            lost += confirmed_at > window_start and (confirmed_at > healed_at or evidence.granted_at is None)
            replaced += (evidence.replaced_at or 0.0) > max(window_start, healed_at)
        elif state is State.SUSPECT:
            lost += 1
        elif evidence.removed_at is not None and evidence.confirmed_at is None:  # for being offline
            lost += evidence.removed_at > max(window_start, healed_at)
            replaced += (evidence.replaced_at or 0.0) > max(window_start, healed_at)
        elif state is State.RETIRED:
            departed += evidence.first_seen < since and _left_at(evidence) >= since
        elif state is State.OFFLINE and is_offline_too_long(evidence, patience, survey, now):
            waiting += evidence.granted_at is None
            lost += 1
        elif evidence.registered and not is_absent(evidence):
            present += 1
            newcomers += evidence.was_online and evidence.first_seen > since
            returned += evidence.back_at is not None and evidence.back_at > since
        is_moot = state in MOOT and evidence.removed_at is None
        if evidence.granted_at is not None and evidence.granted_at >= since and not is_moot:
            granted += 1
            if evidence.replaced_at is not None:
                accepted += 1
                accepted_at = max(accepted_at or 0.0, evidence.replaced_at)
    return Tally(
        lost=lost,
        expected=max(present + lost - replaced, lost),
        waiting=waiting,
        granted=granted,
        accepted=accepted,
        accepted_at=accepted_at,
        newcomers=newcomers,
        departed=departed,
        returned=returned,
    )


def _left_at(evidence: Evidence) -> float:
    if evidence.retired_at is not None:
        return evidence.retired_at
    if is_absent(evidence) and is_spent(evidence):
        return evidence.job_ended_at or evidence.absent_since or 0.0
    return evidence.absent_since or 0.0


def turn(fuse: Fuse, pool: Tally, now: float, limits: FuseLimits, *, acting: bool = True) -> Fuse:
    """The fuse after looking at its pool: the same object when nothing turns.

    `acting`: whether anything is asked for at all; in dry-run, and where remediation is off, it is not.
    """
    match fuse.position:
        case Position.CLOSED:
            return _watch(fuse, pool, now, limits, acting=acting)
        case Position.PROVING if not acting:
            return _wait_out(fuse, pool, now, limits)
        case Position.PROVING:
            return _prove(fuse, pool, now, limits)
        case Position.STOPPED:
            return fuse


def resume(fuse: Fuse, now: float, limits: FuseLimits, by: str = "") -> Fuse:
    """A person (`by`) let it go on: it proves anew, from the first batch. A closed one stays as it is."""
    if fuse.position is Position.CLOSED:
        return fuse
    return replace(_start_proving(fuse, now, limits, FuseReason.RESUMED), by=by)


def threshold(expected: int, limits: FuseLimits) -> int:
    """How many losses within the window trip the fuse of a pool of `expected` runners."""
    return max(limits.floor, ceil(limits.fraction * expected - FLOAT_NOISE))


def room(fuse: Fuse, pool: Tally) -> int | None:
    """How many more may be granted now; None for no limit of the fuse's."""
    match fuse.position:
        case Position.CLOSED:
            just_out = fuse.reason is FuseReason.REGISTRATIONS_RETURNED and pool.returned > 0
            return 0 if just_out else None  # what still waits is on watch: it goes through proving, from the next turn
        case Position.PROVING:
            return max(0, fuse.allowed - pool.granted)
        case Position.STOPPED:
            return 0


def _watch(fuse: Fuse, pool: Tally, now: float, limits: FuseLimits, *, acting: bool) -> Fuse:
    if pool.waiting == 0:
        return fuse  # nothing is about to be done
    if pool.lost >= threshold(pool.expected, limits):
        return _start_proving(fuse, now, limits, FuseReason.MASS_LOSS)
    if fuse.reason is FuseReason.UNPROVEN:
        on_watch = acting
    else:
        on_watch = fuse.healed_at is not None and now - fuse.healed_at < limits.cooldown_seconds
    return _start_proving(fuse, now, limits, FuseReason.LOSS_ON_WATCH) if on_watch else fuse


def _start_proving(fuse: Fuse, now: float, limits: FuseLimits, reason: FuseReason) -> Fuse:
    return Fuse(
        position=Position.PROVING,
        since=now,
        batch=limits.first_batch,
        allowed=limits.first_batch,
        healed_at=fuse.healed_at,
        reason=reason,
    )


def _wait_out(fuse: Fuse, pool: Tally, now: float, limits: FuseLimits) -> Fuse:
    """What can be said of one that proves while nothing is asked for."""
    if pool.returned:
        return Fuse(healed_at=now, reason=FuseReason.REGISTRATIONS_RETURNED)
    if pool.waiting > 0 and pool.lost >= threshold(pool.expected, limits):
        return fuse
    return Fuse(healed_at=now, reason=FuseReason.UNPROVEN)


def turned_at(fuse: Fuse) -> float | None:
    """What tells its last turn from any other of the same kind (epoch seconds); None: it never turned.

    A further batch is no turn, and a stopped one has nothing of its own: it stops once after it tripped or was resumed.
    """
    return fuse.healed_at if fuse.position is Position.CLOSED else fuse.since


def _prove(fuse: Fuse, pool: Tally, now: float, limits: FuseLimits) -> Fuse:
    if pool.returned:
        return Fuse(healed_at=now, reason=FuseReason.REGISTRATIONS_RETURNED)
    if pool.accepted < pool.granted:
        return fuse  # the proof begins when the batch's last request was accepted
    all_online = pool.granted == 0 or pool.newcomers - pool.departed >= pool.accepted
    if pool.waiting == 0 and all_online:
        return Fuse(healed_at=now, reason=FuseReason.HEALED)
    if pool.granted < min(fuse.allowed, pool.granted + pool.waiting):
        return fuse  # the batch is not given out yet
    if all_online:
        batch = fuse.batch * 2
        return replace(fuse, batch=batch, allowed=fuse.allowed + batch, reason=FuseReason.BATCH_ONLINE)
    if pool.accepted_at is not None and now - pool.accepted_at > limits.prove_seconds:
        return replace(fuse, position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE)
    return fuse
