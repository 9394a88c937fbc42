"""May this shard take over: the post-deploy gate of a blue/green pool.

It passes when GitHub answers and has listed the runners since the deploy, the shard's role is known, enough of its
runners are good for a job, none of them dies in a loop, and, where asked, a canary went through. Whether users are
hurt, whether two shards take jobs at once, and what stopping one would hurt is said beside it and decides nothing: in
an outage above all a good shard may take over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

from ghapp.health.gate import active_shard, next_steps, shard_checks
from ghapp.health.gate.active_shard import ACTIVE_SECONDS, ActiveShardAnswer, Deploy, Role, ShardRole, SourceStatement
from ghapp.health.gate.cleanup_steps import cleanup_steps
from ghapp.health.gate.next_steps import GateFailure, NextStep, UserImpact
from ghapp.health.gate.shard_checks import Check
from ghapp.health.gate.shard_status import ShardInputs, ShardStatus, shard_statuses
from ghapp.health.gate.terraform_log import TerraformRun
from ghapp.health.gate.user_impact import user_impact

STOP = "stop"
METRICS = (
    "Look at these, shard by shard: the jobs that each has taken (check one-shard) and runs (check running-jobs), "
    "`ghapp_runners` by state, the queue in `GET /v1/orgs/ORG/demand`, and what active_command or active_url answers"
)
"""What tells which shard works for users, where the sources disagree."""

SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What is asked.

    Attributes:
        shard: in any case.
        min_online: how many runners must be good for a job; 1 or more.
        version: of the runner agent, which that many must have; None: any.
        canary: whether one of them must have completed a job since the deploy.
        provision: what the provisioning that went before did, where its log was given.
        expect_new: whether nobody need know the shard yet.
        failures: how often in a row it has failed to come up, this time included.
    """

    shard: str
    min_online: int = 1
    version: str | None = None
    canary: bool = False
    provision: TerraformRun | None = None
    expect_new: bool = False
    failures: int = 1


@dataclass(frozen=True, slots=True)
class ActiveShardSources:
    """Who says which shard is active: `configured` is `active_command` or `active_url`, empty for neither."""

    deploys: Sequence[Deploy] = ()
    configured: str = ""
    answer: ActiveShardAnswer | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The answer."""

    pool: str
    shard: str
    role: Role
    checks: tuple[Check, ...]
    next: tuple[NextStep, ...]
    observed_at: float | None = None
    """When GitHub's list was begun that this rests on; None where it rests on none."""
    active: str | None = None
    """The shard that is active, in lower case; None where nobody says, or they do not agree."""

    @property
    def passed(self) -> bool:
        """Whether it may take over."""
        return all(check.passed for check in self.checks if check.decides)

    def document(self) -> dict[str, Any]:
        """As the contract writes it."""
        return {
            "pool": self.pool,
            "shard": self.shard,
            "passed": self.passed,
            "role": self.role.value,
            "checks": [{"name": each.name, "passed": each.passed, "said": each.said} for each in self.checks],
            "next": [{"step": each.step, "why": each.why} for each in self.next],
        }


def judge_gate(question: GateRequest, known: ShardInputs, sources: ActiveShardSources, now: float) -> Gate:
    """Whether a shard of the pool may take over at `now`, and what to do next."""
    shard = question.shard.lower()
    shards = shard_statuses(known, now)
    taken = _taken(shards, sources, now)
    ruling = active_shard.shard_role(shard, _words(question, taken, sources, now))
    github = shard_checks.github(known.survey, known.limits, now)
    hurt = user_impact(ruling.active, shards, known, now) if github.passed else _unsaid(github)
    mine = shards.get(shard) or ShardStatus(shard)
    deciding = [github, shard_checks.role(ruling), *_of_the_shard(question, mine, known, shards, github, sources)]
    failed = {check.name for check in deciding if not check.passed}
    if ruling.role is Role.UNKNOWN:
        steps = [_stop(ruling)]
    elif not github.passed:
        steps = [_wait(github)]
    elif shard_checks.SINCE_DEPLOY in failed:
        steps = [_wait_for_a_list(shard)]
    elif not failed:
        steps = cleanup_steps(shard, ruling, shards, taken, sources.deploys)
    else:
        deploy = active_shard.last_deploy(sources.deploys, shard)
        deployed_at = None if deploy is None else deploy.deployed_at
        steps = next_steps.next_steps(
            GateFailure(
                shard,
                ruling,
                failed,
                shards,
                hurt,
                deployed_at,
                question.provision,
                taken.get(shard, 0),
                pool=known.rule.name,
                version=question.version,
                failures=question.failures,
            )
        )
    first = Check("users", hurt.hurt is False, hurt.said, decides=False)
    said = [shard_checks.at_once(shards, now), shard_checks.running(ruling, shards)]
    observed = known.survey.swept_at if github.passed else None
    return Gate(
        known.rule.name, question.shard, ruling.role, (first, *deciding, *said), tuple(steps), observed, ruling.active
    )


def held_for(gate: Gate, held: float, settle: float) -> Gate:
    """The same gate where passing must hold for `settle` seconds and has held for `held`."""
    check = Check(SETTLED, held >= settle, f"it has passed without a gap for {floor(held)} of {settle:g} s")
    later = replace(gate, checks=(*gate.checks, check))
    if not gate.passed or check.passed:
        return later
    why = "it passes, and has not passed for long enough: what comes and goes is not ready. `ghapp explain` tells when "
    return replace(
        later, next=(NextStep("wait, and ask again", why + "each of its runners was last seen and offline"),)
    )


def _taken(shards: Mapping[str, ShardStatus], sources: ActiveShardSources, now: float) -> dict[str, int]:
    """How many jobs each shard took lately; those from before a switch say nothing of now."""
    switched = active_shard.switched_at(sources.deploys, now)
    since = now - ACTIVE_SECONDS if switched is None else max(now - ACTIVE_SECONDS, switched)
    return {shard: each.taken(since, now) for shard, each in shards.items()}


def _words(
    question: GateRequest, taken: Mapping[str, int], sources: ActiveShardSources, now: float
) -> list[SourceStatement]:
    words = [active_shard.jobs_state(taken, question.shard.lower() if question.canary else None)]
    if sources.configured:
        words.append(active_shard.answer_states(sources.configured, sources.answer, now))
    return [*words, active_shard.deploys_state(sources.deploys)]


def _unsaid(github: Check) -> UserImpact:
    return UserImpact(None, f"whether users are hurt cannot be said: {github.said}")


def _of_the_shard(
    question: GateRequest,
    mine: ShardStatus,
    known: ShardInputs,
    shards: Mapping[str, ShardStatus],
    github: Check,
    sources: ActiveShardSources,
) -> list[Check]:
    if not github.passed:
        return [Check("online", passed=False, said="who is online cannot be said while GitHub does not answer")]
    checks = [shard_checks.online(question.min_online, mine, shards)]
    deploy = active_shard.last_deploy(sources.deploys, mine.shard)
    if deploy is not None and deploy.first_told_at:
        checks.insert(0, shard_checks.since_deploy(known.survey, deploy))
    if question.version is not None:
        checks.append(shard_checks.version(question.min_online, question.version, mine))
    if known.deaths is not None:
        checks.append(shard_checks.deaths(mine))
    if question.canary:
        checks.append(shard_checks.canary(mine, deploy))
    return checks


def _stop(ruling: ShardRole) -> NextStep:
    if ruling.disagree:
        why = "Change nothing until they agree: whichever shard is changed now may be the one that works for users. "
        return NextStep(STOP, f"who is active is disputed: {ruling.said}. {why}{METRICS}")
    why = "Change nothing until it is known; set active_command or active_url, or tell what was deployed (PUT …/shards)"
    return NextStep(STOP, f"nobody says which shard is active: {ruling.said}. {why}")


def _wait_for_a_list(shard: str) -> NextStep:
    why = "what was seen last is from before, and must not be judged, nor changed, by now. Ask with --timeout"
    return NextStep("wait for the next list of runners, then ask again", f"{shard} was deployed since: {why}")


def _wait(github: Check) -> NextStep:
    why = "What is not seen must not be changed. See githubstatus.com and `ghapp doctor`"
    return NextStep("wait until GitHub answers, then ask again", f"{github.said}. {why}")
