"""May we act at all: a fuse a pool and one an installation, so that a mistake about many runners costs at most a few.

closed → proving   too many lost within the window, or anything lost while it is on watch after closing
proving → proving  as many successors as the batch had are online: the next batch is twice as large
proving → stopped  the batch had no successors in `prove_seconds`: acting does not help, a person must look
proving → closed   nothing waits any more: the last batch is online, or the lost registrations came back
stopped → proving  a person resumed it
stopped → closed   nothing changed for a window, and what is lost is not needed: no job waits for it. A scale-down by
                   somebody else; or the lost registrations are back

Registrations that come back say that the loss was no loss. They buy no new batch: the batches go on where they were,
and none is doubled until nothing came back for a window.

Where nothing is asked for (dry-run, off) nothing can be proven, and no successor comes online for our asking. Such a
fuse says what the first batch would be, and closes when no more than a few were lost within the window. Nothing was
healed by that: whatever still waits when acting begins goes through proving first.

`turn` is pure: everything it needs is in the fuse, its tally (`health.tally`) and `now` (epoch seconds). Durations in
the tally count only time that complete lists cover, so that no batch fails for an hour without answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil

FLOAT_NOISE = 1e-9
"""0.07 × 100 is a little more than 7."""

WHOLE_INSTALLATION = "*"
"""In place of a pool's name: the fuse over all pools of an installation."""


class Position(StrEnum):
    """Where a fuse stands."""

    CLOSED = "closed"
    PROVING = "proving"
    STOPPED = "stopped"


class FuseReason(StrEnum):
    """Why a fuse last changed its position."""

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
    NOT_NEEDED = "NotNeeded"
    """It was stopped; since then nothing changed for a window, and no job waits for what is lost."""
    POOLS_STOPPED = "PoolsStopped"
    """The installation's: every pool that lost runners is stopped by itself."""
    UNREADABLE = "Unreadable"
    """Its record cannot be read; until a person resumes it, it stays stopped."""


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
    """A pool's fuse, or an installation's.

    Attributes:
        position: closed, proving or stopped.
        since: when it left `closed`, or was resumed; what is granted from then on counts against `allowed`. A closed
            one keeps it where registrations came back: should it trip again soon, the batches go on where they were.
        batch: how many the present batch lets through.
        allowed: how many all batches since `since` let through together.
        healed_at: when it last closed again; on watch until `cooldown_seconds` later.
        reason: why it last changed.
        by: who last resumed it, since it left `closed`; empty for nobody.
        batch_at: when the present batch began.
        stopped_at: when it stopped; None while it is not.
        tripped_for: why it left `closed`, while it has not closed again.
    """

    position: Position = Position.CLOSED
    since: float | None = None
    batch: int = 0
    allowed: int = 0
    healed_at: float | None = None
    reason: FuseReason = FuseReason.NONE
    by: str = ""
    batch_at: float | None = None
    stopped_at: float | None = None
    tripped_for: FuseReason = FuseReason.NONE


@dataclass(frozen=True, slots=True)
class FuseCounts:
    """A pool, or an installation, counted.

    Attributes:
        lost: runners that wait to be replaced, or that were lost within the window and have not healed yet; where the
            pool asks for it, also those that are, or were removed for being, offline for too long.
        expected: how many there were before: those present and lost, less the replacements among them.
        waiting: lost, and not yet granted.
        granted: let through since the fuse tripped.
        in_batch: of those, in the present batch.
        pending: of those, with a request that was not accepted yet.
        accepted: of those, replacements that were accepted.
        successors: runners that came online since, and that nothing else explains.
        proving_seconds: since the last request of the present batch was accepted.
        returned: whether lost runners' registrations came back since it tripped.
        calm_seconds: since the last loss, return or stop.
        queued: jobs that wait for such runners; None: unknown.
    """

    lost: int = 0
    expected: int = 0
    waiting: int = 0
    granted: int = 0
    in_batch: int = 0
    pending: int = 0
    accepted: int = 0
    successors: int = 0
    proving_seconds: float = 0.0
    returned: bool = False
    calm_seconds: float = 0.0
    queued: int | None = None

    @property
    def is_proven(self) -> bool:
        """Whether as many successors are online as the present batch has replaced."""
        has_begun = self.accepted > 0 or self.in_batch == 0
        return self.pending == 0 and has_begun and self.successors >= self.accepted


def fuse_of(fuses: Mapping[str, Fuse], pool: str) -> Fuse:
    """The fuse that decides for a pool: its own or the installation's, whichever lets less through."""
    own, whole = fuses.get(pool, Fuse()), fuses.get(WHOLE_INSTALLATION, Fuse())
    order = (Position.CLOSED, Position.PROVING, Position.STOPPED)
    return whole if order.index(whole.position) > order.index(own.position) else own


def next_fuse(fuse: Fuse, pool: FuseCounts, now: float, limits: FuseLimits, *, acting: bool = True) -> Fuse:
    """The fuse after looking at its pool: the same object when nothing changes.

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
            return _settle(fuse, pool, now, limits)


def resume(fuse: Fuse, now: float, limits: FuseLimits, by: str = "") -> Fuse:
    """A person (`by`) let it go on: it proves anew, from the first batch. A closed one stays as it is."""
    if fuse.position is Position.CLOSED:
        return fuse
    return replace(_start_proving(fuse, now, limits, FuseReason.RESUMED), by=by)


def stop(fuse: Fuse, now: float) -> Fuse:
    """The same, stopped because its batch had no successors."""
    return replace(fuse, position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=now)


def threshold(expected: int, limits: FuseLimits) -> int:
    """How many losses within the window trip the fuse of a pool of `expected` runners."""
    return max(limits.floor, ceil(limits.fraction * expected - FLOAT_NOISE))


def room(fuse: Fuse, pool: FuseCounts) -> int | None:
    """How many more may be granted now; None for no limit of the fuse's."""
    match fuse.position:
        case Position.CLOSED:
            return None
        case Position.PROVING:
            return max(0, fuse.allowed - pool.granted)
        case Position.STOPPED:
            return 0


def is_not_needed(fuse: Fuse) -> bool:
    """Whether it has just closed because what is lost is not needed: that is written off."""
    return fuse.position is Position.CLOSED and fuse.reason is FuseReason.NOT_NEEDED


def changed_at(fuse: Fuse) -> float | None:
    """What tells its last change from any other of the same kind (epoch seconds); None: it never changed.

    A further batch is no change of its own, and it stops once after it tripped or was resumed.
    """
    return fuse.healed_at if fuse.position is Position.CLOSED else fuse.since


def _watch(fuse: Fuse, pool: FuseCounts, now: float, limits: FuseLimits, *, acting: bool) -> Fuse:
    if pool.waiting == 0:
        return fuse  # nothing is about to be done
    if pool.lost >= threshold(pool.expected, limits):
        return _trip(fuse, now, limits, FuseReason.MASS_LOSS)
    if fuse.reason is FuseReason.UNPROVEN:
        on_watch = acting
    else:
        on_watch = fuse.healed_at is not None and now - fuse.healed_at < limits.cooldown_seconds
    return _trip(fuse, now, limits, FuseReason.LOSS_ON_WATCH) if on_watch else fuse


def _trip(fuse: Fuse, now: float, limits: FuseLimits, reason: FuseReason) -> Fuse:
    """From the first batch; or, where registrations came back within the window, with the batches that it had."""
    goes_on = fuse.since is not None and fuse.healed_at is not None and now - fuse.healed_at < limits.window_seconds
    if goes_on and fuse.reason is FuseReason.REGISTRATIONS_RETURNED:
        return replace(fuse, position=Position.PROVING, reason=reason, tripped_for=reason)
    return _start_proving(fuse, now, limits, reason)


def _start_proving(fuse: Fuse, now: float, limits: FuseLimits, reason: FuseReason) -> Fuse:
    return Fuse(
        position=Position.PROVING,
        since=now,
        batch=limits.first_batch,
        allowed=limits.first_batch,
        healed_at=fuse.healed_at,
        reason=reason,
        batch_at=now,
        tripped_for=reason,
    )


def _closed(fuse: Fuse, now: float, reason: FuseReason) -> Fuse:
    """Closed and on watch; where registrations came back, with the memory of what its batches let through."""
    if reason is FuseReason.REGISTRATIONS_RETURNED:
        return replace(fuse, position=Position.CLOSED, healed_at=now, reason=reason, stopped_at=None)
    return Fuse(healed_at=now, reason=reason)


def _wait_out(fuse: Fuse, pool: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    """What can be said of one that proves while nothing is asked for."""
    if pool.returned:
        return _closed(fuse, now, FuseReason.REGISTRATIONS_RETURNED)
    if pool.waiting > 0 and pool.lost >= threshold(pool.expected, limits):
        return fuse
    return _closed(fuse, now, FuseReason.UNPROVEN)


def _prove(fuse: Fuse, pool: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    returned_lately = pool.returned and pool.calm_seconds < limits.window_seconds
    if pool.pending:
        return fuse  # the proof begins when the batch's last request was accepted
    if pool.waiting == 0 and returned_lately:
        return _closed(fuse, now, FuseReason.REGISTRATIONS_RETURNED)
    if pool.waiting == 0 and pool.is_proven:
        return _closed(fuse, now, FuseReason.HEALED)
    if pool.waiting > 0 and pool.granted < fuse.allowed:
        return fuse  # the batch is not given out yet
    if pool.is_proven:
        if returned_lately:
            return fuse  # what came back may not have been lost: no further batch on such evidence
        batch = fuse.batch * 2
        return replace(fuse, batch=batch, allowed=pool.granted + batch, reason=FuseReason.BATCH_ONLINE, batch_at=now)
    return stop(fuse, now) if pool.proving_seconds > limits.prove_seconds else fuse


def _settle(fuse: Fuse, pool: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    """A stopped fuse waits for a person, unless nothing is left for him to decide."""
    if pool.calm_seconds < limits.window_seconds or fuse.reason is FuseReason.UNREADABLE:
        return fuse
    if pool.waiting == 0:
        return _closed(fuse, now, FuseReason.REGISTRATIONS_RETURNED if pool.returned else FuseReason.NOT_NEEDED)
    return _closed(fuse, now, FuseReason.NOT_NEEDED) if pool.queued == 0 else fuse
