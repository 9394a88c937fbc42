"""The JSON document of a scan. Pure. Times are RFC 3339 in UTC; names are those of outsiders, as they came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from ghapp.installations.pool_matching import PoolMatcher
from ghapp.installations.scope import ScopeKind
from ghapp.report.documents import Timestamp, timestamp
from ghapp.report.fleet import PoolView
from ghapp.report.headline import HeadlineKind, Severity
from ghapp.runners.verdict import Reason, State
from ghapp.scan.findings import WRONG, Findings, UnservedLabel, UnusedLabel, WaitingJob
from ghapp.scan.looks import ListDifference, ScannedRunner
from ghapp.versions.documents import VersionDocument, version_document
from ghapp.workflow_jobs.documents import WhyDocument, why_document
from ghapp.workflow_jobs.runner_groups import RunnerGroup


class ProblemDocument(TypedDict):
    """What is wrong now, or soon (severity `busy`), and what to do about it."""

    kind: HeadlineKind
    severity: Severity
    text: str
    step: str
    pool: str | None
    affected: int


class ScannedRunnerDocument(TypedDict):
    """A runner that is not healthy, or about which the lists differ.

    `offline_since` is null for a runner that was offline in the first list already: GitHub does not report it.
    `last_job_at`: when a job of it began or ended, if one of the jobs that were read names it.
    """

    runner_id: int
    name: str
    pool: str
    state: State
    reason: Reason
    change: ListDifference | None
    offline_since: Timestamp | None
    last_job_at: Timestamp | None
    version: str | None
    labels: list[str]


class ScannedPoolDocument(TypedDict):
    """A pool: runners that are registered or missing, and its jobs that wait."""

    pool: str
    runners: int
    busy: int
    idle: int
    starting: int
    offline: int
    missing: int
    waiting: int


class WaitingJobDocument(TypedDict):
    """A queued job. `why` is null if it is about to be assigned, or if runners that cannot be seen may take it."""

    job_id: int
    run_id: int | None
    repository: str
    workflow: str
    name: str
    html_url: str
    labels: list[str]
    pool: str
    queued_at: Timestamp
    why: WhyDocument | None


class UnusedLabelDocument(TypedDict):
    """A label that no job asked for, and how many runners have it."""

    label: str
    runners: int


class UnservedLabelDocument(TypedDict):
    """A label that no runner has, how many waiting jobs ask for it, and the label that may be meant."""

    label: str
    jobs: int
    nearest: str | None


class RestrictedGroupDocument(TypedDict):
    """A runner group that excludes repositories: `repositories` may use it; null: not those, or not known."""

    name: str
    visibility: str
    allows_public_repositories: bool
    repositories: list[str] | None


class NotSeenDocument(TypedDict):
    """What could not be seen, why, and what a token needs for it."""

    what: str
    why: str
    needs: str | None


class CoverageDocument(TypedDict):
    """Of how many repositories, unfinished runs and completed runs the jobs were read."""

    repositories: int
    of_repositories: int | None
    runs: int
    of_runs: int
    finished_runs: int


class ScopeDocument(TypedDict):
    """One scope. `runners` is null if they cannot be read, `unused_labels` if no job was read."""

    scope: str
    kind: ScopeKind
    listed_at: list[Timestamp]
    problems: list[ProblemDocument]
    runners: dict[State, int] | None
    pools: list[ScannedPoolDocument]
    offline: list[ScannedRunnerDocument]
    differing: list[ScannedRunnerDocument]
    versions: list[VersionDocument]
    jobs: list[WaitingJobDocument]
    unserved_labels: list[UnservedLabelDocument]
    unused_labels: list[UnusedLabelDocument] | None
    restricted_groups: list[RestrictedGroupDocument]
    coverage: CoverageDocument
    not_seen: list[NotSeenDocument]
    calls: int


class ScanDocument(TypedDict):
    """A scan: what is wrong in each scope, and how many problems that are now. `calls` is the number of requests."""

    problems: int
    scopes: list[ScopeDocument]
    calls: int


def scan_document(found: Sequence[Findings], calls: int) -> ScanDocument:
    """Returns the document of a scan."""
    return {
        "problems": sum(headline.severity in WRONG for each in found for headline in each.headlines),
        "scopes": [_scope(each) for each in found],
        "calls": calls,
    }


def _scope(found: Findings) -> ScopeDocument:
    reading, unused = found.reading, found.unused_labels
    return {
        "scope": reading.scope.address,
        "kind": reading.scope.kind,
        "listed_at": [timestamp(each.at) for each in reading.looks],
        "problems": [
            {
                "kind": each.kind,
                "severity": each.severity,
                "text": each.sentence,
                "step": each.step,
                "pool": each.pool or None,
                "affected": each.affected,
            }
            for each in found.headlines
        ],
        "runners": None if found.observed is None else dict(runner_counts(found)),
        "pools": pool_documents(found),
        "offline": [runner_document(each) for each in offline(found)],
        "differing": [runner_document(each) for each in found.changed(*ListDifference)],
        "versions": [version_document(each, found.view, found.versions) for each in found.versions],
        "jobs": [waiting_document(found, each) for each in found.waiting],
        "unserved_labels": [_unserved(each) for each in found.unserved_labels],
        "unused_labels": None if unused is None else [_unused(each) for each in unused],
        "restricted_groups": [_group(each) for each in found.restricted_groups],
        "coverage": {**reading.coverage._asdict()},  # type: ignore[typeddict-item]
        "not_seen": [{"what": each.what, "why": each.why, "needs": each.needs or None} for each in found.not_seen],
        "calls": reading.calls,
    }


def runner_counts(found: Findings) -> Counter[State]:
    """Returns the number of runners in each state."""
    return Counter(each.verdict.state for each in found.runners)


def offline(found: Findings) -> list[ScannedRunner]:
    """Returns the offline runners, by name."""
    runners = [each for each in found.runners if each.verdict.state is State.OFFLINE]
    return sorted(runners, key=lambda each: (each.evidence.name, each.evidence.id))


def runner_document(found: ScannedRunner) -> ScannedRunnerDocument:
    """Returns a runner's document."""
    evidence, is_just_offline = found.evidence, found.change is ListDifference.WENT_OFFLINE
    return {
        "runner_id": evidence.id,
        "name": evidence.name,
        "pool": PoolMatcher(()).pool(evidence),
        "state": found.verdict.state,
        "reason": found.verdict.reason,
        "change": found.change,
        "offline_since": _time(evidence.offline_since) if is_just_offline else None,
        "last_job_at": _time(evidence.last_sign_at),
        "version": evidence.version,
        "labels": list(evidence.labels),
    }


def pool_documents(found: Findings) -> list[ScannedPoolDocument]:
    """Returns the pools with runners; those with jobs that wait and with offline runners come first."""
    waiting = Counter(found.queue.pool(each.job) for each in found.waiting)
    rows = [_pool(each, waiting[each.name]) for each in found.pools]
    return sorted(rows, key=lambda each: (-each["missing"], -each["offline"], -each["waiting"], each["pool"]))


def _pool(pool: PoolView, waiting: int) -> ScannedPoolDocument:
    missing, starting = (sum(each.state is state for each in pool.members) for state in (State.SUSPECT, State.STARTING))
    online = [
        each.evidence
        for each in pool.members
        if each.evidence.online and each.state not in (State.SUSPECT, State.STARTING)
    ]
    busy = sum(each.is_at_work for each in online)
    return {
        "pool": pool.name,
        "runners": len(pool.members),
        "busy": busy,
        "idle": len(online) - busy,
        "starting": starting,
        "offline": len(pool.members) - len(online) - starting - missing,
        "missing": missing,
        "waiting": waiting,
    }


def waiting_document(found: Findings, waiting: WaitingJob) -> WaitingJobDocument:
    """Returns the document of a job that waits."""
    job = waiting.job
    return {
        "job_id": job.id,
        "run_id": job.run_id,
        "repository": job.repository,
        "workflow": job.workflow,
        "name": job.name,
        "html_url": job.html_url,
        "labels": list(job.labels),
        "pool": found.queue.existing_pool(job),
        "queued_at": timestamp(job.queued_at),
        "why": why_document(waiting.why),
    }


def _unserved(label: UnservedLabel) -> UnservedLabelDocument:
    return {"label": label.label, "jobs": label.jobs, "nearest": label.nearest}


def _unused(label: UnusedLabel) -> UnusedLabelDocument:
    return {"label": label.label, "runners": label.runners}


def _group(group: RunnerGroup) -> RestrictedGroupDocument:
    return {
        "name": group.name,
        "visibility": group.visibility,
        "allows_public_repositories": group.allows_public,
        "repositories": None if group.repositories is None else list(group.repositories),
    }


def _time(at: float | None) -> str | None:
    return None if at is None else timestamp(at)
