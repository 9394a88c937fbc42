"""What deliveries and GitHub say of the runner in a pod, as far as it may keep the pod from being reaped."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.health.evidence import Evidence, Survey, observed_at
from ghapp.health.verdict import is_absent


class Heard(NamedTuple):
    """What deliveries and GitHub say of one runner. The defaults are those of a runner that nobody knows.

    Attributes:
        running: deliveries told of the start of a job, and not of its end.
        over_at: when its latest job ended (epoch seconds), by a delivery or because GitHub was asked for that job;
            None: not known.
        busy: whether GitHub shows it busy; None when there is no fresh and complete answer.
        ephemeral: whether it can take one job only; None when GitHub does not say.
        online: whether GitHub shows it online: it may be given a job at any moment. Says nothing while `busy` is None.
        is_known: whether GitHub or a delivery ever told of a runner of that name.
    """

    running: bool = False
    over_at: float | None = None
    busy: bool | None = None
    ephemeral: bool | None = None
    online: bool = False
    is_known: bool = False

    @property
    def has_session(self) -> bool | None:
        """Whether it works, or may be given work at any moment; None when GitHub gave no word."""
        return None if self.busy is None else self.busy or self.online


def heard(evidence: Evidence | None, survey: Survey, now: float, stale_seconds: float) -> Heard:
    """What is known of a runner; `evidence` is None for one that nobody ever told of.

    GitHub's word counts as far as it is fresh: from a look no older than `stale_seconds`.
    """
    if evidence is None:
        return Heard(busy=False if _is_fresh(survey.swept_at, now, stale_seconds) else None)
    busy = _busy(evidence, survey, now, stale_seconds)
    online = busy is not None and evidence.listed and evidence.online
    return Heard(
        evidence.running_job is not None, evidence.job_ended_at, busy, evidence.ephemeral, online, is_known=True
    )


def _busy(evidence: Evidence, survey: Survey, now: float, stale_seconds: float) -> bool | None:
    if evidence.overlooked_at is not None or not evidence.registered:
        return None  # the last list may have overlooked it; or lists never show it, as those of repositories
    if evidence.listed:
        return evidence.busy if _is_fresh(observed_at(evidence, survey), now, stale_seconds) else None
    is_gone = is_absent(evidence) or evidence.removed_at is not None or evidence.retired_at is not None
    return False if is_gone and _is_fresh(survey.swept_at, now, stale_seconds) else None


def _is_fresh(at: float | None, now: float, stale_seconds: float) -> bool:
    return at is not None and now - at <= stale_seconds
