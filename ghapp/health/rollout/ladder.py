"""What may be done next when a shard does not pass, cheapest and safest first, each with its reason and its warning.

The order is that of the rungs. Below the last one, break glass, no step changes the active shard: what works for
users is never risked for what does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ghapp.health.rollout.active import Role, Ruling, counted
from ghapp.health.rollout.provision import Provision
from ghapp.health.rollout.shardstanding import Running, Standing, causes

MOST_NAMED = 5
"""Runners or jobs that a sentence names."""


class Rung(IntEnum):
    """How far a step goes."""

    LOOK = 0
    PROVISION = 1
    RECREATE = 2
    CLEAN_UP = 3
    BREAK_GLASS = 4


class Step(NamedTuple):
    """One thing to do. `changes` is the shard that it changes, in lower case; empty when it changes nothing."""

    step: str
    why: str
    rung: Rung = Rung.LOOK
    changes: str = ""


class Users(NamedTuple):
    """Whether the people are hurt who wait for their jobs; None where nobody can say."""

    hurt: bool | None
    said: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """A shard that does not pass, where GitHub answers and its role is known.

    Attributes:
        failed: names of the checks that it fails.
        shards: every shard of the pool of which anything is known, in lower case.
        taken: how many jobs it took lately, canaries among them.
    """

    shard: str
    ruling: Ruling
    failed: Collection[str]
    shards: Mapping[str, Standing]
    users: Users
    deployed_at: float | None = None
    provision: Provision | None = None
    taken: int = 0

    @property
    def is_needed(self) -> bool:
        """Whether users may live on it, whatever its role: it takes jobs, or it is all that works in an outage."""
        return bool(self.taken) or bool(self.users.hurt and (self.mine.online or self.mine.running))

    @property
    def mine(self) -> Standing:
        """How the shard itself stands."""
        return self.shards.get(self.shard) or Standing(self.shard)


def steps(trouble: Trouble) -> list[Step]:
    """The ladder for a shard that fails."""
    if trouble.ruling.role is Role.ACTIVE:
        return [*_alarm(trouble), *_looks(trouble), *_others(trouble), _break_glass(trouble)]
    rungs = [_provision(trouble), _recreate(trouble), _clean_up(trouble)]
    repairs = [step for step in rungs if step is not None]
    return [*_alarm(trouble), *_looks(trouble), *repairs, _break_glass(trouble)]


def which(running: Collection[Running]) -> str:
    """Running jobs, by number, as far as a sentence goes."""
    named = [_job(each) for each in sorted(running, key=lambda each: (each.job_id or 0, each.runner))]
    return _some(named)


def names(runners: Sequence[str]) -> str:
    """Names of runners, as far as a sentence goes."""
    return _some(sorted(runners))


def warning(running: Collection[Running], what: str) -> str:
    """What is told with a step that takes machines away, of what runs on them."""
    if not running:
        return f"Warning: look again before; {what} hurts no running job as far as is known."
    return f"Warning: {what} would hurt {counted(len(running), 'running job')}: {which(running)}."


def _alarm(trouble: Trouble) -> list[Step]:
    if not trouble.users.hurt:
        return []
    return [Step("raise the alarm", f"{trouble.users.said}. Tell them, and repair first what users need")]


def _looks(trouble: Trouble) -> list[Step]:
    """What changes nothing: wait, look, ask."""
    mine, shard, found = trouble.mine, trouble.shard, []
    if mine.starting:
        some = counted(mine.starting, "runner")
        found.append(
            Step(f"wait for {some} of {shard}", "they are starting, or went offline a moment ago. Ask with --timeout")
        )
    if trouble.taken and trouble.ruling.role is not Role.ACTIVE:
        why = (
            f"it is not active, and GitHub has given it {counted(trouble.taken, 'job')} lately. What takes jobs is not "
        )
        found.append(Step(f"find out why {shard} takes jobs", why + "torn down: they may be users'"))
    if "deaths" in trouble.failed:
        advice = next((f"; {death.advice.rstrip('.')}" for death in mine.deaths if death.advice), "")
        why = f"{causes(mine.deaths)}{advice}. Until that is mended, whatever is provisioned dies, too"
        found.append(Step(f"find out why runners of {shard} die: `ghapp explain`", why))
    if "canary" in trouble.failed and trouble.deployed_at is None:
        why = "a canary counts from the deploy, and nobody has told of one: PUT …/shards/" + shard
        found.append(Step(f"tell when {shard} was deployed", why))
    elif "canary" in trouble.failed and mine.online:
        why = "its runners are online, and none has completed a job since the deploy: their labels or their group may "
        found.append(Step(f"send a canary job to {shard}", why + "not be what jobs ask for"))
    if "version" in trouble.failed and mine.online:
        have = sorted({each.version or "unknown" for each in mine.online})
        found.append(Step(f"look at what {shard} is made of", f"its runners are of version {', '.join(have)}"))
    if trouble.provision is not None and trouble.provision.errors:
        why = f"it ended with: {trouble.provision.errors[0]}. Provisioning again ends the same way until that is mended"
        found.append(Step("mend what provisioning failed at", why))
    return found


def _provision(trouble: Trouble) -> Step | None:
    if trouble.provision is not None and trouble.provision.is_futile:
        return None
    why = f"it adds what {trouble.shard} lacks, and leaves alone what is there. Warning: should its plan destroy "
    why += "anything, do not apply it"
    if trouble.provision is not None and trouble.provision.destroyed:
        why += f"; by its log the last run destroyed {trouble.provision.destroyed}"
    return Step(f"provision {trouble.shard} again", why, Rung.PROVISION, trouble.shard)


def _recreate(trouble: Trouble) -> Step | None:
    unhealthy = trouble.mine.unhealthy
    if not unhealthy and (not _is_futile(trouble) or trouble.is_needed):
        return None
    said = names([each.name for each in unhealthy]) if unhealthy else f"the machines of {trouble.shard}"
    why = f"{_futile(trouble)}what is unhealthy stays so until it is made anew. "
    why += warning(trouble.mine.running.values(), f"taking more of {trouble.shard} than these")
    return Step(f"recreate what is unhealthy: {said}", why, Rung.RECREATE, trouble.shard)


def _clean_up(trouble: Trouble) -> Step | None:
    """Only where another shard is active, of which a runner is known, and where users do not live on this one."""
    ruling, mine = trouble.ruling, trouble.mine
    if ruling.role is not Role.INACTIVE or ruling.active not in trouble.shards or trouble.is_needed:
        return None
    why = f"{_futile(trouble)}{trouble.shard} is not active, so no user needs it; it begins from nothing. "
    why += warning(mine.running.values(), f"cleaning up {trouble.shard} now")
    why += f" Never do this to {ruling.active}, which is active"
    return Step(f"clean up {trouble.shard} and provision it again", why, Rung.CLEAN_UP, trouble.shard)


def _others(trouble: Trouble) -> list[Step]:
    return [
        Step(
            f"ask the gate about {name}",
            f"{counted(len(each.online), 'runner')} of it online. If it passes, it can be made active, and "
            f"{trouble.shard} be repaired in peace",
        )
        for name, each in sorted(trouble.shards.items())
        if name != trouble.shard and each.online
    ]


def _break_glass(trouble: Trouble) -> Step:
    why = "when nothing above has helped: repair it by hand, past the automation, two of you, and write down each step."
    if trouble.ruling.active is not None:
        why += f" Warning: {trouble.ruling.active} is active, and what is done to it is done to users."
    return Step("break glass", why, Rung.BREAK_GLASS, trouble.ruling.active or trouble.shard)


def _is_futile(trouble: Trouble) -> bool:
    return trouble.provision is not None and trouble.provision.is_futile


def _futile(trouble: Trouble) -> str:
    if not _is_futile(trouble):
        return ""
    return "provisioning again will not help: its log says 0 added, 0 changed, 0 destroyed; "


def _job(running: Running) -> str:
    if running.job_id is None:
        return f"one on {running.runner}"
    return f"{running.job_id} of {running.repository}" if running.repository else str(running.job_id)


def _some(named: Sequence[str]) -> str:
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
