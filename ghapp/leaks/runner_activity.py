"""Evidence from deliveries and GitHub about the runner in a pod, as far as it may keep the pod."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ghapp.runners.delivery_lag import DeliveryGap, may_have_begun_a_job
from ghapp.runners.evidence import Evidence, Survey, covered_seconds, is_absent, missing_since, observed_at
from ghapp.runners.verdict import is_offline_too_long

Patience = Callable[[Evidence], float | None]
"""Returns `replace_offline_after_seconds` of a runner's pool; None if the pool does not replace offline runners."""


def never(_evidence: Evidence) -> None:
    """No pool replaces offline runners."""


class RunnerActivity(NamedTuple):
    """Evidence about one runner. The defaults are those of an unknown runner.

    Attributes:
        running: deliveries reported the start of a job, but not its end.
        over_at: when its latest job ended (epoch seconds), as a delivery or GitHub's answer about the job dates it;
            None: unknown.
        busy: True if GitHub lists it busy; None without a fresh and complete answer.
        ephemeral: True if it can take only one job; None if GitHub does not report it.
        online: True if GitHub lists it online: it may get a job at any moment. Not meaningful while `busy` is None.
        is_known: True if GitHub or a delivery ever named a runner of that name.
        registered: True if GitHub lists a registration of that name, online or offline. Not meaningful while `busy` is
            None.
        offline_too_long: it is registered, and has been offline for longer than its pool's
            `replace_offline_after_seconds`, by time that complete lists cover.
        last_busy: GitHub showed it busy, its registration is missing, and the end of that job is
            unknown: it may be working.
        absent_seconds: how long its registration has been missing, by time that complete lists cover; None if no
            record shows it missing.
        seen_at: after when a registered runner of that name was connected for certain (epoch seconds); None for never.
            Deliveries alone may be of a runner that no list ever shows, and a registration outlives its process by
            days, offline.
        job_started_at: when its latest job started (epoch seconds); None: unknown.
        delivered_at: when a delivery last named it (epoch seconds); None: never.
        awaits_deliveries: its registration is missing, and deliveries of the time in which it left are missing or late:
            one of them may report that it began a job.
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
    job_started_at: float | None = None
    delivered_at: float | None = None
    awaits_deliveries: bool = False

    @property
    def has_session(self) -> bool | None:
        """True if it works, or may get a job at any moment; None if GitHub did not answer."""
        return None if self.busy is None else self.busy or self.online


def runner_activity(
    evidence: Evidence | None,
    survey: Survey,
    now: float,
    stale_seconds: float,
    patience: Patience = never,
    gaps: Sequence[DeliveryGap] = (),
) -> RunnerActivity:
    """Returns the evidence about a runner; `evidence` is None for an unknown runner.

    GitHub's answers count only if fresh: not older than `stale_seconds`.
    """
    if evidence is None:
        return RunnerActivity(busy=False if _is_fresh(survey.swept_at, now, stale_seconds) else None)
    busy = _busy(evidence, survey, now, stale_seconds)
    shown = busy is not None and evidence.listed
    absent_since = _absent_since(evidence)
    return RunnerActivity(
        evidence.running_job is not None,
        _over_at(evidence),
        busy,
        evidence.ephemeral,
        online=shown and evidence.online,
        is_known=True,
        registered=shown,
        offline_too_long=shown and is_offline_too_long(evidence, patience(evidence), survey, now),
        last_busy=absent_since is not None and _was_busy_when_last_listed(evidence),
        absent_seconds=None if absent_since is None else covered_seconds(survey, absent_since, now),
        seen_at=_seen_at(evidence, survey),
        job_started_at=evidence.job_started_at,
        delivered_at=_delivered_at(evidence),
        awaits_deliveries=not evidence.listed and may_have_begun_a_job(evidence, gaps, survey, now),
    )


def _busy(evidence: Evidence, survey: Survey, now: float, stale_seconds: float) -> bool | None:
    may_be_overlooked = evidence.missing_from_partial_list_at is not None and not is_absent(evidence)
    if may_be_overlooked or not evidence.registered:
        return None  # the last list may have missed it, or lists never show it, as runners of repositories
    if evidence.listed:
        return evidence.is_busy if _is_fresh(observed_at(evidence, survey), now, stale_seconds) else None
    is_missing = _absent_since(evidence) is not None
    return False if is_missing and _is_fresh(survey.swept_at, now, stale_seconds) else None


def _over_at(evidence: Evidence) -> float | None:
    """Returns when its job ended; None if only the time is known at which the end became known."""
    return evidence.job_ended_at if evidence.job_end_dated else None


def _absent_since(evidence: Evidence) -> float | None:
    """Returns since when its registration is missing, by GitHub, our removal or its controller's report; else None."""
    if evidence.listed:
        return None
    if is_absent(evidence):
        return missing_since(evidence)
    return evidence.removed_at if evidence.removed_at is not None else evidence.retired_at


def _was_busy_when_last_listed(evidence: Evidence) -> bool:
    """True if it may work on a job that no delivery reported. An ephemeral runner has only one job."""
    is_spent = evidence.ephemeral is True and evidence.job_ended_at is not None
    return evidence.may_be_at_work and evidence.running_job is None and not is_spent


def _seen_at(evidence: Evidence, survey: Survey) -> float | None:
    """Returns a time after which its process was certainly connected, the latest that is known; None: never.

    `observed_at` of an unlisted runner may be the time of its absence; of an offline one, it says nothing of its
    process. Neither does the end of a job: GitHub ends the job of a crashed agent ten minutes late. A runner
    first seen offline may be of an earlier run of the container, which the first list came too late to see.
    """
    if not (evidence.registered and evidence.was_online):
        return None
    times = [evidence.first_seen, evidence.job_started_at]
    if evidence.listed and (evidence.online or evidence.is_busy):
        times.append(observed_at(evidence, survey))
    return max(at for at in times if at is not None)


def _delivered_at(evidence: Evidence) -> float | None:
    """Returns when a delivery last named it. A runner that GitHub never returned is known by deliveries alone."""
    times = [evidence.last_delivery_at, evidence.job_started_at, None if evidence.registered else evidence.first_seen]
    return max((at for at in times if at is not None), default=None)


def _is_fresh(at: float | None, now: float, stale_seconds: float) -> bool:
    return at is not None and now - at <= stale_seconds


def is_ours(names: Collection[str], here: Collection[str], others: Sequence[Collection[str]]) -> bool:
    """True if this organization may judge a pod. At most one organization may; in doubt, none does.

    Args:
        names: names of the pod and its runner.
        here: names of runners and pods that this organization knows or has claims on.
        others: the same for each other organization with pods in that namespace; empty if there is none.
    """
    if not others:
        return True
    return any(name in here for name in names) and not any(name in other for other in others for name in names)
