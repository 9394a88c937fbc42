"""What the gate looks at, one thing after another. Each check says what it saw, whether it passed or not."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from ghapp.health.gate import next_steps
from ghapp.health.gate.active_shard import Deploy, Role, ShardRole, counted
from ghapp.health.gate.shard_status import ShardStatus, causes
from ghapp.health.runner.evidence import Survey
from ghapp.health.runner.observations import OVERTAKING_SECONDS
from ghapp.health.runner.verdict import Limits, why_stale

SINCE_DEPLOY = "since-deploy"

LOOP_DEATHS = 3
"""So many deaths within minutes are a loop …"""

LOOP_SHARE = 0.1
"""… or this share of what is online, where that is more."""


class Check(NamedTuple):
    """One thing that was looked at. `decides` is false for what is only said."""

    name: str
    passed: bool
    said: str
    decides: bool = True


def github(survey: Survey, limits: Limits, now: float) -> Check:
    """Whether what is known is new enough to decide on. A list from the future is no list of now."""
    age = None if survey.swept_at is None else now - survey.swept_at
    seen = "it has never listed the runners" if age is None else f"it listed the runners {max(age, 0.0):.0f} s ago"
    is_fresh = age is not None and -OVERTAKING_SECONDS <= age <= limits.stale_seconds
    if survey.failing_since is None and is_fresh:
        return Check("github", passed=True, said=seen)
    return Check("github", passed=False, said=f"{why_stale(survey).value}: {seen}, and no complete list has come since")


def since_deploy(survey: Survey, deploy: Deploy) -> Check:
    """Whether the last list of runners was begun since we were told of the deploy: others show what was before."""
    of = f"the deploy of {deploy.ref or deploy.shard}"
    if survey.swept_at is not None and survey.swept_at >= deploy.first_told_at:
        return Check(SINCE_DEPLOY, passed=True, said=f"the runners have been listed since {of}")
    return Check(SINCE_DEPLOY, passed=False, said=f"the runners have not been listed since {of}")


def role(ruling: ShardRole) -> Check:
    """Whether it is known which shard is active."""
    if ruling.disagree:
        return Check("role", passed=False, said=f"the sources disagree: {ruling.said}")
    return Check("role", ruling.role is not Role.UNKNOWN, f"{ruling.role.value}: {ruling.said}")


def online(least: int, mine: ShardStatus, shards: Mapping[str, ShardStatus]) -> Check:
    """Whether enough of its runners are good for a job; `shards` are all that are known."""
    count = len(mine.online)
    said = f"{counted(count, 'runner')} of {mine.shard} online, {least} needed"
    if mine.unhealthy:
        said += f"; unhealthy: {next_steps.runner_list([each.name for each in mine.unhealthy])}"
    if mine.starting:
        said += f"; {mine.starting} starting"
    if not mine.is_there and mine.shard not in shards:
        said += f"; no runner of that shard is known, only of {', '.join(sorted(shards)) or 'none'}"
    return Check("online", count >= least, said)


def version(least: int, wanted: str, mine: ShardStatus) -> Check:
    """Whether as many are of the version that is wanted."""
    count = sum(each.version == wanted for each in mine.online)
    others = sorted({each.version or "unknown" for each in mine.online} - {wanted})
    said = f"{count} of {len(mine.online)} online are of version {wanted}, {least} needed"
    return Check("version", count >= least, said + (f"; others: {', '.join(others)}" if others else ""))


def deaths(mine: ShardStatus) -> Check:
    """Whether none of them dies in a loop."""
    loop = max(LOOP_DEATHS, ceil(LOOP_SHARE * len(mine.online)))
    count = len(mine.deaths)
    said = f"{count} died in the last 10 minutes" + (f": {causes(mine.deaths)}" if count else "")
    return Check("deaths", count < loop, f"{said}; {loop} would be a loop" if count < loop else f"{said}: a loop")


def canary(mine: ShardStatus, deploy: Deploy | None) -> Check:
    """Whether a job went through since the deploy; without one there is no telling."""
    if deploy is None:
        return Check("canary", passed=False, said=f"nobody has told when {mine.shard} was deployed")
    done = mine.has_completed_since(deploy.deployed_at)
    of = f"the deploy of {deploy.ref}" if deploy.ref else "the deploy"
    return Check("canary", done, f"{'a' if done else 'no'} job was taken and completed on {mine.shard} since {of}")


def at_once(shards: Mapping[str, ShardStatus], now: float) -> Check:
    """Whether one shard at most takes jobs."""
    taken = {shard: count for shard, each in sorted(shards.items()) if (count := each.taken_lately(now))}
    said = ", ".join(f"{shard} has taken {counted(count, 'job')}" for shard, count in taken.items())
    many = f"warning: {len(taken)} shards take jobs at once: " if len(taken) > 1 else ""
    said = f"{many}{said or 'no shard has taken a job'} in the last 10 minutes"
    return Check("one-shard", len(taken) <= 1, said, decides=False)


def running(ruling: ShardRole, shards: Mapping[str, ShardStatus]) -> Check:
    """What stopping a shard would hurt. That the active one is at work is as it should be: it is not to be stopped."""
    at_work = {shard: each.running.values() for shard, each in sorted(shards.items()) if each.running}
    said = [
        f"{shard}, which is active, runs {counted(len(running), 'job')}: {next_steps.job_list(running)}"
        if shard == ruling.active
        else f"stopping {shard} now would hurt {counted(len(running), 'running job')}: {next_steps.job_list(running)}"
        for shard, running in at_work.items()
    ]
    spare = at_work.keys() - {ruling.active}
    told = "; ".join(said) or "no shard runs a job as far as is known"
    return Check("running-jobs", not spare, told, decides=False)
