"""Lists what is left to do when a shard passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ghapp.gate.active_shard import MOST_CANARIES, Deploy, Role, ShardRole, counted
from ghapp.gate.next_steps import NextStep, StepLevel, warning
from ghapp.gate.shard_status import ShardStatus


def cleanup_steps(
    shard: str,
    ruling: ShardRole,
    shards: Mapping[str, ShardStatus],
    taken: Mapping[str, int],
    deploys: Sequence[Deploy] = (),
) -> list[NextStep]:
    """Returns the steps: no change to the active shard before a switch, and no stop of a standby before a switch.

    If the passing shard is active, another shard counts as left over from a switch only on evidence: it took jobs
    before the last reported switch, or its own last deploy was reported before that switch; without a reported switch,
    it took more jobs than canaries would. Otherwise it may be the standby.

    Args:
        shard: the passing shard, in lower case.
        ruling: the active shard.
        shards: all known shards.
        taken: number of jobs each shard took lately.
        deploys: the last reported deploy of each shard, in the order of reporting.
    """
    others = [] if ruling.active is None else sorted(shards.keys() - {shard, ruling.active})
    left = [shards[name] for name in others if shards[name].is_there]
    if ruling.role is Role.ACTIVE:
        standby = [each for each in left if not _is_left_over(each, ruling, taken, deploys)]
        left = [each for each in left if each not in standby]
    else:
        standby = []
    todo = [_ask_about(each, ruling) for each in standby]
    todo += [
        NextStep(
            f"drain {each.shard}, then stop it",
            "two live shards cost money and cause confusion. "
            + _still(taken.get(each.shard, 0))
            + warning(each.running.values(), f"stopping {each.shard} now"),
            StepLevel.CLEAN_UP,
            each.shard,
        )
        for each in left
    ]
    if ruling.role is Role.ACTIVE:
        return todo
    of = f" in place of {ruling.active}" if ruling.active else ""
    why = "it passes. Run the gate again once it is active: then it lists what is left to clean up"
    return [NextStep(f"make {shard} active{of}", why), *todo]


def _is_left_over(status: ShardStatus, ruling: ShardRole, taken: Mapping[str, int], deploys: Sequence[Deploy]) -> bool:
    order = [each.shard for each in deploys]  # the order of reporting, independent of clocks
    switch = next((each for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    if switch is None or switch.shard != ruling.active:
        return taken.get(status.shard, 0) > MOST_CANARIES
    if any(at < switch.reported_at for at in status.starts.values()):
        return True
    return status.shard in order and order.index(status.shard) < order.index(switch.shard)


def _ask_about(status: ShardStatus, ruling: ShardRole) -> NextStep:
    name = status.shard
    why = f"no switch from {name} to {ruling.active} was reported since {name} was deployed, so it may be the standby "
    why += f"that takes over next: keep it. If {name} is left over from a switch, report the switch (PUT …/shards)"
    return NextStep(f"run the gate for {name}", why)


def _still(taken: int) -> str:
    if not taken:
        return ""
    return f"It took {counted(taken, 'job')} lately: first make sure that it gets no more. "
