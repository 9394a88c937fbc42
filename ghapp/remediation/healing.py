"""Matches lost runners with their successors, to measure how long healing takes. Pure; times are epoch seconds.

It is for the surfaces. The fuse needs no names, but numbers: how many more came than were expected (`churn`).

A replacement's request does not name the runner that comes of it. A newcomer of the pool that came online after the
request is a successor, unless it takes the place of a runner that left at the end of its job.

In a busy pool some departures await their newcomers at any moment, and could explain every successor. But machines
take a while to boot: a departure explains no newcomer that came in half of the least time of those before. The last
successors of many losses may still be hidden so for long. Once most of the others came, theirs are not awaited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ghapp.runners.evidence import (
    LIST_LASTS_SECONDS,
    Evidence,
    Survey,
    covered_seconds,
    is_absent,
    missing_since,
)
from ghapp.runners.outdated import gets_no_jobs

HEALED_WITHIN_SECONDS = 3600.0
"""A newcomer that came online later than this after the request is not its result."""

SUCCESSOR_PATIENCE_SECONDS = HEALED_WITHIN_SECONDS + LIST_LASTS_SECONDS
"""A successor may be observed by the list after the hour in which it came online. After that the loss is over."""

LATE_SUCCESSOR_SECONDS = 300.0
"""A successor that is not seen so long after its request was accepted is late, or hidden among other newcomers."""

LATE_FACTOR, LATE_AT_LEAST_SECONDS = 2.0, 120.0
"""It is so, too, once it takes so many times as long as the slowest successor of that time, but not sooner than this:
nodes may boot cold or warm.
"""

HEALED_FOR_EACH_HIDDEN = 2
"""Losses whose successors show that the pool's controller replaces, for each one whose successor may be hidden."""

BOOTS_SECONDS, FEWEST_BOOTS = 1800.0, 10
"""How soon newcomers follow departures is seen in so long before the first request, of so many at least."""


class Heal(NamedTuple):
    """A lost runner and its successor.

    Attributes:
        seconds: from the loss to the first observation of the successor online.
        at: of that observation (epoch seconds).
    """

    lost: int
    successor: int
    seconds: float
    at: float


def heals(members: Iterable[Evidence], now: float) -> list[Heal]:
    """Returns the losses of a pool whose successors came online and that were not returned before.

    The oldest loss gets the oldest newcomer. A newcomer is first explained by a runner that left at the end of its job
    within the hour before it.

    Args:
        members: the runners of one pool, those that left included.
        now: of the observation.
    """
    known = list(members)
    open_losses = sorted(
        (each for each in known if may_be_succeeded(each, now)), key=lambda each: (each.replaced_at or 0.0, each.id)
    )
    if not open_losses:
        return []
    pairs = _explained_newcomers(known, open_losses[0].replaced_at or 0.0)
    unexplained = [each for each, departed_at in pairs if departed_at is None and each.online]
    found: list[Heal] = []
    for loss in open_losses:
        successor = next((each for each in unexplained if _may_succeed(each, loss)), None)
        if successor is not None:
            unexplained.remove(successor)
            online_at = min(now, successor.job_started_at or now)
            found.append(Heal(loss.id, successor.id, max(0.0, online_at - lost_since(loss)), online_at))
    return found


def hidden_successors(members: Iterable[Evidence], survey: Survey, now: float) -> list[int]:
    """Returns the losses whose successors are late, and cannot be distinguished from other newcomers of the pool.

    Most losses of that time have their successors, so the controller replaces; and at least as many newcomers came
    since as are late, each of which a departure may explain. An elastic pool has as many runners as it needs then.

    Args:
        members: the runners of one pool, those that left included.
        survey: of the installation: time that no complete list covers does not count.
        now: of the observation.
    """
    known = list(members)
    awaited = [each for each in known if awaits_successor(each)]
    if not awaited:
        return []
    since = min(each.replaced_at or 0.0 for each in awaited) - LATE_SUCCESSOR_SECONDS
    healed = [each for each in known if each.successor is not None and (each.replaced_at or 0.0) >= since]
    late_after = _late_after(healed)
    late = [each for each in awaited if covered_seconds(survey, each.replaced_at or 0.0, now) > late_after]
    if not late or len(healed) < HEALED_FOR_EACH_HIDDEN * len(late):
        return []
    requested = [each.replaced_at or 0.0 for each in late]
    came = sum(each.first_seen > max(requested) for each, _ in _explained_newcomers(known, min(requested)))
    return [each.id for each in late] if came >= len(late) else []


def _late_after(healed: Iterable[Evidence]) -> float:
    """Returns how long after its request a successor is late (seconds), by how long those of `healed` took."""
    took = [(each.healed_at or 0.0) - (each.replaced_at or 0.0) for each in healed]
    slowest = max(took, default=LATE_SUCCESSOR_SECONDS)
    return min(LATE_SUCCESSOR_SECONDS, max(LATE_AT_LEAST_SECONDS, LATE_FACTOR * slowest))


def _may_succeed(newcomer: Evidence, loss: Evidence) -> bool:
    accepted_at = loss.replaced_at or 0.0
    return newcomer.id > loss.id and accepted_at < newcomer.first_seen <= accepted_at + _heals_within(loss)


def _heals_within(loss: Evidence) -> float:
    """Returns how long after its request a newcomer may be a loss's successor; a hidden one has come by then."""
    return HEALED_WITHIN_SECONDS if loss.hidden_at is None else LATE_SUCCESSOR_SECONDS


def may_be_succeeded(evidence: Evidence, now: float) -> bool:
    """True if a newcomer may still be taken for its successor: the slowest one of a loss comes after it was hidden.

    Else it would be taken for that of a later loss, which would seem healed.
    """
    accepted_at = evidence.replaced_at
    if accepted_at is None or evidence.successor is not None:
        return False
    return evidence.hidden_at is None or now <= accepted_at + LATE_SUCCESSOR_SECONDS + LIST_LASTS_SECONDS


def awaits_successor(evidence: Evidence) -> bool:
    """True if its request was accepted, and its successor is neither known nor hidden."""
    return evidence.replaced_at is not None and evidence.successor is None and evidence.hidden_at is None


def lost_since(evidence: Evidence) -> float:
    """Returns when the loss of a runner began, on every surface: when it was first missing.

    Being offline is evidence of a loss only if the runner was replaced for that.
    """
    if evidence.confirmed_at is None and evidence.offline_since is not None:
        return evidence.offline_since
    if is_absent(evidence):
        return missing_since(evidence)
    known = (evidence.granted_at, evidence.removed_at, evidence.replaced_at)
    return next((at for at in known if at is not None), 0.0)


def _left_at(evidence: Evidence) -> float:
    """Returns when a runner left at the end of its job, or was removed by its controller; 0 if it did not."""
    if evidence.replaced_at is not None or evidence.listed:
        return 0.0
    return evidence.retired_at or evidence.job_ended_at or 0.0


def _explained_newcomers(known: Iterable[Evidence], until: float) -> Iterator[tuple[Evidence, float | None]]:
    """Yields each newcomer that succeeds no lost runner, with the departure that explains it; None: no departure does.

    A runner that no list has shown is left out with its arrival, so with its departure as well: in a fleet of short
    jobs most are, and their departures would explain every successor. One that gets no jobs because it is too old is no
    replacement.

    Args:
        known: the runners of one pool, those that left included.
        until: of the first request (epoch seconds): how long machines take to boot is seen before it.
    """
    listed = [each for each in known if each.registered and each.was_online and not gets_no_jobs(each)]
    newcomers = sorted((each for each in listed if each.succeeds is None), key=lambda each: (each.first_seen, each.id))
    departures = sorted(_left_at(each) for each in listed if _left_at(each) > 0.0)
    return _pairs(newcomers, departures, _least_boot(newcomers, departures, until))


def _least_boot(newcomers: Sequence[Evidence], departures: Sequence[float], until: float) -> float:
    """Returns half of the least seconds from a departure to its newcomer, before `until`; 0 if too few are known."""
    before = [each for each in newcomers if each.first_seen <= until]
    pairs = [
        (departed_at, each.first_seen)
        for each, departed_at in _pairs(before, departures)
        if departed_at is not None and each.first_seen > until - BOOTS_SECONDS
    ]
    # Half of it: machines may boot faster than before, and a loss without a successor must not read "healed".
    return min(came_at - departed_at for departed_at, came_at in pairs) / 2 if len(pairs) >= FEWEST_BOOTS else 0.0


def _pairs(
    newcomers: Iterable[Evidence], departures: Sequence[float], least_boot: float = 0.0
) -> Iterator[tuple[Evidence, float | None]]:
    """Yields each newcomer with the departure that explains it; None: no departure does. Each explains one at most.

    Both are in the order of their times, so that one pass suffices: in a fleet of ephemeral runners each runner is a
    newcomer, and each departs.
    """
    place = 0
    for each in newcomers:
        while place < len(departures) and departures[place] <= each.first_seen - HEALED_WITHIN_SECONDS:
            place += 1
        if place < len(departures) and departures[place] <= each.first_seen - least_boot:
            yield each, departures[place]
            place += 1
        else:
            yield each, None
