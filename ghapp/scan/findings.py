"""What is wrong in a scope, from what a scan read of it. Pure; times are epoch seconds.

The state of runners, the reasons of jobs and the headlines are those of the App. Only what an App knows by deliveries
or by a longer time is left out or named as unknown: a scan has no history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ghapp.installations.pool_matching import GENERIC_LABELS, PoolMatcher
from ghapp.installations.scope import Scope, ScopeKind
from ghapp.pods.assigned_job import JobOfRun
from ghapp.report.fleet import FleetView, PoolView, by_pool
from ghapp.report.headline import Headline, HeadlineKind, Severity
from ghapp.report.headlines import headlines
from ghapp.report.org_view import OrgView
from ghapp.runners.absence import GetResult
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.next_attempt import BLINDNESS
from ghapp.runners.verdict import Limits, Reason, Verdict
from ghapp.scan.looks import ListDifference, Look, Observed, ScannedRunner, fold_lists, observed, verdict_of
from ghapp.versions.lifetime import EndDates, VersionStatus
from ghapp.wording import are, counted
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS, available_runners
from ghapp.workflow_jobs.demand import UnservedJob
from ghapp.workflow_jobs.explanation import QueueExplanation, explain
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import JobQueue, SharedRunners
from ghapp.workflow_jobs.labels import missing_labels, names_one_run
from ghapp.workflow_jobs.queue_check import QueueLimits
from ghapp.workflow_jobs.reason import UNSERVED, QueueReason
from ghapp.workflow_jobs.runner_groups import RunnerGroup, RunnerGroups

OF_THE_APP = frozenset(
    {HeadlineKind.TOO_OLD, HeadlineKind.UNSERVED, HeadlineKind.OFFLINE, HeadlineKind.SLOW, HeadlineKind.VERSION}
)
"""The kinds of the App's headlines that two lists can support."""

WORST_FIRST = (Severity.CRITICAL, Severity.ATTENTION, Severity.BUSY)
WRONG = WORST_FIRST[:2]
"""The severities of what is wrong now; what is only due in two weeks is not."""


PATIENCE = QueueLimits()
"""The App's, unless its configuration has another one."""


class NotSeen(NamedTuple):
    """What a scan could not see.

    Attributes:
        what: as `the runners of acme`.
        why: why not.
        needs: the permission that it takes; empty if none is missing.
    """

    what: str
    why: str
    needs: str = ""


class Coverage(NamedTuple):
    """How much was read of what there is.

    Attributes:
        repositories: whose runs were read.
        of_repositories: how many there are; None if that is not known.
        runs: unfinished runs whose jobs were read.
        of_runs: unfinished runs of these repositories.
        finished_runs: of the newest completed runs, those whose jobs were read.
    """

    repositories: int = 0
    of_repositories: int | None = None
    runs: int = 0
    of_runs: int = 0
    finished_runs: int = 0


@dataclass(slots=True)
class Reading:
    """What a scan read of one scope.

    Attributes:
        scope: the scope.
        looks: the lists of its runners; empty if they cannot be read.
        answers: GitHub's answers about single runners.
        jobs: of the runs that were read; None if jobs cannot be read, or the scope has none of its own.
        private: by repository in lower case, whether it is private.
        groups: the runner groups of the organization; None if they cannot be read.
        others: lists of runners of other scopes that may take its jobs: its organization's, and an enterprise's.
        are_others_seen: False if such runners may exist and cannot be read.
        hosted_labels: labels of the larger runners that GitHub hosts for the organization, as far as is known.
        dates: until when GitHub gives jobs to versions.
        coverage: how much of its jobs was read.
        not_seen: what could not be seen.
        now: after the last answer.
        calls: requests for this scope.
    """

    scope: Scope
    looks: list[Look] = field(default_factory=list)
    answers: Mapping[int, GetResult] = field(default_factory=dict)
    jobs: list[JobOfRun] | None = None
    private: dict[str, bool] = field(default_factory=dict)
    groups: RunnerGroups | None = None
    others: list[Look] = field(default_factory=list)
    are_others_seen: bool = True
    hosted_labels: frozenset[str] = frozenset()
    dates: dict[str, EndDates] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    not_seen: list[NotSeen] = field(default_factory=list)
    now: float = 0.0
    calls: int = 0


class WaitingJob(NamedTuple):
    """A queued job, and why it waits; None if that is not known, or it is about to be assigned."""

    job: Job
    why: QueueExplanation | None
    is_unknown: bool = False
    """True if runners that cannot be seen may take it."""


class UnusedLabel(NamedTuple):
    """A label of runners that no job of those that were read asked for."""

    label: str
    runners: int


class UnservedLabel(NamedTuple):
    """A label of waiting jobs that no runner has, and the label that was probably meant."""

    label: str
    jobs: int
    nearest: str | None


@dataclass(frozen=True, slots=True)
class ScanView(OrgView):
    """A scope at the time of the last list, `gap` seconds after the first one."""

    gap: float = 0.0

    def verdict(self, evidence: Evidence, now: float) -> Verdict:
        """The state of a runner at `now`, as two lists show it."""
        return verdict_of(evidence, self.survey, now, self.gap)


class Findings:
    """What is wrong in a scope.

    Attributes:
        reading: what was read.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    @cached_property
    def observed(self) -> Observed | None:
        """The runners; None if they cannot be read."""
        found = self.reading
        return observed(found.looks, found.answers, found.jobs or ()) if found.looks else None

    @property
    def runners(self) -> list[ScannedRunner]:
        """The runners of the lists."""
        return [] if self.observed is None else [*self.observed.runners.values()]

    @property
    def not_seen(self) -> list[NotSeen]:
        """What could not be seen."""
        if self.observed is None or not self.observed.hidden:
            return self.reading.not_seen
        hidden, total = self.observed.hidden, self.reading.looks[-1].runner_list.total
        what = f"{hidden:,} of {counted(total, 'runner')}"
        return [
            NotSeen(what, "GitHub's rows of them cannot be read, or moved between two pages"),
            *self.reading.not_seen,
        ]

    def changed(self, *changes: ListDifference) -> list[ScannedRunner]:
        """Returns the runners about which the lists differ in these ways, by name."""
        found = [each for each in self.runners if each.change in changes]
        return sorted(found, key=lambda each: (each.evidence.name, each.evidence.id))

    @cached_property
    def view(self) -> OrgView:
        """The scope as the App would see it, without configuration."""
        gap, survey = (0.0, Survey()) if self.observed is None else (self.observed.gap, self.observed.survey)
        return ScanView(self.reading.scope.address, (), Limits(), survey, end_dates=self.reading.dates, gap=gap)

    @cached_property
    def queue(self) -> JobQueue:
        """The jobs that were read, and all runners that may take them."""
        found, own = self.reading, [] if self.observed is None else self.observed.evidence
        others = [each for look in found.others for each in fold_lists([look])[0].values()]
        too_old = self.view.ended_versions(others, found.now)
        groups = (found.groups or RunnerGroups(found.now))._replace(hosted_labels=tuple(found.hosted_labels))
        gap = 0.0 if self.observed is None else self.observed.gap
        return self.view.job_queue(
            own,
            [self._with_visibility(each.job) for each in found.jobs or () if each.job.status != "over"],
            found.now,
            ended=[each.job for each in found.jobs or () if each.job.status == "over"],
            groups=groups,
            settled_after_seconds=min(NOT_ASSIGNED_SECONDS, gap or NOT_ASSIGNED_SECONDS),
            shared=SharedRunners(available_runners(others, (), too_old, found.now), groups),
        )

    def _with_visibility(self, job: Job) -> Job:
        return job._replace(private=self.reading.private.get(job.repository.lower()))

    @cached_property
    def waiting(self) -> list[WaitingJob]:
        """The queued jobs that runners of ours may be meant for, the oldest first."""
        return [self._explained(each) for each in self.queue.queued if self.queue.is_ours(each)]

    def _explained(self, job: Job) -> WaitingJob:
        hidden = not self.reading.are_others_seen and not self.queue.placement(job).permitted
        is_unknown = hidden or self.observed is None
        return WaitingJob(job, None if is_unknown else explain(self.queue, job), is_unknown)

    @cached_property
    def versions(self) -> list[VersionStatus]:
        """The versions of the runners that are registered, the worst first."""
        return [] if self.observed is None else self.view.versions(self.observed.evidence, self.reading.now)

    @cached_property
    def unserved_labels(self) -> list[UnservedLabel]:
        """The labels of waiting jobs that no runner has."""
        jobs = [
            each.job
            for each in self.waiting
            if each.why is not None and each.why.reason is QueueReason.NO_RUNNER_WITH_LABELS
        ]
        missing = [(label, job) for job in jobs for label in missing_labels(job.labels, self.queue.runner_labels)]
        counts = Counter(label.lower() for label, _ in missing)
        spelled = {label.lower(): (label, job) for label, job in reversed(missing)}
        return [
            UnservedLabel(spelled[label][0], count, self.queue.nearest_label(label, spelled[label][1].run_id))
            for label, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        ]

    @cached_property
    def unused_labels(self) -> list[UnusedLabel] | None:
        """The labels that owners gave to runners, and that no job asked for and no busy runner has; None: unknown."""
        if not self.reading.jobs or self.observed is None:
            return None
        asked = {label.lower() for each in self.reading.jobs for label in each.job.labels}
        counts: Counter[str] = Counter()
        for each in (found.evidence for found in self.runners if found.change is not ListDifference.LEFT):
            if each.is_busy:
                asked |= {label.lower() for label in each.labels}
            counts.update({label.lower() for label in each.custom_labels})
        unused = [each for each in counts if each not in asked | GENERIC_LABELS and not names_one_run(each)]
        return [UnusedLabel(each, counts[each]) for each in sorted(unused, key=lambda each: (-counts[each], each))]

    @property
    def restricted_groups(self) -> list[RunnerGroup]:
        """The runner groups with runners that some repositories may not use; a repository's own are in none."""
        is_in_groups = self.reading.scope.kind is not ScopeKind.REPOSITORY
        lists = [*(self.reading.looks[-1:] if is_in_groups else ()), *self.reading.others]
        used = {each.group_id for look in lists for each in look.runner_list.runners.values()}
        groups = () if self.reading.groups is None else self.reading.groups.groups
        return [each for each in groups if each.id in used and (each.visibility != "all" or not each.allows_public)]

    @cached_property
    def pools(self) -> list[PoolView]:
        """The runners that are registered, or missing, by pool."""
        return [] if self.observed is None else by_pool(self._fleet(self.observed), self.observed.at)

    def _fleet(self, runners: Observed) -> FleetView:
        found = [
            UnservedJob(job, why.reason, self.queue.pool(job), self.queue.meant_label(job))
            for job, why in self._long_waits
        ]
        return FleetView(
            self.view,
            "",
            runners.evidence,
            unserved=[each for each in found if each.reason in UNSERVED],
            slow=[each for each in found if each.reason is QueueReason.ALL_BUSY],
        )

    @cached_property
    def _long_waits(self) -> list[tuple[Job, QueueExplanation]]:
        """The jobs that the App would report by now: a controller may be starting a runner for a younger one."""
        explained = [(each.job, each.why) for each in self.waiting if each.why is not None]
        return [(job, why) for job, why in explained if self.reading.now - job.queued_at >= self._patience(why.reason)]

    def _patience(self, reason: QueueReason) -> float:
        """Returns how long a job may wait: GitHub reports jobs as queued that their workflow holds, too."""
        may_pass = reason in (QueueReason.ALL_BUSY, QueueReason.NOT_ASSIGNED)
        return PATIENCE.busy_after_seconds if may_pass else PATIENCE.explain_after_seconds

    @cached_property
    def headlines(self) -> list[Headline]:
        """What is wrong now, or soon, the worst first; empty if nothing is."""
        found = [*self._blind()]
        if self.observed is not None:
            known = headlines(self._fleet(self.observed), self.pools, self.observed.at)
            found += [each._replace(command="", page="") for each in known if each.kind in OF_THE_APP]
            found += [*self._missing(), *self._not_assigned()]
        order = tuple(HeadlineKind)
        return sorted(found, key=lambda each: (WORST_FIRST.index(each.severity), order.index(each.kind)))

    @cached_property
    def well(self) -> str:
        """That nothing is wrong, in one sentence; for findings without headlines."""
        if self.observed is None:
            return ""
        known = headlines(self._fleet(self.observed), self.pools, self.observed.at)
        return next((each.sentence for each in known if each.kind is HeadlineKind.WELL), "")

    def _blind(self) -> Iterator[Headline]:
        if self.observed is None:
            for each in self.reading.not_seen[:1]:
                step = f"use a token {each.needs}" if each.needs else "scan again later"
                sentence = f"The runners of {self.reading.scope.address} cannot be read: {each.why}."
                yield Headline(HeadlineKind.BLIND, Severity.CRITICAL, sentence, step)
        elif self.observed.flaws:
            reason = self.observed.flaws[-1]
            known = BLINDNESS.get(reason, BLINDNESS[Reason.LIST_INCOMPLETE])
            sentence = f"{known.meaning[0].upper()}{known.meaning[1:]}; no runner is taken for missing because of it."
            yield Headline(HeadlineKind.BLIND, Severity.ATTENTION, sentence, "scan again")

    def _missing(self) -> Iterator[Headline]:
        """Persistent runners that vanished. An ephemeral one may have run a short job between the lists."""
        found = [each.evidence for each in self.changed(ListDifference.MISSING) if each.evidence.ephemeral is False]
        for pool, missing in _by_pool(found).items():
            them = "it" if len(missing) == 1 else "them"
            yield Headline(
                HeadlineKind.SUSPECT,
                Severity.ATTENTION,
                f"{counted(len(missing), 'runner')} of {pool} {are(len(missing))} missing from the second list, and "
                f"the first one had {them}: lost, or removed on purpose.",
                "scan again; if nobody removed them, configure them again",
                affected=len(missing),
                pool=pool,
            )

    def _not_assigned(self) -> Iterator[Headline]:
        pools: dict[str, list[QueueExplanation]] = {}
        for job, why in self._long_waits:
            if why.reason is QueueReason.NOT_ASSIGNED:
                pools.setdefault(self.queue.pool(job), []).append(why)
        for pool, found in pools.items():
            yield Headline(
                HeadlineKind.SLOW,
                Severity.ATTENTION,
                f"{counted(len(found), 'job')} {'waits' if len(found) == 1 else 'wait'}: {found[0].text}.",
                found[0].next[0].step,
                affected=len(found),
                pool=pool,
            )


def _by_pool(runners: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    matcher, found = PoolMatcher(()), dict[str, list[Evidence]]()
    for each in runners:
        found.setdefault(matcher.pool(each), []).append(each)
    return found


def has_problems(findings: Sequence[Findings]) -> bool:
    """True if something is wrong in any of the scopes."""
    return any(headline.severity in WRONG for each in findings for headline in each.headlines)
