"""Restarts the stopped fuses of an organization because an admin pressed "Resume" on its check run.

GitHub shows the button to everyone with write access to the report repository, so it is asked who is an admin there. A
pause is a person's, and no button of a check run ends it: the page does, the API, and `ghapp resume`.
"""

from __future__ import annotations

from ghapp.github.checks import Checks
from ghapp.installations.installation import Installation
from ghapp.installations.pacing import Purpose
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.log import logger
from ghapp.remediation.decision import DecisionInputs, by_pool, counts_for
from ghapp.report.check_run import RESUME
from ghapp.store.audit import AuditEntry, Channel, Trail
from ghapp.store.presses import SWEEP_TOPIC
from jobs.context import JobContext, configured, open_context
from jobs.events.publish import publish_fuse_changes
from jobs.reports.health_report import enqueue_report_if_wanted, repository_for

log = logger(__name__)


async def resume(installation_id: int, by: str, user_id: int, until: int) -> None:
    """The job: enqueued for each press."""
    async with open_context(configured()) as context:
        await resume_by_button(context, installation_id, by, user_id, until)


async def resume_by_button(context: JobContext, installation_id: int, by: str, user_id: int, until: int) -> bool:
    """Restarts fuses that had stopped when the button was shown; returns False if GitHub knows the person as no admin.

    Args:
        context: the stores and GitHub.
        installation_id: of the organization.
        by: the login of the person who pressed.
        user_id: their id at GitHub.
        until: when the last of these fuses stopped (epoch seconds); see `resume_of`.

    Raises:
        GitHubError: GitHub gave no usable answer; nothing was done, and the job is retried.
    """
    installation = await context.installations.one(installation_id)
    repository = None if installation is None else repository_for(context, installation)
    if installation is None or installation.suspended or repository is None:
        return False
    client = await context.installation_client(installation, Purpose.REPORT)
    entry = AuditEntry(context.clock(), by, Channel.CHECK_RUN, RESUME.identifier, ALL_POOLS, "", "", repository)
    if not await Checks(client, repository).is_admin(by, user_id):
        refused = entry._replace(result=f"refused: not an admin of {repository}")
        await context.audit.record(installation.id, refused, Trail.ATTEMPTS)
        _show_press(context, installation, by, refused.result)
        return False
    async with context.audit.change(installation.id, entry) as outcome:
        has_restarted = await _restart(context, installation, by, until)
        outcome.set("restarted" if has_restarted else "nothing to restart", has_effect=has_restarted)
    if has_restarted and outcome.entry is not None:
        await context.presses.follow(installation.id, SWEEP_TOPIC, outcome.entry)
    await context.schedule.due_by(installation.id, context.clock())
    _show_press(context, installation, by, outcome.result)
    return True


async def _restart(context: JobContext, installation: Installation, by: str, until: int) -> bool:
    """Restarts fuses; a sweep follows, so that lost runners are checked again before anything acts on them."""
    now, policy = context.clock(), context.settings.of(installation.org)
    done = await context.fuses.restart(installation, None, by, now, policy.fuse, until)
    survey = await context.runners.survey(installation.id)  # first, so that the runners are not older than the survey
    runners = await context.runners.all(installation.id)
    rules = context.settings.pools_of(installation.org)
    pools = by_pool(runners.values(), survey, rules, now, policy.evidence)
    counts = counts_for(pools, done.proving, rules, policy.fuse, DecisionInputs(survey, now))
    await publish_fuse_changes(context, installation, done.proving, counts, now)
    return bool(done)


def _show_press(context: JobContext, installation: Installation, by: str, result: str) -> None:
    """Logs the outcome, once it is recorded, and has it shown where the button was pressed."""
    log.info("button used", installation=installation.id, org=installation.org, button="resume", by=by, result=result)
    enqueue_report_if_wanted(context, installation)
