"""Determines which shard of a pool is active, from several sources that may disagree.

A source without an answer, or that failed, is shown and contradicts no other source. If two sources disagree, the role
is unknown, and the only safe step is to stop. Shards are compared in lower case, as GitHub compares labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ghapp.gate.terraform_log import TerraformRun
from ghapp.wording import counted

CONFIGURED, GITHUB, DEPLOY = "the configuration", "GitHub", "the last deploy"
"""Names of the three sources in messages."""

ACTIVE_SECONDS = 600.0
"""A shard that took a job within this time counts as active."""

ANSWER_SECONDS = 300.0
"""How long an answer of a pool's command or URL is valid."""

MOST_DEPLOYS = 8
"""Maximum shards of a pool whose last deploy is stored."""

MOST_CANARIES = 5
"""More jobs than this within `ACTIVE_SECONDS` are users' jobs, not canaries."""


class Role(StrEnum):
    """The current role of a shard."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    UNKNOWN = "unknown"


class Deploy(NamedTuple):
    """The last reported deploy of a shard. Fields are only ever appended. Times are epoch seconds.

    Attributes:
        role: `active` or `inactive`.
        deployed_at: time of the deploy, as the reporter has it.
        reported_at: when it was last reported.
        ref: the deployed commit or tag; empty if not reported.
        by: name of the reporter's token.
        first_reported_at: when this deploy was first reported, by our own clock: a list of runners that was begun
            before proves nothing about this deploy. 0 in records of an older release.
        failures: number of deploys of this shard, in a row before this one, that failed.
        passed_at: when the gate first passed after this deploy; None if it has not.
        failed_at: when this deploy was first found failing: by its provisioning, or by the gate once its runners had
            the time to start. A deploy that passed later did not fail.
        provision: result of its provisioning; None if not reported.
    """

    shard: str
    role: Role
    deployed_at: float
    reported_at: float
    ref: str = ""
    by: str = ""
    first_reported_at: float = 0.0
    failures: int = 0
    passed_at: float | None = None
    failed_at: float | None = None
    provision: TerraformRun | None = None


class ActiveShardAnswer(NamedTuple):
    """Answer of a pool's command or URL, and its time. If it failed, `shard` is empty and `failure` is the cause."""

    shard: str
    failure: str
    at: float


class SourceStatement(NamedTuple):
    """Statement of one source: the active shard (None: no answer), and inactive shards."""

    source: str
    active: str | None
    text: str
    inactive: frozenset[str] = frozenset()

    @property
    def is_silent(self) -> bool:
        """True if the source names no shard at all."""
        return self.active is None and not self.inactive


@dataclass(frozen=True, slots=True)
class ShardRole:
    """The role of one shard according to all sources.

    Attributes:
        role: unknown if the sources disagree or have no answer.
        active: the active shard, in lower case; None if unknown or disputed.
        disagree: True if the sources disagree.
        text: the statements of all sources.
    """

    role: Role
    active: str | None
    disagree: bool
    text: str


def with_deploy(deploys: Sequence[Deploy], deploy: Deploy) -> tuple[Deploy, ...]:
    """Adds a deploy in place of its shard's last one, in the order of reporting, independent of clocks.

    At the limit, the oldest deploy is dropped, but never the one that names the active shard.
    """
    kept = [*(each for each in deploys if each.shard != deploy.shard), deploy]
    active = next((each for each in reversed(kept) if each.role is Role.ACTIVE), None)
    while len(kept) > MOST_DEPLOYS:
        kept.remove(next(each for each in kept if each is not active))
    return tuple(kept)


def last_deploy(deploys: Sequence[Deploy], shard: str) -> Deploy | None:
    """Returns the last deploy of a shard, in lower case."""
    return next((each for each in deploys if each.shard == shard), None)


def switched_at(deploys: Sequence[Deploy], now: float) -> float | None:
    """Returns when a deploy last named the active shard: jobs taken before that do not contradict it.

    None if no deploy named it, or if a clock that jumped wrote a future time.
    """
    at = next((each.reported_at for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    return at if at is not None and at <= now else None


def deploys_state(deploys: Sequence[Deploy]) -> SourceStatement:
    """Returns the statement of the deploys: the last one that named an active shard decides."""
    active = next((each.shard for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    inactive = frozenset(each.shard for each in deploys if each.role is Role.INACTIVE)
    if active is None and not inactive:
        return SourceStatement(DEPLOY, None, "no deploy was reported that would name it")
    parts = [] if active is None else [f"{active} is active"]
    parts += [f"{shard} is inactive" for shard in sorted(inactive)]
    return SourceStatement(DEPLOY, active, f"{DEPLOY} says that {' and '.join(parts)}", inactive)


def answer_states(source: str, answer: ActiveShardAnswer | None, now: float) -> SourceStatement:
    """Returns the statement of a pool's `active_command` or `active_url`; `source` names which one."""
    if answer is None or not -ANSWER_SECONDS <= now - answer.at <= ANSWER_SECONDS:
        why = f"{source} has not answered for {_minutes()}"
        return SourceStatement(CONFIGURED, None, f"{CONFIGURED} has no answer: {why}")
    if not answer.shard:
        return SourceStatement(CONFIGURED, None, f"{CONFIGURED} has no answer: {source} failed, {answer.failure}")
    shard = answer.shard.lower()
    return SourceStatement(CONFIGURED, shard, f"{CONFIGURED} says that {shard} is active ({source})")


def jobs_state(taken: Mapping[str, int], canary: str | None) -> SourceStatement:
    """Returns GitHub's statement: the shard that takes jobs.

    Args:
        taken: number of jobs each shard took lately; shards without jobs may be missing.
        canary: the shard that gets canary jobs: up to `MOST_CANARIES` jobs do not make it active.
    """
    excused = canary if taken.get(canary or "", 0) <= MOST_CANARIES else None
    at_work = {shard: count for shard, count in taken.items() if count and shard != excused}
    if len(at_work) == 1:
        ((shard, count),) = at_work.items()
        return SourceStatement(GITHUB, shard, f"{GITHUB} assigned {counted(count, 'job')} to {shard} lately")
    if at_work:
        both = " and ".join(sorted(at_work))
        return SourceStatement(GITHUB, None, f"{GITHUB} has no answer: it assigns jobs to {both} at once")
    why = f"only {canary}, which gets canaries, took a job lately" if taken.get(canary or "") else "no jobs"
    return SourceStatement(GITHUB, None, f"{GITHUB} has no answer: {why}")


def shard_role(shard: str, statements: Sequence[SourceStatement]) -> ShardRole:
    """Combines the statements on a shard, in lower case."""
    text = "; ".join(each.text for each in sorted(statements, key=lambda each: each.is_silent))
    named = {each.active for each in statements if each.active is not None}
    denied = frozenset[str]().union(*(each.inactive for each in statements))
    if len(named) > 1 or named & denied:
        return ShardRole(Role.UNKNOWN, None, disagree=True, text=text)
    active = next(iter(named), None)
    if active is not None:
        return ShardRole(Role.ACTIVE if active == shard else Role.INACTIVE, active, disagree=False, text=text)
    return ShardRole(Role.INACTIVE if shard in denied else Role.UNKNOWN, None, disagree=False, text=text)


def _minutes() -> str:
    return f"{ANSWER_SECONDS / 60:.0f} minutes"
