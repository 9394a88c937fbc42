"""Renders the whole report: title, conclusion, buttons, and all sections in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ghapp.health.remediation.fuse import Position
from ghapp.health.runner.verdict import State
from ghapp.report.check_run import LONGEST, SWEEP, Conclusion, Report, digest_of, resume_of
from ghapp.report.cluster_section import cluster_text
from ghapp.report.fleet import FleetView, PoolView, by_pool
from ghapp.report.pools_section import as_of, summary_of, urgent_of
from ghapp.report.queue_section import queue_table, unserved_text
from ghapp.report.runners_section import LISTED_STATES, healed_text, runners_text


def report_on(fleet: FleetView, now: float) -> Report:
    """Renders the report on a fleet as of `now` (epoch seconds)."""
    pools = by_pool(fleet, now)
    title = _title(fleet, pools)
    is_stopped = Position.STOPPED in _positions(fleet, pools)
    begin, jobs, text = as_of(fleet, now, title), queue_table(fleet, now), _text(fleet, pools)
    conclusion = _conclusion(fleet, pools, now)
    actions = (SWEEP, resume_of(_stopped_at(fleet, pools))) if is_stopped else (SWEEP,)
    return Report(
        title=title,
        summary=summary_of(fleet, pools, now, begin, LONGEST - len(jobs)) + jobs,
        text=text,
        conclusion=conclusion,
        actions=actions,
        as_of=begin,
        volatile=jobs,
        urgent=digest_of(text, conclusion, actions, *urgent_of(fleet, pools, now)),
    )


def _stopped_at(fleet: FleetView, pools: Sequence[PoolView]) -> float:
    """Returns the time of the latest stop (epoch seconds); 0.0 if no fuse is stopped."""
    fuses = [each for each in (fleet.whole_fuse, *(pool.fuse for pool in pools)) if each.position is Position.STOPPED]
    return max((each.stopped_at or each.since or 0.0 for each in fuses), default=0.0)


def _positions(fleet: FleetView, pools: Sequence[PoolView]) -> set[Position]:
    return {fleet.whole_fuse.position, *(pool.fuse.position for pool in pools)}


def _conclusion(fleet: FleetView, pools: Sequence[PoolView], now: float) -> Conclusion:
    stale = fleet.is_stale(now)
    blind = stale and fleet.survey.failing_since is not None
    whole = fleet.whole_fuse.position
    if blind or whole is Position.STOPPED or any(pool.waits_for_a_person for pool in pools):
        return Conclusion.ACTION_REQUIRED
    untouched = whole is Position.CLOSED and fleet.org_pause is None
    is_seen = not fleet.unseen and not fleet.degraded_sources
    well = not stale and untouched and is_seen and all(pool.is_well for pool in pools) and not fleet.phantoms
    return Conclusion.SUCCESS if well else Conclusion.NEUTRAL


def _title(fleet: FleetView, pools: Sequence[PoolView]) -> str:
    if fleet.survey.swept_at is None:
        return "No sweep yet" if fleet.survey.failing_since is None else "No list of runners could be read"
    count = sum((pool.count for pool in pools), Counter[State]())
    total = count.total()
    counts = [f"{count[state]} {state}" for state in (*LISTED_STATES, State.UNKNOWN) if count[state]]
    if not counts and total:
        counts = [f"{count[State.HEALTHY]} healthy"]
        counts += [f"{count[State.STARTING]} starting"] if count[State.STARTING] else []
    runners = "runner" if total == 1 else "runners"
    first = counts[0].replace(" ", f" of {total} {runners} ", 1) if counts else "No runners"
    positions = _positions(fleet, pools)
    fuses = [f"fuse {each}" for each in (Position.STOPPED, Position.PROVING) if each in positions]
    is_paused = fleet.org_pause is not None or any(pool.pause is not None for pool in pools)
    paused = ["paused"] if is_paused else []
    unserved = [f"{len(fleet.unserved)} unserved job{'s' if len(fleet.unserved) > 1 else ''}"] if fleet.unserved else []
    phantoms = [f"{len(fleet.phantoms)} phantom{'s' if len(fleet.phantoms) > 1 else ''}"] if fleet.phantoms else []
    return ", ".join((first, *counts[1:], *phantoms, *unserved, *fuses, *paused))


def _text(fleet: FleetView, pools: Sequence[PoolView]) -> str:
    after = "".join(f"\n\n{part}" for part in (unserved_text(fleet), healed_text(pools), cluster_text(fleet)) if part)
    return runners_text(fleet, pools, LONGEST - len(after)) + after
