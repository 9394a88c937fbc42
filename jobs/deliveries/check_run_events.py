"""Handles deliveries about check runs: moved heads, re-requested check runs, and pressed buttons."""

from __future__ import annotations

from ghapp.github.checks import external_id
from ghapp.github.deliveries import CheckRun, CheckSuite, Delivery
from ghapp.installations.installation import Installation
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.report.check_run import NAME, SWEEP, resumes_until
from ghapp.report.check_run_state import Head
from ghapp.store.audit import AuditEntry, Channel
from ghapp.store.presses import SWEEP_TOPIC
from ghapp.workflow_jobs.job import PullReference, is_sha
from jobs.context import JobContext
from jobs.deaths.rerun import request_by_button
from jobs.reports.gate_report import restart_gate_check
from jobs.reports.health_report import enqueue_report_if_wanted, repository_for

MOST_PULLS = 10
"""Pull requests of one commit that are recorded."""

IGNORED = "ignored"

RE_RUN = "Re-run"
"""GitHub's own button of a check run: the reason of its sweep in the audit log."""

log = logger(__name__)


async def handle_check_event(context: JobContext, event: str, delivery: Delivery) -> str:
    """Handles a `check_run` or `check_suite` delivery; returns what was done, as it is counted.

    It may be about the check runs of the organization, or of the scope of one of its repositories.
    """
    sender = delivery.installation
    installation = await context.installations.one(sender.id) if sender is not None else None
    if installation is None:
        return IGNORED
    scopes = await context.installations.scopes_of(installation.id) if context.settings.scopes else []
    done = [await _handle(context, each, event, delivery) for each in (installation, *scopes)]
    return next((each for each in done if each != IGNORED), IGNORED)


async def _handle(context: JobContext, installation: Installation, event: str, delivery: Delivery) -> str:
    """Handles a delivery for one scope.

    Only deliveries about our check run in the org's report repository have an effect: GitHub delivers every push to
    every repository, and everyone with write access to one can press its buttons.
    """
    await _note_pulls(context, installation, delivery)
    is_press = (event, delivery.action) == ("check_run", "requested_action")
    if is_press and await request_by_button(context, installation, delivery):
        return "rerun-requested"
    is_about_gate = await _begin_again(context, installation, event, delivery)
    if (repository := _report_repository(context, installation, delivery)) is None:
        return "began-again" if is_about_gate else IGNORED
    match event, delivery.action:
        case "check_suite", "requested" if delivery.check_suite is not None:
            return await _move(context, installation, repository, delivery, delivery.check_suite)
        case "check_suite", "rerequested":
            return await _request_repost(context, installation)
        case "check_run", "rerequested" if await _is_ours(context, installation, delivery.check_run):
            await _request_sweep(context, installation, delivery, RE_RUN)
            return await _request_repost(context, installation)
        case "check_run", "requested_action" if await _is_ours(context, installation, delivery.check_run):
            return await _press(context, installation, delivery)
    return "began-again" if is_about_gate else IGNORED


async def _note_pulls(context: JobContext, installation: Installation, delivery: Delivery) -> None:
    """Records of which pull requests a commit is the head: deliveries of jobs do not name them."""
    about = delivery.check_suite or delivery.check_run
    if about is None or delivery.repository is None or not is_sha(about.head_sha):
        return
    if installation.parent and installation.repository_id != delivery.repository.id:
        return
    for each in about.pull_requests[:MOST_PULLS]:
        pull = PullReference(delivery.repository.full_name, each.number)
        await context.demand.note_pull(installation.id, pull, about.head_sha, context.clock())


def _report_repository(context: JobContext, installation: Installation, delivery: Delivery) -> str | None:
    """Returns the org's report repository, if the delivery is about it."""
    configured = repository_for(context, installation)
    where = delivery.repository.full_name if delivery.repository is not None else ""
    return configured if configured is not None and configured.lower() == where.lower() else None


async def _is_ours(context: JobContext, installation: Installation, check_run: CheckRun | None) -> bool:
    if check_run is None or check_run.name != NAME:
        return False
    posted = (await context.reports.check_run_state(installation.id)).posted
    return check_run.external_id == external_id(installation.id) or (
        posted is not None and posted.check_run == check_run.id
    )


async def _move(
    context: JobContext, installation: Installation, repository: str, delivery: Delivery, suite: CheckSuite
) -> str:
    """Handles a push: the report follows the default branch."""
    branch = delivery.repository.default_branch if delivery.repository is not None else ""
    if not branch or suite.head_branch != branch or not suite.head_sha:
        return IGNORED
    now = context.clock()
    at = suite.created_at.timestamp() if suite.created_at is not None else now
    await context.reports.record_head(installation.id, Head(repository, branch, suite.head_sha, at, now))
    await context.reports.try_again(installation.id)
    enqueue_report_if_wanted(context, installation)
    return "moved"


async def _begin_again(context: JobContext, installation: Installation, event: str, delivery: Delivery) -> bool:
    """Restarts gate checks that were re-requested, one or all of a commit, in whatever repository they are."""
    if delivery.action != "rerequested" or delivery.repository is None:
        return False
    check_run = delivery.check_run.id if event == "check_run" and delivery.check_run is not None else 0
    sha = delivery.check_suite.head_sha if event == "check_suite" and delivery.check_suite is not None else ""
    if not (check_run or sha):
        return False
    return await restart_gate_check(context, installation, delivery.repository.full_name, check_run, sha)


async def _request_repost(context: JobContext, installation: Installation) -> str:
    await context.reports.request_repost(installation.id)
    await context.reports.try_again(installation.id)
    enqueue_report_if_wanted(context, installation)
    return "repost-requested"


async def _press(context: JobContext, installation: Installation, delivery: Delivery) -> str:
    by = _sender_of(delivery)
    pressed = delivery.requested_action.identifier if delivery.requested_action is not None else ""
    if (until := resumes_until(pressed)) is not None and delivery.sender is not None:
        key = f"resume-{installation.id}-{delivery.sender.id}-{until}"
        context.ask(JobName.RESUME, installation.id, by, delivery.sender.id, until, key=key)
        return "resume-requested"
    if pressed != SWEEP.identifier:
        return IGNORED
    await _request_sweep(context, installation, delivery)
    return "swept"


async def _request_sweep(context: JobContext, installation: Installation, delivery: Delivery, button: str = "") -> None:
    """Requests a sweep for "Sweep now", or for GitHub's own `button`; the check run shows its outcome."""
    now, by = context.clock(), _sender_of(delivery)
    repository = "" if delivery.repository is None else delivery.repository.full_name
    entry = AuditEntry(now, by, Channel.CHECK_RUN, SWEEP.identifier, "", button, "", repository)
    await context.presses.begin(installation.id, SWEEP_TOPIC, entry)
    await context.schedule.due_by(installation.id, now)
    log.info("button used", installation=installation.id, org=installation.org, button=SWEEP.identifier, by=by)


def _sender_of(delivery: Delivery) -> str:
    return delivery.sender.login if delivery.sender is not None else ""
