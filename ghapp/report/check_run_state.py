"""Decides where a report is posted, and whether it must be posted now. Pure.

A check run stays with its commit: when the branch moves on, the report is created again on the new head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

from ghapp.installations.pool_matching import NamespaceRule, namespaces_of
from ghapp.installations.scope import ScopeKind, kind_of, owner_of
from ghapp.report.check_run import PRESS, Report

LOOK_AGAIN_SECONDS = 300.0
"""A head confirmed longer ago is read again before posting: deliveries may have been lost."""


class Head(NamedTuple):
    """The newest commit of a repository's default branch.

    Attributes:
        repository: `owner/name`.
        branch: the default branch.
        sha: the commit.
        at: when the commit became the head, by GitHub's clock (epoch seconds).
        confirmed_at: when GitHub last confirmed the head, by our clock (epoch seconds).
    """

    repository: str
    branch: str
    sha: str
    at: float
    confirmed_at: float


REFRESH_SECONDS = 600.0
"""How often changes that are not urgent are posted."""

MOST_AN_HOUR, HOUR = 6, 3600.0
"""Urgent changes of one kind that are posted at once without an incident: a queue may be slow, and not, each minute.

The outcome of a button is posted at once however often: a person asked for it, and each sweep has one outcome for all
presses before it."""


class Posted(NamedTuple):
    """The last posted report. Fields are only ever appended.

    Attributes:
        repository: `owner/name`.
        sha: the commit.
        check_run: its id.
        digest: of the report; an empty one forces an update.
        urgent: as in `Report`.
        at: when it was posted (epoch seconds).
        is_incident: as in `Report`.
        changes: when reports without an incident changed what is urgent within the last hour, and its kind; the last
            `MOST_AN_HOUR` of each kind.
    """

    repository: str
    sha: str
    check_run: int
    digest: str
    urgent: tuple[tuple[str, str], ...] = ()
    at: float = 0.0
    is_incident: bool = True
    changes: tuple[tuple[float, str], ...] = ()


class PostFailure(NamedTuple):
    """Why posting to a repository failed; since when, and until when posting is not retried (epoch seconds)."""

    repository: str
    reason: str
    until: float
    since: float = 0.0


class CheckRunState(NamedTuple):
    """The state of an org's report; unknown parts are None."""

    posted: Posted | None = None
    head: Head | None = None
    setback: PostFailure | None = None

    def at(self, repository: str) -> CheckRunState:
        """Returns the state without parts that belong to another repository, as after a configuration change."""
        posted, head, setback = self
        return CheckRunState(
            posted if posted is not None and posted.repository == repository else None,
            head if head is not None and head.repository == repository else None,
            setback if setback is not None and setback.repository == repository else None,
        )


class CheckRunStep(Enum):
    """The next step for a report."""

    NOTHING = auto()
    FIND_HEAD = auto()
    UPDATE = auto()
    CREATE = auto()


def next_of(state: CheckRunState, report: Report, now: float) -> CheckRunStep:
    """Returns the next step towards a check run with this report on the branch's head.

    GitHub is not called while the posted report has the same digest and is on the newest known head. If it is younger
    than `REFRESH_SECONDS`, it is not called either while the report differs only in what is not urgent, or has no
    incident and differs only in kinds that have changed `MOST_AN_HOUR` times within the last hour. The outcome of a
    button that vanishes is not urgent, and one that appears never waits.
    """
    posted, head, setback = state
    if setback is not None and now < setback.until:
        return CheckRunStep.NOTHING
    on_head = posted is not None and head is not None and posted.sha == head.sha
    if on_head and posted is not None:
        is_recent = bool(posted.digest) and 0.0 <= now - posted.at < REFRESH_SECONDS
        may_wait = report.urgent and _may_wait(posted, report, now)
        if posted.digest == report.digest or (is_recent and may_wait):
            return CheckRunStep.NOTHING
    if head is None or now - head.confirmed_at > LOOK_AGAIN_SECONDS:
        return CheckRunStep.FIND_HEAD
    return CheckRunStep.UPDATE if on_head else CheckRunStep.CREATE


def _may_wait(posted: Posted, report: Report, now: float) -> bool:
    """True if nothing urgent changed, or, without an incident, only what changes again and again."""
    changed = _changed_kinds(posted, report)
    if PRESS in changed or (changed and (posted.is_incident or report.is_incident)):
        return False
    times = Counter(kind for _, kind in _of_last_hour(posted.changes, now))
    return all(times[kind] >= MOST_AN_HOUR for kind in changed)


def _changed_kinds(posted: Posted, report: Report) -> list[str]:
    """Returns the kinds of urgent news that appeared, changed or vanished; an outcome of a button does not vanish."""
    before, after = dict(posted.urgent), dict(report.urgent)
    changed = [kind for kind in {**before, **after} if before.get(kind) != after.get(kind)]
    return [kind for kind in changed if kind != PRESS or kind in after]


def changes_after(posted: Posted | None, report: Report, now: float) -> tuple[tuple[float, str], ...]:
    """Returns `Posted.changes` after a report was posted at `now`."""
    if posted is None:
        return ()
    changes = _of_last_hour(posted.changes, now)
    if not report.is_incident:
        changes = (*changes, *((now, kind) for kind in _changed_kinds(posted, report) if kind != PRESS))
    kept = {kind: [at for at, each in changes if each == kind][-MOST_AN_HOUR:] for _, kind in changes}
    return tuple((at, kind) for kind, times in kept.items() for at in times)


def _of_last_hour(changes: Iterable[tuple[float, str]], now: float) -> tuple[tuple[float, str], ...]:
    """Returns the changes of the last hour; one in the future, from a clock that jumped, does not count."""
    return tuple((at, kind) for at, kind in changes if 0.0 <= now - at < HOUR)


def newer(known: Head | None, reported: Head) -> Head:
    """Returns the newer of two heads: deliveries come late and twice, and lists of workflow runs lag behind."""
    if known is None or (known.repository, known.branch) != (reported.repository, reported.branch):
        return reported
    if reported.at >= known.at:
        return reported
    return known._replace(confirmed_at=max(known.confirmed_at, reported.confirmed_at))


def repository_of(configured: str | None, org: str) -> str | None:
    """Returns the org's report repository, `owner/name`; None if it is unset or belongs to another owner.

    A repository's fleet is reported in a repository of the same owner, an enterprise's in one of any organization.
    """
    owner, _, name = (configured or "").partition("/")
    is_of_owner = kind_of(org) is ScopeKind.ENTERPRISE or owner.lower() == owner_of(org).lower()
    return configured if name and is_of_owner else None


def wants_report(configured: str | None, org: str, rules: Iterable[NamespaceRule]) -> bool:
    """True if a report is due from time to time: it has a repository, or pools with pods, whose phantoms it finds."""
    return repository_of(configured, org) is not None or bool(namespaces_of(rules))
