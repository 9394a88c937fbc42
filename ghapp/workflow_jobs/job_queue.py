"""All jobs of an organization, and why each queued one waits. Pure; times are epoch seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import NamedTuple

from ghapp.installations.pool_matching import ALL_POOLS, EVERY_RUNNER, GENERIC_LABELS, UNKNOWN_POOL, PoolRule, pool_of
from ghapp.remediation.fuse import Fuse, Position, fuse_of
from ghapp.remediation.pause import Pause
from ghapp.remediation.plan import Mode
from ghapp.versions.advice import VersionStep
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS, AvailableRunner, Capacity, capacities
from ghapp.workflow_jobs.job import Job, asks_for_hosted, is_over, may_be_ours
from ghapp.workflow_jobs.labels import missing_labels, names_one_run, nearest_label, normalized
from ghapp.workflow_jobs.reason import UNSERVED, Brakes, Placement, QueueReason, reason_of
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups, by_id, excludes

MOST_COMPARISONS = 5_000
"""Pairs of labels that are compared for hints, some ten to a hundred microseconds each."""

MOST_HINTS = 3
"""Labels of a job for which the nearest one is looked for."""

TYPICAL_SECONDS = 3600.0
"""The typical wait of a pool is the median over the jobs that started last within this time, `LATEST_STARTED` at most:
that of a whole hour says nothing of a queue that is minutes old.
"""

LATEST_STARTED = 20


def no_steps(_pool: str) -> Sequence[VersionStep]:
    """Nothing is to be done about versions of the runner."""
    return ()


class SharedRunners(NamedTuple):
    """Runners of other scopes that may take a scope's jobs: of a repository's jobs, those of its organization.

    Attributes:
        runners: from `available_runners`, with the scope in the names of their pools, as `linux of acme`.
        groups: the organization's runner groups; None if they were not read.
        fresh: False if their list is missing or too old.
    """

    runners: Sequence[AvailableRunner] = ()
    groups: RunnerGroups | None = None
    fresh: bool = True


NOTHING_SHARED = SharedRunners()


@dataclass(frozen=True, slots=True)
class QueueInputs:
    """What is known about an organization's jobs and runners.

    Attributes:
        org: its name.
        jobs: jobs that are not over.
        runners: from `available_runners`.
        rules: its configured pools.
        ended: jobs that ended within the last hour; only the typical wait needs them.
        fuses: by pool; `*` is the installation's.
        pauses: by pool; `*` is the whole org's.
        groups: its runner groups; None if they were not read.
        mode: of `[remediation]`.
        own_images: as in the survey.
        left_at: from `departures`.
        version_steps: returns what to do about a pool's runners that are too old.
        fresh: False if the list of runners is missing or too old: no reason is given then, except for jobs not ours.
        settled_after_seconds: how long a runner must have been idle for `NotAssigned`.
        shared: runners of other scopes that may take the jobs; they explain why jobs wait, and are not counted.
        listed_at: time of the last list, while lists cannot be read; None while they can.
    """

    org: str
    jobs: Sequence[Job]
    runners: Sequence[AvailableRunner]
    rules: Sequence[PoolRule] = ()
    ended: Sequence[Job] = ()
    fuses: Mapping[str, Fuse] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    groups: RunnerGroups | None = None
    mode: Mode = "act"
    own_images: Sequence[str] = ()
    left_at: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    version_steps: Callable[[str], Sequence[VersionStep]] = no_steps
    fresh: bool = True
    settled_after_seconds: float = NOT_ASSIGNED_SECONDS
    shared: Sequence[AvailableRunner] = ()
    listed_at: float | None = None


class JobQueue:
    """The jobs and runners of an organization at one moment.

    Attributes:
        inputs: what is known.
        now: the moment.
        capacities: the runners by pool, labels and group.
        groups: the runner groups by id.
        runner_labels: every label of a runner, in lower case.
        pool_labels: every label of a configured pool, in lower case.
        our_labels: both, and those of earlier runners that look like labels of GitHub-hosted runners.
    """

    def __init__(self, inputs: QueueInputs, now: float) -> None:
        self.inputs, self.now = inputs, now
        self.capacities = capacities(inputs.runners, now, inputs.settled_after_seconds)
        self._shared = capacities(inputs.shared, now, inputs.settled_after_seconds)
        self.groups: Mapping[int, RunnerGroup] = by_id(inputs.groups)
        self._hosted_labels = frozenset(() if inputs.groups is None else inputs.groups.hosted_labels)
        self.runner_labels = frozenset[str]().union(*(each.labels for each in self.capacities))
        self.pool_labels = normalized(label for rule in inputs.rules for label in rule.labels if label != EVERY_RUNNER)
        self.our_labels = self.runner_labels | self.pool_labels | frozenset(inputs.own_images)
        self._placements: dict[tuple[tuple[str, ...], str, bool | None, str], Placement] = {}
        self._waiting: dict[str, list[tuple[float, int]]] | None = None
        self._typical: dict[str, float] | None = None
        self._nearest: dict[str, str | None] = {}
        self._comparisons = 0

    @cached_property
    def queued(self) -> list[Job]:
        """Jobs that wait for a runner, oldest first, without those that must have ended or wait for an approval."""
        return sorted((job for job in self.inputs.jobs if self._waits(job)), key=_age)

    @cached_property
    def queued_by_id(self) -> Mapping[int, Job]:
        """The same, by id."""
        return {job.id: job for job in self.queued}

    def placement(self, job: Job) -> Placement:
        """Returns where a job can run."""
        key = (job.labels, job.repository, job.private, "" if job.labels else job.runner_group)
        if (known := self._placements.get(key)) is None:
            known = self._placements[key] = self._place(job)
        return known

    def pool(self, job: Job) -> str:
        """Returns the pool that a job waits for or runs in; see `existing_pool`."""
        return self.placement(job).pool

    @cached_property
    def pool_names(self) -> frozenset[str]:
        """The configured pools, and those of runners."""
        return frozenset(each.pool for each in self.capacities) | {rule.name for rule in self.inputs.rules}

    def existing_pool(self, job: Job) -> str:
        """Returns the pool of a job; empty if its labels alone name one, so that no pool has them.

        People are shown such labels as what they are: a misspelt one would read like the name of a pool. A pool whose
        last runner left a moment ago stays one: the next runner starts.
        """
        pool = self.pool(job)
        return pool if pool in self.pool_names or (job.labels and self._has_left_lately(job)) else ""

    @cached_property
    def _lasting_labels(self) -> list[str]:
        return [label for label in self.runner_labels | self.pool_labels if not names_one_run(label)]

    def unknown_labels(self, job: Job) -> list[str]:
        """Returns the labels of a job that neither a runner nor a pool has, as the job spells them."""
        missing = missing_labels(job.labels, self.runner_labels)
        unknown = [label for label in missing if label.lower() not in self.pool_labels]
        if len(unknown) == len(missing):
            return unknown
        # A pool's label is among them: its runners will have GitHub's own labels, too.
        return [label for label in unknown if label.lower() not in GENERIC_LABELS]

    def lacking_labels(self, job: Job) -> list[str]:
        """Returns the labels of a job for which no runner has all of its labels; of those, the unknown ones if any are.

        Empty if a runner has each of them: then no runner has all.
        """
        return self.unknown_labels(job) or missing_labels(job.labels, self.runner_labels)

    def nearest_labels(self, job: Job) -> dict[str, str]:
        """Returns, by label of a job that nothing has, the label of a runner or a pool that was probably meant.

        Labels of jobs come from workflow files, and may be any number: of one job the first `MOST_HINTS` are compared,
        and after `MOST_COMPARISONS` none.
        """
        lasting = [label for label in self.unknown_labels(job) if not names_one_run(label, job.run_id)]
        near = ((label, self.nearest_label(label, job.run_id)) for label in lasting[:MOST_HINTS])
        return {label: found for label, found in near if found is not None}

    def meant_label(self, job: Job) -> str:
        """Returns the first of these labels of runners and pools; empty if there is none."""
        return next(iter(self.nearest_labels(job).values()), "")

    def nearest_label(self, label: str, run_id: int | None) -> str | None:
        """Returns the label of a runner or a pool that a job's label was probably meant to be, or None."""
        if label not in self._nearest and self._comparisons < MOST_COMPARISONS:
            self._comparisons += len(self._lasting_labels)
            self._nearest[label] = nearest_label(label, self._lasting_labels)
        found = self._nearest.get(label)
        return None if found is None or names_one_run(found, run_id) else found

    def is_hosted(self, job: Job) -> bool:
        """True if a job's labels request a GitHub-hosted runner, and no known runner has them."""
        if self.placement(job).able:
            return False
        return asks_for_hosted(job, self.our_labels) or self._names_a_larger_runner(job)

    def is_ours(self, job: Job) -> bool:
        """True if known runners can take the job, or its labels request runners that may be ours."""
        if self.placement(job).able:
            return True
        return may_be_ours(job, self.our_labels) and not self._names_a_larger_runner(job)

    def _names_a_larger_runner(self, job: Job) -> bool:
        return bool(job.labels) and normalized(job.labels) <= self._hosted_labels

    def reason(self, job: Job) -> QueueReason | None:
        """Returns why a queued job waits; None for other jobs, or if that is not known.

        A job without labels waits for a runner group (`runs-on: {group: …}`), which deliveries do not name: it may be
        one of ours, or one of GitHub's.
        """
        if not self._waits(job):
            return None
        placement = self.placement(job)
        if self.is_hosted(job):
            return QueueReason.HOSTED_BY_GITHUB
        if not self.is_ours(job):
            return QueueReason.UNKNOWN_POOL
        if not self.inputs.fresh or (not placement.able and self._has_left_lately(job)):
            return None
        return reason_of(job, placement, self._brakes(placement.pool), self.now)

    def unserved(self) -> list[tuple[Job, QueueReason]]:
        """Returns the queued jobs that no online runner can take, and why; oldest first."""
        judged = ((job, self.reason(job)) for job in self.queued)
        return [(job, reason) for job, reason in judged if reason in UNSERVED]

    def is_slow(self, job: Job) -> bool:
        """True if a queued job waits for busy runners.

        One that is idle for a moment, or starts in the place of the last one, is taken by the job that is next.
        """
        return self.inputs.fresh and self._waits(job) and self.reason(job) in (QueueReason.ALL_BUSY, None)

    def ahead(self, job: Job) -> int:
        """Returns the number of older jobs that wait for the same pool."""
        return bisect_left(self._waiting_for(self.pool(job)), _age(job))

    def oldest_queued_at(self, pool: str) -> float | None:
        """Returns when the job was queued that waits for a pool's runners longest; None if none waits."""
        return next((queued_at for queued_at, _ in self._waiting_for(pool)), None)

    def _waiting_for(self, pool: str) -> Sequence[tuple[float, int]]:
        """Returns the jobs that wait for a pool's runners by their age, the oldest first."""
        if self._waiting is None:
            waiting: dict[str, list[tuple[float, int]]] = defaultdict(list)
            for each in self.queued:
                if (placement := self.placement(each)).permitted:
                    waiting[placement.pool].append(_age(each))
            self._waiting = waiting
        return self._waiting.get(pool, [])

    def typical_wait_seconds(self, pool: str) -> float | None:
        """Returns the median wait of the pool's jobs that started last; None if none did within the last hour."""
        if self._typical is None:
            waits: dict[str, list[float]] = defaultdict(list)
            for job in sorted(self._started(), key=lambda each: each.started_at or 0.0, reverse=True):
                if len(latest := waits[self.pool(job)]) < LATEST_STARTED:
                    latest.append(max(0.0, (job.started_at or 0.0) - job.queued_at))
            self._typical = {each: median(found) for each, found in waits.items()}
        return self._typical.get(pool)

    def pause_of(self, pool: str) -> Pause | None:
        """Returns the pause in force: the pool's own, or else the organization's."""
        return self.inputs.pauses.get(pool, self.inputs.pauses.get(ALL_POOLS))

    def is_configured(self, pool: str) -> bool:
        """True if a pool is configured, or none is."""
        return not self.inputs.rules or any(rule.name == pool for rule in self.inputs.rules)

    def fuse_of(self, pool: str) -> Fuse:
        """Returns the fuse in force: the pool's own, or the installation's."""
        return fuse_of(self.inputs.fuses, pool)

    def _waits(self, job: Job) -> bool:
        return job.status == "queued" and not job.waiting and not is_over(job, self.now)

    def _has_left_lately(self, job: Job) -> bool:
        wanted = normalized(job.labels)
        return any(wanted <= normalized(labels) for labels in self.inputs.left_at)

    def _brakes(self, pool: str) -> Brakes:
        return Brakes(self.pause_of(pool) is not None, self.fuse_of(pool).position is Position.STOPPED)

    def _started(self) -> Iterable[Job]:
        for job in (*self.inputs.jobs, *self.inputs.ended):
            if job.started_at is not None and self.now - job.started_at <= TYPICAL_SECONDS:
                yield job

    def _place(self, job: Job) -> Placement:
        if not job.labels:
            return self._place_in_group(job)
        wanted = normalized(job.labels)
        own = [each for each in self.capacities if wanted <= each.labels]
        shared = [each for each in self._shared if wanted <= each.labels]
        permitted = [each for each in own if not self._is_excluded(job, each)]
        permitted_shared = [each for each in shared if not self._is_excluded(job, each)]
        if own:
            pool = max(permitted or own, key=lambda each: each.online > 0).pool
        else:
            pool = pool_of(
                job.labels, [each for each in job.labels if each.lower() != "self-hosted"], self.inputs.rules
            )
        others = tuple(dict.fromkeys(each.pool for each in permitted_shared))
        return Placement(pool, [*own, *shared], [*permitted, *permitted_shared], others)

    def _place_in_group(self, job: Job) -> Placement:
        """Returns where a job without labels runs, by the group of the runner that took it; else nowhere known."""
        ids = {group_id for group_id, group in self.groups.items() if group.name == job.runner_group}
        able = [each for each in self.capacities if each.group_id in ids]
        pools = {each.pool for each in able}
        return Placement(pools.pop() if len(pools) == 1 else UNKNOWN_POOL, able, able)

    def _is_excluded(self, job: Job, capacity: Capacity) -> bool:
        group = None if capacity.group_id is None else self.groups.get(capacity.group_id)
        return group is not None and excludes(group, job)


def _age(job: Job) -> tuple[float, int]:
    return job.queued_at, job.id
