"""Counts the runners that came online after a batch beyond their pool's normal churn. Pure; times are epoch seconds.

In a fleet of ephemeral runners each departure has a newcomer, some time later: machines boot for minutes, and lists
show a newcomer a sweep late, or after an outage. So each departure explains one later newcomer, the oldest departure
first, for a time. How long that is, the hour before the batch shows: twice as long as is needed to explain as many of
the newcomers of that hour as departures can explain, for the next one may be listed a sweep later than those. Time that
no complete list covers does not count. Where a list shows more newcomers than departures explain, the pool has grown,
and which of them came for that is not known: those departures may explain later newcomers.

A shorter time would take the slow newcomers of ordinary departures for successors, and a false mass loss would go on. A
longer one would let each departure of a shrinking fleet explain a successor, and a true mass loss would not heal.

Runners that live for less than a sweep may never be listed. Where they then live longer, because jobs are fewer, they
appear as newcomers, and a loss that is false at that moment may be proven by them.

In a busy pool more departures wait for their newcomers at any moment than a batch has runners, and may explain all that
come. Then `job_proof` shows by jobs what no count of newcomers can.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from ghapp.remediation.fuse import FuseLimits
from ghapp.runners.evidence import Evidence, Survey, covered_seconds
from ghapp.runners.outdated import gets_no_jobs
from ghapp.runners.verdict import State

CHURN_SECONDS = 3600.0
"""How long before a batch the churn is looked at."""

DEPARTURES_SECONDS = 2 * CHURN_SECONDS
"""How long before a batch departures count: else the first newcomers would take those that explain later ones."""

TIMES_AS_LONG = (1, 2, 4, 8)
"""Multiples of `prove_seconds`: for how long a departure may explain a newcomer, the shortest that fits; if none does,
`CHURN_SECONDS`.
"""


class Newcomers(NamedTuple):
    """Runners that came online after a batch, and are not lost again.

    Attributes:
        online: how many.
        unexplained: of these, those beyond the pool's normal churn: successors of the batch.
    """

    online: int = 0
    unexplained: int = 0


class _Moment(NamedTuple):
    """A time, and the seconds that complete lists cover from two hours before the batch until then."""

    at: float
    covered: float


class _Churn(NamedTuple):
    """When runners came and left, in order.

    Attributes:
        arrivals: newcomers that a list has shown.
        departures: runners that left by themselves, or may have.
        requested: accepted replacements of earlier batches: these explain newcomers of the hour before.
    """

    arrivals: Sequence[_Moment]
    departures: Sequence[_Moment]
    requested: Sequence[_Moment]


def newcomers(
    members: Iterable[tuple[Evidence, State]], accepted_at: float, survey: Survey, limits: FuseLimits
) -> Newcomers:
    """Counts the runners that came online after that time, and those of them beyond the pool's normal churn.

    Args:
        members: runners of the pool, each with its current state.
        accepted_at: when the first request of the batch was accepted.
        survey: of the installation.
        limits: the `[fuse]` table.
    """
    earliest = accepted_at - DEPARTURES_SECONDS
    lately = replace(survey, blind=tuple(span for span in survey.blind if span[1] > earliest))
    churn = _churn(list(members), accepted_at, lately)
    lasts = _explains_for(churn, accepted_at, limits)
    before = [each for each in churn.arrivals if each.at <= accepted_at]
    grown = {each.at for each in _unexplained(before, sorted([*churn.departures, *churn.requested]), lasts)}
    unexplained = _unexplained(churn.arrivals, churn.departures, lasts, grown)
    return Newcomers(*(sum(each.at > accepted_at for each in moments) for moments in (churn.arrivals, unexplained)))


def _churn(members: Sequence[tuple[Evidence, State]], accepted_at: float, survey: Survey) -> _Churn:
    """Returns the churn of a pool.

    A runner that no list has shown is left out, with its arrival and its departure: only deliveries know it, and it may
    be another scope's. GitHub's ids ascend: a runner that was merely missed until now has an id below the highest known
    one. A newcomer that is lost again proves nothing: what it came for goes on. A machine that registers again under
    its name explains that registration and no other. If its replacement was granted, the registration may come of that.
    One that gets no jobs because it is too old proves nothing either, and its place is taken by the next one.
    """
    earliest, earliest_departure = accepted_at - CHURN_SECONDS, accepted_at - DEPARTURES_SECONDS
    registered_again = _registered_again(members)
    known_to = max((each.id for each, _ in members if each.first_seen <= accepted_at), default=0)
    arrivals, departures, requested = [], [], []
    for evidence, state in members:
        if not evidence.registered or gets_no_jobs(evidence):
            continue
        came_at = evidence.first_seen
        is_proof = came_at <= accepted_at or (evidence.id > known_to and state is not State.INVALIDATED)
        if evidence.was_online and came_at > earliest and is_proof and evidence.id not in registered_again:
            arrivals.append(came_at)
        # One that went missing since the batch may have left by itself, until it is confirmed to be lost.
        left_since = {State.RETIRED: earliest_departure, State.SUSPECT: accepted_at}.get(state)
        is_departure = evidence.granted_at is None and evidence.reregistered_as is None
        if left_since is not None and is_departure and (left_at := _left_at(evidence)) > left_since:
            departures.append(left_at)
        replaced_at = evidence.replaced_at
        if replaced_at is not None and earliest_departure < replaced_at < accepted_at:
            requested.append(replaced_at)

    def moments(times: list[float]) -> list[_Moment]:
        return [_Moment(at, covered_seconds(survey, earliest_departure, at)) for at in sorted(times)]

    return _Churn(moments(arrivals), moments(departures), moments(requested))


def _registered_again(members: Iterable[tuple[Evidence, State]]) -> set[int]:
    """Returns the ids of registrations that follow one of the same name for which no replacement was granted."""
    found, latest = set(), dict[str, Evidence]()
    for evidence in sorted((each for each, _ in members), key=lambda each: each.id):
        earlier = latest.get(evidence.name)
        if earlier is not None and earlier.reregistered_as is not None and earlier.granted_at is None:
            found.add(evidence.id)
        latest[evidence.name] = evidence
    return found


def _explains_for(churn: _Churn, accepted_at: float, limits: FuseLimits) -> float:
    """Returns for how long a departure explains a newcomer.

    That is the shortest time of which one half explains as many newcomers from before the batch as an hour does.
    """
    before = [each for each in churn.arrivals if each.at <= accepted_at]
    explaining = sorted([*churn.departures, *churn.requested])
    least = len(_unexplained(before, explaining, CHURN_SECONDS))
    for times in TIMES_AS_LONG:
        lasts = times * limits.prove_seconds
        if lasts < CHURN_SECONDS and len(_unexplained(before, explaining, lasts / 2)) <= least:
            return lasts
    return CHURN_SECONDS


def _unexplained(
    arrivals: Iterable[_Moment], departures: Iterable[_Moment], lasts: float, grown: Collection[float] = ()
) -> list[_Moment]:
    """Returns the arrivals that no departure explains; each departure explains one, up to `lasts` seconds later.

    Those that explain arrivals of a moment at which the pool has `grown` may explain once more.
    """
    unexplained, unused = [], deque(departures)
    for at, together in groupby(arrivals, lambda arrival: arrival.at):
        used, more = list[_Moment](), list[_Moment]()
        for arrival in together:
            while unused and arrival.covered - unused[0].covered > lasts:
                unused.popleft()
            if unused and unused[0].at <= at:
                used.append(unused.popleft())
            else:
                more.append(arrival)
        if at in grown:
            unused.extendleft(reversed(used))
        unexplained += more
    return unexplained


def _left_at(evidence: Evidence) -> float:
    """Returns when a runner left: an ephemeral one at the end of its job, any other one when it was first missing."""
    job_ended_at = None if evidence.ephemeral is False else evidence.job_ended_at
    ends = (evidence.retired_at, job_ended_at, evidence.absent_since, evidence.first_404_at)
    return next((at for at in ends if at is not None), 0.0)
