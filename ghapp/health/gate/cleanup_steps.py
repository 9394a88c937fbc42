"""What is left to do when a shard passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ghapp.health.gate.active_shard import MOST_CANARIES, Deploy, Role, ShardRole, counted
from ghapp.health.gate.next_steps import NextStep, StepLevel, warning
from ghapp.health.gate.shard_status import ShardStatus


def cleanup_steps(
    shard: str,
    ruling: ShardRole,
    shards: Mapping[str, ShardStatus],
    taken: Mapping[str, int],
    deploys: Sequence[Deploy] = (),
) -> list[NextStep]:
    """The active shard is not touched before another is active, and a standby is not stopped before a switch.

    Asked about the active shard, another one is left over from a switch only when that is known: it took jobs before
    the switch that was reported last, or its own last deploy was reported before that; where no switch was reported, it
    has taken more jobs than canaries are. Else it may be the standby.

    Args:
        shard: which passes, in lower case.
        ruling: which one is active.
        shards: every shard of which anything is known.
        taken: how many jobs each took lately.
        deploys: the last one reported of each shard, in the order of reporting.
    """
    spare = [] if ruling.active is None else sorted(shards.keys() - {shard, ruling.active})
    left = [shards[name] for name in spare if shards[name].is_there]
    if ruling.role is Role.ACTIVE:
        standby = [each for each in left if not _is_left_over(each, ruling, taken, deploys)]
        left = [each for each in left if each not in standby]
    else:
        standby = []
    todo = [_ask_about(each, ruling) for each in standby]
    todo += [
        NextStep(
            f"drain {each.shard}, then stop it",
            "two colours that live at once cost money and confuse whoever looks next. "
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
    why = "it passes. Ask the gate again when it is active: then it says what is to be tidied away"
    return [NextStep(f"make {shard} active{of}", why), *todo]


def _is_left_over(
    standing: ShardStatus, ruling: ShardRole, taken: Mapping[str, int], deploys: Sequence[Deploy]
) -> bool:
    order = [each.shard for each in deploys]  # that of reporting, whatever clocks say
    switch = next((each for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    if switch is None or switch.shard != ruling.active:
        return taken.get(standing.shard, 0) > MOST_CANARIES
    if any(at < switch.told_at for at in standing.starts.values()):
        return True
    return standing.shard in order and order.index(standing.shard) < order.index(switch.shard)


def _ask_about(standing: ShardStatus, ruling: ShardRole) -> NextStep:
    name = standing.shard
    why = f"no switch from {name} to {ruling.active} was reported since {name} was deployed, so it may be the standby "
    why += f"that takes over next: leave it as it is. If {name} is left over from a switch, report that (PUT …/shards)"
    return NextStep(f"ask the gate about {name}", why)


def _still(taken: int) -> str:
    if not taken:
        return ""
    return f"It has taken {counted(taken, 'job')} lately: see first that none come to it. "
