"""Decides whether a job failed because its runner died. Pure.

Evidence for that are GitHub's annotations of the job or, if these are missing, that none of the job's steps failed by
itself.
"""

from __future__ import annotations

from typing import NamedTuple

from ghapp.deaths.cause import Cause, OwnReason
from ghapp.deaths.death import DeadJob, Death, blames_the_platform, is_of
from ghapp.deaths.github_words import JobWords
from ghapp.deaths.runner_log import RUNNING, read_runner_log
from ghapp.runners.evidence import Evidence

APART_SECONDS = 60.0
"""A job that ended earlier than this before its runner's death was not interrupted. Clocks may differ."""

APART_UNSEEN_SECONDS = 900.0
"""The same for an unobserved end, which happened at some time before the pod was found missing."""

SURROUNDED_SECONDS = 75.0
"""Time after an end until its context is complete: a minute, plus the delay of log lines."""

ENDED_LATE_SECONDS = 600.0
"""From a runner's loss until GitHub ends its job, when its lease expires: about this, mostly a little more."""

LOOKS_AFTER_SECONDS = (90.0, 600.0, 300.0, 600.0, 1800.0)
"""Delays between attempts. The second attempt finds the context of the end. GitHub marks a lost job as failed after
`ENDED_LATE_SECONDS` or more: the later attempts wait for that. After the last attempt there are no more."""

DELIVERED_SECONDS = 15.0
"""From a runner's end: until then the delivery of its job's start may arrive, and a post-mortem is promised."""

EARLY_LOOK_SECONDS = 8.0
"""From the first attempt to a repetition that finds a job whose delivery was on its way."""

UNFINISHED = ("failure", "cancelled", "timed_out")


class JobFacts(NamedTuple):
    """A workflow job as GitHub returns it.

    Attributes:
        conclusion: empty until the job is over.
        completed_at: epoch seconds.
        step_failed: True if one of its steps ended by itself with a failure.
        run_id: of its workflow run; 0 if unknown.
        attempt: of the run; above 1 for a re-run.
        begun: True if one of the job's own steps had begun, or that is unknown.
        failed_steps: how many steps ended by themselves with a failure; 0 if only `step_failed` is known.
    """

    id: int
    name: str
    head_sha: str
    html_url: str = ""
    over: bool = False
    conclusion: str = ""
    completed_at: float | None = None
    step_failed: bool = False
    run_id: int = 0
    attempt: int = 1
    begun: bool = True
    failed_steps: int = 0

    @property
    def failures(self) -> int:
        """How many steps failed, at least."""
        return max(self.failed_steps, int(self.step_failed))


def facts_on_record(job: DeadJob, attempt: int = 1) -> JobFacts:
    """Returns what a death's record has of its job, where GitHub is not asked, or does not know the job any more."""
    return JobFacts(
        job.id, job.name, job.head_sha, over=bool(job.conclusion), conclusion=job.conclusion, attempt=attempt
    )


def job_at_death(evidence: Evidence, death: Death) -> int | None:
    """Returns the job that a runner had when it died, according to deliveries; None if it was idle.

    A job that started after the end is the next runner's of that name, however soon it came: its clock is GitHub's, and
    with a node's clock that is behind, the job of a runner that died at once is not found here (`job_death` finds it).
    """
    if evidence.job_id is None or not is_of(death, evidence):
        return None
    began_later = evidence.job_started_at is not None and evidence.job_started_at >= death.ended_before
    return None if began_later or _was_over(evidence.job_ended_at, death) else evidence.job_id


def may_have_failed_for_it(death: Death, job: JobFacts) -> bool:
    """True if the annotations are worth reading: the runner died, and its job failed or was cancelled."""
    unfinished = job.over and job.conclusion in UNFINISHED
    return unfinished and death.cause is not Cause.CLEAN_EXIT and not _was_over(job.completed_at, death)


def is_interrupted(death: Death, job: JobFacts) -> bool:
    """True if a pod's runner died during a job that goes on at GitHub, which ends it some ten minutes later.

    The runner cannot go on with the job, unless its log has the job's result: then GitHub has not shown it yet.
    """
    is_dead = bool(death.pod) and death.cause is not Cause.CLEAN_EXIT
    return not job.over and is_dead and not read_runner_log(death.runner_log).finished_a_job


def failed_for_it(death: Death, job: JobFacts, words: JobWords) -> bool:
    """True if a job failed because its runner died.

    A step that failed by itself is the code's, whatever else is written: only one that was killed, with the end of the
    runner confirmed, is not. A job that GitHub ended for another reason did not fail for its runner, unless GitHub has
    the runner's end, too. A death that was found by its job (`job_death`) was judged by that.

    Args:
        death: with that job and its conclusion.
        job: as GitHub returns it.
        words: of GitHub, from the job's annotations; none if they cannot be read.
    """
    if not may_have_failed_for_it(death, job):
        return False
    if words.stopped and not death.id and not words.of_runner:
        return False
    is_killed = words.of_runner and words.explain_failures(job.failures)
    is_codes = job.step_failed and not death.id and not is_killed
    return blames_the_platform(death, confirmed_by_github=words.of_runner) and not is_codes


def may_have_undelivered_job(death: Death, now: float) -> bool:
    """True if a pod's runner may have died under a job whose delivery is on its way.

    Its log, where there is one, shows whether it had a job.
    """
    is_known = death.job is not None and bool(death.job.repository)
    if is_known or not death.pod or death.cause is Cause.CLEAN_EXIT or now >= death.ended_at + DELIVERED_SECONDS:
        return False
    return not death.runner_log or read_runner_log(death.runner_log).job == RUNNING


def wants_lines(death: Death) -> bool:
    """True if a log store could add to the death: a clean exit needs no log, unless the runner logged nothing."""
    return death.cause is not Cause.CLEAN_EXIT or (death.reason == OwnReason.SILENT and not death.runner_log)


def has_full_context(death: Death, now: float) -> bool:
    """True if the context of the death is complete."""
    return now >= death.at + SURROUNDED_SECONDS


def next_look_after(look: int) -> float | None:
    """Returns the seconds from one attempt (the first is 0) to the next; None after the last."""
    return LOOKS_AFTER_SECONDS[look] if 0 <= look < len(LOOKS_AFTER_SECONDS) else None


def _was_over(ended_at: float | None, death: Death) -> bool:
    """True if a job that ended at `ended_at` was over before its runner died."""
    apart = APART_UNSEEN_SECONDS if death.exit_code is None else APART_SECONDS
    return ended_at is not None and ended_at < death.ended_at - apart
