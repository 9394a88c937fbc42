"""The shards of a pool: which runners each has, and its status: online runners, jobs taken and running, deaths.

A runner belongs to a shard by its label, its runner group, or the pattern of its name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from ghapp.deaths.cause import DEADLINE_EXCEEDED, Cause, OwnReason
from ghapp.deaths.death import Death, is_of
from ghapp.gate.active_shard import ACTIVE_SECONDS
from ghapp.installations import pool_matching
from ghapp.installations.pool_matching import PoolRule, pool_of, runner_pool
from ghapp.pods.pod import Pod
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.observations import OVERTAKING_SECONDS
from ghapp.runners.verdict import Limits, State, judge, silent_since
from ghapp.workflow_jobs.job import RUNNING_TOO_LONG_SECONDS, Job, is_over

LONGEST_SHARD = 100
LONGEST_PATTERN = 200
MOST_REPEATS = 3
"""Three repeats without nesting are matched quickly, whatever the name."""

LONGEST_NAME = 100
"""Characters of a runner's name that are matched. GitHub allows 64."""

_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_OTHER_GROUP = re.compile(r"\((?!\?P<shard>|\?:)")
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_REPEAT = re.compile(r"[*+{]")
_NAMED = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]*[A-Za-z0-9])?")


class ShardRule(PoolRule, Protocol):
    """A configured pool with its shard settings."""

    @property
    def shard_groups(self) -> Mapping[str, int]:
        """Shard → id of the runner group of its runners."""

    @property
    def shard_name(self) -> str | None:
        """A pattern of the runner's name that passes `flaw_of`."""


def has_shards(rule: ShardRule) -> bool:
    """True if the pool is configured to have shards."""
    return bool(rule.shard_label or rule.shard_groups or rule.shard_name)


def shard_of(evidence: Evidence, rule: ShardRule | None) -> str | None:
    """Returns the shard of a runner of that pool, by label, group or name in this order; None without a match."""
    if rule is None:
        return None
    if (labelled := pool_matching.shard_by_label(evidence.labels, rule)) is not None:
        return labelled
    for shard, group in rule.shard_groups.items():
        if group == evidence.group_id:
            return shard
    return None if rule.shard_name is None else shard_named(evidence.name, rule.shard_name)


@lru_cache(20_000)
def shard_named(name: str, pattern: str) -> str | None:
    """Returns the match of the pattern's group `shard` in a runner's name; None without a match."""
    found = re.search(pattern, name[:LONGEST_NAME])
    return None if found is None else found["shard"] or None


def is_shard(text: str) -> bool:
    """True if the text is a valid shard name: letters, digits and, between them, `.`, `_`, `:`, `-`."""
    return len(text) <= LONGEST_SHARD and _NAMED.fullmatch(text) is not None


def flaw_of(pattern: str) -> str:
    """Returns what a valid name pattern must be, if this one is invalid; else empty.

    Users choose the names of runners, so no name may cause a long search: a repetition must not contain another one,
    and there are at most `MOST_REPEATS`.
    """
    if len(pattern) > LONGEST_PATTERN:
        return f"a pattern of at most {LONGEST_PATTERN} characters"
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError):
        return "a regular expression"
    bare = _CLASS.sub("x", pattern)
    if set(groups) != {"shard"} or _OTHER_GROUP.search(bare):
        return "a pattern with the one group (?P<shard>…), and no other group but (?:…)"
    if _REPEATED_GROUP.search(bare) or len(_REPEAT.findall(bare)) > MOST_REPEATS:
        return f"a pattern that repeats no group, and has at most {MOST_REPEATS} of *, + and {{}}"
    return ""


WAITING_SECONDS = 60.0
"""After this time without a runner accepting it, GitHub queues a job again: from then on, a user is waiting."""

LOOP_SECONDS = 600.0
"""Deaths within this time count."""

HARMLESS = frozenset({Cause.CLEAN_EXIT, Cause.TERMINATED})
"""Intended ends: a job was done, or the pool was scaled down; but for those of `UNINTENDED`."""

UNINTENDED = frozenset(
    {
        "Evicted",
        OwnReason.STORAGE_LIMIT,
        DEADLINE_EXCEEDED,
        "Preempting",
        "Preempted",
        "PreemptionByScheduler",
        "DeletionByTaintManager",
        OwnReason.JOB_UNFINISHED,
    }
)
"""Reasons of ends that are not intended, whatever their cause. A drain or a shutdown of a node is intended."""

UNHEALTHY = frozenset({State.OFFLINE, State.SUSPECT, State.INVALIDATED})


class RunningJob(NamedTuple):
    """A running job of a shard. The id is None if a runner is busy and no delivery named the job."""

    job_id: int | None
    repository: str
    runner: str


class TakenJob(NamedTuple):
    """A job that a runner took at `at` (epoch seconds); it may be over."""

    job_id: int
    runner_id: int
    at: float


class CompletedJob(NamedTuple):
    """A job that ended with success.

    Attributes:
        at: when its runner took it (epoch seconds).
        first_seen: when its runner was first seen.
        ephemeral: True if its runner takes one job.
    """

    at: float
    first_seen: float
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class ShardInputs:
    """All inputs for one pool at one time.

    Attributes:
        rule: the pool.
        rules: all pools of the org, in the order in which they match.
        runners: all runners of the org, of any pool.
        jobs: all unfinished jobs of the org.
        deaths: the latest deaths of the org; None if no cluster is watched.
        taken: all jobs that the org's runners took lately. A runner's evidence has only its last job.
        ended: jobs of the org that ended within the last hour.
        pods: pods of the pool's runners that are not online, by name, from a fresh view.
        shows_logs: False if the reader may not see lines of logs.
        org: its name.
        server: address of the API, for commands to copy; empty if it is not known.
    """

    rule: ShardRule
    rules: Sequence[ShardRule]
    runners: Collection[Evidence]
    survey: Survey
    limits: Limits = field(default_factory=Limits)
    jobs: Collection[Job] = ()
    deaths: Sequence[Death] | None = None
    taken: Sequence[TakenJob] = ()
    ended: Sequence[Job] = ()
    pods: Mapping[str, Pod] = field(default_factory=dict)
    shows_logs: bool = True
    org: str = ""
    server: str = ""

    @property
    def without_repositories(self) -> ShardInputs:
        """The same without names of repositories and lines of logs, for a check run in a public repository."""
        return self.naming(frozenset())

    def naming(self, repositories: Collection[str]) -> ShardInputs:
        """Returns the same without logs, and with the names of these repositories alone: those the reader may read."""
        jobs = [job if job.repository in repositories else job._replace(repository="") for job in self.jobs]
        return replace(self, jobs=jobs, shows_logs=False)


@dataclass(slots=True)
class ShardStatus:
    """The status of one shard, its name in lower case.

    Attributes:
        online: registered and online runners that can take another job; an ephemeral one at work cannot.
        unhealthy: offline, missing or lost runners without a job.
        starting: runners that register, or have just registered, and are not online yet: until when each may start
            (epoch seconds), by its name.
        briefly_offline: runners that went offline moments ago: until when each is `healthy`, by its name.
        engaged: number of online ephemeral runners that have, or had, their only job.
        starts: job id → when it was taken. Each job counts once, even if one runner took several.
        completed: jobs that ended with success, on runners that were not lost since.
        newest_at: when its newest runner was first seen.
        running: by the runner's name.
        deaths: recent unintended deaths.
    """

    shard: str
    online: list[Evidence] = field(default_factory=list)
    unhealthy: list[Evidence] = field(default_factory=list)
    starting: dict[str, float] = field(default_factory=dict)
    briefly_offline: dict[str, float] = field(default_factory=dict)
    engaged: int = 0
    starts: dict[int, float] = field(default_factory=dict)
    completed: list[CompletedJob] = field(default_factory=list)
    newest_at: float = 0.0
    running: dict[str, RunningJob] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)

    @property
    def idle(self) -> int:
        """Number of online runners without a job."""
        return sum(each.name not in self.running for each in self.online)

    @property
    def coming(self) -> dict[str, float]:
        """Runners that may come online by themselves: until when each is waited for, by its name."""
        return {**self.starting, **self.briefly_offline}

    @property
    def known(self) -> int:
        """Number of its runners that are registered, or lost and not removed yet."""
        return len(self.online) + self.engaged + len(self.coming) + len(self.unhealthy)

    @property
    def is_there(self) -> bool:
        """True if the shard has anything that costs, or may cost, money."""
        return bool(self.online or self.unhealthy or self.coming or self.running)

    def taken(self, since: float, now: float) -> int:
        """Returns the number of jobs taken since then. GitHub's clock may be slightly ahead of ours."""
        return sum(since <= at <= now + OVERTAKING_SECONDS for at in self.starts.values())

    def taken_lately(self, now: float) -> int:
        """Returns the number of jobs taken within `ACTIVE_SECONDS`."""
        return self.taken(now - ACTIVE_SECONDS, now)

    def has_completed_since(self, deployed_at: float) -> bool:
        """True if a job was taken since the deploy, and completed with success: an earlier job ran on the old version.

        If the deploy brought new runners, so did one that was there before. An ephemeral one from before always
        did, because only its successor has the new version.
        """
        has_new = self.newest_at >= deployed_at
        return any(
            each.at >= deployed_at and (each.first_seen >= deployed_at or not (has_new or each.ephemeral))
            for each in self.completed
        )


def shard_statuses(known: ShardInputs, now: float) -> dict[str, ShardStatus]:
    """Returns all shards of the pool with a known runner, by name in lower case."""
    members = {
        each.id: (each, shard.lower())
        for each in members_of(known)
        if (shard := shard_of(each, known.rule)) is not None
    }
    found: dict[str, ShardStatus] = {shard: ShardStatus(shard) for _, shard in members.values()}
    for evidence, shard in members.values():
        _count(found[shard], evidence, known, now)
    for job in known.ended:
        if job.conclusion == "success" and job.started_at is not None and job.runner_id in members:
            evidence, shard = members[job.runner_id]
            is_lost = judge(evidence, known.survey, now, known.limits).state is State.INVALIDATED
            if evidence.ephemeral or not is_lost:  # the registration of an ephemeral one ends with its job
                found[shard].completed.append(
                    CompletedJob(job.started_at, evidence.first_seen, bool(evidence.ephemeral))
                )
    for taken in known.taken:
        if taken.runner_id in members:
            found[members[taken.runner_id][1]].starts[taken.job_id] = taken.at
    for job in known.jobs:
        if job.status == "running" and not is_over(job, now) and job.runner_id in members:
            evidence, shard = members[job.runner_id]
            found[shard].starts[job.id] = job.started_at if job.started_at is not None else job.queued_at
            found[shard].running[evidence.name] = RunningJob(job.id, job.repository, evidence.name)
    for shard, death in _unintended(known, members, now):
        found.setdefault(shard, ShardStatus(shard)).deaths.append(death)
    return found


def members_of(known: ShardInputs) -> list[Evidence]:
    """Returns the runners of the pool, of any shard."""
    return [each for each in known.runners if _is_of(known, each)]


def waiting(known: ShardInputs, active: str | None, now: float) -> list[Job]:
    """Returns jobs that have been queued for too long and that this pool could take, oldest first.

    Jobs that request an inactive shard by label are left out: a waiting canary affects no user. So are jobs that wait
    for an approval: no runner could take them.
    """
    label_sets = {frozenset(label.lower() for label in each.labels) for each in known.runners if _is_of(known, each)}
    found = [
        job
        for job in known.jobs
        if job.status == "queued"
        and not job.waiting
        and not is_over(job, now)
        and now - job.queued_at >= WAITING_SECONDS
        and _is_for(known, job, active)
        and _could_take(known, label_sets, job)
    ]
    return sorted(found, key=lambda job: (job.queued_at, job.id))


def causes(deaths: Iterable[Death]) -> str:
    """Renders the number of deaths by cause, most frequent first."""
    counts = Counter(death.cause for death in deaths)
    return ", ".join(f"{count} {cause}" for cause, count in sorted(counts.items(), key=lambda row: (-row[1], row[0])))


def _count(status: ShardStatus, evidence: Evidence, known: ShardInputs, now: float) -> None:
    started, ended = evidence.job_started_at, evidence.job_ended_at
    if evidence.job_id is not None and (at := started if started is not None else ended) is not None:
        status.starts[evidence.job_id] = at
    status.newest_at = max(status.newest_at, evidence.first_seen)
    state = judge(evidence, known.survey, now, known.limits).state
    if state is State.RETIRED:
        return
    if state is State.INVALIDATED:
        if evidence.removed_at is None:
            status.unhealthy.append(evidence)
        return
    job = evidence.running_job
    if job is not None and started is not None and now - started <= RUNNING_TOO_LONG_SECONDS:
        status.running[evidence.name] = RunningJob(job, "", evidence.name)
    elif evidence.is_busy and evidence.listed:
        status.running[evidence.name] = RunningJob(None, "", evidence.name)
    if state is State.HEALTHY and evidence.registered and evidence.online:
        if _has_its_only_job(evidence, is_at_work=evidence.name in status.running):
            status.engaged += 1
        else:
            status.online.append(evidence)
    elif state is State.STARTING:
        status.starting[evidence.name] = evidence.first_seen + known.limits.startup_seconds
    elif state is State.HEALTHY and not evidence.online:
        since = silent_since(evidence)
        status.briefly_offline[evidence.name] = (now if since is None else since) + known.limits.offline_seconds
    elif state in UNHEALTHY and evidence.name not in status.running:
        status.unhealthy.append(evidence)


def _has_its_only_job(evidence: Evidence, *, is_at_work: bool) -> bool:
    """True if an ephemeral runner has its only job, or has had it; lists show such a runner for a while."""
    return bool(evidence.ephemeral) and (is_at_work or evidence.job_ended_at is not None)


def _unintended(
    known: ShardInputs, members: Mapping[int, tuple[Evidence, str]], now: float
) -> Iterable[tuple[str, Death]]:
    """Yields recent unintended deaths with their shards. A runner that died early may never have been listed."""
    by_name: dict[str, list[tuple[Evidence, str]]] = defaultdict(list)
    for member in members.values():
        by_name[member[0].name].append(member)
    has_jobs = any(each.job_id is not None for each, _ in members.values())
    explained = set[tuple[int, int]]()
    for death in sorted(known.deaths or (), key=lambda each: each.ended_at):
        if not now - LOOP_SECONDS <= death.at <= now + OVERTAKING_SECONDS:
            continue
        evidence, shard = _runner_of(death, members, by_name[death.runner_name])
        is_idle_end = has_jobs and _ended_without_a_job(death, evidence, explained)
        if death.cause in HARMLESS and death.reason not in UNINTENDED and not is_idle_end:
            continue
        if shard is None and known.rule.shard_name is not None and death.pool in ("", known.rule.name):
            named = shard_named(death.runner_name, known.rule.shard_name)
            shard = None if named is None else named.lower()
        if shard is not None:
            yield shard, death


def _runner_of(
    death: Death, members: Mapping[int, tuple[Evidence, str]], of_name: Sequence[tuple[Evidence, str]]
) -> tuple[Evidence | None, str | None]:
    """Returns the runner that died, by its id or, if that is not known, the last of its name; and its shard.

    A runner that died before it was seen has the shard of the others of its name, if these have one.
    """
    if death.runner_id is not None:
        return members.get(death.runner_id, (None, None))
    own = max(((each, shard) for each, shard in of_name if is_of(death, each)), key=_by_age, default=None)
    if own is not None:
        return own
    shards = {shard for _, shard in of_name}
    return None, shards.pop() if len(shards) == 1 else None


def _by_age(member: tuple[Evidence, str]) -> tuple[float, int]:
    return member[0].first_seen, member[0].id


def _ended_without_a_job(death: Death, evidence: Evidence | None, explained: set[tuple[int, int]]) -> bool:
    """True if a runner exited with code 0, logged nothing, and no delivery gave it a job: it did not work.

    Many runners log nothing although they work: their jobs are known by deliveries. The last job of a runner explains
    its first end since then; further ends of the same registration are a loop.

    Args:
        death: the death; deaths are passed in their order.
        evidence: of its runner.
        explained: the runners and jobs that an earlier death had; grows.
    """
    if death.reason != OwnReason.SILENT or death.job is not None:
        return False
    if evidence is None or evidence.job_id is None or (evidence.id, evidence.job_id) in explained:
        return True
    explained.add((evidence.id, evidence.job_id))
    return False


def _is_of(known: ShardInputs, evidence: Evidence) -> bool:
    return runner_pool(evidence, known.rules) == known.rule.name


def _is_for(known: ShardInputs, job: Job, active: str | None) -> bool:
    wanted = None if active is None else pool_matching.shard_by_label(job.labels, known.rule)
    return wanted is None or wanted.lower() == active


def _could_take(known: ShardInputs, label_sets: Collection[frozenset[str]], job: Job) -> bool:
    wanted = {label.lower() for label in job.labels}
    if not wanted:  # it waits for a runner group, which is not known
        return False
    if any(wanted <= labels for labels in label_sets):
        return True
    custom = [label for label in job.labels if label.lower() != "self-hosted"]
    return pool_of(job.labels, custom, known.rules) == known.rule.name
