"""How each shard of a pool stands: who is online, what it has taken, what it runs, who of it died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ghapp.health import pool_matching
from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import Death
from ghapp.health.gate.active_shard import ACTIVE_SECONDS
from ghapp.health.job import RUNNING_TOO_LONG_SECONDS, Job, is_over
from ghapp.health.pool_matching import pool_of
from ghapp.health.runner.evidence import Evidence, Survey
from ghapp.health.runner.observations import OVERTAKING_SECONDS
from ghapp.health.runner.verdict import Limits, State, judge
from ghapp.health.shards import ShardRule, shard_named, shard_of

WAITING_SECONDS = 60.0
"""GitHub queues a job anew that nobody accepted for this long: from then on somebody waits."""

LOOP_SECONDS = 600.0
"""Deaths this recent count."""

HARMLESS = frozenset({Cause.CLEAN_EXIT, Cause.TERMINATED})
"""Ends that somebody meant: a job done, a pool made smaller."""

UNHEALTHY = frozenset({State.OFFLINE, State.SUSPECT, State.INVALIDATED})


class RunningJob(NamedTuple):
    """A job that a shard runs just now. The id is None where a runner is busy and nobody said with what."""

    job_id: int | None
    repository: str
    runner: str


class TakenJob(NamedTuple):
    """A job that a runner took at `at` (epoch seconds); whether it is over is not said."""

    job_id: int
    runner_id: int
    at: float


@dataclass(frozen=True, slots=True)
class ShardInputs:
    """All that is known of one pool, as of one moment.

    Attributes:
        rule: the pool.
        rules: every pool of the org, in the order in which they match.
        runners: every runner of the org, whatever its pool.
        jobs: every job of the org that is not over.
        deaths: the latest of the org; None where no cluster is watched.
        taken: every job that a runner of the org took lately. A runner's evidence has only its last one.
    """

    rule: ShardRule
    rules: Sequence[ShardRule]
    runners: Collection[Evidence]
    survey: Survey
    limits: Limits = field(default_factory=Limits)
    jobs: Collection[Job] = ()
    deaths: Sequence[Death] | None = None
    taken: Sequence[TakenJob] = ()


@dataclass(slots=True)
class ShardStatus:
    """One shard, its name in lower case.

    Attributes:
        online: registered, online, and good for another job.
        unhealthy: offline, missing or lost, and not at work.
        starting: how many may yet come online, those that went offline a moment ago among them.
        starts: job → when it was taken. Each job counts once, however many one runner took.
        completed: jobs that ended: (when taken, None if nobody said; when the runner was first seen).
        running: by the runner's name.
        deaths: those of the last minutes that nobody meant.
    """

    shard: str
    online: list[Evidence] = field(default_factory=list)
    unhealthy: list[Evidence] = field(default_factory=list)
    starting: int = 0
    starts: dict[int, float] = field(default_factory=dict)
    completed: list[tuple[float | None, float]] = field(default_factory=list)
    running: dict[str, RunningJob] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)

    @property
    def idle(self) -> int:
        """How many wait for a job."""
        return sum(each.name not in self.running for each in self.online)

    @property
    def is_there(self) -> bool:
        """Whether there is anything of it that costs, or may cost, money."""
        return bool(self.online or self.unhealthy or self.starting or self.running)

    def taken(self, since: float, now: float) -> int:
        """How many jobs it took in that time. GitHub's clock may run a little ahead of ours."""
        return sum(since <= at <= now + OVERTAKING_SECONDS for at in self.starts.values())

    def taken_lately(self, now: float) -> int:
        """How many jobs it took in the last minutes."""
        return self.taken(now - ACTIVE_SECONDS, now)

    def has_completed_since(self, deployed_at: float) -> bool:
        """Whether a job was taken and completed since: one that began before says nothing of what was deployed."""
        return any((first_seen if at is None else at) >= deployed_at for at, first_seen in self.completed)


def shard_statuses(known: ShardInputs, now: float) -> dict[str, ShardStatus]:
    """Every shard of the pool of which a runner is known, by its name in lower case."""
    members = {
        each.id: (each, shard.lower())
        for each in members_of(known)
        if (shard := shard_of(each, known.rule)) is not None
    }
    found: dict[str, ShardStatus] = {shard: ShardStatus(shard) for _, shard in members.values()}
    for evidence, shard in members.values():
        _count(found[shard], evidence, known, now)
    for taken in known.taken:
        if taken.runner_id in members:
            found[members[taken.runner_id][1]].starts[taken.job_id] = taken.at
    for job in known.jobs:
        if job.status == "running" and not is_over(job, now) and job.runner_id in members:
            evidence, shard = members[job.runner_id]
            found[shard].starts[job.id] = job.started_at if job.started_at is not None else job.queued_at
            found[shard].running[evidence.name] = RunningJob(job.id, job.repository, evidence.name)
    by_name = {evidence.name: shard for evidence, shard in members.values()}
    for shard, death in _unmeant(known, by_name, now):
        found.setdefault(shard, ShardStatus(shard)).deaths.append(death)
    return found


def members_of(known: ShardInputs) -> list[Evidence]:
    """The runners of the pool, on whatever shard."""
    return [each for each in known.runners if _is_of(known, each)]


def waiting(known: ShardInputs, active: str | None, now: float) -> list[Job]:
    """Jobs that have been queued for too long and that this pool could take, oldest first.

    Not those that ask for a shard that is not active, by its label: canaries hurt nobody.
    """
    borne = {frozenset(label.lower() for label in each.labels) for each in known.runners if _is_of(known, each)}
    found = [
        job
        for job in known.jobs
        if job.status == "queued"
        and not is_over(job, now)
        and now - job.queued_at >= WAITING_SECONDS
        and _is_for(known, job, active)
        and _could_take(known, borne, job)
    ]
    return sorted(found, key=lambda job: (job.queued_at, job.id))


def causes(deaths: Iterable[Death]) -> str:
    """How many died of what, most first."""
    counts = Counter(death.cause for death in deaths)
    return ", ".join(f"{count} {cause}" for cause, count in sorted(counts.items(), key=lambda row: (-row[1], row[0])))


def _count(standing: ShardStatus, evidence: Evidence, known: ShardInputs, now: float) -> None:
    started, ended = evidence.job_started_at, evidence.job_ended_at
    if evidence.job_id is not None and (at := started if started is not None else ended) is not None:
        standing.starts[evidence.job_id] = at
    if ended is not None:
        standing.completed.append((started, evidence.first_seen))
    state = judge(evidence, known.survey, now, known.limits).state
    if state is State.RETIRED:
        return
    if state is State.INVALIDATED:
        if evidence.removed_at is None:
            standing.unhealthy.append(evidence)
        return
    job = evidence.running_job
    if job is not None and started is not None and now - started <= RUNNING_TOO_LONG_SECONDS:
        standing.running[evidence.name] = RunningJob(job, "", evidence.name)
    elif evidence.busy and evidence.listed:
        standing.running[evidence.name] = RunningJob(None, "", evidence.name)
    if state is State.HEALTHY and evidence.registered and evidence.online and not _is_done(evidence):
        standing.online.append(evidence)
    elif state is State.STARTING or (state is State.HEALTHY and not evidence.online):
        standing.starting += 1
    elif state in UNHEALTHY and evidence.name not in standing.running:
        standing.unhealthy.append(evidence)


def _is_done(evidence: Evidence) -> bool:
    """Whether an ephemeral runner has had its one job; lists go on showing it for a while."""
    return bool(evidence.ephemeral) and evidence.job_ended_at is not None


def _unmeant(known: ShardInputs, by_name: Mapping[str, str], now: float) -> Iterable[tuple[str, Death]]:
    """Recent deaths that nobody meant, with their shards. A runner that died young may never have been listed."""
    for death in known.deaths or ():
        if death.cause in HARMLESS or not now - LOOP_SECONDS <= death.at <= now + OVERTAKING_SECONDS:
            continue
        shard = by_name.get(death.runner_name)
        if shard is None and known.rule.shard_name is not None and death.pool in ("", known.rule.name):
            named = shard_named(death.runner_name, known.rule.shard_name)
            shard = None if named is None else named.lower()
        if shard is not None:
            yield shard, death


def _is_of(known: ShardInputs, evidence: Evidence) -> bool:
    return pool_of(evidence.labels, evidence.custom_labels, known.rules) == known.rule.name


def _is_for(known: ShardInputs, job: Job, active: str | None) -> bool:
    asked = None if active is None else pool_matching.shard_of(job.labels, known.rule)
    return asked is None or asked.lower() == active


def _could_take(known: ShardInputs, borne: Collection[frozenset[str]], job: Job) -> bool:
    wanted = {label.lower() for label in job.labels}
    if any(wanted <= labels for labels in borne):
        return True
    custom = [label for label in job.labels if label.lower() != "self-hosted"]
    return pool_of(job.labels, custom, known.rules) == known.rule.name
