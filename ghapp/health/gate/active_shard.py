"""Which shard of a pool is active, by the word of several sources that need not agree.

A source that is silent, or failed, says so and contradicts nobody. Two that contradict each other leave the role
unknown: then the only safe thing is to stop. Shards are compared in lower case, as GitHub compares labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

CONFIGURED, GITHUB, DEPLOY = "the configuration", "GitHub", "the last deploy"
"""The three sources, as sentences name them."""

ACTIVE_SECONDS = 600.0
"""A shard that has taken a job within these minutes is taken for active."""

ANSWER_SECONDS = 300.0
"""What a pool's command or URL has answered holds for so long."""

MOST_DEPLOYS = 8
"""Shards whose last deploy is remembered, of one pool."""

MOST_CANARIES = 5
"""More jobs than this within these minutes are no canaries any more: they are users'."""


class Role(StrEnum):
    """What a shard is for just now."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    UNKNOWN = "unknown"


class Deploy(NamedTuple):
    """What the last deploy of a shard said. Fields are only ever appended. Times are epoch seconds.

    Attributes:
        role: `active` or `inactive`.
        deployed_at: when it was deployed, by whoever deployed it.
        told_at: when we were told.
        ref: what was deployed: a commit, a tag; empty when nobody says.
        by: whose token it was.
        first_told_at: when we were first told of this deploy, by our own clock: a list of runners that was begun
            before says nothing of it. 0 in records of an older release.
    """

    shard: str
    role: Role
    deployed_at: float
    told_at: float
    ref: str = ""
    by: str = ""
    first_told_at: float = 0.0


class ActiveShardAnswer(NamedTuple):
    """What a pool's command or URL said, and when. `shard` is empty when it failed, and `failure` says why."""

    shard: str
    failure: str
    at: float


class SourceStatement(NamedTuple):
    """What one source says: which shard is active (None: it does not say), and which are not."""

    source: str
    active: str | None
    said: str
    inactive: frozenset[str] = frozenset()

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing of any shard."""
        return self.active is None and not self.inactive


@dataclass(frozen=True, slots=True)
class ShardRole:
    """What all sources together say of one shard.

    Attributes:
        role: unknown when they contradict each other, or all are silent.
        active: the shard that is active, in lower case; None when nobody says, or they do not agree.
        disagree: whether they contradict each other.
        said: who says what.
    """

    role: Role
    active: str | None
    disagree: bool
    said: str


def with_deploy(deploys: Sequence[Deploy], deploy: Deploy) -> tuple[Deploy, ...]:
    """One more deploy, in place of its shard's last one. The order is that of telling, whatever clocks say.

    Where there is no room the oldest goes, but never the word for which shard is active.
    """
    kept = [*(each for each in deploys if each.shard != deploy.shard), deploy]
    active = next((each for each in reversed(kept) if each.role is Role.ACTIVE), None)
    while len(kept) > MOST_DEPLOYS:
        kept.remove(next(each for each in kept if each is not active))
    return tuple(kept)


def last_deploy(deploys: Sequence[Deploy], shard: str) -> Deploy | None:
    """The last deploy of a shard, in lower case."""
    return next((each for each in deploys if each.shard == shard), None)


def switched_at(deploys: Sequence[Deploy], now: float) -> float | None:
    """When a deploy last said which shard is active: jobs taken before say nothing against it.

    None when none did, or when a clock that had jumped wrote a time to come.
    """
    at = next((each.told_at for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    return at if at is not None and at <= now else None


def deploys_state(deploys: Sequence[Deploy]) -> SourceStatement:
    """What deploys say: of those that called a shard active, the last one holds."""
    active = next((each.shard for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    inactive = frozenset(each.shard for each in deploys if each.role is Role.INACTIVE)
    if active is None and not inactive:
        return SourceStatement(DEPLOY, None, f"{DEPLOY} is silent: nobody has told of any")
    parts = [] if active is None else [f"{active} is active"]
    parts += [f"{shard} is inactive" for shard in sorted(inactive)]
    return SourceStatement(DEPLOY, active, f"{DEPLOY} says that {' and '.join(parts)}", inactive)


def answer_states(source: str, answer: ActiveShardAnswer | None, now: float) -> SourceStatement:
    """What a pool's `active_command` or `active_url` says; `source` is which of them it is."""
    if answer is None or not -ANSWER_SECONDS <= now - answer.at <= ANSWER_SECONDS:
        return SourceStatement(CONFIGURED, None, f"{CONFIGURED} is silent: {source} has not answered for {_minutes()}")
    if not answer.shard:
        return SourceStatement(CONFIGURED, None, f"{CONFIGURED} is silent: {source} failed, {answer.failure}")
    shard = answer.shard.lower()
    return SourceStatement(CONFIGURED, shard, f"{CONFIGURED} says that {shard} is active ({source})")


def jobs_state(taken: Mapping[str, int], canary: str | None) -> SourceStatement:
    """What GitHub says: which shard has taken jobs.

    Args:
        taken: how many jobs each shard took lately; a shard that took none may be left out.
        canary: the shard that canary jobs are sent to: as many jobs as those are do not make it active.
    """
    excused = canary if taken.get(canary or "", 0) <= MOST_CANARIES else None
    at_work = {shard: count for shard, count in taken.items() if count and shard != excused}
    if len(at_work) == 1:
        ((shard, count),) = at_work.items()
        return SourceStatement(GITHUB, shard, f"{GITHUB} has given {shard} {counted(count, 'job')} lately")
    if at_work:
        both = " and ".join(sorted(at_work))
        return SourceStatement(GITHUB, None, f"{GITHUB} is silent: it gives jobs to {both} at once")
    why = f"none but {canary}, where canaries go, has taken a job lately" if taken.get(canary or "") else "no jobs"
    return SourceStatement(GITHUB, None, f"{GITHUB} is silent: {why}")


def shard_role(shard: str, words: Sequence[SourceStatement]) -> ShardRole:
    """What the sources together say of a shard, in lower case."""
    said = "; ".join(word.said for word in sorted(words, key=lambda word: word.is_silent))
    named = {word.active for word in words if word.active is not None}
    denied = frozenset[str]().union(*(word.inactive for word in words))
    if len(named) > 1 or named & denied:
        return ShardRole(Role.UNKNOWN, None, disagree=True, said=said)
    active = next(iter(named), None)
    if active is not None:
        return ShardRole(Role.ACTIVE if active == shard else Role.INACTIVE, active, disagree=False, said=said)
    return ShardRole(Role.INACTIVE if shard in denied else Role.UNKNOWN, None, disagree=False, said=said)


def counted(count: int, what: str) -> str:
    """A number and its noun."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _minutes() -> str:
    return f"{ANSWER_SECONDS / 60:.0f} minutes"
