"""How many runners remain lost after a sweep, and what happens next to them: by pool and status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ghapp.remediation.status import ReplacementStage, ReplacementStatus
from ghapp.report.fleet import PoolView
from ghapp.report.loss_headlines import blocker_text
from ghapp.untrusted_text import one_line
from ghapp.wording import counted

MOST_LISTED = 20
"""Pools and statuses that are listed; the runners of others are in the total alone."""

MOST_IN_WORDS = 3
LONGEST_TEXT = 200


class RemainingLoss(NamedTuple):
    """Lost runners of one pool with one status. Fields are only ever appended.

    Attributes:
        pool: the pool's name.
        runners: how many.
        status: of their `remediation`.
        blocked_by: of their `remediation`; empty if nothing blocks them.
        text: what happens next to each of them.
    """

    pool: str
    runners: int
    status: str
    blocked_by: str
    text: str


class RemainingLosses(NamedTuple):
    """The lost runners of an organization. Fields are only ever appended.

    Attributes:
        runners: how many are lost, and neither healed nor over.
        groups: those that wait for a person first, then by number; at most `MOST_LISTED`.
    """

    runners: int = 0
    groups: tuple[RemainingLoss, ...] = ()

    @property
    def in_words(self) -> str:
        """A part of a sentence; empty if no runner is lost."""
        if not self.runners:
            return ""
        parts = [
            f"{each.runners:,} of {each.pool} {each.status}{f' ({each.text})' if each.text else ''}"
            for each in self.groups[:MOST_IN_WORDS]
        ]
        if rest := self.runners - sum(each.runners for each in self.groups[:MOST_IN_WORDS]):
            parts.append(f"{rest:,} more")
        return (
            f"{counted(self.runners, 'runner')} {'remains' if self.runners == 1 else 'remain'} lost: {', '.join(parts)}"
        )


def remaining_losses(pools: Sequence[PoolView]) -> RemainingLosses:
    """Returns the lost runners of these pools, and what happens next to them."""
    alike: dict[tuple[str, ReplacementStage, str], list[ReplacementStatus]] = {}
    for pool in pools:
        for runner in pool.lost:
            status = runner.replacement
            alike.setdefault((pool.name, status.stage, status.blocked_by or ""), []).append(status)
    ordered = sorted(
        alike.items(), key=lambda each: (not any(one.is_stopped for one in each[1]), -len(each[1]), each[0])
    )
    groups = tuple(
        RemainingLoss(pool, len(several), stage.value, str(blocked_by), one_line(blocker_text(several), LONGEST_TEXT))
        for (pool, stage, blocked_by), several in ordered[:MOST_LISTED]
    )
    return RemainingLosses(sum(map(len, alike.values())), groups)
