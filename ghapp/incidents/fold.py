"""Adds losses and fuse changes to the known incidents. Pure; times are epoch seconds.

Losses of one pool whose times overlap are one incident. So are all losses of the organization that overlap with a time
in which the fuse of the whole installation was not closed. A fuse that is not closed counts as a loss of its pool here.
Incidents that a later loss connects are merged: the oldest takes over the losses of the others.

The same facts may come twice, and in any order: the groups are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from ghapp.incidents.incident import (
    FuseStep,
    LossEnd,
    LossIncident,
    RunnerLoss,
    Span,
    incident_of,
    recorded_steps,
    returned,
    spans,
    unrecorded_steps,
)
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.remediation.fuse import Fuse, FuseCounts, Position
from ghapp.runners.evidence import Evidence

IncidentsById = Mapping[str, LossIncident]
"""By id."""

MOST_LOSSES = 10_000
"""Losses of one incident that are recorded, the first ones."""

INCIDENT_KEPT_SECONDS = 30 * 86_400.0
"""How long an incident is kept after its end."""

MOST_INCIDENTS = 500


def observed(
    known: IncidentsById,
    found: Sequence[RunnerLoss],
    runners: Mapping[int, Evidence],
    fuses: Sequence[tuple[Mapping[str, Fuse], Mapping[str, FuseCounts]]],
    now: float,
) -> IncidentsById:
    """Returns the incidents as of `now`.

    Args:
        known: the recorded ones.
        found: all losses that evidence shows and that are not recorded as over.
        runners: the evidence of all runners; an open loss without evidence has aged out.
        fuses: by pool, with the counts of those that have just changed; more than once if they changed meanwhile.
        now: epoch seconds.
    """
    incidents = with_losses(known, [*found, *with_ends(known, runners, found, now)])
    for each, counts in fuses:
        steps = unrecorded_steps(recorded_steps(incidents.values()), each, counts, now)
        incidents = with_losses(incidents, [], steps) if steps else incidents
    return incidents


def with_losses(
    known: IncidentsById, observed: Iterable[RunnerLoss], steps: Iterable[FuseStep] = ()
) -> dict[str, LossIncident]:
    """Returns the incidents with these losses and fuse changes, those that merged included.

    Args:
        known: the incidents.
        observed: losses, new ones and known ones as they are now.
        steps: fuse changes that are not recorded yet.
    """
    incidents = dict(known)
    places = _places(incidents)
    changed: dict[str, dict[int, RunnerLoss]] = defaultdict(dict)
    new: list[RunnerLoss] = []
    for loss in sorted(set(observed), key=_by_runner):
        place = _place(incidents, places, loss)
        if place is not None:
            at, index = place
            changed[at][index] = _updated(changed[at].get(index, incidents[at].losses[index]), loss)
        elif new and new[-1].is_same(loss):
            new[-1] = _updated(new[-1], loss)
        else:
            new.append(loss)
    touched = set()
    for at, losses in changed.items():
        old = incidents[at]
        kept = tuple(losses.get(index, each) for index, each in enumerate(old.losses))
        if kept != old.losses:
            incidents[at] = incident_of(at, kept, old.steps)
            touched.add(at)
    loose = _attached(incidents, steps)
    if new or loose or touched:
        _regroup(incidents, new, loose, touched)
    return incidents


def with_ends(
    known: IncidentsById, runners: Mapping[int, Evidence], shown: Iterable[RunnerLoss], now: float
) -> list[RunnerLoss]:
    """Returns the known open losses that no evidence shows any more, as they end."""
    still = {each.runner_id for each in shown}
    return [
        returned(loss, runners.get(loss.runner_id), now)
        for incident in known.values()
        if incident.is_open
        for loss in incident.losses
        if loss.is_open and loss.runner_id not in still
    ]


def places_of(incidents: IncidentsById, losses: Iterable[RunnerLoss]) -> dict[RunnerLoss, LossIncident]:
    """Returns the incident of each of these losses that is recorded."""
    places = _places(incidents)
    found = {loss: _place(incidents, places, loss) for loss in losses}
    return {loss: incidents[place[0]] for loss, place in found.items() if place is not None}


def current(incidents: IncidentsById, identifier: str) -> LossIncident | None:
    """Returns the incident of an id, or the one that took over its losses; None if it is unknown."""
    found = incidents.get(identifier)
    for _ in range(len(incidents)):
        if found is None or not found.merged_into:
            return found
        found = incidents.get(found.merged_into)
    return None


def outdated(incidents: IncidentsById, now: float) -> list[str]:
    """Returns the ids to delete: those that ended a month ago, and the oldest ended ones beyond `MOST_INCIDENTS`."""
    old = {
        each.id for each in incidents.values() if each.ended is not None and now - each.ended > INCIDENT_KEPT_SECONDS
    }
    over = sorted((each.ended, each.id) for each in incidents.values() if each.ended is not None and each.id not in old)
    too_many = max(0, len(incidents) - len(old) - MOST_INCIDENTS)
    return [*sorted(old), *(identifier for _, identifier in over[:too_many])]


def _places(incidents: IncidentsById) -> dict[int, list[tuple[str, int]]]:
    """Returns where each runner's losses are: the incident and the index there."""
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for incident in incidents.values():
        for index, loss in enumerate(incident.losses):
            found[loss.runner_id].append((incident.id, index))
    return found


def _place(
    incidents: IncidentsById, places: Mapping[int, list[tuple[str, int]]], loss: RunnerLoss
) -> tuple[str, int] | None:
    known = places.get(loss.runner_id, [])
    return next(((at, index) for at, index in known if incidents[at].losses[index].is_same(loss)), None)


def _by_runner(loss: RunnerLoss) -> tuple[int, float]:
    return loss.runner_id, loss.first_at


def _updated(known: RunnerLoss, seen: RunnerLoss) -> RunnerLoss:
    """Returns a loss as it is now. The first record decides its pool, its beginning, and the time of its end.

    A loss whose record was deleted is not open again: the observation was on its way when the record was deleted.
    """
    if known.end is LossEnd.AGED_OUT and seen.is_open:
        return known
    ended_at = known.ended_at if known.end is seen.end else seen.ended_at
    return seen._replace(pool=known.pool, first_at=min(known.first_at, seen.first_at), ended_at=ended_at)


class _Groups:
    """Groups of incidents and new facts that belong together, by union of their indexes."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def of(self, index: int) -> int:
        while self._parents[index] != index:
            self._parents[index] = self._parents[self._parents[index]]
            index = self._parents[index]
        return index

    def join(self, one: int, other: int) -> None:
        self._parents[self.of(one)] = self.of(other)


def _attached(incidents: dict[str, LossIncident], steps: Iterable[FuseStep]) -> list[tuple[FuseStep, ...]]:
    """Adds fuse changes to the incident in which their fuse is not closed; returns the others, by fuse."""
    by_pool: dict[str, list[FuseStep]] = defaultdict(list)
    for step in steps:
        by_pool[step.pool].append(step)
    for pool, changes in list(by_pool.items()):
        for incident in incidents.values():
            last = next((each for each in reversed(incident.steps) if each.pool == pool), None)
            if last is not None and last.position is not Position.CLOSED:
                incidents[incident.id] = incident_of(incident.id, incident.losses, (*incident.steps, *changes))
                del by_pool[pool]
                break
    return [tuple(changes) for changes in by_pool.values()]


def _regroup(
    incidents: dict[str, LossIncident], new: list[RunnerLoss], loose: list[tuple[FuseStep, ...]], touched: set[str]
) -> None:
    """Puts new facts into incidents, and merges those that they, or changed losses, connect."""
    begins = [each.first_at for each in new] + [changes[0].at for changes in loose]
    earliest = min(begins + [incidents[each].began for each in touched])
    near = [
        each for each in incidents.values() if not each.merged_into and (each.ended is None or each.ended >= earliest)
    ]
    facts = [
        *near,
        *(incident_of("", [each], ()) for each in new),
        *(LossIncident("", changes[0].pool, changes[0].at, None, (), changes) for changes in loose),
    ]
    for group in _components(facts):
        losses = [loss for fact in group for loss in fact.losses]
        stored = sorted((each.began, each.id) for each in group if each.id)
        if not losses or (len(stored) == len(group) == 1):
            continue
        first = min(losses, key=lambda each: (each.first_at, each.runner_id))
        identifier = stored[0][1] if stored else _fresh_id(first, incidents)
        kept = sorted(losses, key=lambda each: (each.first_at, each.runner_id))[:MOST_LOSSES]
        merged = incident_of(identifier, kept, [step for fact in group for step in fact.steps])
        incidents[identifier] = merged
        for _, other in stored[1:]:
            old = incidents[other]
            ended = old.ended if old.ended is not None else merged.began
            incidents[other] = LossIncident(other, old.pool, old.began, ended, merged_into=identifier)


def _fresh_id(first: RunnerLoss, incidents: IncidentsById) -> str:
    """Returns an id that derives from the first loss, so that a repeated fold gives the same."""
    identifier = f"{int(first.first_at)}-{first.runner_id}"
    return identifier if identifier not in incidents else f"{int(first.first_at * 1000)}-{first.runner_id}"


def _components(facts: list[LossIncident]) -> Iterator[list[LossIncident]]:
    """Yields the groups of facts whose spans overlap, of one pool or of the whole installation."""
    groups = _Groups(len(facts))
    atoms = [(span, index) for index, fact in enumerate(facts) for span in spans(fact)]
    by_pool: dict[str, list[tuple[Span, int]]] = defaultdict(list)
    for span, index in atoms:
        by_pool[span.pool].append((span, index))
    for members in by_pool.values():
        _join_overlapping(members, groups)
    for whole, index in by_pool.get(ALL_POOLS, []):
        for span, other in atoms:
            if whole.overlaps(span):
                groups.join(index, other)
    found: dict[int, list[LossIncident]] = defaultdict(list)
    for index, fact in enumerate(facts):
        found[groups.of(index)].append(fact)
    yield from found.values()


def _join_overlapping(members: list[tuple[Span, int]], groups: _Groups) -> None:
    """Joins the spans of one pool that overlap, directly or through others between them."""
    ordered = sorted(members, key=lambda member: member[0].began)
    reach: Span | None = None
    for (before, one), (after, other) in pairwise(ordered):
        if reach is None:
            reach = before
        if reach.overlaps(after):
            groups.join(one, other)
            ends = (reach.ended, after.ended)
            reach = reach._replace(ended=None if None in ends else max(at for at in ends if at is not None))
        else:
            reach = after
