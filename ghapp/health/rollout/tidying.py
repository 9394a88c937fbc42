"""What is left to do when a shard passes."""

from __future__ import annotations

from collections.abc import Mapping

from ghapp.health.rollout.active import Role, Ruling, counted
from ghapp.health.rollout.ladder import Rung, Step, warning
from ghapp.health.rollout.shardstanding import Standing


def tidy(shard: str, ruling: Ruling, shards: Mapping[str, Standing], taken: Mapping[str, int]) -> list[Step]:
    """The active shard is not touched before another is active.

    Args:
        shard: which passes, in lower case.
        ruling: which one is active.
        shards: every shard of which anything is known.
        taken: how many jobs each took lately.
    """
    spare = [] if ruling.active is None else sorted(shards.keys() - {shard, ruling.active})
    left = [shards[name] for name in spare if shards[name].is_there]
    todo = [
        Step(
            f"drain {each.shard}, then stop it",
            "two colours that live at once cost money and confuse whoever looks next. "
            + _still(taken.get(each.shard, 0))
            + warning(each.running.values(), f"stopping {each.shard} now"),
            Rung.CLEAN_UP,
            each.shard,
        )
        for each in left
    ]
    if ruling.role is Role.ACTIVE:
        return todo
    of = f" in place of {ruling.active}" if ruling.active else ""
    why = "it passes. Ask the gate again when it is active: then it says what is to be tidied away"
    return [Step(f"make {shard} active{of}", why), *todo]


def _still(taken: int) -> str:
    if not taken:
        return ""
    return f"It has taken {counted(taken, 'job')} lately: see first that none come to it. "
