"""Records losses and fuse changes as incidents. Display only: nothing is decided from them.

The evidence of each lost runner is the source. It is written before and is kept until its incident is over and has the
loss, so that a process may crash between any two lines:

- after the evidence, before the incident: the next plan finds a loss that is not recorded;
- after the incident, before the mark in the evidence: the next plan records the same loss again, which changes nothing;
- a runner that returns before its loss is recorded carries that loss in its evidence (`past_loss`);
- a record that is to be deleted is deleted after its loss has ended in its incident.

Without a loss and with closed fuses Redis is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ghapp.incidents.fold import IncidentsById, observed, places_of, with_losses
from ghapp.incidents.incident import LossEnd, RunnerLoss, is_unrecorded
from ghapp.incidents.texts import losses_in
from ghapp.installations.installation import Installation
from ghapp.remediation.fuse import Fuse, FuseCounts, Position
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from jobs.context import JobContext


async def record_incidents(
    context: JobContext,
    installation: Installation,
    view: OrgView,
    runners: Mapping[int, Evidence],
    changed_fuses: Mapping[str, tuple[Fuse, FuseCounts]],
    now: float,
) -> None:
    """Records what a plan found and changed.

    Args:
        context: the context of the job.
        installation: the installation; the caller has its lock `plan`.
        view: of the organization, with its fuses before the plan.
        runners: all of them, as they are now.
        changed_fuses: fuses that the plan changed, with the counts that changed them.
        now: epoch seconds.
    """
    lost = [each for each in runners.values() if is_unrecorded(each)]
    is_closed = all(fuse.position is Position.CLOSED for fuse in view.fuses.values())
    if not lost and not changed_fuses and is_closed:
        return
    found = losses_in(view, lost, now)
    after = {pool: fuse for pool, (fuse, _) in changed_fuses.items()}
    counts = {pool: counted for pool, (_, counted) in changed_fuses.items()}
    fuses = [(view.fuses, dict[str, FuseCounts]()), (after, counts)]
    incidents = await context.incidents.revise(
        installation.id, lambda known: observed(known, found, runners, fuses, now), now
    )
    await _mark(context, installation, lost, found, incidents)


async def record_deleted(
    context: JobContext, installation: Installation, deleted: Sequence[Evidence], now: float
) -> None:
    """Ends the losses of runners whose records are deleted next."""
    lost = [each for each in deleted if is_unrecorded(each)]
    if not lost:
        return
    view = await context.org_view(installation)
    found = [
        each._replace(end=LossEnd.AGED_OUT, ended_at=now) if each.is_open else each
        for each in losses_in(view, lost, now)
    ]
    await context.incidents.revise(installation.id, lambda known: with_losses(known, found), now)


async def _mark(
    context: JobContext,
    installation: Installation,
    lost: Sequence[Evidence],
    found: Sequence[RunnerLoss],
    incidents: IncidentsById,
) -> None:
    """Marks the losses that need no more recording: past ones, and those that ended in an incident that is over."""
    places, ended = places_of(incidents, found), dict[int, str]()
    for loss in found:
        place = places.get(loss)
        if not loss.is_open and (place is None or not place.is_open):
            ended[loss.runner_id] = "" if place is None else place.id
    folds = {
        each.id: partial(_marked, seen=each, incident=ended.get(each.id))
        for each in lost
        if each.past_loss is not None or each.id in ended
    }
    await context.runners.revise(installation.id, folds, {each.id: each for each in lost})


def _marked(known: Evidence | None, seen: Evidence, incident: str | None) -> Evidence | None:
    """Marks a record only if it still shows what was recorded: the runner may have been lost once more."""
    if known is None:
        return None
    if seen.past_loss is not None and known.past_loss == seen.past_loss:
        known = known._replace(past_loss=None)
    present = (seen.confirmed_at, seen.removed_at, seen.successor)
    if incident is None or present != (known.confirmed_at, known.removed_at, known.successor):
        return known
    return known._replace(incident=incident) if _has_loss(known) and known.incident is None else known


def _has_loss(evidence: Evidence) -> bool:
    return evidence.confirmed_at is not None or evidence.removed_at is not None
