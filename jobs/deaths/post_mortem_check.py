"""The check run "Runner post-mortem" on the commit of the job: created once, then updated."""

from __future__ import annotations

from ghapp.errors import NotFoundError, PermissionMissingError
from ghapp.github.jobs import Jobs
from ghapp.health.deaths.correlation import WEEK_SECONDS, correlation
from ghapp.health.deaths.death import Death
from ghapp.health.deaths.post_mortem import JobFacts, failed_for_it, may_have_failed_for_it
from ghapp.health.deaths.rerun import refusal
from ghapp.health.installation import Installation
from ghapp.log import logger
from ghapp.report.post_mortem import NAME, post_mortem_report
from ghapp.store.deaths import identity
from ghapp.store.post_mortems import PostedMortem
from jobs.checks.publisher import CheckRunOutcome, open_checks, publish
from jobs.context import JobContext
from jobs.deaths.rerun import request_if_automatic, rerun_request
from jobs.events.publish import death_id

log = logger(__name__)

MOST_COMPARED = 500
"""Deaths of the last week that a death is compared with, the latest."""


async def post_check_run(
    context: JobContext, installation: Installation, death: Death, facts: JobFacts
) -> CheckRunOutcome:
    """Publish the post-mortem on the job's commit, if the job failed because of this death."""
    if death.job is None or not may_have_failed_for_it(death, facts):
        return CheckRunOutcome.RECORDED
    post_mortems, subject = context.post_mortems, death_id(installation, death)
    details_url = context.links(installation).death(death.runner_name, identity(death))
    repository = death.job.repository
    checks = await open_checks(context, installation, repository, name=NAME, subject=subject, details_url=details_url)
    if not failed_for_it(death, facts, await _notes(Jobs(checks.client, death.job.repository), facts)):
        return CheckRunOutcome.RECORDED
    await request_if_automatic(context, installation, death, facts)
    rerun = await context.reruns.of(installation.id, facts.id)
    has_button = rerun is None and refusal(await rerun_request(context, installation, death, facts, "")) is None
    before = await context.deaths.unclean(installation.id, death.at - WEEK_SECONDS, MOST_COMPARED)
    rendered = post_mortem_report(
        death,
        death.job,
        show_host=await checks.is_private(),
        rerun=rerun,
        has_button=has_button,
        common=correlation(death, before),
    )
    posted = await post_mortems.posted(subject)
    if posted is not None and posted.digest == rendered.digest:
        return CheckRunOutcome.RECORDED
    known = None if posted is None else posted.check_run
    check_run, outcome = await publish(checks, facts.head_sha, rendered, known)
    if check_run is None:
        raise NotFoundError(f"{death.job.repository}: GitHub does not take a check run for {facts.head_sha}")
    await post_mortems.post(subject, PostedMortem(check_run, rendered.digest, identity(death)))
    log.info(
        "post-mortem posted",
        installation=installation.id,
        org=installation.org,
        runner=death.runner_name,
        cause=death.cause.value,
        repository=death.job.repository,
        job=facts.id,
        check_run=check_run,
        outcome=outcome.value,
    )
    return outcome


async def _notes(jobs: Jobs, facts: JobFacts) -> tuple[str, ...]:
    """The job's annotations; empty where they may not be read, for the steps show most of it."""
    try:
        return await jobs.notes(facts.id)
    except (NotFoundError, PermissionMissingError):
        return ()
