"""Judges whether users' jobs are affected, from the state of the active shard."""

from __future__ import annotations

from collections.abc import Mapping

from ghapp.health.gate.active_shard import counted
from ghapp.health.gate.next_steps import UserImpact
from ghapp.health.gate.shard_status import ShardInputs, ShardStatus, waiting

TWO_MINUTES = 120
LATELY = "in the last 10 minutes"


def user_impact(active: str | None, shards: Mapping[str, ShardStatus], known: ShardInputs, now: float) -> UserImpact:
    """Returns the impact on users at `now`; `active` is the active shard in lower case, None if it is unknown."""
    wait = waiting(known, active, now)
    queue = f"{counted(len(wait), 'waiting job')}, the oldest for {_for(now - wait[0].queued_at)}" if wait else ""
    if active is None:
        why = "the active shard is unknown"
        return UserImpact(None, f"the impact on users is unknown: {why}{'; ' + queue if queue else ''}")
    status = shards.get(active) or ShardStatus(active)
    taken, online = status.taken_lately(now), len(status.online)
    has = f"the active shard {active} has"
    if active not in shards:
        others = ", ".join(sorted(shards)) or "no shard"
        text = f"no runner of the active shard {active} is known, only of {others}; {queue or 'no job waits'}"
        return UserImpact(hurt=True, said=f"{text}: an outage, or the name is wrong")
    if not online:
        before = f"; it took {counted(taken, 'job')} {LATELY}" if taken else ""
        return UserImpact(hurt=True, said=f"{has} no runner online{before}{'; ' + queue if queue else ''}: an outage")
    if taken and not (wait and status.idle and not status.taken(wait[0].queued_at, now)):
        return UserImpact(hurt=False, said=f"{has} taken {counted(taken, 'job')} {LATELY}; no outage")
    if wait and status.idle:
        idle = counted(status.idle, "idle runner")
        return UserImpact(hurt=True, said=f"{has} {idle} online and takes no jobs; {queue}: users are affected")
    if wait:
        return UserImpact(hurt=False, said=f"{has} {counted(online, 'runner')} online, all busy; {queue}; no outage")
    return UserImpact(hurt=False, said=f"{has} {counted(online, 'runner')} online, and no job waits; no outage")


def _for(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < TWO_MINUTES else f"{seconds / 60:.0f} minutes"
