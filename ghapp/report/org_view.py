"""What holds for all runners of an org: loaded once, handed down, and turned into each runner's document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ghapp.gate.shard_status import ShardRule
from ghapp.installations.pool_matching import ALL_POOLS, PoolMatcher, ReplacerRule, rule_named, runner_pool
from ghapp.installations.scope import ScopeKind, kind_of
from ghapp.pods.pod_claim import PodClaim, claim_on
from ghapp.remediation.fuse import Fuse, Position, fuse_of
from ghapp.remediation.pause import Pause
from ghapp.remediation.plan import Mode
from ghapp.remediation.status import ReplacementStatus, ReplacementTerms, replacement_status
from ghapp.remediation.steps import may_terminate, replacement_path
from ghapp.report.documents import HealthDocument, health_document
from ghapp.runners.evidence import Evidence, Survey, is_absent, missing_since
from ghapp.runners.outdated import ended_without_job, refusals
from ghapp.runners.verdict import Limits, Verdict, judge
from ghapp.versions.advice import VersionStep, fleet_kind, target_version, version_steps
from ghapp.versions.counts import REFUSED_SECONDS, PoolVersion, count_versions
from ghapp.versions.lifetime import (
    EndDates,
    VersionLimits,
    VersionState,
    VersionStatus,
    ended_versions,
    judge_versions,
    last_jobs,
    may_end,
)
from ghapp.workflow_jobs.capacity import NOT_ASSIGNED_SECONDS, AvailableRunner, available_runners, departures
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.job_queue import NOTHING_SHARED, JobQueue, QueueInputs, SharedRunners, no_steps
from ghapp.workflow_jobs.runner_groups import RunnerGroups


class FleetRule(ShardRule, ReplacerRule, Protocol):
    """A configured pool."""


def is_listed(evidence: Evidence) -> bool:
    """True if GitHub lists the runner, and neither its controller nor ghapp removed it."""
    is_removed = evidence.retired_at is not None or evidence.removed_at is not None
    return evidence.registered and not is_removed and not is_absent(evidence)


def _was_refused(evidence: Evidence, now: float) -> bool:
    """True if the runner ended within the last hour because it is too old."""
    return ended_without_job(evidence) and 0.0 <= now - missing_since(evidence) <= REFUSED_SECONDS


@dataclass(frozen=True, slots=True)
class OrgView:
    """The state of an org at one moment.

    Attributes:
        org: its name.
        rules: its configured pools.
        limits: of the judgement.
        survey: of its last complete list.
        fuses: by pool; `*` is the installation's.
        pauses: by pool; `*` is the whole org's.
        claimed: pod claims by runner and pod name. Some may have expired since they were read: `claim_on` checks.
        mode: of `[remediation]`.
        end_dates: by version of the runner: until when GitHub gives it jobs.
        version_limits: the `[versions]` table.
        is_current: False if this was read before Redis became unavailable: nothing may be done because of it.
    """

    org: str
    rules: Sequence[FleetRule]
    limits: Limits
    survey: Survey
    fuses: Mapping[str, Fuse] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    claimed: Mapping[str, PodClaim] = field(default_factory=dict)
    mode: Mode = "act"
    end_dates: Mapping[str, EndDates] = field(default_factory=dict)
    version_limits: VersionLimits = field(default_factory=VersionLimits)
    is_current: bool = True

    @property
    def is_seen(self) -> bool:
        """True unless the last sweep failed: while sweeps fail, a lost runner's machine may register again unseen."""
        return self.survey.failing_since is None

    def pool(self, evidence: Evidence) -> str:
        """The pool of a runner."""
        return runner_pool(evidence, self.rules)

    def pools(self, runners: Iterable[Evidence]) -> set[str]:
        """The pools: configured pools, those of these runners, and those with a fuse or a pause; and perhaps `*`."""
        return (
            {rule.name for rule in self.rules} | set(map(self.pool, runners)) | self.fuses.keys() | self.pauses.keys()
        )

    def pause_of(self, pool: str) -> Pause | None:
        """The pause of the pool, or else of the whole org."""
        return self.pauses.get(pool) or self.pauses.get(ALL_POOLS)

    def is_paused(self, pool: str) -> bool:
        """True if a person paused the pool, or the whole org."""
        return self.pause_of(pool) is not None

    def terms(self, pool: str) -> ReplacementTerms:
        """What holds for the replacements of a pool."""
        rule, fuse = rule_named(pool, self.rules), fuse_of(self.fuses, pool)
        return ReplacementTerms(
            fuse=fuse,
            pause=self.pause_of(pool),
            mode=self.mode,
            path=replacement_path(rule),
            is_configured=rule is not None or not self.rules,
            survey=self.survey,
            is_current=self.is_current,
            is_whole=fuse.position is not Position.CLOSED and fuse is self.fuses.get(ALL_POOLS),
        )

    def replacement(self, evidence: Evidence, now: float, verdict: Verdict | None = None) -> ReplacementStatus:
        """What happens next to a runner; `verdict` is the one at `now`, if the caller has it."""
        verdict, claim = verdict or self.verdict(evidence, now), claim_on(self.claimed, evidence.name, now)
        return replacement_status(evidence, verdict, self.terms(self.pool(evidence)), now, claim)

    def claim_on(self, names: Iterable[str], now: float) -> PodClaim | None:
        """A live pod claim on any of these names of runners and pods."""
        return next(filter(None, (claim_on(self.claimed, name, now) for name in names)), None)

    def verdict(self, evidence: Evidence, now: float) -> Verdict:
        """The state of a runner at `now`."""
        return judge(evidence, self.survey, now, self.limits)

    def may_terminate(self, evidence: Evidence, now: float) -> bool:
        """True if the process of a lost runner may end itself at `now`."""
        pool = self.pool(evidence)
        return (
            self.is_current
            and self.is_seen
            and may_terminate(
                evidence,
                self.verdict(evidence, now),
                fuse_of(self.fuses, pool),
                self.mode,
                now,
                paused=self.is_paused(pool),
                claimed=claim_on(self.claimed, evidence.name, now) is not None,
            )
        )

    def versions(self, runners: Iterable[Evidence], now: float) -> list[VersionStatus]:
        """The versions of the registered runners, and until when they get jobs; the worst first."""
        known, matcher = list(runners), PoolMatcher(self.rules)
        present = ((matcher.pool(each), each) for each in known if is_listed(each))
        refused = ((matcher.pool(each), each) for each in known if _was_refused(each, now))
        counts = count_versions(present, refused)
        jobs = last_jobs(known, refusals(known))
        return judge_versions(counts, self.end_dates, self.version_limits, now, jobs)

    def may_versions_end(self, now: float) -> bool:
        """True if a version may end soon, or have ended; cheap, and False for most organizations at most times."""
        return may_end(self.end_dates, self.version_limits, now)

    def steps_for(self, status: VersionStatus, statuses: Iterable[VersionStatus]) -> list[VersionStep]:
        """What to do about a version that ends or has ended, in each of its pools; `statuses`: of all versions."""
        target = target_version(statuses)
        return [step for pool in status.pools for step in self._steps_in(pool, status, target)]

    def _steps_of_pool(self, runners: Sequence[Evidence], now: float, pool: str) -> list[VersionStep]:
        """What to do about the versions of a pool that have ended."""
        statuses = self.versions(runners, now)
        target, found = target_version(statuses), list[VersionStep]()
        for status in statuses:
            for each in status.pools if status.state is VersionState.ENDED else ():
                found += self._steps_in(each, status, target) if each.pool == pool else ()
        return [*dict.fromkeys(found)]

    def _steps_in(self, pool: PoolVersion, status: VersionStatus, target: str | None) -> Sequence[VersionStep]:
        rule = rule_named(pool.pool, self.rules)
        kind = fleet_kind(None if rule is None else rule.replacer, is_ephemeral=pool.is_ephemeral)
        return version_steps(status, pool.pool, kind, target)

    def ended_versions(self, runners: Sequence[Evidence], now: float) -> Mapping[str, float]:
        """The versions of these runners that get no jobs any more, and since when."""
        return ended_versions(runners, self.end_dates, self.version_limits, now, refusals(runners))

    def job_queue(
        self,
        runners: Iterable[Evidence],
        jobs: Sequence[Job],
        now: float,
        *,
        ended: Sequence[Job] = (),
        groups: RunnerGroups | None = None,
        settled_after_seconds: float = NOT_ASSIGNED_SECONDS,
        shared: SharedRunners = NOTHING_SHARED,
    ) -> JobQueue:
        """The org's jobs at `now`, and why each queued one waits.

        Args:
            runners: evidence of all runners that may take them.
            jobs: jobs that are not over.
            now: epoch seconds.
            ended: jobs that ended within the last hour.
            groups: the org's runner groups; None if they were not read. A repository has none.
            settled_after_seconds: as of `QueueInputs`.
            shared: runners of other scopes that may take the jobs.
        """
        runners = list(runners)
        too_old = self.ended_versions(runners, now)
        is_of_groups = kind_of(self.org) is ScopeKind.ORGANIZATION
        inputs = QueueInputs(
            org=self.org,
            jobs=jobs,
            runners=self.available_runners(runners, now),
            rules=self.rules,
            ended=ended,
            fuses=self.fuses,
            pauses=self.pauses,
            groups=groups if is_of_groups else shared.groups,
            mode=self.mode,
            own_images=self.survey.own_images,
            left_at=departures(runners, now),
            version_steps=partial(self._steps_of_pool, runners, now) if too_old else no_steps,
            fresh=self.is_fresh(now) and shared.fresh,
            settled_after_seconds=settled_after_seconds,
            shared=shared.runners,
            listed_at=None if self.is_seen else self.survey.swept_at,
        )
        return JobQueue(inputs, now)

    def available_runners(self, runners: Sequence[Evidence], now: float) -> list[AvailableRunner]:
        """Returns the runners that can take jobs at `now`; only an organization's are in its runner groups."""
        found = available_runners(runners, self.rules, self.ended_versions(runners, now), now)
        if kind_of(self.org) is ScopeKind.ORGANIZATION:
            return found
        return [each._replace(group_id=None) for each in found]

    def is_fresh(self, now: float) -> bool:
        """True if the last complete list is young enough to say who can take jobs."""
        swept_at = self.survey.swept_at
        return swept_at is not None and now - swept_at <= self.limits.stale_seconds

    def document(self, evidence: Evidence, now: float, verdict: Verdict | None = None) -> HealthDocument:
        """The health document of a runner at `now`; `verdict` is the one at `now`, if the caller has it."""
        pool = self.pool(evidence)
        claim = claim_on(self.claimed, evidence.name, now)
        verdict = verdict or self.verdict(evidence, now)
        return health_document(self.org, pool, evidence, verdict, self.terms(pool), self.rules, now, claim)
