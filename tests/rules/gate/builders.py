"""A pool of two shards for tests of the gate: purple, which is active, and pink, which is inactive."""

from __future__ import annotations

from dataclasses import dataclass, field

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death
from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.judgement import ActiveShardSources, GateRequest, judge_gate
from ghapp.gate.next_steps import StepLevel
from ghapp.gate.shard_status import ShardInputs
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import LONG_AGO, NOW, online, survey

DEPLOYED_AT = NOW - 1800


@dataclass
class Rule:
    name: str = "linux"
    labels: tuple[str, ...] = ("linux-4vcpu",)
    shard_label: str | None = "shard"
    shard_groups: dict[str, int] = field(default_factory=dict)
    shard_name: str | None = r"^(?P<shard>[a-z]+)-"


RULE = Rule()


def on(shard, evidence, number=1):
    runner_id = (1000 if shard == "pink" else 2000) + number
    labels = ("linux-4vcpu", f"shard:{shard}")
    return evidence._replace(id=runner_id, name=f"{shard}-{number}", labels=labels, custom_labels=labels)


def pink(count, **changes):
    return [on("pink", online(**changes), number) for number in range(count)]


def at_work(shard="purple", count=14, ago=60.0, first=1):
    """Persistent runners, each with a job in progress."""
    return [
        on(shard, online(busy=True, job_id=100 + number, job_started_at=NOW - ago), number)
        for number in range(first, first + count)
    ]


def done(shard, number, started, ended):
    return on(shard, online(job_id=500 + number, job_started_at=started, job_ended_at=ended), number)


def deploy(shard, role, at=DEPLOYED_AT, ref="", first_reported_at=LONG_AGO):
    return Deploy(shard, Role(role), at, LONG_AGO, ref, first_reported_at=first_reported_at)


PURPLE_IS_ACTIVE = ActiveShardSources((deploy("purple", "active"), deploy("pink", "inactive", ref="v42")))


def gate(runners, question=None, sources=PURPLE_IS_ACTIVE, now=NOW, **known):
    question = question or GateRequest("pink")
    return judge_gate(question, ShardInputs(RULE, [RULE], runners, **{"survey": survey(), **known}), sources, now)


def check(answer, name):
    (found,) = [each for each in answer.checks if each.name == name]
    return found


def steps(answer):
    return [each.step for each in answer.next]


def why(answer, step):
    (found,) = [each.why for each in answer.next if each.step == step]
    return found


def failed(answer):
    return {each.name for each in answer.checks if each.decides and not each.passed}


def death(number, cause=Cause.HOST_OOM, at=NOW - 60, name="pink"):
    return Death(
        f"{name}-{number}", f"{name}-{number}", "node", at, 137, None, "OOMKilled", cause, "Give it more memory."
    )


def waits(number, ago, labels=("linux-4vcpu",)):
    return Job(900 + number, "queued", labels, "acme/api", NOW - ago)


DESTROYS = frozenset({StepLevel.SHUT_DOWN, StepLevel.CLEAN_UP, StepLevel.DELETE, StepLevel.TAINT})
"""Steps that destroy something of the shard."""
