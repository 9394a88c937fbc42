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

from ghapp.health.rollout import active, inspection, ladder
from ghapp.health.rollout.active import ACTIVE_SECONDS, Answer, Deploy, Role, Ruling, Word
from ghapp.health.rollout.inspection import Check
from ghapp.health.rollout.ladder import Step, Trouble, Users
from ghapp.health.rollout.provision import Provision
from ghapp.health.rollout.shardstanding import Known, Standing, standings
from ghapp.health.rollout.tidying import tidy
from ghapp.health.rollout.users import users

STOP = "stop"
METRICS = (
    "Look at these, shard by shard: the jobs that each has taken (check one-shard) and runs (check running-jobs), "
    "`ghapp_runners` by state, the queue in `GET /v1/orgs/ORG/demand`, and what active_command or active_url answers"
)
"""What tells which shard works for users, where the sources disagree."""

SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Question:
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
    provision: Provision | None = None
    expect_new: bool = False
    failures: int = 1


@dataclass(frozen=True, slots=True)
class Sources:
    """Who says which shard is active: `configured` is `active_command` or `active_url`, empty for neither."""

    deploys: Sequence[Deploy] = ()
    configured: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The answer."""

    pool: str
    shard: str
    role: Role
    checks: tuple[Check, ...]
    next: tuple[Step, ...]
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


def judge_gate(question: Question, known: Known, sources: Sources, now: float) -> Gate:
    """Whether a shard of the pool may take over at `now`, and what to do next."""
    shard = question.shard.lower()
    shards = standings(known, now)
    taken = _taken(shards, sources, now)
    ruling = active.ruling(shard, _words(question, taken, sources, now))
    github = inspection.github(known.survey, known.limits, now)
    hurt = users(ruling.active, shards, known, now) if github.passed else _unsaid(github)
    mine = shards.get(shard) or Standing(shard)
    deciding = [github, inspection.role(ruling), *_of_the_shard(question, mine, known, shards, github, sources)]
    failed = {check.name for check in deciding if not check.passed}
    if ruling.role is Role.UNKNOWN:
        steps = [_stop(ruling)]
    elif not github.passed:
        steps = [_wait(github)]
    elif inspection.SINCE_DEPLOY in failed:
        steps = [_wait_for_a_list(shard)]
    elif not failed:
        steps = tidy(shard, ruling, shards, taken, sources.deploys)
    else:
        deploy = active.deployed(sources.deploys, shard)
        deployed_at = None if deploy is None else deploy.deployed_at
        steps = ladder.steps(
            Trouble(
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
    said = [inspection.at_once(shards, now), inspection.running(ruling, shards)]
    observed = known.survey.swept_at if github.passed else None
    return Gate(
        known.rule.name, question.shard, ruling.role, (first, *deciding, *said), tuple(steps), observed, ruling.active
    )


def settled(gate: Gate, held: float, settle: float) -> Gate:
    """The same gate where passing must hold for `settle` seconds and has held for `held`."""
    check = Check(SETTLED, held >= settle, f"it has passed without a gap for {floor(held)} of {settle:g} s")
    later = replace(gate, checks=(*gate.checks, check))
    if not gate.passed or check.passed:
        return later
    why = "it passes, and has not passed for long enough: what comes and goes is not ready. `ghapp explain` tells when "
    return replace(later, next=(Step("wait, and ask again", why + "each of its runners was last seen and offline"),))


def _taken(shards: Mapping[str, Standing], sources: Sources, now: float) -> dict[str, int]:
    """How many jobs each shard took lately; those from before a switch say nothing of now."""
    switched = active.switched_at(sources.deploys, now)
    since = now - ACTIVE_SECONDS if switched is None else max(now - ACTIVE_SECONDS, switched)
    return {shard: each.taken(since, now) for shard, each in shards.items()}


def _words(question: Question, taken: Mapping[str, int], sources: Sources, now: float) -> list[Word]:
    words = [active.word_of_jobs(taken, question.shard.lower() if question.canary else None)]
    if sources.configured:
        words.append(active.word_of_answer(sources.configured, sources.answer, now))
    return [*words, active.word_of_deploys(sources.deploys)]


def _unsaid(github: Check) -> Users:
    return Users(None, f"whether users are hurt cannot be said: {github.said}")


def _of_the_shard(
    question: Question,
    mine: Standing,
    known: Known,
    shards: Mapping[str, Standing],
    github: Check,
    sources: Sources,
) -> list[Check]:
    if not github.passed:
        return [Check("online", passed=False, said="who is online cannot be said while GitHub does not answer")]
    checks = [inspection.online(question.min_online, mine, shards)]
    deploy = active.deployed(sources.deploys, mine.shard)
    if deploy is not None and deploy.first_told_at:
        checks.insert(0, inspection.since_deploy(known.survey, deploy))
    if question.version is not None:
        checks.append(inspection.version(question.min_online, question.version, mine))
    if known.deaths is not None:
        checks.append(inspection.deaths(mine))
    if question.canary:
        checks.append(inspection.canary(mine, deploy))
    return checks


def _stop(ruling: Ruling) -> Step:
    if ruling.disagree:
        why = "Change nothing until they agree: whichever shard is changed now may be the one that works for users. "
        return Step(STOP, f"who is active is disputed: {ruling.said}. {why}{METRICS}")
    why = "Change nothing until it is known; set active_command or active_url, or tell what was deployed (PUT …/shards)"
    return Step(STOP, f"nobody says which shard is active: {ruling.said}. {why}")


def _wait_for_a_list(shard: str) -> Step:
    why = "what was seen last is from before, and must not be judged, nor changed, by now. Ask with --timeout"
    return Step("wait for the next list of runners, then ask again", f"{shard} was deployed since: {why}")


def _wait(github: Check) -> Step:
    why = "What is not seen must not be changed. See githubstatus.com and `ghapp doctor`"
    return Step("wait until GitHub answers, then ask again", f"{github.said}. {why}")
