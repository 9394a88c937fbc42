"""Whether a job failed because its runner died. Pure.

What tells a death's job from a job that failed by itself: GitHub's own words beside it, or, where those are missing,
that none of its steps came to a bad end of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ghapp.health.deaths.cause import Cause, OwnReason
from ghapp.health.deaths.death import Death, blames_the_platform
from ghapp.health.runner.evidence import Evidence

APART_SECONDS = 60.0
"""A job that was over for longer when its runner died was not interrupted. GitHub's clock is not the cluster's."""

APART_UNSEEN_SECONDS = 900.0
"""The same where nobody saw the end: it came at some time before the pod was found to be gone."""

SURROUNDED_SECONDS = 75.0
"""After an end, until all is there that surrounded it: a minute, and what lines take to arrive."""

LOOKS_AFTER_SECONDS = (90.0, 600.0, 300.0, 600.0, 1800.0)
"""From one look to the next. The second finds what surrounded the end; GitHub says of a lost job that it failed when
its lease is over, after ten minutes or more, so the third to the last wait for that. Then it is left."""

LOST_WORDS = ("lost communication with the server", "received a shutdown signal")
"""In the annotations of a job whose runner went: without a word, and by a signal."""

UNFINISHED = ("failure", "cancelled", "timed_out")


class JobFacts(NamedTuple):
    """A workflow job as GitHub shows it.

    Attributes:
        conclusion: empty until it is over.
        completed_at: epoch seconds.
        step_failed: whether one of its steps came to an end of its own, and that was a failure.
    """

    id: int
    name: str
    head_sha: str
    html_url: str = ""
    over: bool = False
    conclusion: str = ""
    completed_at: float | None = None
    step_failed: bool = False


def job_at_death(evidence: Evidence, death: Death) -> int | None:
    """The job that a runner had when it died, by all that deliveries told; None when it was idle."""
    if evidence.job_id is None:
        return None
    began_later = evidence.job_started_at is not None and evidence.job_started_at > death.at + APART_SECONDS
    return None if began_later or _was_over(evidence.job_ended_at, death) else evidence.job_id


def may_have_failed_for_it(death: Death, job: JobFacts) -> bool:
    """Whether that is worth asking about: the runner did not end as it should, and its job did not end well."""
    unfinished = job.over and job.conclusion in UNFINISHED
    return unfinished and death.cause is not Cause.CLEAN_EXIT and not _was_over(job.completed_at, death)


def failed_for_it(death: Death, job: JobFacts, notes: Sequence[str]) -> bool:
    """Whether a job failed because its runner died.

    Args:
        death: with that job, and its conclusion.
        job: as GitHub shows it.
        notes: its annotations; none where they may not be read.
    """
    if not may_have_failed_for_it(death, job):
        return False
    told = any(words in note for note in notes for words in LOST_WORDS)
    return blames_the_platform(death, told_by_github=told) and (told or not job.step_failed)


def wants_lines(death: Death) -> bool:
    """Whether a log store could add to it: a clean end explains itself, unless nothing was heard of it."""
    return death.cause is not Cause.CLEAN_EXIT or (death.reason == OwnReason.SILENT and not death.runner_log)


def has_full_context(death: Death, now: float) -> bool:
    """Whether all that will be there of what surrounded it is there."""
    return now >= death.at + SURROUNDED_SECONDS


def next_look_after(look: int) -> float | None:
    """Seconds from one look, the first is 0, to the next; None after the last."""
    return LOOKS_AFTER_SECONDS[look] if 0 <= look < len(LOOKS_AFTER_SECONDS) else None


def _was_over(ended_at: float | None, death: Death) -> bool:
    """Whether a job that ended then was over before its runner died."""
    apart = APART_UNSEEN_SECONDS if death.exit_code is None else APART_SECONDS
    return ended_at is not None and ended_at < death.at - apart
