"""The check run "Runner post-mortem" on the commit of the job: created once, then updated."""

from __future__ import annotations

from ghapp.deaths.death import WEEK_SECONDS, DeadJob, correlation
from ghapp.deaths.job_outcome import (
    NOTHING_KNOWN,
    JobOutcome,
    JobStep,
    LaterAttempt,
    job_of_death,
    next_steps,
    run_again_as,
)
from ghapp.deaths.job_story import StoryEvent, death_story, job_story
from ghapp.deaths.post_mortem_store import PostedMortem
from ghapp.deaths.rerun import RerunFacts, may_be_repeated, refusal
from ghapp.deaths.store import identity
from ghapp.deaths.texts import NAME, post_mortem_report
from ghapp.errors import NotFoundError
from ghapp.installations.installation import Installation
from ghapp.loading.job_outcomes import load_job_outcomes
from ghapp.log import logger
from ghapp.notifications.event_ids import death_id
from jobs.checks.publisher import CheckRunOutcome, open_checks, publish
from jobs.context import JobContext

log = logger(__name__)

MOST_COMPARED = 500
"""Deaths of the last week that a death is compared with, the latest."""


async def post_check_run(
    context: JobContext, installation: Installation, facts: RerunFacts, job: DeadJob, *, is_cause: bool = True
) -> CheckRunOutcome:
    """Publish the post-mortem on the commit of the job, which this death interrupted.

    Args:
        context: the stores and GitHub.
        installation: of the runner.
        facts: of the death and the job, for the button.
        job: the job of the death.
        is_cause: False if the job came to its result for another reason.
    """
    death = facts.death
    post_mortems, subject = context.post_mortems, death_id(installation, death)
    links = context.links(installation)
    details_url = links.death(death.runner_name, identity(death))
    checks = await open_checks(
        context, installation, job.repository, name=NAME, subject=subject, details_url=details_url
    )
    has_button, again, story, steps = await _story(context, installation, facts, is_cause=is_cause)
    before = await context.deaths.unclean(installation.id, death.at - WEEK_SECONDS, MOST_COMPARED)
    rendered = post_mortem_report(
        death,
        job,
        is_private=bool(await checks.is_private()),
        story=story,
        steps=steps if is_cause else (),
        again=again,
        is_cause=is_cause,
        has_button=has_button,
        common=correlation(death, before),
        page=links.job(job.id),
    )
    posted = await post_mortems.posted(subject)
    if posted is not None and posted.digest == rendered.digest:
        return CheckRunOutcome.RECORDED
    known = None if posted is None else posted.check_run
    check_run, outcome = await publish(context, checks, job.head_sha, rendered, known)
    if check_run is None:
        raise NotFoundError(f"{job.repository}: GitHub does not take a check run for {job.head_sha}")
    await context.demand.note_check_run(installation.id, check_run, [job.id])
    await post_mortems.post(subject, PostedMortem(check_run, rendered.digest, identity(death), has_button))
    log.info(
        "post-mortem posted",
        installation=installation.id,
        org=installation.org,
        runner=death.runner_name,
        cause=death.cause.value,
        repository=job.repository,
        job=job.id,
        check_run=check_run,
        outcome=outcome.value,
    )
    return outcome


async def _story(
    context: JobContext, installation: Installation, facts: RerunFacts, *, is_cause: bool
) -> tuple[bool, LaterAttempt | None, tuple[StoryEvent, ...], tuple[JobStep, ...]]:
    """Returns whether the check run has its button, the job's latest attempt, its story, and its developer's steps."""
    death, now = facts.death, context.clock()
    job = await context.demand.one(installation.id, facts.job.id)
    rerun, note = (await context.reruns.of_jobs(installation.id, [facts.job.id]))[facts.job.id]
    is_final = note is not None and note.is_final
    has_button = is_cause and not is_final and may_be_repeated(rerun, now) and refusal(facts) is None
    button = "" if has_button else None
    if job is None:
        outcome = JobOutcome(death, rerun, note, button=button)
        job = job_of_death(death)._replace(attempt=facts.job.attempt, ended_at=facts.job.completed_at)
        story = death_story(job, death, outcome, now)
        return has_button, run_again_as(job, outcome, now), story, next_steps(job, outcome, now)
    if facts.job.over and job.status != "over":  # the delivery of its end is late
        job = job._replace(status="over", ended_at=facts.job.completed_at, conclusion=facts.job.conclusion)
    known, rules = await context.demand.all(installation.id), context.settings.pools_of(installation.org)
    outcome = (await load_job_outcomes(context, installation, [job], known, rules)).get(job.id, NOTHING_KNOWN)
    outcome = outcome._replace(death=death, rerun=rerun, note=note, button=button)
    story = job_story(job, death.pool, None, outcome, now)
    return has_button, run_again_as(job, outcome, now), story, next_steps(job, outcome, now)
