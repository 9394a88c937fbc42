"""What is heard of the runner in a stamped pod, and when GitHub is asked about it. Pure; times are epoch seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2

from ghapp.health.job import Job
from ghapp.health.leaks.runner_activity import Patience, RunnerActivity, never, runner_activity
from ghapp.health.runner.evidence import Evidence, Registration, Survey

FIRST_ASKED_SECONDS = 300.0
"""A job that looks as if it were over is asked about at this age, and then at each doubling of it."""

LONG_SECONDS = 16 * FIRST_ASKED_SECONDS
"""A job that looks alive is asked about from this age on, 80 minutes: its end may never have been told."""


def combined_activity(
    bearers: Sequence[Evidence],
    jobs: Sequence[Job],
    survey: Survey,
    now: float,
    stale_seconds: float,
    patience: Patience = never,
) -> RunnerActivity:
    """What all runners of one name come to; whatever speaks for the pod counts.

    Args:
        bearers: every record of a runner of that name; empty when nobody ever told of one.
        jobs: those that deliveries show in progress under that name.
        survey: how the last look at GitHub went.
        now: as of when.
        stale_seconds: an observation older than this answers nothing.
        patience: for how long a runner may be offline before its pool replaces it.
    """
    words = [
        runner_activity(each, survey, now, stale_seconds, patience)
        for each in sorted(bearers, key=lambda each: each.id)
    ]
    latest = words[-1] if words else runner_activity(None, survey, now, stale_seconds)
    over = {each.job_id for each in bearers if each.job_ended_at is not None}
    running = any(word.running for word in words) or any(job.id not in over for job in jobs)
    said = [word.busy for word in words or [latest]]
    registered = [word for word in words if word.registered]
    absent = [word.absent_seconds for word in words if word.absent_seconds is not None]
    seen = [word.seen_at for word in words if word.seen_at is not None]
    return RunnerActivity(
        running=running,
        over_at=None if running else latest.over_at,
        busy=True if True in said else None if None in said else False,
        ephemeral=False if any(word.ephemeral is False for word in words) else latest.ephemeral,
        online=any(word.online for word in words),
        is_known=bool(bearers or jobs),
        registered=bool(registered),
        offline_too_long=bool(registered) and all(word.offline_too_long for word in registered),
        last_busy=any(word.last_busy for word in words),
        absent_seconds=min(absent, default=None),
        seen_at=max(seen, default=None),
    )


def is_worth_a_query(runner: RunnerActivity, bearers: Sequence[Evidence]) -> bool:
    """Whether a question about the runners of that name could let the pod go.

    A fresh list that shows one busy or online is believed. Runners that no list ever showed, as those of repositories,
    are in no answer either. `leaks` decides first whether the list's word keeps the pod.
    """
    return not runner.has_session and (not bearers or any(each.registered for each in bearers))


def with_answer(runner: RunnerActivity, bearers: Sequence[Evidence], named: Sequence[Registration]) -> RunnerActivity:
    """The same, now that GitHub was asked for the runners of its name.

    That GitHub shows none of that name says nothing by itself: it must agree with what the lists said before.
    """
    if named:
        is_old = {each.id for each in named} <= {each.id for each in bearers}
        return runner._replace(
            busy=any(each.busy for each in named),
            online=any(each.online for each in named),
            is_known=True,
            registered=True,
            offline_too_long=runner.offline_too_long and is_old,  # a new registration has not been offline for long
        )
    if any(each.listed for each in bearers):
        return runner._replace(busy=None, online=False, registered=False, offline_too_long=False)
    return runner


def is_due(started_at: float, last: float | None, now: float, *, looks_over: bool) -> bool:
    """Whether GitHub is to be asked, at this look, if a job in progress by delivery is over.

    Its end may not have been told. As a job grows older it is asked about less and less often: at each doubling of
    its age, and so, with no memory, once by all looks together.

    Args:
        started_at: when the job began.
        last: when the last good look was; None for never.
        now: of this look.
        looks_over: GitHub does not show its runner busy, or its container has ended.
    """
    step = _step(now - started_at)
    if step < (0 if looks_over else _step(LONG_SECONDS)):
        return False
    return last is None or step > _step(last - started_at)


def _step(age: float) -> int:
    """How often the age has doubled since the first question was due; -1 before that."""
    return floor(log2(age / FIRST_ASKED_SECONDS)) if age >= FIRST_ASKED_SECONDS else -1
