"""Have the job's commit bear one check run that tells of a death: created once, and updated."""

from __future__ import annotations

from enum import StrEnum

from ghapp.errors import NotFoundError, PermissionMissingError
from ghapp.github.checks import Checks
from ghapp.github.jobs import Jobs
from ghapp.health.deaths.death import Death
from ghapp.health.deaths.post_mortem import JobFacts, failed_for_it, may_have_failed_for_it
from ghapp.health.installation import Installation
from ghapp.health.pacing import Purpose
from ghapp.log import logger
from ghapp.report.post_mortem import NAME, post_mortem_report
from ghapp.store.post_mortems import PostedMortem, PostMortems
from jobs.context import JobContext
from jobs.events.publish import death_id

log = logger(__name__)


class PostMortemOutcome(StrEnum):
    """What became of one look."""

    NOTHING_TO_DO = "nothing-to-do"
    RECORDED = "recorded"
    """And no check run is due, now or later."""
    WAITS = "waits"
    """Another look is asked for."""
    CREATED = "created"
    UPDATED = "updated"


async def post_check_run(
    context: JobContext, installation: Installation, death: Death, facts: JobFacts
) -> PostMortemOutcome:
    """Have the job's commit bear one check run that tells of this death, if the job failed for it."""
    if death.job is None or not may_have_failed_for_it(death, facts):
        return PostMortemOutcome.RECORDED
    if not installation.may("checks", "write"):
        raise PermissionMissingError("the installation has not granted checks: write", accepted="checks=write")
    installation_client = await context.installation_client(installation, Purpose.REPORT)
    if not failed_for_it(death, facts, await _notes(Jobs(installation_client, death.job.repository), facts)):
        return PostMortemOutcome.RECORDED
    post_mortems, subject = PostMortems(context.redis), death_id(installation, death)
    checks = Checks(installation_client, death.job.repository, name=NAME, subject=subject)
    said = post_mortem_report(death, death.job, show_host=await checks.is_private())
    posted = await post_mortems.posted(subject)
    if posted is not None and posted.digest == said.digest:
        return PostMortemOutcome.RECORDED
    check_run = await checks.find(facts.head_sha) if posted is None else posted.check_run
    outcome = PostMortemOutcome.CREATED if check_run is None else PostMortemOutcome.UPDATED
    if check_run is None:
        check_run = await checks.create(facts.head_sha, said)
    elif not await checks.update(check_run, said):
        check_run = None
    if check_run is None:
        raise NotFoundError(f"{death.job.repository}: GitHub does not take a check run for {facts.head_sha}")
    await post_mortems.post(subject, PostedMortem(check_run, said.digest))
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
    """None where they may not be read: the steps tell most of it."""
    try:
        return await jobs.notes(facts.id)
    except (NotFoundError, PermissionMissingError):
        return ()
