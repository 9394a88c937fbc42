"""The incidents of a month: the open ones, then those that are over. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from ghapp.incidents.incident import LossEnd, LossIncident, RunnerLoss
from ghapp.remediation.fuse import WHOLE_INSTALLATION, Position
from ghapp.report.incidents import ENDS, PROOFS
from ghapp.web.pages.views.paging import Paging, paged, query_string
from ghapp.web.pages.views.wording import Moment, counted, duration, exact, moment

HEALED_ENDS = {LossEnd.SUCCESSOR_ONLINE, LossEnd.RETURNED, LossEnd.REREGISTERED}
"""Ends after which the pool has as many runners as before."""


class CodedCount(NamedTuple):
    """How many losses share a code, the code, and its words."""

    losses: int
    code: str
    words: str


class IncidentLine(NamedTuple):
    """An incident in a list. `state` is `open`, `stopped`, `healed` or `ended`; `lasted` up to now while it is open."""

    id: str
    title: str
    state: str
    began: Moment | None
    ended: Moment | None
    lasted: str
    lost: int
    still_lost: int
    ends: tuple[CodedCount, ...]
    fuse: str
    typical_heal: str


class IncidentsPageView(NamedTuple):
    """The page's content; `paging` is of the incidents that are over."""

    sentence: str
    good: bool
    open: tuple[IncidentLine, ...]
    over: tuple[IncidentLine, ...]
    paging: Paging


def incidents_page(incidents: Mapping[str, LossIncident], page: int, now: float) -> IncidentsPageView:
    """Returns the page: all open incidents, the latest first, and one page of the others."""
    known = sorted(
        (each for each in incidents.values() if not each.merged_into),
        key=lambda each: (each.began, each.id),
        reverse=True,
    )
    still = [each for each in known if each.is_open]
    over = sorted((each for each in known if not each.is_open), key=lambda each: each.ended or 0.0, reverse=True)
    shown, paging = paged(over, page, query_string)
    return IncidentsPageView(
        _sentence(still, len(over)),
        not still,
        tuple(incident_line(each, now) for each in still),
        tuple(incident_line(each, now) for each in shown),
        paging,
    )


def open_incidents(incidents: Mapping[str, LossIncident]) -> dict[str, str]:
    """Returns the id of the open incident of each pool that has one, and of `*` if the whole organization has one."""
    found: dict[str, str] = {}
    for each in sorted(incidents.values(), key=lambda each: each.began):
        if each.is_open:
            found |= dict.fromkeys((*(loss.pool for loss in each.losses), each.pool), each.id)
    return found


def last_incident(incidents: Mapping[str, LossIncident], runner_id: int) -> str:
    """Returns the id of the latest incident in which a runner was lost, or was a successor; empty for none."""
    found = [
        each
        for each in incidents.values()
        if any(runner_id in (loss.runner_id, loss.successor) for loss in each.losses)
    ]
    return max(found, key=lambda each: each.began).id if found else ""


def incident_line(incident: LossIncident, now: float) -> IncidentLine:
    """Returns the line of an incident."""
    return IncidentLine(
        incident.id,
        title_of(incident),
        state_of(incident),
        moment(incident.began, now),
        moment(incident.ended, now),
        duration(now - incident.began) if incident.ended is None else exact(incident.ended - incident.began),
        len(incident.losses),
        sum(each.is_open for each in incident.losses),
        ends_of(incident.losses),
        fuse_of(incident),
        typical_heal(incident.losses),
    )


def title_of(incident: LossIncident) -> str:
    """Returns what was lost, and where."""
    where = where_of(incident)
    if len(incident.losses) == 1:
        return f"{incident.losses[0].name} lost in {where}"
    return f"{counted(len(incident.losses), 'runner')} lost in {where}"


def where_of(incident: LossIncident) -> str:
    """Returns the pool; several are counted. The fuse of the whole installation makes one incident of theirs."""
    pools = sorted({each.pool for each in incident.losses})
    return pools[0] if len(pools) == 1 else counted(len(pools), "pool")


def state_of(incident: LossIncident) -> str:
    """Returns the state in one word."""
    if incident.is_open:
        return "stopped" if Position.STOPPED in last_positions(incident).values() else "open"
    return "healed" if all(each.end in HEALED_ENDS for each in incident.losses) else "ended"


def last_positions(incident: LossIncident) -> dict[str, Position]:
    """Returns the last recorded position of each of its fuses, by pool."""
    return {each.pool: each.position for each in incident.steps}


def ends_of(losses: Sequence[RunnerLoss]) -> tuple[CodedCount, ...]:
    """Returns how many losses ended in each way, the commonest first; without the open ones."""
    count = Counter(each.end for each in losses if not each.is_open)
    return tuple(CodedCount(number, end.value, ENDS[end]) for end, number in count.most_common())


def proofs_of(losses: Sequence[RunnerLoss]) -> tuple[CodedCount, ...]:
    """Returns how many losses were proved in each way, the commonest first."""
    count = Counter(each.proof for each in losses)
    return tuple(CodedCount(number, proof.value, PROOFS.get(proof, "")) for proof, number in count.most_common())


def fuse_of(incident: LossIncident) -> str:
    """Returns the position of the incident's fuse: of several, the one that holds most; empty if none tripped."""
    found = last_positions(incident).values()
    order = (Position.STOPPED, Position.PROVING, Position.CLOSED)
    return next((position.value for position in order if position in found), "")


def fuse_name(pool: str) -> str:
    """Returns the name of a pool's fuse."""
    return "The fuse of the whole organization" if pool == WHOLE_INSTALLATION else f"The fuse of {pool}"


def typical_heal(losses: Sequence[RunnerLoss]) -> str:
    """Returns the median time from the first evidence to the successor; empty if none is online yet."""
    found = heal_seconds(losses)
    return exact(median(found)) if found else ""


def heal_seconds(losses: Sequence[RunnerLoss]) -> list[float]:
    """Returns the seconds from first evidence to successor of each healed loss, the shortest first."""
    return sorted(
        each.ended_at - each.first_at
        for each in losses
        if each.end is LossEnd.SUCCESSOR_ONLINE and each.ended_at is not None
    )


def _sentence(still: Sequence[LossIncident], over: int) -> str:
    past = f"{counted(over, 'incident')} of the last month {'is' if over == 1 else 'are'} over"
    if not still:
        return f"No incident is open; {past}." if over else "No runner was lost in the last month."
    lost = sum(loss.is_open for each in still for loss in each.losses)
    are = "is" if len(still) == 1 else "are"
    waiting = (
        f"{counted(lost, 'runner')} {'has' if lost == 1 else 'have'} no successor online yet"
        if lost
        else "all are replaced"
    )
    return f"{counted(len(still), 'incident')} {are} open: {waiting}."
