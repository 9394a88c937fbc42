"""Combines evidence about the runner in a stamped pod, and decides when GitHub is queried. Pure; epoch seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2

from ghapp.leaks.runner_activity import Patience, RunnerActivity, never, runner_activity
from ghapp.runners.delivery_lag import DeliveryGap
from ghapp.runners.evidence import Evidence, Registration, Survey
from ghapp.workflow_jobs.job import Job

FIRST_ASKED_SECONDS = 300.0
"""GitHub is asked about a job that seems over at this age, and then each time the age doubles."""

LONG_SECONDS = 16 * FIRST_ASKED_SECONDS
"""GitHub is asked about a job that seems alive from this age on, 80 minutes: its end may have been lost."""


def combined_activity(
    records: Sequence[Evidence],
    jobs: Sequence[Job],
    survey: Survey,
    now: float,
    stale_seconds: float,
    patience: Patience = never,
    gaps: Sequence[DeliveryGap] = (),
) -> RunnerActivity:
    """Combines the evidence about all runners of one name; any evidence that protects the pod counts.

    Args:
        records: all records of runners of that name; empty if there is none.
        jobs: jobs that deliveries report in progress under that name.
        survey: results of the last sweeps.
        now: epoch seconds.
        stale_seconds: older observations are ignored.
        patience: how long a runner may be offline before its pool replaces it.
        gaps: spans of which deliveries are missing or late.
    """
    activities = [
        runner_activity(each, survey, now, stale_seconds, patience, gaps)
        for each in sorted(records, key=lambda each: each.id)
    ]
    latest = activities[-1] if activities else runner_activity(None, survey, now, stale_seconds)
    over = {each.job_id for each in records if each.job_ended_at is not None}
    running = any(each.running for each in activities) or any(job.id not in over for job in jobs)
    busy = [each.busy for each in activities or [latest]]
    registered = [each for each in activities if each.registered]
    absent = [each.absent_seconds for each in activities if each.absent_seconds is not None]
    seen = [each.seen_at for each in activities if each.seen_at is not None]
    delivered = [each.delivered_at for each in activities if each.delivered_at is not None]
    return RunnerActivity(
        running=running,
        over_at=None if running else latest.over_at,
        busy=True if True in busy else None if None in busy else False,
        ephemeral=False if any(each.ephemeral is False for each in activities) else latest.ephemeral,
        online=any(each.online for each in activities),
        is_known=bool(records or jobs),
        registered=bool(registered),
        offline_too_long=bool(registered) and all(each.offline_too_long for each in registered),
        last_busy=any(each.last_busy for each in activities),
        absent_seconds=min(absent, default=None),
        seen_at=max(seen, default=None),
        job_started_at=latest.job_started_at,
        delivered_at=max(delivered, default=None),
        awaits_deliveries=any(each.awaits_deliveries for each in activities),
    )


def is_worth_a_query(runner: RunnerActivity, records: Sequence[Evidence]) -> bool:
    """True if querying GitHub for the runners of that name could release the pod.

    A fresh list that shows one busy or online is trusted. Runners that no list shows, as those of repositories, appear
    in no answer either. `leaks` decides first whether the list keeps the pod.
    """
    return not runner.has_session and (not records or any(each.registered for each in records))


def without_proof(records: Sequence[Evidence]) -> list[Evidence]:
    """Returns the runners that are missing from lists only: a list is a hint, and a GET is proof.

    A runner that seems to have left after its job is not confirmed by a GET otherwise, because it is not replaced.
    """
    return [
        each
        for each in records
        if each.registered and not each.listed and (each.first_404_at, each.removed_at, each.retired_at) == (None,) * 3
    ]


def with_answer(runner: RunnerActivity, records: Sequence[Evidence], named: Sequence[Registration]) -> RunnerActivity:
    """Returns the evidence after GitHub was queried for the runners of that name.

    Args:
        runner: the evidence so far.
        records: all records of runners of that name.
        named: the registrations of that name that a list returned, or else the GETs of those `without_proof`. No
            registration proves nothing by itself: it must agree with the earlier lists.
    """
    if named:
        is_old = {each.id for each in named} <= {each.id for each in records}
        return runner._replace(
            busy=any(each.busy for each in named),
            online=any(each.online for each in named),
            is_known=True,
            registered=True,
            offline_too_long=runner.offline_too_long and is_old,  # a new registration has not been offline for long
        )
    if any(each.listed for each in records):
        return runner._replace(busy=None, online=False, registered=False, offline_too_long=False)
    return runner


def is_due(started_at: float, last: float | None, now: float, *, looks_over: bool) -> bool:
    """True if GitHub must be asked at this tick whether a job in progress by delivery is over.

    The delivery of its end may be lost. The older a job, the less often GitHub is asked: each time its age doubles,
    which needs no memory and gives one query for all ticks together.

    Args:
        started_at: when the job began.
        last: time of the last valid tick; None for never.
        now: of this tick.
        looks_over: GitHub does not list its runner as busy, or its container has ended.
    """
    step = _step(now - started_at)
    if step < (0 if looks_over else _step(LONG_SECONDS)):
        return False
    return last is None or step > _step(last - started_at)


def _step(age: float) -> int:
    """Returns how often the age has doubled since the first query was due; -1 before that."""
    return floor(log2(age / FIRST_ASKED_SECONDS)) if age >= FIRST_ASKED_SECONDS else -1
