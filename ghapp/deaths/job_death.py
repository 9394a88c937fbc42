"""Decides whether a job that ended badly lost its runner, without a cluster. Pure; times are epoch seconds.

The evidence, by weight: what sweeps and deliveries recorded of the runner while the job ran; what GitHub or the runner
wrote into the job's annotations or raw log; a step whose end was never reported. A step that failed by itself is the
code's, unless it was killed (exit code 143), as each other step that failed, and the runner was lost, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ghapp.deaths.cause import JOB_REASONS, Cause, OwnReason, advice_for
from ghapp.deaths.death import DeadJob, Death, Sighting
from ghapp.deaths.github_words import JobWords
from ghapp.deaths.post_mortem import APART_SECONDS, APART_UNSEEN_SECONDS, UNFINISHED
from ghapp.installations.pool_matching import OTHER_POOL, PoolRule
from ghapp.pods.pod import Pod
from ghapp.runners.evidence import Evidence, Survey, missing_since, observed_at
from ghapp.workflow_jobs.job import Job, configured_pool, was_hosted
from ghapp.workflow_jobs.job_steps import JobSteps

UNKNOWN_STEPS = JobSteps()

EXAMINED_AFTER_SECONDS = 90.0
"""From the delivery to the look: longer than a sweep's default interval, and than the watch takes."""

EXAMINATION_SECONDS = 30.0
"""For the delivery of a job's end, the queue, and GitHub's answer: by then the look is over, if GitHub answers."""


class JobDeath(NamedTuple):
    """The cause of a runner's death, from its job.

    Attributes:
        at: when the runner was lost, as exactly as is known.
    """

    cause: Cause
    reason: OwnReason
    at: float


def is_suspicious(job: Job, evidence: Evidence | None) -> bool:
    """True if a job is worth a look at GitHub: it ended badly, and no step failed, or its runner was lost meanwhile."""
    if job.status != "over" or job.conclusion not in UNFINISHED or was_hosted(job):
        return False
    if job.runner_id is None or job.started_at is None or job.ended_at is None:
        return False
    if _lost_meanwhile(job, evidence) is not None:
        return True
    return job.steps is not None and (job.steps.left_open or not job.steps.failed)


class RunnerAfter(NamedTuple):
    """What is known of a runner after its job ended badly, while no death of it is known.

    Attributes:
        is_watched: False if its pool is not configured: its job is not examined.
        examined_until: until when the job is examined, at the latest; None if it is not, see `is_suspicious`.
        is_online: True if GitHub listed the runner as online after the job's end, or gave it another job.
        exited: True if its container ended as it should.
        a_step_failed: True if a step of the job failed by itself.
    """

    is_watched: bool
    examined_until: float | None = None
    is_online: bool = False
    exited: bool = False
    a_step_failed: bool = False

    def pending_until(self, now: float) -> float | None:
        """Returns until when a death is being looked for, at the latest; None if that is over, or was never due."""
        until = self.examined_until
        return until if until is not None and now < until else None


def runner_after(
    job: Job, evidence: Evidence | None, survey: Survey, rules: Iterable[PoolRule], *, exited: bool
) -> RunnerAfter | None:
    """Returns what is known of a job's runner after the job; None if no runner of ours had it, or it did not end badly.

    Args:
        job: without a known death of its runner.
        evidence: of its runner; None if no sweep and no delivery knows the runner.
        survey: of the installation's runners.
        rules: the configured pools.
        exited: True if a normal end of the runner is on record.
    """
    if job.status != "over" or job.conclusion not in UNFINISHED or was_hosted(job):
        return None
    if job.runner_id is None or job.started_at is None or job.ended_at is None:
        return None
    is_watched = configured_pool(job, evidence, rules) != OTHER_POOL
    is_examined = is_watched and is_suspicious(job, evidence)
    until = job.ended_at + EXAMINED_AFTER_SECONDS + EXAMINATION_SECONDS if is_examined else None
    a_step_failed = job.steps is not None and job.steps.failed
    return RunnerAfter(is_watched, until, _is_online_after(job, evidence, survey), exited, a_step_failed)


def _is_online_after(job: Job, evidence: Evidence | None, survey: Survey) -> bool:
    """True if the runner was online so long after the job's end that it did not end with it.

    GitHub lists a runner that was lost as online for about a minute more.
    """
    ended_at = job.ended_at or 0.0
    if evidence is None or evidence.id != job.runner_id:
        return False
    seen_at = observed_at(evidence, survey) if evidence.listed and evidence.online else None
    has_next_job = evidence.job_id not in (None, job.id) and (evidence.job_started_at or 0.0) >= ended_at
    return has_next_job or (seen_at is not None and seen_at >= ended_at + APART_SECONDS)


def job_death(job: Job, evidence: Evidence | None, words: JobWords) -> JobDeath | None:
    """Returns the death of a job's runner; None if nothing shows that the runner was lost.

    Args:
        job: that `is_suspicious`.
        evidence: of its runner; None if no sweep and no delivery knows the runner.
        words: of GitHub and of the runner.
    """
    steps, loss = job.steps or UNKNOWN_STEPS, _lost_meanwhile(job, evidence)
    ended_at = job.ended_at or 0.0
    if _was_removed_by_us(job, evidence):
        return None
    is_killed = words.explain_failures(steps.failures) and (loss is not None or words.of_runner)
    if steps.failed and not is_killed:
        return None
    if loss is not None and loss.reason is not OwnReason.WENT_OFFLINE:
        return loss
    if words.shutdown:
        return JobDeath(Cause.TERMINATED, OwnReason.SHUTDOWN_SIGNAL, ended_at)
    if loss is not None:
        return loss
    if words.lost:
        return JobDeath(Cause.LOST_COMMUNICATION, OwnReason.LOST_COMMUNICATION, ended_at)
    if steps.left_open and job.conclusion != "cancelled":  # a person who cancels may leave a step open, too
        return JobDeath(Cause.LOST_COMMUNICATION, OwnReason.STEP_LEFT_OPEN, ended_at)
    return None


def needs_words(job: Job, evidence: Evidence | None) -> bool:
    """True if the evidence alone does not decide: GitHub's words are needed."""
    return job_death(job, evidence, JobWords()) is None or _lost_meanwhile(job, evidence) is None


def _lost_meanwhile(job: Job, evidence: Evidence | None) -> JobDeath | None:
    """Returns the loss that sweeps and deliveries recorded while the job ran.

    A loss within `APART_SECONDS` of the job's end proves nothing: the registration of an ephemeral runner is deleted
    when its job ends, its controller removes it then, and clocks differ. GitHub ends the job of a lost runner ten
    minutes late. A 404 counts, a list alone does not.
    """
    began, ended = job.started_at, job.ended_at
    if evidence is None or began is None or ended is None or evidence.id != job.runner_id:
        return None
    until = ended - APART_SECONDS
    if evidence.retired_at is not None and began <= evidence.retired_at < until:
        return JobDeath(Cause.TERMINATED, OwnReason.REMOVED, evidence.retired_at)
    if evidence.first_404_at is not None and began <= evidence.first_404_at < until:
        at = max(began, missing_since(evidence))
        return JobDeath(Cause.DELETED_REGISTRATION, OwnReason.REGISTRATION_LOST, at)
    offline = evidence.offline_since
    if not evidence.online and offline is not None and began <= offline < until:
        return JobDeath(Cause.LOST_COMMUNICATION, OwnReason.WENT_OFFLINE, offline)
    return None


def _was_removed_by_us(job: Job, evidence: Evidence | None) -> bool:
    """True if ghapp removed the runner before its job ended: its own replacements are no deaths."""
    if evidence is None or evidence.removed_at is None or job.ended_at is None:
        return False
    is_lost_first = evidence.first_404_at is not None and evidence.first_404_at < evidence.removed_at
    return evidence.removed_at < job.ended_at and not is_lost_first


def death_of_job(job: Job, evidence: Evidence | None, found: JobDeath, pool: str) -> Death:
    """Returns the record of a runner's death that its job proves. It has no pod, node or exit code.

    Args:
        job: the runner's job.
        evidence: of the runner.
        found: the cause.
        pool: a configured pool.
    """
    return Death(
        runner_name=job.runner_name or str(job.runner_id),
        pod="",
        node="",
        at=found.at,
        exit_code=None,
        signal=None,
        reason=found.reason.value,
        cause=found.cause,
        advice=advice_for(found.cause, found.reason),
        runner_id=job.runner_id,
        pool=pool,
        job=DeadJob(job.id, job.repository, job.name, job.head_sha, job.conclusion, job.html_url, job.deploys),
        id=f"job {job.id}",
        last_minutes=last_minutes(job, evidence),
    )


def last_minutes(job: Job, evidence: Evidence | None) -> tuple[Sighting, ...]:
    """Returns what was seen of the runner while its job ran, oldest first."""
    seen = [(job.started_at, "job-started"), (job.ended_at, "job-ended")]
    if evidence is not None:
        absent = [at for at in (evidence.absent_since, evidence.first_404_at) if at is not None]
        if evidence.listed and evidence.online:
            seen.append((evidence.observed_at, "online"))
        seen += [
            (evidence.offline_since, "offline"),
            (min(absent, default=None), "registration-missing"),
            (evidence.retired_at, "removed-by-controller"),
        ]
    first, last = job.started_at or 0.0, job.ended_at or 0.0
    found = [Sighting(at, what) for at, what in seen if at is not None and first <= at <= last]
    return tuple(sorted(found, key=lambda each: (each.at, each.what == "job-ended")))


def is_same_end(known: Death, job: Job) -> bool:
    """True if a recorded death is the one of this job's runner: of the job, or of its pod while the job ran.

    Of a job whose end is not known, the time from its start on counts.
    """
    if known.job is not None:
        return known.job.id == job.id
    if known.runner_id not in (None, job.runner_id):
        return False
    began, ended = job.started_at, job.ended_at
    is_over_before = ended is not None and ended < known.ended_at - APART_SECONDS
    return began is not None and began < known.ended_before and not is_over_before


def is_job_death_of(known: Death, pod: Pod, death: Death) -> bool:
    """True if a death that was found by its job is the end of this pod: the runner is the same, by its ids.

    Args:
        known: the death that was found.
        pod: as last seen.
        death: the end of the pod.
    """
    if not known.id:
        return False
    if known.pod_uid:
        return known.pod_uid == pod.uid
    if None not in (known.runner_id, death.runner_id) and known.runner_id != death.runner_id:
        return False
    is_created_before = pod.created_at - death.ahead <= known.ended_at
    return is_created_before and death.ended_at >= known.ended_at - APART_UNSEEN_SECONDS


def completed_by_pod(known: Death, death: Death) -> Death:
    """Returns a death that was found by its job, with the end of its pod; a clean exit does not change the cause."""
    merged = known._replace(
        pod=death.pod,
        node=death.node,
        namespace=death.namespace,
        pod_uid=death.pod_uid,
        exit_code=death.exit_code,
        signal=death.signal,
        runner_log=death.runner_log,
        image=death.image,
        memory_limit=death.memory_limit,
    )
    if death.cause in (Cause.CLEAN_EXIT, Cause.UNKNOWN, Cause.VANISHED):
        return merged
    return merged._replace(cause=death.cause, reason=death.reason, advice=death.advice)


def completed_by_log(known: Death, death: Death) -> Death:
    """Returns a death that was recorded without its log, with the log and the cause that follows from it.

    Args:
        known: the death, of a pod's end or completed by one; what its job shows stays if the log shows no more.
        death: the same end, classified with its log.
    """
    if known.id or known.reason in JOB_REASONS:
        return completed_by_pod(known, death)
    return known._replace(cause=death.cause, reason=death.reason, advice=death.advice, runner_log=death.runner_log)


def completed_by_job(known: Death, death: Death) -> Death:
    """Returns a clean exit of a pod, with what its job shows: the runner exited with code 0 and left the job behind."""
    return known._replace(
        cause=death.cause,
        reason=death.reason,
        advice=death.advice,
        pool=known.pool or death.pool,
        job=death.job,
        last_minutes=death.last_minutes,
    )
