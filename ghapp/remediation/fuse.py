"""The fuse: a circuit breaker per pool and per installation, so that a false mass loss costs only a few runners.

closed → proving   too many runners lost within the window, or any loss during the cooldown after closing
proving → proving  successors of the batch are online: the next batch is twice as large as their number
proving → stopped  the batch has no successor within `prove_seconds`, or no request of it was accepted
proving → closed   no loss is waiting: successors of the last batch are online, or newcomers that may be successors
                   (`churn`) since `prove_seconds`; or the lost registrations returned
stopped → proving  a successor came online after all, a request was accepted after all, or an admin resumed it
stopped → closed   nothing changed for a window, and the lost runners are not needed, since no job waits for them (a
                   scale-down by another actor); or the lost registrations returned; or the pool has lost all its
                   runners to another one, which then has the fuse (`fuse_moves`)

Returned registrations show that the loss was false, and so does a DELETE that finds one. They allow no new batch: the
batches continue from their current size, and no batch is doubled until no registration has returned for a window.

If nothing is requested (dry-run, off), nothing can be proven, and no successor comes online. Such a fuse shows the
first batch, and closes once only a few runners were lost within the window. That closing heals nothing: losses that
still wait when `act` is configured go through proving first.

`next_fuse` is pure: its inputs are the fuse, the counts (`fuse_counts`) and `now` (epoch seconds). Durations in the
counts cover only time that complete lists cover, so that no batch fails because of an outage of GitHub.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, log2

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.scope import ScopeKind, kind_of, owner_of
from ghapp.untrusted_text import shell_command

FLOAT_NOISE = 1e-9
"""0.07 × 100 is a little more than 7."""

UNPROVEN_SECONDS = 3600.0
"""A fuse that closed without a proof, as in dry-run, gives another mass loss no new first batch for so long."""

LATE_SUCCESSORS_SECONDS = 4200.0
"""A successor comes within an hour of its request, and is listed some minutes later. After that none is looked for: the
churn of the time before the batch is forgotten some day.
"""


class Position(StrEnum):
    """The position of a fuse."""

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
    REQUEST_NOT_ACCEPTED = "RequestNotAccepted"
    """No request of the batch was accepted; they are still repeated."""
    REQUEST_ACCEPTED = "RequestAccepted"
    """It was stopped because no request was accepted; now one was."""
    HEALED = "Healed"
    REGISTRATIONS_RETURNED = "RegistrationsReturned"
    RESUMED = "Resumed"
    UNPROVEN = "Unproven"
    """Nothing was requested, so nothing could be proven; the mass loss is over."""
    HIDDEN_BY_CHURN = "HiddenByChurn"
    """No loss waits; newcomers came, and the pool's own churn may explain them."""
    NOT_NEEDED = "NotNeeded"
    """It was stopped; nothing changed for a window since, and no job waits for the lost runners."""
    POOLS_STOPPED = "PoolsStopped"
    """The installation's fuse: every pool that lost runners is stopped by its own fuse, paused or not configured."""
    POOL_CHANGED = "PoolChanged"
    """Its runners belong to another pool now, which has the fuse."""
    UNREADABLE = "Unreadable"
    """Its record cannot be read; it stays stopped until an admin resumes it."""


FUSE_REASONS = {
    FuseReason.NONE: "",
    FuseReason.MASS_LOSS: "too many runners were lost at once",
    FuseReason.LOSS_ON_WATCH: "a lost runner waited for its replacement soon after the fuse had closed",
    FuseReason.BATCH_ONLINE: "runners that came since the last batch, or jobs, show that replacing helps",
    FuseReason.BATCH_NEVER_ONLINE: "no runner came online after the last batch, beyond the pool's own newcomers",
    FuseReason.REQUEST_NOT_ACCEPTED: "no request of the last batch was accepted; they are still repeated",
    FuseReason.REQUEST_ACCEPTED: "a request was accepted after all",
    FuseReason.HEALED: "replacing helped, and no loss waits for it",
    FuseReason.REGISTRATIONS_RETURNED: "the lost registrations returned",
    FuseReason.RESUMED: "an admin resumed it",
    FuseReason.UNPROVEN: "nothing was replaced (dry-run or off), and the mass loss is over",
    FuseReason.HIDDEN_BY_CHURN: "no loss waits for it, and newcomers came: successors, or of the pool's own churn",
    FuseReason.NOT_NEEDED: "nothing changed for a while, and no job waits for the lost runners",
    FuseReason.POOLS_STOPPED: "every pool that lost runners is stopped by its own fuse, paused or not configured",
    FuseReason.POOL_CHANGED: "its runners belong to another pool now, which has the fuse",
    FuseReason.UNREADABLE: "its record in Redis cannot be read",
}
"""Why a fuse changed, in words."""


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
        since: when it last left `closed` or was resumed. A closed fuse keeps it if nothing was proven: if it trips
            again soon, the batches continue from their size.
        batch: size of the current batch.
        allowed: total size of all batches since `grants_since`.
        closed_at: when it last closed; until `cooldown_seconds` later, any loss trips it.
        reason: why it last changed.
        by: who last resumed it since it left `closed`; empty if it was not resumed.
        batch_at: when the current batch began.
        stopped_at: when it stopped; None if it is not stopped.
        tripped_for: why it left `closed`; empty once it is closed again.
        held_at: when its requests were last held back: by a pause, by the mode, or by the installation's fuse.
        runners: some of the lost runners that it counted, by id. The fuse follows them into another pool.
        continues_from: when the first batch began, if it tripped again and continues with the batches of before.
    """

    position: Position = Position.CLOSED
    since: float | None = None
    batch: int = 0
    allowed: int = 0
    closed_at: float | None = None
    reason: FuseReason = FuseReason.NONE
    by: str = ""
    batch_at: float | None = None
    stopped_at: float | None = None
    tripped_for: FuseReason = FuseReason.NONE
    held_at: float | None = None
    runners: tuple[int, ...] = ()
    continues_from: float | None = None

    @property
    def grants_since(self) -> float | None:
        """Since when grants count against `allowed`."""
        return self.since if self.continues_from is None else self.continues_from

    @property
    def holds_requests(self) -> bool:
        """True if nothing may be requested, not even what was granted before it stopped."""
        return self.position is Position.STOPPED and self.reason is not FuseReason.REQUEST_NOT_ACCEPTED

    def batches_left(self, waiting: int) -> int:
        """Returns how many more batches `waiting` runners take if all succeed: each is twice as large as the last."""
        return ceil(log2(waiting / (2 * max(self.batch, 1)) + 1))

    def ends_at(self, waiting: int, limits: FuseLimits) -> float | None:
        """Returns when those batches end if each takes as long as the earlier ones; None before the second batch."""
        earlier = round(log2(max(self.batch, 1) / limits.first_batch))
        if earlier < 1 or self.batch_at is None or self.since is None or self.batch_at <= self.since:
            return None
        return self.batch_at + (self.batch_at - self.since) / earlier * (1 + self.batches_left(waiting))


@dataclass(frozen=True, slots=True)
class FuseCounts:
    """Counts of a pool or an installation.

    Attributes:
        lost: runners that wait to be replaced, or were lost within the window and have not healed yet; if the pool is
            so configured, also runners that are, or were removed for being, offline for too long.
        expected: number of runners before the loss: present and lost ones, without the replacements among them.
        waiting: lost runners without a grant.
        granted: grants since the fuse tripped.
        in_batch: of these, in the current batch.
        pending: of these, with a request that is not accepted yet.
        overdue: of these, with a request that was not accepted within `prove_seconds`.
        accepted: of these, replacements that were accepted.
        newcomers: runners that came online since then.
        successors: of these, those that the pool's churn does not explain; or all, if jobs show the losses to be real.
        proving_seconds: time since the last request of the current batch was accepted, or since the fuse tripped again.
        found: lost runners that our DELETE found registered since it tripped, although two GETs had answered 404.
        since_return: time since a lost runner was last found or returned; None: none was since it tripped.
        calm_seconds: time since the last loss, return or stop.
        queued: jobs that wait for such runners; None: unknown.
        closed_seconds: time since the fuse last closed; None: it never did.
        is_of_all: True if it counts all pools: two thirds of them would hide a pool in which replacing does not help.
    """

    lost: int = 0
    expected: int = 0
    waiting: int = 0
    granted: int = 0
    in_batch: int = 0
    pending: int = 0
    overdue: int = 0
    accepted: int = 0
    newcomers: int = 0
    successors: int = 0
    proving_seconds: float = 0.0
    found: int = 0
    since_return: float | None = None
    calm_seconds: float = 0.0
    queued: int | None = None
    closed_seconds: float | None = None
    is_of_all: bool = False

    @property
    def is_proven(self) -> bool:
        """True if as many successors are online as the current batch replaced; while others wait, two thirds suffice.

        Of a batch of all pools, all but a tenth. Else one slow machine, or one that the pool's churn hides, would hold
        up all others for `prove_seconds`, and a single successor suffices then. The next batch is twice as many as
        came.
        """
        has_begun = self.accepted > 0 or self.in_batch == 0
        late = self.accepted // (10 if self.is_of_all else 3) if self.waiting else 0
        return self.pending == 0 and has_begun and self.successors >= self.accepted - late

    @property
    def is_hidden_by_churn(self) -> bool:
        """True if the newcomers may be the batch's successors, and no loss waits for which that is to be proven."""
        return self.waiting == 0 and self.newcomers >= self.accepted


def proof_in_words(*, is_of_all: bool) -> str:
    """Returns how many successors of a batch prove it while other runners wait; see `FuseCounts.is_proven`."""
    return "nine tenths" if is_of_all else "two thirds"


_CLOSED = Fuse()


def fuse_of(fuses: Mapping[str, Fuse], pool: str) -> Fuse:
    """Returns the fuse in force for a pool: its own or the installation's, whichever allows less.

    Of two proving ones the installation's: their batches take turns in holding up the pool, and what is shown does not.
    """
    own, whole = fuses.get(pool, _CLOSED), fuses.get(ALL_POOLS, _CLOSED)
    if own.position is whole.position is Position.PROVING:
        return whole
    return strictest([own, whole] if whole.position is Position.CLOSED else [whole, own])


def fuse_of_runner(fuses: Mapping[str, Fuse], pool: str, runner_id: int) -> Fuse:
    """Returns the fuse in force for a lost runner: that of its pool, or one that counted it under another pool's name.

    A pool may have been renamed a moment ago, before a plan moved its fuse.
    """
    return strictest([fuse_of(fuses, pool), *(fuse for fuse in fuses.values() if runner_id in fuse.runners)])


def strictest(fuses: Sequence[Fuse]) -> Fuse:
    """Returns the fuse that allows least; of closed ones, the one that may go on with its batches.

    Of proving ones that is the one whose present batch began first: the others have gone on since. Of equals the first.
    """
    return max(fuses, key=lambda fuse: (*_strictness(fuse), _begins(fuse)))


def _begins(fuse: Fuse) -> float:
    return -(fuse.batch_at or 0.0) if fuse.position is Position.PROVING else fuse.since or 0.0


def _strictness(fuse: Fuse) -> tuple[int, bool]:
    return (Position.CLOSED, Position.PROVING, Position.STOPPED).index(fuse.position), fuse.holds_requests


def next_fuse(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits, *, acting: bool = True) -> Fuse:
    """Returns the fuse after counting its pool; the same object if nothing changes.

    `acting` is False if nothing is requested: in dry-run, or if remediation is off.
    """
    match fuse.position:
        case Position.CLOSED:
            return _next_closed(fuse, counts, now, limits, acting=acting)
        case Position.PROVING if not acting:
            return _next_proving_without_requests(fuse, counts, now, limits)
        case Position.PROVING:
            return _next_proving(fuse, counts, now, limits)
        case Position.STOPPED:
            return _next_stopped(fuse, counts, now, limits)


def resume(fuse: Fuse, now: float, limits: FuseLimits, by: str = "") -> Fuse:
    """Resumes a fuse for an admin (`by`): it proves again from the first batch. A closed fuse does not change."""
    if fuse.position is Position.CLOSED:
        return fuse
    return replace(_start_proving(fuse, now, limits, FuseReason.RESUMED), by=by)


def resume_command(org: str, pool: str | None = None) -> str:
    """Returns the command that resumes a pool, to be copied into a shell; None: all of the scope.

    `*` is the fuse of all pools: a repository shares it with its owner, whose people alone restart it.
    """
    if pool == ALL_POOLS:
        return shell_command("ghapp", "resume", owner_of(org) if kind_of(org) is ScopeKind.REPOSITORY else org)
    return shell_command("ghapp", "resume", org, *(() if pool is None else ("--pool", pool)))


def fuse_name(pool: str) -> str:
    """Returns the name of a pool's fuse, within a sentence."""
    return "the fuse of all pools" if pool == ALL_POOLS else f"the fuse of {pool}"


def stop(fuse: Fuse, now: float, reason: FuseReason) -> Fuse:
    """Returns the fuse stopped because its batch failed."""
    return replace(fuse, position=Position.STOPPED, reason=reason, stopped_at=now)


def failure(counts: FuseCounts, limits: FuseLimits) -> FuseReason:
    """Returns why the current batch failed; `NONE` if it did not, or not yet.

    One request that is not accepted fails no batch of which others were: these prove whether replacing helps.
    """
    if counts.pending:
        return FuseReason.NONE
    if counts.overdue and not counts.accepted:
        return FuseReason.REQUEST_NOT_ACCEPTED
    is_over = counts.accepted > 0 and counts.proving_seconds > limits.prove_seconds
    is_helpful = counts.successors > 0 or counts.is_hidden_by_churn
    return FuseReason.BATCH_NEVER_ONLINE if is_over and not is_helpful else FuseReason.NONE


def threshold(expected: int, limits: FuseLimits) -> int:
    """Returns the number of losses within the window that trips the fuse of a pool of `expected` runners."""
    return max(limits.floor, ceil(limits.fraction * expected - FLOAT_NOISE))


def room(fuse: Fuse, counts: FuseCounts) -> int | None:
    """Returns how many more replacements the fuse allows now; None for no limit."""
    match fuse.position:
        case Position.CLOSED:
            return None
        case Position.PROVING:
            return max(0, fuse.allowed - counts.granted)
        case Position.STOPPED:
            return 0


def is_not_needed(fuse: Fuse) -> bool:
    """True if the fuse closed because the lost runners are not needed: they are written off."""
    return fuse.position is Position.CLOSED and fuse.reason is FuseReason.NOT_NEEDED


FORGOTTEN_SECONDS = 7 * 24 * 3600.0
"""A closed fuse of a pool without runners is kept so long, as what it counts is (`transitions.WAITING_SECONDS`)."""


def is_long_closed(fuse: Fuse, now: float) -> bool:
    """True if a fuse closed so long ago that nothing follows from it any more."""
    at = changed_at(fuse)
    return fuse.position is Position.CLOSED and at is not None and now - at > FORGOTTEN_SECONDS


def changed_at(fuse: Fuse) -> float | None:
    """Returns a time that identifies the fuse's last change among changes of the same kind; None if it never changed.

    A further batch is not a separate change, nor is going on after a stop.
    """
    if fuse.position is Position.STOPPED and fuse.stopped_at is not None:
        return fuse.stopped_at
    return fuse.closed_at if fuse.position is Position.CLOSED else fuse.since


def open_since(fuses: Iterable[Fuse]) -> float | None:
    """Returns since when the fuses that are not closed count grants; None if all are closed."""
    dates = [each.grants_since for each in fuses if each.position is not Position.CLOSED]
    return min((at for at in dates if at is not None), default=None)


def at_the_latest(fuse: Fuse, now: float) -> Fuse:
    """Returns the fuse without dates in the future: Redis' clock was set back, as by a failover to another machine.

    Grants from before that and from after it then count against the same batch.
    """
    return replace(
        fuse,
        since=_until(fuse.since, now),
        closed_at=_until(fuse.closed_at, now),
        batch_at=_until(fuse.batch_at, now),
        stopped_at=_until(fuse.stopped_at, now),
        held_at=_until(fuse.held_at, now),
        continues_from=_until(fuse.continues_from, now),
    )


def _until(at: float | None, now: float) -> float | None:
    return None if at is None else min(at, now)


def has_stepped(before: Fuse, after: Fuse) -> bool:
    """True if a change of the fuse is one to publish: not only what it remembers of its runners and requests."""
    return before != replace(after, held_at=before.held_at, runners=before.runners)


def _next_closed(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits, *, acting: bool) -> Fuse:
    if counts.waiting == 0:
        return fuse  # no replacement is due
    if counts.lost >= threshold(counts.expected, limits):
        return _trip(fuse, counts, now, limits, FuseReason.MASS_LOSS)
    if not acting and fuse.reason in (FuseReason.UNPROVEN, FuseReason.REGISTRATIONS_RETURNED):
        on_watch = False  # it would close again at once
    elif fuse.reason is FuseReason.UNPROVEN:
        on_watch = True
    else:
        on_watch = _closed_within(limits.cooldown_seconds, counts)
    return _trip(fuse, counts, now, limits, FuseReason.LOSS_ON_WATCH) if on_watch else fuse


def _closed_within(seconds: float, counts: FuseCounts) -> bool:
    return counts.closed_seconds is not None and counts.closed_seconds < seconds


def _trip(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits, reason: FuseReason) -> Fuse:
    """Starts with the first batch, or continues with the earlier batches if the fuse closed lately without a proof.

    That is if registrations returned within the window, or within `UNPROVEN_SECONDS` if nothing was requested, or if
    churn hid whether that helped. What proves the earlier batch after all, as jobs may, has its time from this trip on.
    """
    lasts = {
        FuseReason.REGISTRATIONS_RETURNED: limits.window_seconds,
        FuseReason.UNPROVEN: UNPROVEN_SECONDS,
        FuseReason.HIDDEN_BY_CHURN: UNPROVEN_SECONDS,
    }.get(fuse.reason, 0.0)
    if fuse.since is not None and _closed_within(lasts, counts):
        return replace(
            fuse,
            position=Position.PROVING,
            since=now,
            reason=reason,
            tripped_for=reason,
            continues_from=fuse.grants_since,
        )
    return _start_proving(fuse, now, limits, reason)


def _start_proving(fuse: Fuse, now: float, limits: FuseLimits, reason: FuseReason) -> Fuse:
    return Fuse(
        position=Position.PROVING,
        since=now,
        batch=limits.first_batch,
        allowed=limits.first_batch,
        closed_at=fuse.closed_at,
        reason=reason,
        batch_at=now,
        tripped_for=reason,
    )


def _closed(fuse: Fuse, now: float, reason: FuseReason) -> Fuse:
    """Closes the fuse and starts its cooldown; unless it healed, it keeps what its batches allowed."""
    if reason in (FuseReason.REGISTRATIONS_RETURNED, FuseReason.UNPROVEN, FuseReason.HIDDEN_BY_CHURN):
        return replace(fuse, position=Position.CLOSED, closed_at=now, reason=reason, by="", stopped_at=None)
    return Fuse(closed_at=now, reason=reason)


def _next_proving_without_requests(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    """Updates a proving fuse while nothing is requested.

    Some returned registrations do not show that the other losses are false: as long as one waits, nothing is proven.
    """
    if counts.waiting > 0 and counts.lost >= threshold(counts.expected, limits):
        return fuse
    is_false = counts.since_return is not None and not (counts.waiting or counts.pending or counts.overdue)
    return _closed(fuse, now, FuseReason.REGISTRATIONS_RETURNED if is_false else FuseReason.UNPROVEN)


def _next_proving(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    if counts.pending:
        return fuse  # the proof begins when the last request of the batch is accepted
    if counts.waiting == 0 and _has_returned_lately(counts, limits):
        return _closed(fuse, now, FuseReason.REGISTRATIONS_RETURNED)
    if failed := failure(counts, limits):
        return stop(fuse, now, failed)
    if counts.waiting > 0 and counts.granted < fuse.allowed:
        return fuse  # the batch is not fully granted yet
    if counts.is_proven or counts.proving_seconds > limits.prove_seconds:
        return _go_on(fuse, counts, now, limits)
    return fuse


def _go_on(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    """Starts the next batch, or closes if no loss waits: successors of the batch are online, or hidden by churn."""
    if counts.waiting == 0:
        is_hidden = counts.accepted > 0 and not counts.successors
        return _closed(fuse, now, FuseReason.HIDDEN_BY_CHURN if is_hidden else FuseReason.HEALED)
    if _has_returned_lately(counts, limits):
        return fuse  # the returned runners may not have been lost: this evidence allows no further batch
    batch = 2 * min(counts.successors, counts.accepted, fuse.batch)
    return replace(
        fuse,
        position=Position.PROVING,
        batch=batch,
        allowed=counts.granted + batch,
        reason=FuseReason.BATCH_ONLINE,
        batch_at=now,
        stopped_at=None,
    )


def _has_returned_lately(counts: FuseCounts, limits: FuseLimits) -> bool:
    return counts.since_return is not None and counts.since_return < limits.window_seconds


def _next_stopped(fuse: Fuse, counts: FuseCounts, now: float, limits: FuseLimits) -> Fuse:
    """Returns a stopped fuse after a count: the conditions under which it goes on, or closes, without an admin.

    What it stopped for may happen late, or an admin may have nothing left to decide.
    """
    if fuse.reason is FuseReason.REQUEST_NOT_ACCEPTED and (counts.accepted or not counts.in_batch):
        return replace(fuse, position=Position.PROVING, reason=FuseReason.REQUEST_ACCEPTED, stopped_at=None)
    is_in_time = counts.proving_seconds <= LATE_SUCCESSORS_SECONDS
    if fuse.reason is FuseReason.BATCH_NEVER_ONLINE and counts.successors and not counts.pending and is_in_time:
        return _go_on(fuse, counts, now, limits)
    if counts.calm_seconds < limits.window_seconds or fuse.reason is FuseReason.UNREADABLE:
        return fuse
    if counts.waiting == 0:
        has_returned = counts.since_return is not None
        return _closed(fuse, now, FuseReason.REGISTRATIONS_RETURNED if has_returned else FuseReason.NOT_NEEDED)
    return _closed(fuse, now, FuseReason.NOT_NEEDED) if counts.queued == 0 else fuse
