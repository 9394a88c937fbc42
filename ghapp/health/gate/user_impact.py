"""Whether the people are hurt who wait for their jobs, as far as the active shard tells."""

from __future__ import annotations

from collections.abc import Mapping

from ghapp.health.gate.active_shard import counted
from ghapp.health.gate.next_steps import UserImpact
from ghapp.health.gate.shard_status import ShardInputs, ShardStatus, waiting

TWO_MINUTES = 120
LATELY = "in the last 10 minutes"


def user_impact(active: str | None, shards: Mapping[str, ShardStatus], known: ShardInputs, now: float) -> UserImpact:
    """What the active shard (in lower case; None: nobody says which) does for them at `now`."""
    wait = waiting(known, active, now)
    queue = f"{counted(len(wait), 'waiting job')}, the oldest for {_for(now - wait[0].queued_at)}" if wait else ""
    if active is None:
        why = "which shard is active is not known"
        return UserImpact(None, f"whether users are hurt cannot be said: {why}{'; ' + queue if queue else ''}")
    standing = shards.get(active) or ShardStatus(active)
    taken, online = standing.taken_lately(now), len(standing.online)
    has = f"the active shard {active} has"
    if active not in shards:
        others = ", ".join(sorted(shards)) or "none"
        said = f"no runner of the active shard {active} is known, only of {others}; {queue or 'no job waits'}"
        return UserImpact(hurt=True, said=f"{said}: an outage, or another name is meant")
    if not online:
        before = f"; it took {counted(taken, 'job')} {LATELY}" if taken else ""
        return UserImpact(hurt=True, said=f"{has} no runner online{before}{'; ' + queue if queue else ''}: an outage")
    if taken and not (wait and standing.idle and not standing.taken(wait[0].queued_at, now)):
        return UserImpact(hurt=False, said=f"{has} taken {counted(taken, 'job')} {LATELY}; no outage")
    if wait and standing.idle:
        idle = counted(standing.idle, "idle runner")
        return UserImpact(hurt=True, said=f"{has} {idle} online and takes no jobs; {queue}: users are hurt")
    if wait:
        return UserImpact(hurt=False, said=f"{has} {counted(online, 'runner')} online, all at work; {queue}; no outage")
    return UserImpact(hurt=False, said=f"{has} {counted(online, 'runner')} online, and no job waits; no outage")


def _for(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < TWO_MINUTES else f"{seconds / 60:.0f} minutes"
