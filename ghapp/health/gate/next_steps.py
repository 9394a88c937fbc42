"""What may be done next when a shard does not pass, cheapest and safest first, each with its reason and its warning.

The order is that of the rungs. Below the last one, break glass, no step changes the active shard: what works for
users is never risked for what does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ghapp.health.gate.active_shard import Role, ShardRole, counted
from ghapp.health.gate.shard_status import RunningJob, ShardStatus, causes
from ghapp.health.gate.terraform_log import TerraformRun

MOST_NAMED = 5
"""Runners or jobs that a sentence names."""


class StepLevel(IntEnum):
    """How far a step goes."""

    LOOK = 0
    PROVISION = 1
    SHUT_DOWN = 2
    CLEAN_UP = 3
    DELETE = 4
    TAINT = 5
    BREAK_GLASS = 6


DESTROYS = frozenset({StepLevel.SHUT_DOWN, StepLevel.CLEAN_UP, StepLevel.DELETE, StepLevel.TAINT})
"""What takes something away from the shard that is asked about."""

SEVERAL_FAILURES = 3
"""A shard is cleaned up only when it has failed so often in a row."""


class NextStep(NamedTuple):
    """One thing to do. `changes` is the shard that it changes, in lower case; empty when it changes nothing."""

    step: str
    why: str
    rung: StepLevel = StepLevel.LOOK
    changes: str = ""


class UserImpact(NamedTuple):
    """Whether the people are hurt who wait for their jobs; None where nobody can say."""

    hurt: bool | None
    said: str


@dataclass(frozen=True, slots=True)
class GateFailure:
    """A shard that does not pass, where GitHub answers and its role is known.

    Attributes:
        failed: names of the checks that it fails.
        shards: every shard of the pool of which anything is known, in lower case.
        deployed_at: when its last deploy was, as it was reported; None where none was.
        taken: how many jobs it took lately, canaries among them.
        version: of the runner agent, that was asked for; None: any.
        failures: how often in a row it has failed, this time included.
    """

    shard: str
    ruling: ShardRole
    failed: Collection[str]
    shards: Mapping[str, ShardStatus]
    users: UserImpact
    deployed_at: float | None = None
    provision: TerraformRun | None = None
    taken: int = 0
    pool: str = ""
    version: str | None = None
    failures: int = 1

    @property
    def asks_older_version(self) -> bool:
        """Whether what runs is newer than the version that was asked for: the question is old, not the shard."""
        if "version" not in self.failed or self.version is None or not self.mine.online:
            return False
        wanted = _version(self.version)
        versions = [_version(each.version) for each in self.mine.online]
        return wanted is not None and all(runs is not None and runs >= wanted for runs in versions)

    @property
    def lacks_deploy(self) -> bool:
        """Whether no deploy of the shard was ever reported: what its runners are of is not known."""
        return self.deployed_at is None

    @property
    def is_asked_amiss(self) -> bool:
        """Whether nothing is known to be wrong with the shard: only the question does not fit."""
        amiss = {"version"} if self.asks_older_version else set()
        return set(self.failed) <= amiss | ({"canary"} if self.lacks_deploy else set())

    @property
    def may_destroy(self) -> bool:
        """Whether something of it may be taken away: its deploy was reported, and it is inactive.

        Not where the question does not fit: an older version was asked for.
        """
        return not self.lacks_deploy and not self.asks_older_version and self.ruling.role is Role.INACTIVE

    @property
    def is_needed(self) -> bool:
        """Whether users may live on it, whatever its role: it takes jobs, or it is all that works in an outage."""
        return bool(self.taken) or bool(self.users.hurt and (self.mine.online or self.mine.running))

    @property
    def mine(self) -> ShardStatus:
        """How the shard itself stands."""
        return self.shards.get(self.shard) or ShardStatus(self.shard)


def next_steps(trouble: GateFailure) -> list[NextStep]:
    """The ladder for a shard that fails."""
    if trouble.ruling.role is Role.ACTIVE:
        return [*_alarm(trouble), *_looks(trouble), *_others(trouble), _break_glass(trouble)]
    if trouble.is_asked_amiss:
        return [*_alarm(trouble), *_looks(trouble)]
    rungs = [_provision(trouble)]
    if trouble.may_destroy:
        rungs += [_shut_down(trouble), _clean_up(trouble), _delete(trouble), _taint(trouble)]
    repairs = [step for step in rungs if step is not None]
    return [*_alarm(trouble), *_looks(trouble), *repairs, _break_glass(trouble)]


def job_list(running: Collection[RunningJob]) -> str:
    """Running jobs, by number, as far as a sentence goes."""
    named = [_job(each) for each in sorted(running, key=lambda each: (each.job_id or 0, each.runner))]
    return _some(named)


def runner_list(runners: Sequence[str]) -> str:
    """Names of runners, as far as a sentence goes."""
    return _some(sorted(runners))


def warning(running: Collection[RunningJob], what: str) -> str:
    """What is told with a step that takes machines away, of what runs on them."""
    if not running:
        return f"Warning: look again before; {what} hurts no running job as far as is known."
    return f"Warning: {what} would hurt {counted(len(running), 'running job')}: {job_list(running)}."


def _alarm(trouble: GateFailure) -> list[NextStep]:
    if not trouble.users.hurt:
        return []
    return [NextStep("raise the alarm", f"{trouble.users.said}. Tell them, and repair first what users need")]


def _looks(trouble: GateFailure) -> list[NextStep]:
    """What changes nothing: wait, look, ask."""
    mine, shard, found = trouble.mine, trouble.shard, []
    if mine.starting:
        some = counted(mine.starting, "runner")
        found.append(
            NextStep(
                f"wait for {some} of {shard}", "they are starting, or went offline a moment ago. Ask with --timeout"
            )
        )
    if trouble.taken and trouble.ruling.role is not Role.ACTIVE:
        why = (
            f"it is not active, and GitHub has given it {counted(trouble.taken, 'job')} lately. What takes jobs is not "
        )
        found.append(NextStep(f"find out why {shard} takes jobs", why + "torn down: they may be users'"))
    if "deaths" in trouble.failed:
        advice = next((f"; {death.advice.rstrip('.')}" for death in mine.deaths if death.advice), "")
        why = f"{causes(mine.deaths)}{advice}. Until that is mended, whatever is provisioned dies, too"
        found.append(NextStep(f"find out why runners of {shard} die: `ghapp explain`", why))
    if "canary" in trouble.failed and trouble.lacks_deploy:
        found.append(_report_deploy(trouble, "a canary counts from the deploy"))
    elif "canary" in trouble.failed and mine.online:
        why = "its runners are online, and none has completed a job since the deploy: their labels or their group may "
        found.append(NextStep(f"send a canary job to {shard}", why + "not be what jobs ask for"))
    if "version" in trouble.failed and mine.online:
        have = sorted({each.version or "unknown" for each in mine.online})
        newer = f", newer than {trouble.version}: ask for that one" if trouble.asks_older_version else ""
        found.append(
            NextStep(f"look at what {shard} is made of", f"its runners are of version {', '.join(have)}{newer}")
        )
    if trouble.provision is not None and trouble.provision.errors:
        why = f"it ended with: {trouble.provision.errors[0]}. Provisioning again ends the same way until that is mended"
        found.append(NextStep("mend what provisioning failed at", why))
    if trouble.lacks_deploy and trouble.ruling.role is Role.INACTIVE and "canary" not in trouble.failed:
        found.append(_report_deploy(trouble, "steps that take something away are listed only after that"))
    return found


def _report_deploy(trouble: GateFailure, why: str) -> NextStep:
    said = f"no deploy of it was reported, and {why}: PUT …/shards/{trouble.shard}"
    return NextStep(f"tell when {trouble.shard} was deployed", said)


def _provision(trouble: GateFailure) -> NextStep | None:
    if trouble.provision is not None and trouble.provision.is_futile:
        return None
    why = f"it adds what {trouble.shard} lacks, and leaves alone what is there. Warning: should its plan destroy "
    why += "anything, do not apply it"
    if trouble.provision is not None and trouble.provision.destroyed:
        why += f"; by its log the last run destroyed {trouble.provision.destroyed}"
    return NextStep(f"provision {trouble.shard} again", why, StepLevel.PROVISION, trouble.shard)


def _shut_down(trouble: GateFailure) -> NextStep | None:
    if trouble.failures >= SEVERAL_FAILURES or not _is_spare(trouble):
        return None
    why = f"{_futile(trouble)}that can be undone: nothing of it is thrown away, and it is started again. "
    why += _confirm(trouble) + warning(trouble.mine.running.values(), f"shutting down {trouble.shard} now")
    return NextStep(f"shut down {trouble.shard}, and start it again", why, StepLevel.SHUT_DOWN, trouble.shard)


def _clean_up(trouble: GateFailure) -> NextStep | None:
    """Only where another shard is active, of which a runner is known, and users do not live on this one."""
    if trouble.failures < SEVERAL_FAILURES or not _is_spare(trouble):
        return None
    why = f"{_futile(trouble)}it has failed {trouble.failures} times in a row, and begins from nothing. "
    why += _confirm(trouble) + warning(trouble.mine.running.values(), f"cleaning up {trouble.shard} now")
    why += f" Never do this to {trouble.ruling.active}, which is active"
    return NextStep(f"clean up {trouble.shard} and provision it again", why, StepLevel.CLEAN_UP, trouble.shard)


def _delete(trouble: GateFailure) -> NextStep | None:
    unhealthy = trouble.mine.unhealthy
    if not unhealthy and (not _is_futile(trouble) or trouble.is_needed):
        return None
    said = runner_list([each.name for each in unhealthy]) if unhealthy else f"the machines of {trouble.shard}"
    why = f"{_futile(trouble)}what is unhealthy stays so until it is made anew; then provision. {_confirm(trouble)}"
    why += warning(trouble.mine.running.values(), f"taking more of {trouble.shard} than these")
    return NextStep(f"delete what is unhealthy: {said}", why, StepLevel.DELETE, trouble.shard)


def _taint(trouble: GateFailure) -> NextStep | None:
    if not _is_spare(trouble):
        return None
    why = "when deleting did not help: what is tainted is destroyed and made anew by the next provisioning, and by "
    why += f"nothing else. {_confirm(trouble)}"
    why += warning(trouble.mine.running.values(), f"making {trouble.shard} anew")
    return NextStep(
        f"taint what {trouble.shard} is made of, and provision it again", why, StepLevel.TAINT, trouble.shard
    )


def _is_spare(trouble: GateFailure) -> bool:
    """Whether another shard is active, of which a runner is known, and users do not live on this one."""
    return trouble.ruling.active in trouble.shards and not trouble.is_needed


def _confirm(trouble: GateFailure) -> str:
    """What comes before each step that takes something away."""
    stack = trouble.pool or "its pool"
    return (
        f"First confirm stack {stack}, shard {trouble.shard}, role {trouble.ruling.role.value}; declare it, and "
        "announce it. "
    )


def _others(trouble: GateFailure) -> list[NextStep]:
    return [
        NextStep(
            f"ask the gate about {name}",
            f"{counted(len(each.online), 'runner')} of it online. If it passes, it can be made active, and "
            f"{trouble.shard} be repaired in peace; the same fault may sit in {name}",
        )
        for name, each in sorted(trouble.shards.items())
        if name != trouble.shard and each.online
    ]


def _break_glass(trouble: GateFailure) -> NextStep:
    why = (
        "when nothing above has helped: repair it by hand, past the automation, two of you, and write down each step. "
    )
    why += f"When that succeeds: verify it (ask the gate), make {trouble.shard} active, shut down the other shard, and "
    why += "run the whole pipeline once for a clean run. The same fault may sit in the other shard."
    if trouble.ruling.active is not None:
        why += f" Warning: {trouble.ruling.active} is active, and what is done to it is done to users."
    return NextStep("break glass", why, StepLevel.BREAK_GLASS, trouble.ruling.active or trouble.shard)


def _is_futile(trouble: GateFailure) -> bool:
    return trouble.provision is not None and trouble.provision.is_futile


def _futile(trouble: GateFailure) -> str:
    if not _is_futile(trouble):
        return ""
    return (
        "provisioning again will not help, unless something was changed since: its log says 0 added, 0 changed, "
        "0 destroyed; "
    )


def _job(running: RunningJob) -> str:
    if running.job_id is None:
        return f"one on {running.runner}"
    return f"{running.job_id} of {running.repository}" if running.repository else str(running.job_id)


def _some(named: Sequence[str]) -> str:
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _version(text: str | None) -> tuple[int, ...] | None:
    """`2.336.0` as numbers; None for what is no version."""
    parts = (text or "").split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else None
