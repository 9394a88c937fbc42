"""Renders incidents: which ones a list has, in which order, and the words of their codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from ghapp.incidents.fold import IncidentsById, observed, outdated
from ghapp.incidents.incident import LossEnd, LossIncident, RunnerLoss, is_unrecorded, losses_of
from ghapp.remediation.fuse import Position
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import Reason
from ghapp.wording import counted

ENDS = {
    LossEnd.OPEN: "no successor online yet",
    LossEnd.SUCCESSOR_ONLINE: "successor online",
    LossEnd.RETURNED: "returned",
    LossEnd.REREGISTERED: "registered again by the same machine",
    LossEnd.JOB_COMPLETED: "retired, not lost: the only job was over",
    LossEnd.REMOVED_BY_CONTROLLER: "retired, not lost: removed by the controller",
    LossEnd.NOT_NEEDED: "written off: not needed any more, for no job waited",
    LossEnd.NO_SUCCESSOR: "replacement accepted, and no successor seen within an hour",
    LossEnd.HIDDEN_BY_CHURN: "replacement accepted, and its successor not distinguished from other newcomers",
    LossEnd.AGED_OUT: "record deleted without a replacement",
    LossEnd.UNKNOWN: "ended in a way that this version of ghapp does not know",
}
"""How a loss ended, in words."""

PROOFS = {
    Reason.REGISTRATION_INVALIDATED: "registration deleted by GitHub",
    Reason.HANGS_AFTER_JOB: "container running on after the end of job and registration",
    Reason.REPLACED_WHILE_OFFLINE: "offline for longer than the pool allows",
}
"""How a loss was proved, in words."""


HEALED_ENDS = {LossEnd.SUCCESSOR_ONLINE, LossEnd.RETURNED, LossEnd.REREGISTERED}
"""Ends after which the pool has as many runners as before."""


class CodedCount(NamedTuple):
    """How many losses share a code, the code, and its words."""

    losses: int
    code: str
    words: str


def losses_in(view: OrgView, runners: Iterable[Evidence], now: float) -> list[RunnerLoss]:
    """Returns the losses of runners that are not recorded as over."""
    return [loss for each in runners for loss in losses_of(each, view.verdict(each, now), view.pool(each), now)]


def incidents_now(recorded: IncidentsById, view: OrgView, runners: Mapping[int, Evidence], now: float) -> IncidentsById:
    """Returns the incidents of the last month: the recorded ones, with what evidence and fuses show since.

    Args:
        recorded: the stored incidents, read after `runners`: one whose loss is over is marked after its incident has
            it, and shows no loss then.
        view: of the organization.
        runners: the evidence of all its runners, by id.
        now: epoch seconds.
    """
    found = losses_in(view, filter(is_unrecorded, runners.values()), now)
    known = observed(recorded, found, runners, [(view.fuses, {})], now)
    old = set(outdated(known, now))  # they are deleted only when another incident is recorded
    return {identifier: each for identifier, each in known.items() if identifier not in old}


def listed(incidents: Iterable[LossIncident]) -> list[LossIncident]:
    """Returns the incidents in the order of lists: open ones first, the latest begin first, then the latest end."""
    return sorted(
        (each for each in incidents if not each.merged_into),
        key=lambda each: (each.is_open, each.began if each.ended is None else each.ended, each.began, each.id),
        reverse=True,
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


def state_of(incident: LossIncident) -> Literal["open", "stopped", "healed", "ended"]:
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


def fuse_of(incident: LossIncident) -> str:
    """Returns the position of the incident's fuse: of several, the one that holds most; empty if none tripped."""
    found = last_positions(incident).values()
    order = (Position.STOPPED, Position.PROVING, Position.CLOSED)
    return next((position.value for position in order if position in found), "")


def typical_heal_seconds(losses: Sequence[RunnerLoss]) -> float | None:
    """Returns the median seconds from the first evidence to the successor; None if none is online yet."""
    found = heal_seconds(losses)
    return median(found) if found else None


def heal_seconds(losses: Sequence[RunnerLoss]) -> list[float]:
    """Returns the seconds from first evidence to successor of each healed loss, the shortest first."""
    return sorted(
        each.ended_at - each.first_at
        for each in losses
        if each.end is LossEnd.SUCCESSOR_ONLINE and each.ended_at is not None
    )
