"""The changes of fuses that are not recorded yet, from the fuses as they are. Pure; times are epoch seconds.

A fuse record has its last change only. It is compared with the recorded changes, so that the same fuse gives no second
change, and a change that was not recorded, because a process crashed, is added as far as the fuse shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ghapp.health.incidents.incident import FuseStep, LossIncident
from ghapp.health.remediation.fuse import Fuse, FuseCounts, FuseReason, Position


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
    if fuse.position is Position.CLOSED:
        if is_open:
            yield FuseStep(now if fuse.healed_at is None else fuse.healed_at, pool, Position.CLOSED, fuse.reason)
        return
    if is_open and last is not None and fuse.healed_at is not None and fuse.healed_at > last.at:
        yield FuseStep(fuse.healed_at, pool, Position.CLOSED)  # it closed and tripped again, unrecorded
        last, is_open = None, False
    yield from _begun(pool, last if is_open else None, recorded, fuse, counted, now)
    if fuse.position is Position.STOPPED:
        at = now if fuse.stopped_at is None else fuse.stopped_at
        if not is_open or last is None or last.position is not Position.STOPPED or at > last.at:
            yield _step(at, pool, fuse, fuse.reason, 0, counted)


def _begun(
    pool: str, last: FuseStep | None, recorded: Sequence[FuseStep], fuse: Fuse, counted: FuseCounts, now: float
) -> Iterator[FuseStep]:
    """Yields the trip or the resumption, and the present batch. `last` is None for a fuse that was closed before."""
    since = now if fuse.since is None else fuse.since
    is_first_batch = fuse.batch_at in (None, fuse.since)
    batch = fuse.batch if is_first_batch else 0
    if last is None:
        # A fuse that trips again after registrations returned keeps the time of its first trip.
        goes_on = fuse.healed_at is not None and fuse.healed_at >= since
        at = now if goes_on else since
        yield FuseStep(
            at,
            pool,
            Position.PROVING,
            _tripped_for(fuse),
            fuse.batch if goes_on else batch,
            counted.lost,
            counted.expected,
            fuse.by,
        )
        if goes_on:
            return
    elif last.at < since:
        yield FuseStep(
            since, pool, Position.PROVING, _tripped_for(fuse), batch, counted.lost, counted.expected, fuse.by
        )
    batch_at = fuse.batch_at
    if batch_at is None or is_first_batch or any(each.at == batch_at for each in recorded):
        return
    if last is None or batch_at > last.at:
        yield FuseStep(batch_at, pool, Position.PROVING, FuseReason.BATCH_ONLINE, fuse.batch)


def _tripped_for(fuse: Fuse) -> FuseReason:
    return fuse.tripped_for or fuse.reason


def _step(at: float, pool: str, fuse: Fuse, reason: FuseReason, batch: int, counted: FuseCounts) -> FuseStep:
    return FuseStep(at, pool, fuse.position, reason, batch, counted.lost, counted.expected, fuse.by)
