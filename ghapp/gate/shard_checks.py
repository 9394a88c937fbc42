"""The checks of the gate, each with its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from ghapp.gate import next_steps
from ghapp.gate.active_shard import ActiveShardAnswer, Deploy, Role, ShardRole
from ghapp.gate.shard_status import ShardInputs, ShardStatus, causes, members_of, shard_of
from ghapp.gate.terraform_log import TerraformRun
from ghapp.runners.evidence import Survey
from ghapp.runners.observations import OVERTAKING_SECONDS
from ghapp.runners.verdict import Limits, why_stale
from ghapp.wording import counted, meant

GITHUB, ROLE, SINCE_DEPLOY = "github", "role", "since-deploy"
"""Checks without which the shard itself is not judged."""

LOOP_DEATHS = 3
"""At least this many deaths within minutes are a loop …"""

LOOP_SHARE = 0.1
"""… or this share of the online runners, if that is more."""


class Check(NamedTuple):
    """The result of one check. `decides` is False for checks that are only shown."""

    name: str
    passed: bool
    text: str
    decides: bool = True


def github(survey: Survey, limits: Limits, now: float) -> Check:
    """Passes if the last complete list is fresh. A list with a time in the future is not fresh."""
    age = None if survey.swept_at is None else now - survey.swept_at
    listed = (
        "no complete list has been read yet" if age is None else f"the last complete list is {max(age, 0.0):.0f} s old"
    )
    is_fresh = age is not None and -OVERTAKING_SECONDS <= age <= limits.stale_seconds
    if survey.failing_since is None and is_fresh:
        return Check(GITHUB, passed=True, text=listed)
    return Check(GITHUB, passed=False, text=f"{why_stale(survey).value}: {listed}")


def since_deploy(survey: Survey, deploy: Deploy) -> Check:
    """Passes if the last list of runners was begun after the deploy was reported: an older list shows the old state."""
    of = f"the deploy of {deploy.ref or deploy.shard}"
    if survey.swept_at is not None and survey.swept_at >= deploy.first_reported_at:
        return Check(SINCE_DEPLOY, passed=True, text=f"the runners have been listed since {of}")
    return Check(SINCE_DEPLOY, passed=False, text=f"the runners have not been listed since {of}")


def role(ruling: ShardRole) -> Check:
    """Passes if the active shard is known."""
    if ruling.disagree:
        return Check(ROLE, passed=False, text=f"the sources disagree: {ruling.text}")
    return Check(ROLE, ruling.role is not Role.UNKNOWN, f"{ruling.role.value}: {ruling.text}")


def online(least: int, mine: ShardStatus, shards: Mapping[str, ShardStatus], limits: Limits) -> Check:
    """Passes if enough runners of the shard can take a job; `shards` are all known shards.

    All of the shard's runners count, also those from before its last deploy. Other pages count whole pools, and call a
    runner that went offline moments ago healthy; so those are named here, too.
    """
    count = len(mine.online)
    all_of_them = counted(count, "runner") if count == mine.known else f"{count} of {counted(mine.known, 'runner')}"
    text = f"{all_of_them} of {mine.shard} online, {least} needed"
    if mine.unhealthy:
        text += f"; unhealthy: {next_steps.runner_list([each.name for each in mine.unhealthy])}"
    if mine.starting:
        text += f"; starting: {next_steps.runner_list([*mine.starting])}"
    if mine.briefly_offline:
        names = next_steps.runner_list([*mine.briefly_offline])
        text += (
            f"; offline for less than {limits.offline_seconds:g} s, which other pages still count as healthy: {names}"
        )
    if mine.engaged:
        text += f"; {mine.engaged} online and at their only job"
    if not mine.is_there and mine.shard not in shards:
        text += f"; no runner of that shard is known, only of {', '.join(sorted(shards)) or 'no shard'}"
    return Check("online", count >= least, text)


def version(least: int, wanted: str, mine: ShardStatus) -> Check:
    """Passes if at least as many runners have the required version."""
    count = sum(each.version == wanted for each in mine.online)
    others = sorted({each.version or "unknown" for each in mine.online} - {wanted})
    text = f"{count} of {len(mine.online)} online have version {wanted}, {least} needed"
    return Check("version", count >= least, text + (f"; others: {', '.join(others)}" if others else ""))


def deaths(mine: ShardStatus) -> Check:
    """Passes if the shard's runners do not die in a loop."""
    loop = max(LOOP_DEATHS, ceil(LOOP_SHARE * len(mine.online)))
    count = len(mine.deaths)
    text = f"{count} died in the last 10 minutes" + (f": {causes(mine.deaths)}" if count else "")
    return Check("deaths", count < loop, f"{text}; {loop} would be a loop" if count < loop else f"{text}: a loop")


def canary(mine: ShardStatus, deploy: Deploy | None) -> Check:
    """Passes if a job was completed since the deploy; fails if no deploy was reported."""
    if deploy is None:
        return Check("canary", passed=False, text=f"no deploy of {mine.shard} was reported")
    done = mine.has_completed_since(deploy.deployed_at)
    of = f"the deploy of {deploy.ref}" if deploy.ref else "the deploy"
    text = f"{'a' if done else 'no'} job was taken on {mine.shard} since {of} and completed with success"
    return Check("canary", done, text if done else f"{text} within the last hour")


def provision(run: TerraformRun) -> Check:
    """Shows what provisioning did, and what was destroyed and not added again. Does not pass if either is wrong."""
    parts = []
    if run.added is not None:
        parts.append(f"the last run added {run.added}, changed {run.changed} and destroyed {run.destroyed} resources")
    if run.errors:
        parts.append(f"the last run ended with: {run.errors[0]}")
    if run.destroyed_before:
        again = min(run.added or 0, run.destroyed_before)
        parts.append(
            f"before it {counted(run.destroyed_before, 'resource')} had been destroyed, {again} of them added again"
        )
    if run.lacking:
        parts.append(f"{counted(run.lacking, 'resource')} more destroyed than added")
    return Check("provision", run.is_complete and not run.lacking, "; ".join(parts), decides=False)


def at_once(shards: Mapping[str, ShardStatus], now: float) -> Check:
    """Passes if at most one shard takes jobs."""
    taken = {shard: count for shard, each in sorted(shards.items()) if (count := each.taken_lately(now))}
    text = ", ".join(f"{shard} has taken {counted(count, 'job')}" for shard, count in taken.items())
    many = f"warning: {len(taken)} shards take jobs at once: " if len(taken) > 1 else ""
    text = f"{many}{text or 'no shard has taken a job'} in the last 10 minutes"
    return Check("one-shard", len(taken) <= 1, text, decides=False)


def running(ruling: ShardRole, shards: Mapping[str, ShardStatus]) -> Check:
    """Lists jobs that stopping a shard would interrupt. Running jobs are expected on the active shard."""
    at_work = {shard: each.running.values() for shard, each in sorted(shards.items()) if each.running}
    lines = [
        f"{shard}, which is active, runs {counted(len(running), 'job')}: {next_steps.job_list(running)}"
        if shard == ruling.active
        else f"stopping {shard} would interrupt {counted(len(running), 'running job')}: {next_steps.job_list(running)}"
        for shard, running in at_work.items()
    ]
    inactive = at_work.keys() - {ruling.active}
    return Check("running-jobs", not inactive, "; ".join(lines) or "no shard runs a known job", decides=False)


def known_shards(known: ShardInputs, deploys: Iterable[Deploy], answer: ActiveShardAnswer | None) -> set[str]:
    """Returns all shards that a runner, a reported deploy or the configuration names; in lower case."""
    of_runners = (shard_of(each, known.rule) for each in members_of(known))
    named = [*known.rule.shard_groups, *(each.shard for each in deploys), "" if answer is None else answer.shard]
    return {shard.lower() for shard in (*of_runners, *named) if shard}


def unknown_shard(shard: str, known: ShardInputs, deploys: Iterable[Deploy], answer: ActiveShardAnswer | None) -> str:
    """Returns why a shard is unknown, with the names that may be meant; empty for a known shard.

    Before the first complete list no shard is known: then the result is empty.
    """
    shards = known_shards(known, deploys, answer)
    if known.survey.swept_at is None or shard.lower() in shards:
        return ""
    names = meant(shard, shards, "known are", "no shards")
    return f"{known.rule.name} has no shard {shard}: {names}; for a new shard use --expect-new"
