"""The versions of an organization's runners as JSON. The typed dictionaries are the only definition of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from ghapp.report.documents import Timestamp, timestamp
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.versions.advice import version_text
from ghapp.versions.lifetime import VersionState, VersionStatus


class PoolVersionDocument(TypedDict):
    """The runners of one version in one pool.

    `ended_without_job` are ephemeral ones that ended within the last hour because they are too old.
    """

    pool: str
    runners: int
    online: int
    ended_without_job: int


class VersionStepDocument(TypedDict):
    """What to do, and why."""

    step: str
    why: str


class VersionDocument(TypedDict):
    """A version of the runner, null for runners that GitHub lists without one, and until when it gets jobs.

    A date is null if GitHub has none, or does not report it.
    """

    version: str | None
    runners: int
    registration_ends_at: Timestamp | None
    jobs_end_at: Timestamp | None
    state: VersionState
    text: str
    pools: list[PoolVersionDocument]
    next: list[VersionStepDocument]


class VersionsDocument(TypedDict):
    """The versions that run, the worst first; `observed_at` is the time of the last list of runners."""

    org: str
    observed_at: Timestamp | None
    versions: list[VersionDocument]


def versions_document(view: OrgView, runners: Iterable[Evidence], now: float) -> VersionsDocument:
    """Returns the document of an organization as of `now` (epoch seconds)."""
    statuses = view.versions(runners, now)
    return {
        "org": view.org,
        "observed_at": _time(view.survey.swept_at),
        "versions": [version_document(each, view, statuses) for each in statuses],
    }


def version_document(status: VersionStatus, view: OrgView, statuses: Iterable[VersionStatus]) -> VersionDocument:
    """Returns the document of one version; `statuses` are those of all versions."""
    return {
        "version": status.version,
        "runners": status.runners,
        "registration_ends_at": _time(status.registration_ends_at),
        "jobs_end_at": _time(status.jobs_end_at),
        "state": status.state,
        "text": version_text(status),
        "pools": [
            {"pool": each.pool, "runners": each.runners, "online": each.online, "ended_without_job": each.refused}
            for each in status.pools
        ],
        "next": [{"step": each.step, "why": each.why} for each in view.steps_for(status, statuses)],
    }


def _time(at: float | None) -> str | None:
    return None if at is None else timestamp(at)
