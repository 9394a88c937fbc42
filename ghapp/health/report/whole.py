"""The whole report: title, colour and buttons, and its sections one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ghapp.health.fuse import Position
from ghapp.health.report.clusterside import cluster_text
from ghapp.health.report.fleet import Fleet, Pool, by_pool
from ghapp.health.report.pools import summary_of
from ghapp.health.report.runners import TOLD, runners_text
from ghapp.health.report.said import LONGEST, RESUME, SWEEP, Conclusion, Report
from ghapp.health.verdict import State


def report_on(fleet: Fleet, now: float) -> Report:
    """What is to be said of a fleet at `now` (epoch seconds)."""
    pools = by_pool(fleet, now)
    stoppable = fleet.org_pause is not None or any(
        pool.pause is not None or pool.fuse.position is Position.STOPPED for pool in pools
    )
    return Report(
        title=_title(fleet, pools),
        summary=summary_of(fleet, pools),
        text=_text(fleet, pools),
        conclusion=_conclusion(fleet, pools, now),
        actions=(SWEEP, RESUME) if stoppable else (SWEEP,),
    )


def _conclusion(fleet: Fleet, pools: Sequence[Pool], now: float) -> Conclusion:
    swept_at = fleet.survey.swept_at
    stale = swept_at is None or now - swept_at > fleet.limits.stale_seconds
    blind = stale and fleet.survey.failing_since is not None
    if blind or any(pool.waits_for_a_person for pool in pools):
        return Conclusion.ACTION_REQUIRED
    well = not stale and fleet.org_pause is None and all(pool.is_well for pool in pools) and not fleet.phantoms
    return Conclusion.SUCCESS if well else Conclusion.NEUTRAL


def _title(fleet: Fleet, pools: Sequence[Pool]) -> str:
    if fleet.survey.swept_at is None:
        return "Not looked at yet" if fleet.survey.failing_since is None else "Nothing can be seen"
    count = sum((pool.count for pool in pools), Counter[State]())
    total = count.total()
    replaced = count[State.INVALIDATED] - sum(each.lost for pool in pools for each in pool.members)
    said = [f"{count[state]} {state}" for state in (*TOLD, State.UNKNOWN) if count[state]]
    if replaced:
        said[0] += f" ({replaced} replaced)"
    if not said and total:
        said = [f"{count[State.HEALTHY]} healthy"]
        said += [f"{count[State.STARTING]} starting"] if count[State.STARTING] else []
    runners = "runner" if total == 1 else "runners"
    first = said[0].replace(" ", f" of {total} {runners} ", 1) if said else "No runners"
    positions = {pool.fuse.position for pool in pools}
    turned = [f"fuse {each}" for each in (Position.STOPPED, Position.PROVING) if each in positions]
    paused = ["paused"] if any(pool.pause is not None for pool in pools) else []
    phantoms = [f"{len(fleet.phantoms)} phantom{'s' if len(fleet.phantoms) > 1 else ''}"] if fleet.phantoms else []
    return ", ".join((first, *said[1:], *phantoms, *turned, *paused))


def _text(fleet: Fleet, pools: Sequence[Pool]) -> str:
    cluster = cluster_text(fleet)
    after = f"\n\n{cluster}" if cluster else ""
    return runners_text(fleet, pools, LONGEST - len(after)) + after
