"""What deliveries and GitHub say of the runner in a pod, as far as it may keep the pod from being reaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ghapp.health.runner.evidence import Evidence, Survey, covered_seconds, observed_at
from ghapp.health.runner.verdict import gone_since, is_absent, is_offline_too_long

Patience = Callable[[Evidence], float | None]
"""The `replace_offline_after_seconds` of a runner's pool; None where its pool does not replace offline runners."""


def never(_evidence: Evidence) -> None:
    """No pool replaces offline runners."""


class RunnerActivity(NamedTuple):
    """What deliveries and GitHub say of one runner. The defaults are those of a runner that nobody knows.

    Attributes:
        running: deliveries told of the start of a job, and not of its end.
        over_at: when its latest job ended (epoch seconds), by a delivery or because GitHub was asked for that job;
            None: not known.
        busy: whether GitHub shows it busy; None when there is no fresh and complete answer.
        ephemeral: whether it can take one job only; None when GitHub does not say.
        online: whether GitHub shows it online: it may be given a job at any moment. Says nothing while `busy` is None.
        is_known: whether GitHub or a delivery ever told of a runner of that name.
        registered: whether GitHub shows a registration of that name, online or offline. Says nothing while `busy` is
            None.
        offline_too_long: it is registered, and has been offline for longer than its pool's
            `replace_offline_after_seconds`, by time that complete lists cover.
        last_busy: it was busy when GitHub last showed it, its registration is gone, and the end of that job is not
            known: it may be working.
        absent_seconds: for how long its registration has been gone, by time that complete lists cover; None where no
            record says that it is gone.
        seen_at: when a runner of that name, of which GitHub has shown the registration, was last there for certain
            (epoch seconds); None for never. Deliveries alone may be of a runner that no list ever shows.
    """

    running: bool = False
    over_at: float | None = None
    busy: bool | None = None
    ephemeral: bool | None = None
    online: bool = False
    is_known: bool = False
    registered: bool = False
    offline_too_long: bool = False
    last_busy: bool = False
    absent_seconds: float | None = None
    seen_at: float | None = None

    @property
    def has_session(self) -> bool | None:
        """Whether it works, or may be given work at any moment; None when GitHub gave no word."""
        return None if self.busy is None else self.busy or self.online


def runner_activity(
    evidence: Evidence | None, survey: Survey, now: float, stale_seconds: float, patience: Patience = never
) -> RunnerActivity:
    """What is known of a runner; `evidence` is None for one that nobody ever told of.

    GitHub's word counts as far as it is fresh: from a look no older than `stale_seconds`.
    """
    if evidence is None:
        return RunnerActivity(busy=False if _is_fresh(survey.swept_at, now, stale_seconds) else None)
    busy = _busy(evidence, survey, now, stale_seconds)
    shown = busy is not None and evidence.listed
    gone = _gone_since(evidence)
    return RunnerActivity(
        evidence.running_job is not None,
        evidence.job_ended_at,
        busy,
        evidence.ephemeral,
        online=shown and evidence.online,
        is_known=True,
        registered=shown,
        offline_too_long=shown and is_offline_too_long(evidence, patience(evidence), survey, now),
        last_busy=gone is not None and _was_busy_to_the_last(evidence),
        absent_seconds=None if gone is None else covered_seconds(survey, gone, now),
        seen_at=_seen_at(evidence, survey),
    )


def _busy(evidence: Evidence, survey: Survey, now: float, stale_seconds: float) -> bool | None:
    if evidence.missing_from_partial_list_at is not None or not evidence.registered:
        return None  # the last list may have overlooked it; or lists never show it, as those of repositories
    if evidence.listed:
        return evidence.busy if _is_fresh(observed_at(evidence, survey), now, stale_seconds) else None
    is_gone = _gone_since(evidence) is not None
    return False if is_gone and _is_fresh(survey.swept_at, now, stale_seconds) else None


def _gone_since(evidence: Evidence) -> float | None:
    """Since when its registration is gone, by GitHub, by our own removal or by its controller's word; else None."""
    if evidence.listed:
        return None
    if is_absent(evidence):
        return gone_since(evidence)
    return evidence.removed_at if evidence.removed_at is not None else evidence.retired_at


def _was_busy_to_the_last(evidence: Evidence) -> bool:
    """Whether it may be at work on a job of which no delivery told. An ephemeral runner has but one job."""
    is_spent = evidence.ephemeral is True and evidence.job_ended_at is not None
    return evidence.busy and evidence.running_job is None and not is_spent


def _seen_at(evidence: Evidence, survey: Survey) -> float | None:
    """The latest time at which it was certainly there: `observed_at` of one that is not listed may be its absence."""
    if not evidence.registered:
        return None
    times = [evidence.first_seen, evidence.last_delivery_at, evidence.job_started_at, evidence.job_ended_at]
    if evidence.listed:
        times.append(observed_at(evidence, survey))
    return max(at for at in times if at is not None)


def _is_fresh(at: float | None, now: float, stale_seconds: float) -> bool:
    return at is not None and now - at <= stale_seconds
