"""Returns what prevents sweeps of an installation, and when the next attempt is due."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from ghapp.installations.installation import Installation, runners_permission
from ghapp.installations.pacing import least_interval
from ghapp.installations.scope import ScopeKind, kind_of
from ghapp.runners.evidence import Survey
from ghapp.runners.verdict import Reason
from ghapp.untrusted_text import shell_command
from ghapp.wording import DOCS

OVERDUE_SECONDS = 15.0
"""A sweep overdue by more than this was picked up by no scheduler or no worker, or its worker hangs. The scheduler adds
workers after ten seconds; a sweep whose worker crashed is due again later.
"""

OVERDUE = "SweepOverdue"
NOT_SCHEDULED = "SweepNotScheduled"


class Blindness(NamedTuple):
    """Why runners cannot be read, in words: what it means, and what to do.

    `{org}` in `fix` is the scope's name in a command; `blindness_of` puts it in.
    """

    meaning: str
    fix: str


BLINDNESS: Mapping[str, Blindness] = {
    Reason.PERMISSION_MISSING: Blindness(
        "the App may not read the organization's runners",
        f"sweeps resume by themselves once an owner grants the App `{runners_permission(ScopeKind.ORGANIZATION)}`",
    ),
    Reason.INSTALLATION_SUSPENDED: Blindness(
        "the App is suspended in the organization", "sweeps resume by themselves once an owner unsuspends the App"
    ),
    Reason.INSTALLATION_GONE: Blindness(
        "the App is not installed in the organization any more", "install it again, or ignore this"
    ),
    Reason.PERSONAL_ACCOUNT: Blindness(
        "the account is a person's, and only its repositories have runners",
        f'add them to the configuration, as [[scopes]] repositories = "{{org}}/*"; see {DOCS}/scopes.md',
    ),
    Reason.ORGANIZATION_RENAMED: Blindness(
        "the organization has another name at GitHub", "wait for the next discovery, within ten minutes"
    ),
    Reason.UNAUTHORIZED: Blindness(
        "GitHub does not accept the App's key", "run `ghapp doctor`, which names the key and the App's id"
    ),
    Reason.GITHUB_UNAVAILABLE: Blindness(
        "GitHub does not answer, or answers with errors",
        "wait: sweeps resume by themselves; githubstatus.com has what GitHub reports",
    ),
    Reason.RATE_LIMITED: Blindness(
        "GitHub's rate limit is reached",
        "wait until the time that GitHub gave; then find out what else uses the App's limit",
    ),
    Reason.BUDGET_SPENT: Blindness(
        "the share of GitHub's limit that ghapp may use is spent",
        "raise [budget] share, or [sweep] interval_seconds; the budget resets within the hour",
    ),
    Reason.LIST_INCOMPLETE: Blindness(
        "GitHub's list of runners was incomplete", "nothing to do if it does not stay so; lists are read again"
    ),
    Reason.LIST_EMPTY: Blindness(
        "GitHub's list of runners was empty, and none of the known runners answered 404",
        "nothing to do if it does not stay so; lists are read again",
    ),
    Reason.INTERNAL_ERROR: Blindness(
        "a sweep ended with an error of ghapp itself",
        "find `sweep failed` in the worker's log, and report its traceback as a bug of ghapp",
    ),
    OVERDUE: Blindness(
        "no sweep ran although one was due",
        "see whether workers hang or are busy, and whether `ghapp clock` runs; `ghapp doctor` shows both",
    ),
    NOT_SCHEDULED: Blindness(
        "no sweep is scheduled",
        "run `ghapp sweep --org {org}`, which schedules it; check that `ghapp clock` and a worker run",
    ),
}
"""By the reason that prevents complete lists."""

_OF_REPOSITORIES: Mapping[str, Blindness] = {
    Reason.PERMISSION_MISSING: Blindness(
        "the App may not read the repository's runners",
        f"give the App `{runners_permission(ScopeKind.REPOSITORY)}` on repositories (write, to remove lost runners); "
        "sweeps begin by themselves once an owner accepts it",
    ),
    Reason.INSTALLATION_GONE: Blindness(
        "the repository was deleted, or the App does not see it any more",
        "give the App access to it, or remove it from [[scopes]]",
    ),
    Reason.ORGANIZATION_RENAMED: Blindness(
        "the repository or its owner has another name at GitHub", "wait for the next discovery, within ten minutes"
    ),
}

_OF_ENTERPRISES: Mapping[str, Blindness] = {
    Reason.UNAUTHORIZED: Blindness(
        "GitHub does not accept the enterprise's token",
        "make a classic token with manage_runners:enterprise, as an owner of the enterprise, and set it in "
        "GHAPP_ENTERPRISE_TOKEN",
    ),
    Reason.PERMISSION_MISSING: Blindness(
        "the enterprise's token may not read its runners",
        "give the token the scope manage_runners:enterprise, and check the slug and that the token's owner "
        "is an owner of the enterprise",
    ),
}

NEEDS_AN_OWNER = frozenset[str]({Reason.PERMISSION_MISSING, Reason.INSTALLATION_SUSPENDED})
"""Of these, what only an owner of the organization ends: waiting does not help."""

UNKNOWN_BLINDNESS = Blindness("no complete list of runners could be read", "run `ghapp doctor`")


def blindness_of(reason: str, org: str) -> Blindness:
    """Returns why runners of a scope cannot be read, in words that fit an organization, a repository or an enterprise.

    Args:
        reason: the reason's code; one that is unknown has words, too.
        org: the scope's name.
    """
    own = {ScopeKind.REPOSITORY: _OF_REPOSITORIES, ScopeKind.ENTERPRISE: _OF_ENTERPRISES}.get(kind_of(org), BLINDNESS)
    found = own.get(reason) or BLINDNESS.get(reason, UNKNOWN_BLINDNESS)
    return found._replace(fix=found.fix.format(org=shell_command(org)))


class NextAttempt(NamedTuple):
    """The next attempt to sweep an installation.

    Attributes:
        prevented_by: reason code of what prevents a complete sweep; empty if nothing does.
        since: since when, if known (epoch seconds).
        at: when the next attempt is due (epoch seconds): a sweep, or a check whether the installation permits sweeps
            again; None: no attempt is planned.
    """

    prevented_by: str = ""
    since: float | None = None
    at: float | None = None


def why_not_swept(installation: Installation) -> Reason | None:
    """Returns why an installation is not swept at all: it is suspended, lacks the permission, or is a person's."""
    if installation.suspended:
        return Reason.INSTALLATION_SUSPENDED
    if installation.is_personal:
        return Reason.PERSONAL_ACCOUNT
    return None if installation.may_read_runners() else Reason.PERMISSION_MISSING


def next_attempt(
    installation: Installation, survey: Survey, sweep_at: float | None, discovery_at: float | None, now: float
) -> NextAttempt:
    """Returns what prevents sweeps, and when the next attempt is due.

    Args:
        installation: its record.
        survey: result of its last sweeps.
        sweep_at: when its next sweep is due; None: no sweep is scheduled.
        discovery_at: when GitHub is next asked for all installations; None: unknown.
        now: epoch seconds.
    """
    failing = survey.failing_since
    if (reason := why_not_swept(installation)) is not None:
        return NextAttempt(reason, failing if survey.failure == reason else None, sweep_at or discovery_at)
    if sweep_at is None:
        return NextAttempt(survey.failure or NOT_SCHEDULED, failing, discovery_at)
    if now - sweep_at > OVERDUE_SECONDS:
        return NextAttempt(OVERDUE, sweep_at, sweep_at)
    if failing is None and survey.deferred_since is not None:
        return NextAttempt(Reason.RATE_LIMITED, survey.deferred_since, sweep_at)
    return NextAttempt(survey.failure, failing, sweep_at)


def is_list_late(survey: Survey, interval_seconds: float, now: float) -> bool:
    """True if a newer complete list should be there: none came within the interval and the time that a list may take.

    Args:
        survey: result of the last sweeps.
        interval_seconds: the configured time between sweeps. One that the budget stretches counts as late, too.
        now: epoch seconds.
    """
    takes = least_interval(ceil(survey.total / 100))  # runners a call
    usual = max(interval_seconds, takes) + takes
    return survey.swept_at is not None and now - survey.swept_at > usual + OVERDUE_SECONDS
