"""Judges whether a shard may take over: the post-deploy gate of a blue/green pool.

The gate passes if GitHub answers and has listed the runners since the deploy, the shard's role is known, enough of its
runners can take a job, its runners do not die in a loop, and, if requested, a canary job was completed. The impact on
users, shards that take jobs at once, and jobs that a stop would interrupt are shown and do not decide: a good shard
may take over above all during an outage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

from ghapp.gate import active_shard, next_steps, shard_checks
from ghapp.gate.active_shard import ACTIVE_SECONDS, ActiveShardAnswer, Deploy, Role, ShardRole, SourceStatement
from ghapp.gate.agents import agent_facts
from ghapp.gate.deploy_results import failures_now, provision_of
from ghapp.gate.next_steps import GateFailure, NextStep, UserImpact, cleanup_steps, report_command
from ghapp.gate.shard_checks import Check
from ghapp.gate.shard_status import ShardInputs, ShardStatus, shard_statuses, waiting
from ghapp.gate.terraform_log import TerraformRun
from ghapp.runners.evidence import Survey
from ghapp.runners.next_attempt import NEEDS_AN_OWNER, blindness_of
from ghapp.untrusted_text import shell_command
from ghapp.wording import counted

TWO_MINUTES = 120
MOST_AGENTS = 3
"""Agents whose facts are shown; the others are mostly alike."""

LATELY = "in the last 10 minutes"


def user_impact(active: str | None, shards: Mapping[str, ShardStatus], known: ShardInputs, now: float) -> UserImpact:
    """Returns the impact on users at `now`; `active` is the active shard in lower case, None if it is unknown."""
    wait = waiting(known, active, now)
    queue = f"{counted(len(wait), 'waiting job')}, the oldest for {_for(now - wait[0].queued_at)}" if wait else ""
    if active is None:
        why = "the active shard is unknown"
        return UserImpact(None, f"the impact on users is unknown: {why}{'; ' + queue if queue else ''}")
    status = shards.get(active) or ShardStatus(active)
    taken, online = status.taken_lately(now), len(status.online)
    has = f"the active shard {active} has"
    if active not in shards:
        others = ", ".join(sorted(shards)) or "no shard"
        text = f"no runner of the active shard {active} is known, only of {others}; {queue or 'no job waits'}"
        return UserImpact(hurt=True, text=f"{text}: an outage, or the name is wrong")
    if not online:
        before = f"; it took {counted(taken, 'job')} {LATELY}" if taken else ""
        return UserImpact(hurt=True, text=f"{has} no runner online{before}{'; ' + queue if queue else ''}: an outage")
    if taken and not (wait and status.idle and not status.taken(wait[0].queued_at, now)):
        return UserImpact(hurt=False, text=f"{has} taken {counted(taken, 'job')} {LATELY}; no outage")
    if wait and status.idle:
        idle = counted(status.idle, "idle runner")
        return UserImpact(hurt=True, text=f"{has} {idle} online and takes no jobs; {queue}: users are affected")
    if wait:
        return UserImpact(hurt=False, text=f"{has} {counted(online, 'runner')} online, all busy; {queue}; no outage")
    return UserImpact(hurt=False, text=f"{has} {counted(online, 'runner')} online, and no job waits; no outage")


def _for(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < TWO_MINUTES else f"{seconds / 60:.0f} minutes"


STOP = "stop"
SETTLED = "settled"
NOT_SHOWN = "an error, which the log of the provisioning shows"
"""Stands for an error where the reader may not see logs."""

LONGEST_CHANGE = 200
"""Maximum characters of the text that names what was changed."""


@dataclass(frozen=True, slots=True)
class GateRequest:
    """A request to the gate.

    Attributes:
        shard: its name, in any case.
        min_online: number of runners that must be able to take a job; 1 or more.
        version: required version of the runner agent for that many runners; None: any.
        canary: True if a runner must have completed a job since the deploy.
        provision: result of the preceding provisioning, if its log was given.
        expect_new: True if the shard may be unknown.
        failures: number of failures in a row that the asker counts, including this one. What ghapp counts itself from
            the reported deploys is compared with it, and the larger number holds.
        changed: what was changed since the failure, in the asker's words; empty if nothing was.
    """

    shard: str
    min_online: int = 1
    version: str | None = None
    canary: bool = False
    provision: TerraformRun | None = None
    expect_new: bool = False
    failures: int = 1
    changed: str = ""


@dataclass(frozen=True, slots=True)
class ActiveShardSources:
    """Sources of the active shard: `configured` is `active_command` or `active_url`, empty if neither is set."""

    deploys: Sequence[Deploy] = ()
    configured: str = ""
    answer: ActiveShardAnswer | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of the gate."""

    pool: str
    shard: str
    role: Role
    checks: tuple[Check, ...]
    next: tuple[NextStep, ...]
    observed_at: float | None = None
    """Start of the list of runners that the result is based on; None without such a list."""
    active: str | None = None
    """The active shard, in lower case; None if it is unknown or the sources disagree."""
    check_url: str | None = None
    """The page of the check run "Runner gate" of its last deploy; None without one, or if the reader may not see it."""

    @property
    def passed(self) -> bool:
        """True if the shard may take over."""
        return all(check.passed for check in self.checks if check.decides)

    @property
    def failed(self) -> bool:
        """True if the shard was judged by a list since its deploy, its role is known, and a check failed."""
        failed = {check.name for check in self.checks if check.decides and not check.passed}
        return bool(failed) and not failed & {shard_checks.GITHUB, shard_checks.ROLE, shard_checks.SINCE_DEPLOY}


def judge_gate(question: GateRequest, known: ShardInputs, sources: ActiveShardSources, now: float) -> Gate:
    """Judges whether a shard of the pool may take over at `now`, and lists the next steps."""
    shard = question.shard.lower()
    shards = shard_statuses(known, now)
    taken = _taken(shards, sources, now)
    ruling = active_shard.shard_role(shard, _statements(question, taken, sources, now))
    github = shard_checks.github(known.survey, known.limits, now)
    users = user_impact(ruling.active, shards, known, now) if github.passed else _unknown_impact(github)
    mine = shards.get(shard) or ShardStatus(shard)
    deploy = active_shard.last_deploy(sources.deploys, shard)
    provision = provision_of(deploy, question.provision)
    if provision is not None and provision.errors and not known.shows_logs:
        provision = provision._replace(errors=(NOT_SHOWN,))
    deciding = [github, shard_checks.role(ruling), *_of_the_shard(question, mine, known, shards, github, sources)]
    failed = {check.name for check in deciding if not check.passed}
    if ruling.role is Role.UNKNOWN:
        steps = [_stop(ruling, known)]
    elif not github.passed:
        steps = [_wait(github, known.survey, known.org)]
    elif shard_checks.SINCE_DEPLOY in failed:
        steps = [_wait_for_list(shard)]
    elif not failed:
        steps = cleanup_steps(shard, ruling, shards, taken, sources.deploys, is_outage=users.hurt is True)
    else:
        steps = next_steps.next_steps(
            GateFailure(
                shard,
                ruling,
                failed,
                shards,
                users,
                None if deploy is None else deploy.deployed_at,
                None if question.provision is None and _has_passed(deploy) else provision,
                taken.get(shard, 0),
                pool=known.rule.name,
                org=known.org,
                server=known.server,
                version=question.version,
                failures=_failures(question, deploy, known, now),
                changed=question.changed,
                deploys=sources.deploys,
                agents=tuple(
                    agent_facts(each, known.pods, known.deaths or (), shows_logs=known.shows_logs)
                    for each in sorted(mine.unhealthy, key=lambda each: each.name)[:MOST_AGENTS]
                ),
            )
        )
    first = Check("users", users.hurt is False, users.text, decides=False)
    shown = [shard_checks.at_once(shards, now), shard_checks.running(ruling, shards)]
    if provision is not None:
        shown.insert(0, shard_checks.provision(provision))
    observed = known.survey.swept_at if github.passed else None
    return Gate(
        known.rule.name, question.shard, ruling.role, (first, *deciding, *shown), tuple(steps), observed, ruling.active
    )


def shard_roles(known: ShardInputs, sources: ActiveShardSources, now: float) -> dict[str, Role]:
    """Returns the role of each shard with a known runner, by name in lower case, as the gate without a canary."""
    shards = shard_statuses(known, now)
    statements = _statements(GateRequest(""), _taken(shards, sources, now), sources, now)
    return {shard: active_shard.shard_role(shard, statements).role for shard in shards}


def failing_text(question: GateRequest, known: ShardInputs, sources: ActiveShardSources, now: float) -> str:
    """Returns the sentence of the first check that fails, without names of repositories; empty if the gate passes."""
    checks = judge_gate(question, known.without_repositories, sources, now).checks
    return next((check.text for check in checks if check.decides and not check.passed), "")


def held_for(gate: Gate, held: float, settle: float) -> Gate:
    """Returns the gate with the check that it has passed for `settle` seconds; so far it has for `held`."""
    check = Check(SETTLED, held >= settle, f"it has passed without a gap for {floor(held)} of {settle:g} s")
    later = replace(gate, checks=(*gate.checks, check))
    if not gate.passed or check.passed:
        return later
    why = "it passes, but not long enough yet: runners that come and go are not ready. For when each runner was last "
    return replace(
        later, next=(NextStep("wait, then run the gate again", why + "seen and offline, run `ghapp explain`"),)
    )


def _has_passed(deploy: Deploy | None) -> bool:
    """True if the shard passed since its deploy: what fails now came later, and its provisioning says nothing of it."""
    return deploy is not None and deploy.passed_at is not None


def _failures(question: GateRequest, deploy: Deploy | None, known: ShardInputs, now: float) -> int:
    counted_here = 1 if deploy is None else failures_now(deploy, now, known.limits.startup_seconds)
    return max(question.failures, counted_here)


def _taken(shards: Mapping[str, ShardStatus], sources: ActiveShardSources, now: float) -> dict[str, int]:
    """Returns how many jobs each shard took lately; jobs from before a switch are not counted."""
    switched = active_shard.switched_at(sources.deploys, now)
    since = now - ACTIVE_SECONDS if switched is None else max(now - ACTIVE_SECONDS, switched)
    return {shard: each.taken(since, now) for shard, each in shards.items()}


def _statements(
    question: GateRequest, taken: Mapping[str, int], sources: ActiveShardSources, now: float
) -> list[SourceStatement]:
    words = [active_shard.jobs_state(taken, question.shard.lower() if question.canary else None)]
    if sources.configured:
        words.append(active_shard.answer_states(sources.configured, sources.answer, now))
    return [*words, active_shard.deploys_state(sources.deploys)]


def _unknown_impact(github: Check) -> UserImpact:
    return UserImpact(None, f"the impact on users is unknown: {github.text}")


def _of_the_shard(
    question: GateRequest,
    mine: ShardStatus,
    known: ShardInputs,
    shards: Mapping[str, ShardStatus],
    github: Check,
    sources: ActiveShardSources,
) -> list[Check]:
    if not github.passed:
        return [Check("online", passed=False, text="unknown while no complete list of runners can be read")]
    checks = [shard_checks.online(question.min_online, mine, shards, known.limits)]
    deploy = active_shard.last_deploy(sources.deploys, mine.shard)
    if deploy is not None and deploy.first_reported_at:
        checks.insert(0, shard_checks.since_deploy(known.survey, deploy))
    if question.version is not None:
        checks.append(shard_checks.version(question.min_online, question.version, mine))
    if known.deaths is not None:
        checks.append(shard_checks.deaths(mine))
    if question.canary:
        checks.append(shard_checks.canary(mine, deploy))
    return checks


def _stop(ruling: ShardRole, known: ShardInputs) -> NextStep:
    if ruling.disagree:
        why = "Change nothing until they agree: the shard that is changed now may be the one that works for users. "
        return NextStep(STOP, f"the sources disagree on the active shard: {ruling.text}. {why}{_metrics(known)}")
    report = report_command(known.server, known.org, known.rule.name, "", Role.ACTIVE)
    by_admin = "An admin of ghapp sets active_command or active_url, or sets SHARD to the one that works for users, "
    by_admin += f"and reports that: {report}"
    why = f"the active shard is unknown: {ruling.text}. Change nothing until it is known"
    return NextStep(STOP, why, by_admin=by_admin)


def _metrics(known: ShardInputs) -> str:
    """Returns where to see which shard works for users when the sources disagree."""
    jobs = shell_command("ghapp", "jobs", "--org", known.org, "--pool", known.rule.name)
    return (
        "Check for each shard: the jobs it took (check one-shard) and runs (check running-jobs), `ghapp_runners` by "
        f"state, the queue (`{jobs}`, or /demand of the API), and the answer of active_command or active_url"
    )


def _wait_for_list(shard: str) -> NextStep:
    why = "the last list is older than that and must not be used to judge or change the shard"
    return NextStep("wait for the next list of runners, then run the gate again", f"{shard} was deployed since: {why}")


def _wait(github: Check, survey: Survey, org: str) -> NextStep:
    """Returns what lets runners be read again: mostly waiting, but an owner must grant a missing permission."""
    why = "Do not change what cannot be observed. See `ghapp doctor`"
    if survey.failing_since is None or survey.failure not in NEEDS_AN_OWNER:
        why = f"{github.text}. {why} and githubstatus.com"
        return NextStep("wait until GitHub answers, then run the gate again", why)
    blindness = blindness_of(survey.failure, org)
    why = f"{blindness.meaning}: {blindness.fix}. {github.text}. {why}"
    return NextStep("have an owner of the organization let ghapp read the runners again, then run the gate again", why)
