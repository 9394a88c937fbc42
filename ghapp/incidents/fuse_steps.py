"""The changes of fuses that are not recorded yet, from the fuses as they are. Pure; times are epoch seconds.

A fuse record has its last change only. It is compared with the recorded changes, so that the same fuse gives no second
change, and a change that was not recorded, because a process crashed, is added as far as the fuse shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ghapp.incidents.incident import FuseStep, LossIncident
from ghapp.remediation.fuse import Fuse, FuseCounts, FuseReason, Position


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
            yield FuseStep(now if fuse.healed_at is None else fuse.healed_at, pool, Position.CLOSED, fuse.reason)
        return
    if is_open and last is not None and fuse.healed_at is not None and fuse.healed_at > last.at:
        yield FuseStep(fuse.healed_at, pool, Position.CLOSED)  # it closed and tripped again, unrecorded
        last, is_open = None, False
    last = last if is_open else None
    if fuse.since is not None:
        yield from _begun(pool, last, recorded, fuse, fuse.since, counted, now)
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
            return fuse.healed_at is not None and fuse.healed_at < last.at
        case Position.STOPPED:
            return fuse.stopped_at is not None and fuse.stopped_at < last.at
        case Position.PROVING if last.position is Position.CLOSED:
            has_returned = fuse.healed_at is not None and fuse.since is not None and fuse.healed_at >= fuse.since
            return not has_returned and fuse.since is not None and fuse.since <= last.at
    changed_at = fuse.since if fuse.batch_at is None else fuse.batch_at
    return changed_at is not None and changed_at < last.at


def _begun(
    pool: str,
    last: FuseStep | None,
    recorded: Sequence[FuseStep],
    fuse: Fuse,
    since: float,
    counted: FuseCounts,
    now: float,
) -> Iterator[FuseStep]:
    """Yields the trip or the resumption, and the present batch. `last` is None for a fuse that was closed before."""
    reason, is_first_batch = fuse.tripped_for or fuse.reason, fuse.batch_at in (None, since)
    if last is None and fuse.healed_at is not None and fuse.healed_at >= since:
        # A fuse that trips again after registrations returned keeps the time of its first trip, and its batch.
        yield FuseStep(now, pool, Position.PROVING, reason, fuse.batch, counted.lost, counted.expected, fuse.by)
        return
    if last is None or last.at < since:
        batch = fuse.batch if is_first_batch else 0
        yield FuseStep(since, pool, Position.PROVING, reason, batch, counted.lost, counted.expected, fuse.by)
    is_recorded = any(each.at == fuse.batch_at for each in recorded)
    if fuse.batch_at is not None and not is_first_batch and not is_recorded:
        yield FuseStep(fuse.batch_at, pool, Position.PROVING, FuseReason.BATCH_ONLINE, fuse.batch)
