"""An incident: losses that overlap in time, and the positions of their fuses. Pure; times are epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ghapp.incidents.loss import RunnerLoss, Span
from ghapp.remediation.fuse import WHOLE_INSTALLATION, FuseReason, Position


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
        WHOLE_INSTALLATION if any(each.pool == WHOLE_INSTALLATION for each in changes) else ordered[0].pool,
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


def spans(incident: LossIncident) -> Iterator[Span]:
    """Yields the time of each loss and of each fuse."""
    for each in incident.losses:
        yield each.span
    yield from fuse_spans(incident.steps)


def _by_time(step: FuseStep) -> tuple[float, str, bool, str]:
    """Sorts by time; at the same time, a fuse closes before it trips again."""
    return step.at, step.pool, step.position is not Position.CLOSED, step.position
