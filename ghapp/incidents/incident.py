"""An incident: losses that overlap in time, and the positions of their fuses. Pure; times are epoch seconds.

A loss is one lost runner, from its first evidence to its end. A fuse record has its last change only: it is compared
with the recorded changes, so that the same fuse gives no second change, and a change that was not recorded, because a
process crashed, is added as far as the fuse shows it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, takewhile
from typing import NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Fuse, FuseCounts, FuseReason, Position
from ghapp.remediation.healing import (
    HEALED_WITHIN_SECONDS,
    LATE_SUCCESSOR_SECONDS,
    SUCCESSOR_PATIENCE_SECONDS,
    lost_since,
)
from ghapp.runners.evidence import Evidence, PastLoss, is_absent
from ghapp.runners.verdict import Reason, State, Verdict, is_zombie


class LossEnd(StrEnum):
    """How a loss ended."""

    OPEN = ""
    SUCCESSOR_ONLINE = "SuccessorOnline"
    RETURNED = "Returned"
    REREGISTERED = "Reregistered"
    JOB_COMPLETED = "JobCompleted"
    REMOVED_BY_CONTROLLER = "RemovedByController"
    NOT_NEEDED = "NotNeeded"
    NO_SUCCESSOR = "NoSuccessorSeen"
    """Its replacement was accepted, and no runner that came online within an hour is explained by it."""
    HIDDEN_BY_CHURN = "HiddenByChurn"
    """Its replacement was accepted, most others healed, and the pool's own newcomers hide its successor."""
    AGED_OUT = "AgedOut"
    """Its record was deleted: a week after the loss, or in dry-run a day after."""
    UNKNOWN = "Unknown"
    """A later version of ghapp recorded an end that this version does not know."""


RETIRED_ENDS = {
    Reason.REREGISTERED: LossEnd.REREGISTERED,
    Reason.JOB_COMPLETED: LossEnd.JOB_COMPLETED,
    Reason.REMOVED_BY_CONTROLLER: LossEnd.REMOVED_BY_CONTROLLER,
    Reason.NOT_NEEDED: LossEnd.NOT_NEEDED,
}
"""Ends of losses whose runners were found retired, by the reason of their verdict."""


class Span(NamedTuple):
    """The time of one loss, or the time in which a fuse was not closed. `ended` None: it goes on."""

    pool: str
    began: float
    ended: float | None

    def overlaps(self, other: Span) -> bool:
        """True if the spans have a time in common, or begin at the same time."""
        return self.began == other.began or (
            (self.ended is None or other.began < self.ended) and (other.ended is None or self.began < other.ended)
        )


class RunnerLoss(NamedTuple):
    """A lost runner. Fields are only ever appended.

    Attributes:
        runner_id: GitHub's id.
        name: of the runner.
        pool: its pool when the loss was first recorded.
        first_at: the first list or GET that lacked it; if it was replaced while offline, since when it was offline.
        proof: why it counts as lost: `RegistrationInvalidated`, `HangsAfterJob` or `ReplacedWhileOffline`.
        first_404_at: the first GET that answered 404.
        confirmed_at: the second one; None if it was replaced while offline.
        granted_at: when its replacement was granted.
        accepted_at: when the request for its replacement was accepted.
        successor: the runner that came online in its place.
        end: how the loss ended; `OPEN` while it has not.
        ended_at: when.
    """

    runner_id: int
    name: str
    pool: str
    first_at: float
    proof: Reason = Reason.REGISTRATION_INVALIDATED
    first_404_at: float | None = None
    confirmed_at: float | None = None
    granted_at: float | None = None
    accepted_at: float | None = None
    successor: int | None = None
    end: LossEnd = LossEnd.OPEN
    ended_at: float | None = None

    @property
    def is_open(self) -> bool:
        """True if the loss has not ended."""
        return self.end is LossEnd.OPEN

    @property
    def span(self) -> Span:
        """From its first evidence to its end."""
        return Span(self.pool, self.first_at, self.ended_at)

    @property
    def tying_span(self) -> Span:
        """The time in which other losses belong to its incident: a late successor ties no later loss to it."""
        if self.accepted_at is None:
            return self.span
        late_at = self.accepted_at + LATE_SUCCESSOR_SECONDS
        return self.span._replace(ended=late_at if self.ended_at is None else min(self.ended_at, late_at))

    def is_same(self, other: RunnerLoss) -> bool:
        """True for two observations of one loss: a runner cannot be lost twice at a time."""
        return self.runner_id == other.runner_id and self.span.overlaps(other.span)


def is_unrecorded(evidence: Evidence) -> bool:
    """True if the evidence shows a loss of which no incident that is over is known to have the end."""
    is_lost = evidence.confirmed_at is not None or evidence.removed_at is not None
    return evidence.past_loss is not None or (is_lost and evidence.incident is None)


def losses_of(evidence: Evidence, verdict: Verdict, pool: str, now: float) -> list[RunnerLoss]:
    """Returns the unrecorded losses that the evidence of a runner shows: the past one, and the present one.

    Args:
        evidence: of the runner.
        verdict: of this evidence at `now`.
        pool: its pool.
        now: epoch seconds; a loss ends at this time where the evidence has no date for its end.
    """
    found = [] if evidence.past_loss is None else [_past(evidence, evidence.past_loss, pool)]
    is_lost = evidence.confirmed_at is not None or evidence.removed_at is not None
    if is_lost and evidence.incident is None:
        found.append(_present(evidence, verdict, pool, now))
    return found


def returned(loss: RunnerLoss, evidence: Evidence | None, now: float) -> RunnerLoss:
    """Returns an open loss that its runner's evidence no longer shows: it returned, or its record was deleted."""
    if evidence is None:
        return loss._replace(end=LossEnd.AGED_OUT, ended_at=now)
    back_at = evidence.back_at
    is_dated = back_at is not None and back_at >= loss.first_at
    return loss._replace(end=LossEnd.RETURNED, ended_at=back_at if is_dated else now)


def _past(evidence: Evidence, past: PastLoss, pool: str) -> RunnerLoss:
    is_confirmed = past.confirmed_at is not None
    healed = past.successor is not None
    return RunnerLoss(
        evidence.id,
        evidence.name,
        pool,
        past.first_at,
        Reason.REGISTRATION_INVALIDATED if is_confirmed else Reason.REPLACED_WHILE_OFFLINE,
        past.first_404_at,
        past.confirmed_at,
        past.granted_at,
        past.replaced_at,
        past.successor,
        LossEnd.SUCCESSOR_ONLINE if healed else LossEnd.RETURNED,
        past.healed_at if healed and past.healed_at is not None else past.ended_at,
    )


def _present(evidence: Evidence, verdict: Verdict, pool: str, now: float) -> RunnerLoss:
    end, ended_at = _end(evidence, verdict, now)
    return RunnerLoss(
        evidence.id,
        evidence.name,
        pool,
        lost_since(evidence) or now,
        _proof(evidence),
        evidence.first_404_at,
        evidence.confirmed_at,
        evidence.granted_at,
        evidence.replaced_at,
        evidence.successor,
        end,
        ended_at,
    )


def _proof(evidence: Evidence) -> Reason:
    if evidence.confirmed_at is None:
        return Reason.REPLACED_WHILE_OFFLINE
    is_hanging = is_absent(evidence) and is_zombie(evidence)
    return Reason.HANGS_AFTER_JOB if is_hanging else Reason.REGISTRATION_INVALIDATED


def _found_retired_at(evidence: Evidence, now: float) -> float:
    """Returns when the runner was no longer published as lost; `now` if it still is."""
    since = evidence.state_since
    is_published = evidence.state == "" and since is not None and since >= (lost_since(evidence) or now)
    return since if is_published and since is not None else now


def _end(evidence: Evidence, verdict: Verdict, now: float) -> tuple[LossEnd, float | None]:
    if evidence.successor is not None:
        # Records of an older release have no date of the successor; it came online after the request was accepted.
        return LossEnd.SUCCESSOR_ONLINE, next(
            (at for at in (evidence.healed_at, evidence.replaced_at) if at is not None), now
        )
    if verdict.state is State.RETIRED and verdict.reason in RETIRED_ENDS:
        end = RETIRED_ENDS[verdict.reason]
        dated = {LossEnd.NOT_NEEDED: evidence.not_needed_at, LossEnd.REMOVED_BY_CONTROLLER: evidence.retired_at}.get(
            end
        )
        return end, dated if dated is not None else _found_retired_at(evidence, now)
    accepted_at = evidence.replaced_at
    if accepted_at is not None and evidence.hidden_at is not None:
        return LossEnd.HIDDEN_BY_CHURN, evidence.hidden_at
    if accepted_at is not None and now > accepted_at + SUCCESSOR_PATIENCE_SECONDS:
        return LossEnd.NO_SUCCESSOR, accepted_at + HEALED_WITHIN_SECONDS
    return LossEnd.OPEN, None


class FuseStep(NamedTuple):
    """One change of a fuse, or one further batch. Fields are only ever appended.

    Attributes:
        at: when.
        pool: of the fuse; `*` for the installation's.
        position: after the change.
        reason: why it changed.
        batch: size of the batch that begins; 0 for none, or if it is unknown.
        lost: runners that were lost then; 0 if it is unknown.
        expected: runners before the loss; 0 if it is unknown.
        by: who resumed it; empty for a change by ghapp.
    """

    at: float
    pool: str
    position: Position
    reason: FuseReason = FuseReason.NONE
    batch: int = 0
    lost: int = 0
    expected: int = 0
    by: str = ""


class LossIncident(NamedTuple):
    """An incident. Fields are only ever appended.

    Attributes:
        id: from its first loss; unique within the installation.
        pool: the pool of its losses; `*` once the installation's fuse was one of its fuses.
        began: the first evidence of its first loss.
        ended: when its last loss ended and its last fuse closed; None while it is open.
        losses: its runners, by their first evidence.
        steps: of its fuses, oldest first.
        merged_into: the id of the incident that took over its losses; empty for none.
    """

    id: str
    pool: str
    began: float
    ended: float | None
    losses: tuple[RunnerLoss, ...] = ()
    steps: tuple[FuseStep, ...] = ()
    merged_into: str = ""

    @property
    def is_open(self) -> bool:
        """True while a loss has not ended, or a fuse is not closed."""
        return self.ended is None

    @property
    def is_mass_loss(self) -> bool:
        """True if a fuse tripped."""
        return any(each.position is not Position.CLOSED for each in self.steps)


def incident_of(identifier: str, losses: Iterable[RunnerLoss], steps: Iterable[FuseStep]) -> LossIncident:
    """Returns the incident of these losses (at least one) and fuse changes."""
    ordered = tuple(sorted(set(losses), key=lambda each: (each.first_at, each.runner_id)))
    changes = tuple(sorted(set(steps), key=_by_time))
    ends = [each.ended_at for each in ordered] + [each.ended for each in fuse_spans(changes)]
    known = [at for at in ends if at is not None]
    return LossIncident(
        identifier,
        ALL_POOLS if any(each.pool == ALL_POOLS for each in changes) else ordered[0].pool,
        ordered[0].first_at,
        max(known) if len(known) == len(ends) else None,
        ordered,
        changes,
    )


def fuse_spans(steps: Sequence[FuseStep]) -> Iterator[Span]:
    """Yields each time in which a fuse was not closed."""
    opened: dict[str, float] = {}
    for each in sorted(steps, key=_by_time):
        if each.position is not Position.CLOSED:
            opened.setdefault(each.pool, each.at)
        elif each.pool in opened:
            yield Span(each.pool, opened.pop(each.pool), each.at)
    for pool, at in opened.items():
        yield Span(pool, at, None)


def granted_by_batch(incident: LossIncident) -> Counter[tuple[str, float]]:
    """Returns how many replacements were granted in each batch that granted any, by the fuse's pool and its begin.

    While the fuse of all pools is not closed, the batch is one of this fuse. What was granted while neither fuse of a
    pool was open is in no batch.
    """
    steps = {pool: sorted(each, key=_by_time) for pool, each in recorded_steps([incident]).items()}
    found = Counter[tuple[str, float]]()
    for loss in incident.losses:
        for pool in (ALL_POOLS, loss.pool) if loss.granted_at is not None else ():
            known = steps.get(pool, [])
            until_then = known[: bisect_right(known, loss.granted_at, key=lambda each: each.at)]
            since_trip = [*takewhile(lambda each: each.position is not Position.CLOSED, reversed(until_then))]
            if since_trip:
                found.update((pool, each.at) for each in [each for each in since_trip if each.batch][:1])
                break
    return found


def spans(incident: LossIncident) -> Iterator[Span]:
    """Yields the time of each loss and of each fuse."""
    for each in incident.losses:
        yield each.tying_span
    yield from fuse_spans(incident.steps)


def _by_time(step: FuseStep) -> tuple[float, str, bool, str]:
    """Sorts by time; at the same time, a fuse closes before it trips again."""
    return step.at, step.pool, step.position is not Position.CLOSED, step.position


def recorded_steps(incidents: Iterable[LossIncident]) -> dict[str, list[FuseStep]]:
    """Returns the recorded changes of each fuse, by pool, oldest first."""
    found: dict[str, list[FuseStep]] = {}
    for step in sorted(chain.from_iterable(each.steps for each in incidents), key=lambda step: step.at):
        found.setdefault(step.pool, []).append(step)
    return found


def unrecorded_steps(
    recorded: Mapping[str, Sequence[FuseStep]],
    fuses: Mapping[str, Fuse],
    counts: Mapping[str, FuseCounts],
    now: float,
) -> list[FuseStep]:
    """Returns the changes that the fuses show and that are not recorded.

    Args:
        recorded: the recorded changes, by pool, oldest first.
        fuses: by pool; `*` for the installation's.
        counts: by pool, of fuses that have just changed.
        now: epoch seconds; of a change that the fuse does not date.
    """
    found: list[FuseStep] = []
    for pool, fuse in fuses.items():
        counted = counts.get(pool, FuseCounts())
        found += _of(pool, recorded.get(pool, ()), fuse, counted, now)
    return found


def _of(pool: str, recorded: Sequence[FuseStep], fuse: Fuse, counted: FuseCounts, now: float) -> Iterator[FuseStep]:
    last = recorded[-1] if recorded else None
    is_open = last is not None and last.position is not Position.CLOSED
    if last is not None and _is_older(fuse, last):
        return
    if fuse.position is Position.CLOSED:
        if is_open:
            yield FuseStep(now if fuse.closed_at is None else fuse.closed_at, pool, Position.CLOSED, fuse.reason)
        return
    if is_open and last is not None and fuse.closed_at is not None and fuse.closed_at > last.at:
        yield FuseStep(fuse.closed_at, pool, Position.CLOSED)  # it closed and tripped again, unrecorded
        last, is_open = None, False
    last = last if is_open else None
    if fuse.since is not None:
        yield from _begun(pool, last, recorded, fuse, fuse.since, counted)
    if fuse.position is Position.STOPPED:
        is_known = last is not None and last.position is Position.STOPPED
        if is_known and (fuse.stopped_at is None or last is None or fuse.stopped_at <= last.at):
            return
        at = now if fuse.stopped_at is None else fuse.stopped_at
        yield FuseStep(at, pool, Position.STOPPED, fuse.reason, 0, counted.lost, counted.expected, fuse.by)


def _is_older(fuse: Fuse, last: FuseStep) -> bool:
    """True if the fuse was read before the last recorded change."""
    match fuse.position:
        case Position.CLOSED:
            return fuse.closed_at is not None and fuse.closed_at < last.at
        case Position.STOPPED:
            return fuse.stopped_at is not None and fuse.stopped_at < last.at
        case Position.PROVING if last.position is Position.CLOSED:
            return fuse.since is not None and fuse.since <= last.at
    begun = [at for at in (fuse.since, fuse.batch_at) if at is not None]
    return bool(begun) and max(begun) < last.at


def _begun(
    pool: str,
    last: FuseStep | None,
    recorded: Sequence[FuseStep],
    fuse: Fuse,
    since: float,
    counted: FuseCounts,
) -> Iterator[FuseStep]:
    """Yields the trip or the resumption, and the present batch. `last` is None for a fuse that was closed before."""
    # A fuse that trips again soon continues with its earlier batch.
    reason, begins_with_batch = fuse.tripped_for or fuse.reason, (fuse.batch_at or 0.0) <= since
    if last is None or last.at < since:
        batch = fuse.batch if begins_with_batch else 0
        yield FuseStep(since, pool, Position.PROVING, reason, batch, counted.lost, counted.expected, fuse.by)
    is_recorded = any(each.at == fuse.batch_at for each in recorded)
    if fuse.batch_at is not None and not begins_with_batch and not is_recorded:
        yield FuseStep(fuse.batch_at, pool, Position.PROVING, FuseReason.BATCH_ONLINE, fuse.batch)
