"""Deliveries about the report: heads that moved, a check run asked for again, buttons that people pressed."""

from __future__ import annotations

from ghapp.github.checks import external_id
from ghapp.github.deliveries import CheckRun, CheckSuite, Delivery
from ghapp.health.installation import Installation
from ghapp.health.posting import Head
from ghapp.health.report import NAME, SWEEP, resumes_until
from ghapp.log import logger
from ghapp.work import ask_for_sweep
from jobs.gate import begin_again
from jobs.house import House
from jobs.report import ask_for_report, repository_for
from jobs.resume import resume_installation

log = logger(__name__)


async def check_asked(house: House, event: str, delivery: Delivery) -> None:
    """Do what a `check_run` or `check_suite` delivery asks for; each is counted by what was done.

    Only what is about our check run in the org's report repository has an effect: GitHub tells of every push to
    every repository, and whoever may write to one can press its buttons.
    """
    done = await _do(house, event, delivery)
    await house.counters.add("ghapp_check_requests_total", done=done)


async def _do(house: House, event: str, delivery: Delivery) -> str:
    told = delivery.installation
    installation = await house.installations.one(told.id) if told is not None else None
    is_about_gate = installation is not None and await _begin_again(house, installation, event, delivery)
    if installation is None or (repository := _report_repository(house, installation, delivery)) is None:
        return "began-again" if is_about_gate else "ignored"
    match event, delivery.action:
        case "check_suite", "requested" if delivery.check_suite is not None:
            return await _move(house, installation, repository, delivery, delivery.check_suite)
        case "check_suite", "rerequested":
            return await _say_again(house, installation)
        case "check_run", "rerequested" if await _is_ours(house, installation, delivery.check_run):
            return await _say_again(house, installation)
        case "check_run", "requested_action" if await _is_ours(house, installation, delivery.check_run):
            return await _press(house, installation, delivery)
    return "began-again" if is_about_gate else "ignored"


def _report_repository(house: House, installation: Installation, delivery: Delivery) -> str | None:
    """The org's report repository, if the delivery is about it."""
    configured = repository_for(house, installation)
    where = delivery.repository.full_name if delivery.repository is not None else ""
    return configured if configured is not None and configured.lower() == where.lower() else None


async def _is_ours(house: House, installation: Installation, check_run: CheckRun | None) -> bool:
    if check_run is None or check_run.name != NAME:
        return False
    posted = (await house.reports.standing(installation.id)).posted
    return check_run.external_id == external_id(installation.id) or (
        posted is not None and posted.check_run == check_run.id
    )


async def _move(
    house: House, installation: Installation, repository: str, delivery: Delivery, suite: CheckSuite
) -> str:
    """A push: the report follows the default branch."""
    branch = delivery.repository.default_branch if delivery.repository is not None else ""
    if not branch or suite.head_branch != branch or not suite.head_sha:
        return "ignored"
    now = house.clock()
    at = suite.created_at.timestamp() if suite.created_at is not None else now
    await house.reports.tell_head(installation.id, Head(repository, branch, suite.head_sha, at, now))
    await house.reports.try_again(installation.id)
    ask_for_report(house, installation)
    return "moved"


async def _begin_again(house: House, installation: Installation, event: str, delivery: Delivery) -> bool:
    """The gate's check runs, asked for again, one or all of a commit, in whatever repository they are."""
    if delivery.action != "rerequested" or delivery.repository is None:
        return False
    check_run = delivery.check_run.id if event == "check_run" and delivery.check_run is not None else 0
    sha = delivery.check_suite.head_sha if event == "check_suite" and delivery.check_suite is not None else ""
    if not (check_run or sha):
        return False
    return await begin_again(house, installation, delivery.repository.full_name, check_run, sha)


async def _say_again(house: House, installation: Installation) -> str:
    await house.reports.say_again(installation.id)
    await house.reports.try_again(installation.id)
    ask_for_report(house, installation)
    return "said-again"


async def _press(house: House, installation: Installation, delivery: Delivery) -> str:
    by = delivery.sender.login if delivery.sender is not None else ""
    pressed = delivery.requested_action.identifier if delivery.requested_action is not None else ""
    until = resumes_until(pressed)
    if pressed != SWEEP.identifier and until is None:
        return "ignored"
    log.info("button pressed", installation=installation.id, org=installation.org, button=pressed, by=by)
    if until is not None:
        await resume_installation(house, installation, by, until)
        return "resumed"
    ask_for_sweep(house.desk, installation.id)
    return "swept"
