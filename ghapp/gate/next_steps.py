"""Lists the next steps for a shard: the cheapest and safest first if it does not pass, and the clean-up if it does.

Each has its reason and warning. Steps are ordered by how far they go. Above the last step, break glass, no step changes
the active shard: a shard that works for users is never risked to repair another shard.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from urllib.parse import quote

from ghapp.gate.active_shard import MOST_CANARIES, Deploy, Role, ShardRole
from ghapp.gate.agents import ON_A_MACHINE
from ghapp.gate.shard_status import RunningJob, ShardStatus, causes
from ghapp.gate.terraform_log import TerraformRun
from ghapp.installations.scope_paths import path_segment
from ghapp.untrusted_text import shell_command
from ghapp.versions.lifetime import parse_version
from ghapp.wording import DOCS, clock_time, counted

MOST_NAMED = 5
"""Maximum runners or jobs named in a sentence."""


class StepLevel(IntEnum):
    """How far a step goes."""

    LOOK = 0
    PROVISION = 1
    SHUT_DOWN = 2
    CLEAN_UP = 3
    DELETE = 4
    TAINT = 5
    BREAK_GLASS = 6


SEVERAL_FAILURES = 2
"""A shard is cleaned up only after this many failures in a row."""


_BETWEEN_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z])")


class NextStep(NamedTuple):
    """A step. `changes` is the shard that it changes, in lower case; empty if it changes nothing.

    `by_admin` is what an admin of ghapp does by hand, with a command that takes the right to do so: further sentences
    of the reason, left out where readers may lack that right.
    """

    step: str
    why: str
    level: StepLevel = StepLevel.LOOK
    changes: str = ""
    by_admin: str = ""

    @property
    def sentences(self) -> list[str]:
        """The reason, a sentence a line, so that a warning is not the middle of a paragraph."""
        return _BETWEEN_SENTENCES.split(self.why)

    def for_admin(self) -> NextStep:
        """Returns the step with what an admin does by hand as a part of its reason."""
        return self._replace(why=f"{self.why}. {self.by_admin}", by_admin="") if self.by_admin else self


class UserImpact(NamedTuple):
    """True if users' jobs are affected; None if that is unknown."""

    hurt: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class GateFailure:
    """A shard that does not pass although GitHub answers and the shard's role is known.

    Attributes:
        failed: names of the failed checks.
        shards: all known shards of the pool, in lower case.
        deployed_at: time of its last reported deploy; None if none was reported.
        taken: number of jobs it took lately, including canaries.
        version: required version of the runner agent; None: any.
        org: its name.
        server: address of the API, for commands to copy; empty if it is not known.
        failures: number of failures in a row, including this one.
        changed: what was changed since the failure, in the asker's words; empty if nothing was.
        agents: what is known of the agents of its first unhealthy runners.
        deploys: the last reported deploy of each shard, in the order of reporting.
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
    org: str = ""
    server: str = ""
    version: str | None = None
    failures: int = 1
    changed: str = ""
    agents: Sequence[str] = ()
    deploys: Sequence[Deploy] = ()

    @property
    def asks_older_version(self) -> bool:
        """True if all running versions are newer than the required one: the request is outdated, not the shard."""
        if "version" not in self.failed or self.version is None or not self.mine.online:
            return False
        wanted = parse_version(self.version)
        versions = [parse_version(each.version) for each in self.mine.online]
        return wanted is not None and all(runs is not None and runs >= wanted for runs in versions)

    @property
    def lacks_deploy(self) -> bool:
        """True if no deploy of the shard was reported, so that the deployed version is unknown."""
        return self.deployed_at is None

    @property
    def has_wrong_request(self) -> bool:
        """True if the shard has no known fault and only the request does not fit."""
        excused = {"version"} if self.asks_older_version else set()
        return set(self.failed) <= excused | ({"canary"} if self.lacks_deploy else set())

    @property
    def may_destroy(self) -> bool:
        """True if parts of the shard may be destroyed: its deploy was reported, and it is inactive.

        False if the request asks for an older version.
        """
        return not self.lacks_deploy and not self.asks_older_version and self.ruling.role is Role.INACTIVE

    @property
    def is_needed(self) -> bool:
        """True if users may depend on it, whatever its role: it takes jobs, or only it works during an outage."""
        return bool(self.taken) or bool(self.users.hurt and (self.mine.online or self.mine.running))

    @property
    def mine(self) -> ShardStatus:
        """The status of the shard itself."""
        return self.shards.get(self.shard) or ShardStatus(self.shard)


def next_steps(failure: GateFailure) -> list[NextStep]:
    """Returns the steps for a failing shard, in order."""
    if failure.ruling.role is Role.ACTIVE:
        return [*_alarm(failure), *_looks(failure), *_others(failure), *_agents(failure), _break_glass(failure)]
    if failure.has_wrong_request:
        return [*_alarm(failure), *_looks(failure)]
    candidates = [_provision(failure)]
    if failure.may_destroy:
        candidates += [_shut_down(failure), _clean_up(failure), _delete(failure), _taint(failure)]
    repairs = [step for step in candidates if step is not None]
    return [*_alarm(failure), *_looks(failure), *_agents(failure), *repairs, _break_glass(failure)]


def job_list(running: Collection[RunningJob]) -> str:
    """Renders running jobs by id, up to `MOST_NAMED`."""
    named = [_job(each) for each in sorted(running, key=lambda each: (each.job_id or 0, each.runner))]
    return _some(named)


def runner_list(runners: Sequence[str]) -> str:
    """Renders names of runners, up to `MOST_NAMED`."""
    return _some(sorted(runners))


def warning(running: Collection[RunningJob], what: str) -> str:
    """Renders the warning of a step that stops machines, with the jobs that run on them."""
    if not running:
        return f"Warning: check again first; as far as known, {what} interrupts no running job."
    return f"Warning: {what} would interrupt {counted(len(running), 'running job')}: {job_list(running)}."


def _alarm(failure: GateFailure) -> list[NextStep]:
    if not failure.users.hurt:
        return []
    return [NextStep("raise the alarm", f"{failure.users.text}. Notify users, and repair first what users need")]


def _looks(failure: GateFailure) -> list[NextStep]:
    """Returns steps that change nothing: wait, check, ask."""
    mine, shard, found = failure.mine, failure.shard, []
    if mine.coming:
        why = "starting, or offline since moments ago. The steps below are for what has not come by then"
        until = clock_time(max(mine.coming.values()))
        found.append(NextStep(f"wait until {until} for {runner_list([*mine.coming])} of {shard}", why))
    if failure.taken and failure.ruling.role is not Role.ACTIVE:
        jobs = counted(failure.taken, "job")
        why = f"it is not active, but GitHub assigned it {jobs} lately. A shard that takes jobs is not "
        found.append(NextStep(f"find out why {shard} takes jobs", why + "destroyed: they may be users' jobs"))
    if "deaths" in failure.failed:
        advice = next((f"; {death.advice_now.rstrip('.')}" for death in mine.deaths if death.advice), "")
        why = f"{causes(mine.deaths)}{advice}. Until that is fixed, newly provisioned runners die, too"
        found.append(NextStep(f"find out why runners of {shard} die: `ghapp explain`", why))
    if "canary" in failure.failed and failure.lacks_deploy:
        found.append(_report_deploy(failure, "the canary must run after the deploy"))
    elif "canary" in failure.failed and mine.online:
        why = "its runners are online, but none has completed a job since the deploy: their labels or group may not "
        found.append(NextStep(f"send a canary job to {shard}", why + "match any job"))
    if "version" in failure.failed and mine.online:
        have = sorted({each.version or "unknown" for each in mine.online})
        newer = f", newer than {failure.version}: require that version instead" if failure.asks_older_version else ""
        found.append(
            NextStep(f"check the runner version of {shard}", f"its runners have version {', '.join(have)}{newer}")
        )
    if failure.provision is not None and failure.provision.errors:
        why = f"it ended with: {failure.provision.errors[0]}. Until that is fixed, provisioning fails the same way"
        why += f". Changed since: {failure.changed}" if failure.changed else ""
        found.append(NextStep("fix the provisioning error", why))
    if failure.lacks_deploy and failure.ruling.role is Role.INACTIVE and "canary" not in failure.failed:
        found.append(_report_deploy(failure, "destructive steps are listed only after that"))
    return found


def _agents(failure: GateFailure) -> list[NextStep]:
    if not failure.mine.unhealthy:
        return []
    names = runner_list([each.name for each in failure.mine.unhealthy])
    risk = _by_hand(failure)
    why = f"{risk + '. ' if risk else ''}{'; '.join(failure.agents)}. {ON_A_MACHINE}"
    return [NextStep(f"check the agents of {failure.shard}: {names}", why)]


def _by_hand(failure: GateFailure) -> str:
    """Renders the risk of starting the agent by hand on a shard that is not active; empty for the active shard."""
    if failure.ruling.role is not Role.INACTIVE:
        return ""
    shard, active = failure.shard, failure.ruling.active or "the active shard"
    return (
        f"Warning: {shard} is inactive. An agent that is started on it by hand takes users' jobs beside {active}, and "
        f"stopping {shard} later kills the job that it took"
    )


def _report_deploy(failure: GateFailure, why: str) -> NextStep:
    role = Role.INACTIVE if failure.ruling.role is Role.INACTIVE else Role.ACTIVE
    command = report_command(failure.server, failure.org, failure.pool, failure.shard, role)
    reason = f"none was reported, and {why}. The pipeline that deploys it does that; see {DOCS}/gate.md#in-a-deploy"
    by_admin = f"By hand, where it was deployed just now, an admin of ghapp runs: {command}"
    return NextStep(f"report the deploy of {failure.shard}", reason, by_admin=by_admin)


WAIT_SECONDS = 600
"""How long the command waits that is shown for a gate that does not pass."""


def wait_command(org: str, pool: str, shard: str) -> str:
    """Returns the command that waits until the gate passes."""
    return shell_command("ghapp", "gate", org, pool, shard, "--timeout", str(WAIT_SECONDS))


def report_command(server: str, org: str, pool: str, shard: str, role: Role) -> str:
    """Returns the command that reports a deploy, with the token that it needs; a pipeline does it by itself.

    Without a shard it has the variable SHARD of the shell in its place, so that it fails unless that is set.
    """
    path = "/".join(("v1/orgs", path_segment(org), "pools", quote(pool, safe=""), "shards"))
    address = f'"{server.rstrip("/") or "$GHAPP_URL"}/{path}/{quote(shard, safe="") or "$SHARD"}"'
    body = f"""-d '{{"role": "{role}"}}'"""
    token = shell_command("ghapp", "token", "create", "--org", org, "--scope", "claim")
    return (
        f'`curl --fail-with-body -X PUT -H "Authorization: Bearer $GHAPP_TOKEN" {body} {address}`, '
        f"with the token of `GHAPP_TOKEN=$({token})`"
    )


def _provision(failure: GateFailure) -> NextStep | None:
    if _is_futile(failure):
        return None
    why = f"changed since the failure: {failure.changed}; " if failure.changed else ""
    why += f"it adds what {failure.shard} lacks and keeps what exists. Warning: if the plan destroys anything, do not "
    why += "apply it"
    if failure.provision is not None and failure.provision.destroyed:
        why += f"; according to its log, the last run destroyed {failure.provision.destroyed}"
    if failure.provision is not None and failure.provision.destroyed_before and failure.provision.lacking:
        why += f"; {counted(failure.provision.lacking, 'resource')} were destroyed and not added again"
    return NextStep(f"provision {failure.shard} again", why, StepLevel.PROVISION, failure.shard)


def _shut_down(failure: GateFailure) -> NextStep | None:
    if failure.failures >= SEVERAL_FAILURES or not _is_dispensable(failure):
        return None
    why = f"{_futile(failure)}this can be undone: nothing is destroyed, and the shard is started again. "
    why += _confirm(failure) + warning(failure.mine.running.values(), f"shutting down {failure.shard} now")
    return NextStep(f"shut down {failure.shard} and start it again", why, StepLevel.SHUT_DOWN, failure.shard)


def _clean_up(failure: GateFailure) -> NextStep | None:
    """Only if another shard with a known runner is active, and users do not depend on this one."""
    if failure.failures < SEVERAL_FAILURES or not _is_dispensable(failure):
        return None
    why = f"{_futile(failure)}it has failed {failure.failures} times in a row, so it starts from an empty state. "
    why += _confirm(failure) + warning(failure.mine.running.values(), f"cleaning up {failure.shard} now")
    why += f" Never do this to {failure.ruling.active}, which is active"
    return NextStep(f"clean up {failure.shard} and provision it again", why, StepLevel.CLEAN_UP, failure.shard)


def _delete(failure: GateFailure) -> NextStep | None:
    unhealthy = failure.mine.unhealthy
    if not unhealthy and (not _is_futile(failure) or failure.is_needed):
        return None
    target = runner_list([each.name for each in unhealthy]) if unhealthy else f"the machines of {failure.shard}"
    why = f"{_futile(failure)}if the steps above did not help; then provision. {_confirm(failure)}"
    why += _others_running(failure)
    return NextStep(f"delete unhealthy runners: {target}", why, StepLevel.DELETE, failure.shard)


def _others_running(failure: GateFailure) -> str:
    """Renders the jobs that the deletion of unhealthy runners spares: none of them has a job."""
    running, shard = failure.mine.running.values(), failure.shard
    if running and failure.mine.unhealthy:
        jobs = f"{counted(len(running), 'running job')} on other runners of {shard}: {job_list(running)}"
        return f"Warning: delete only these; deleting more would interrupt {jobs}."
    if running:
        return warning(running, f"deleting the machines of {shard}")
    return (
        f"Warning: check again first; no {'other ' if failure.mine.unhealthy else ''}running job is known on {shard}."
    )


def _taint(failure: GateFailure) -> NextStep | None:
    if not _is_dispensable(failure):
        return None
    why = "if the steps above did not help: the next provisioning, and nothing else, destroys and recreates tainted "
    why += f"resources. {_confirm(failure)}"
    why += warning(failure.mine.running.values(), f"recreating {failure.shard}")
    return NextStep(
        f"taint the resources of {failure.shard} and provision it again", why, StepLevel.TAINT, failure.shard
    )


def _is_dispensable(failure: GateFailure) -> bool:
    """True if another shard with a known runner is active, and users do not depend on this one."""
    return failure.ruling.active in failure.shards and not failure.is_needed


def _confirm(failure: GateFailure) -> str:
    """Renders the confirmation required before each destructive step."""
    stack = failure.pool or "its pool"
    return (
        f"First confirm stack {stack}, shard {failure.shard}, role {failure.ruling.role.value}; declare the step, and "
        "announce it to those whose jobs run there. "
    )


def _others(failure: GateFailure) -> list[NextStep]:
    """Returns the shards that may take over: a gate that passes there has the switch as its step, and no other has."""
    return [
        NextStep(
            f"run the gate for {name}",
            f"{counted(len(each.online), 'runner')} of it online. If it passes, make it active and repair "
            f"{failure.shard} without pressure; the same fault may affect {name}",
        )
        for name, each in sorted(failure.shards.items())
        if name != failure.shard
        and each.online
        and may_take_over(name, failure.deploys, is_outage=failure.users.hurt is True)
    ]


def _break_glass(failure: GateFailure) -> NextStep:
    why = "if nothing above has helped: repair it by hand, bypassing the automation, in a pair, and log each step. "
    why += (
        f"After that succeeds: verify it (run the gate), make {failure.shard} active, shut down the other shard, and "
    )
    why += "run the whole pipeline once for a clean run. The same fault may affect the other shard."
    if failure.ruling.active is not None:
        why += f" Warning: {failure.ruling.active} is active; any change to it affects users."
    why = f"{why} {_by_hand(failure)}".strip()
    return NextStep("break glass", why, StepLevel.BREAK_GLASS, failure.ruling.active or failure.shard)


def _is_futile(failure: GateFailure) -> bool:
    return failure.provision is not None and failure.provision.is_futile and not failure.changed


def _futile(failure: GateFailure) -> str:
    if not _is_futile(failure):
        return ""
    return (
        "provisioning again does not help unless something was changed since, which `--changed` names: its log says "
        "0 added, 0 changed, 0 destroyed; "
    )


def _job(running: RunningJob) -> str:
    if running.job_id is None:
        return f"one on {running.runner}"
    return f"{running.job_id} of {running.repository}" if running.repository else str(running.job_id)


def _some(named: Sequence[str]) -> str:
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def cleanup_steps(
    shard: str,
    ruling: ShardRole,
    shards: Mapping[str, ShardStatus],
    taken: Mapping[str, int],
    deploys: Sequence[Deploy] = (),
    *,
    is_outage: bool = False,
) -> list[NextStep]:
    """Returns the steps for a passing shard: no change to the active shard, and no stop of a standby, before a switch.

    A switch is proposed only to a shard whose deploy is open: reported after the last switch. During an outage it is
    proposed to any inactive shard that passes. Another shard counts as left over from a switch only on evidence: it
    took jobs before the last reported switch, or its own last deploy was reported before that switch; without a
    reported switch, it took more jobs than canaries would. Otherwise it may be the standby, and needs nothing.

    Args:
        shard: the passing shard, in lower case.
        ruling: the active shard.
        shards: all known shards.
        taken: number of jobs each shard took lately.
        deploys: the last reported deploy of each shard, in the order of reporting.
        is_outage: True if users are affected.
    """
    others = [] if ruling.active is None else sorted(shards.keys() - {shard, ruling.active})
    there = [shards[name] for name in others if shards[name].is_there]
    todo = [
        NextStep(
            f"drain {each.shard}, then stop it",
            "two live shards cost money and cause confusion. "
            + _still(taken.get(each.shard, 0))
            + warning(each.running.values(), f"stopping {each.shard} now"),
            StepLevel.CLEAN_UP,
            each.shard,
        )
        for each in there
        if _is_left_over(each, ruling, taken, deploys)
    ]
    if ruling.role is Role.ACTIVE:
        left = {each.changes for each in todo}
        opened = [each.shard for each in there if each.shard not in left and _has_open_deploy(each.shard, deploys)]
        return [*(_ask_about(name, ruling) for name in opened), *todo]
    if not may_take_over(shard, deploys, is_outage=is_outage):
        return todo
    of = f" in place of {ruling.active}" if ruling.active else ""
    why = "it passes. Run the gate again once it is active: then it lists what is left to clean up"
    return [NextStep(f"make {shard} active{of}", why), *todo]


def may_take_over(shard: str, deploys: Sequence[Deploy], *, is_outage: bool) -> bool:
    """True if a switch to an inactive shard is proposed once it passes.

    An active shard that fails without harm to users is repaired in place: it may be busy with all of its runners, and
    a standby that was deployed long ago is no better.
    """
    return is_outage or _has_open_deploy(shard, deploys)


def _has_open_deploy(shard: str, deploys: Sequence[Deploy]) -> bool:
    """True if the shard's deploy was reported, and no switch since.

    A shard that only reports its new role after a switch was not deployed again: its deploy was reported first before.
    """
    switch = next((each for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    since = deploys if switch is None else deploys[deploys.index(switch) + 1 :]
    at = 0.0 if switch is None else switch.reported_at
    return any(each.shard == shard and (each.first_reported_at or each.reported_at) >= at for each in since)


def _is_left_over(status: ShardStatus, ruling: ShardRole, taken: Mapping[str, int], deploys: Sequence[Deploy]) -> bool:
    order = [each.shard for each in deploys]  # the order of reporting, independent of clocks
    switch = next((each for each in reversed(deploys) if each.role is Role.ACTIVE), None)
    if switch is None or switch.shard != ruling.active:
        return taken.get(status.shard, 0) > MOST_CANARIES
    if any(at < switch.reported_at for at in status.starts.values()):
        return True
    return status.shard in order and order.index(status.shard) < order.index(switch.shard)


def _ask_about(name: str, ruling: ShardRole) -> NextStep:
    why = f"its deploy was reported, and no switch from {name} to {ruling.active} since, so it may be the standby that "
    why += (
        f"takes over next: keep it. If {ruling.active} took over from {name} after that deploy, the pipeline did not "
    )
    why += f"report that switch; see {DOCS}/gate.md#in-a-deploy"
    return NextStep(f"run the gate for {name}", why)


def _still(taken: int) -> str:
    if not taken:
        return ""
    return f"It took {counted(taken, 'job')} lately: first make sure that it gets no more. "
