"""One lost runner, from its first evidence to its end, as its evidence shows it. Pure; times are epoch seconds."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ghapp.remediation.successors import HEALED_WITHIN_SECONDS, SUCCESSOR_PATIENCE_SECONDS
from ghapp.runners.evidence import Evidence, PastLoss
from ghapp.runners.verdict import Reason, State, Verdict, is_absent, is_zombie, missing_since


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
        missing_at: the first GET that answered 404.
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
    missing_at: float | None = None
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
    def proven_at(self) -> float:
        """When it was proved: the second 404, or the grant of an offline runner's replacement."""
        return next((at for at in (self.confirmed_at, self.granted_at) if at is not None), self.first_at)

    @property
    def span(self) -> Span:
        """From its first evidence to its end."""
        return Span(self.pool, self.first_at, self.ended_at)

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
        past.missing_at,
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
        _first_at(evidence, now),
        _proof(evidence),
        evidence.missing_at,
        evidence.confirmed_at,
        evidence.granted_at,
        evidence.replaced_at,
        evidence.successor,
        end,
        ended_at,
    )


def _first_at(evidence: Evidence, now: float) -> float:
    """Returns when it was first missing; being offline is evidence only if the runner was replaced for that."""
    if evidence.confirmed_at is None and evidence.offline_since is not None:
        return evidence.offline_since
    if is_absent(evidence):
        return missing_since(evidence)
    return evidence.granted_at or evidence.removed_at or now


def _proof(evidence: Evidence) -> Reason:
    if evidence.confirmed_at is None:
        return Reason.REPLACED_WHILE_OFFLINE
    is_hanging = is_absent(evidence) and is_zombie(evidence)
    return Reason.HANGS_AFTER_JOB if is_hanging else Reason.REGISTRATION_INVALIDATED


def _found_retired_at(evidence: Evidence, now: float) -> float:
    """Returns when the runner was no longer published as lost; `now` if it still is."""
    since = evidence.state_since
    is_published = evidence.state == "" and since is not None and since >= _first_at(evidence, now)
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
    if accepted_at is not None and now > accepted_at + SUCCESSOR_PATIENCE_SECONDS:
        return LossEnd.NO_SUCCESSOR, accepted_at + HEALED_WITHIN_SECONDS
    return LossEnd.OPEN, None
