"""Schedules the sweeps of an installation, or of another scope, as GitHub permits them at present."""

from __future__ import annotations

from dataclasses import replace

from ghapp.errors import InstallationMissingError
from ghapp.github.repositories import read_repository_of
from ghapp.installations.installation import Installation, stale_name
from ghapp.installations.pacing import Purpose
from ghapp.installations.repositories import is_of_account
from ghapp.installations.scope import ScopeKind
from ghapp.log import logger
from ghapp.runners.absence import survey_after_failure
from ghapp.runners.next_attempt import why_not_swept
from ghapp.runners.verdict import Reason
from jobs.context import JobContext
from jobs.installations.forget import forget_unswept

log = logger(__name__)


async def enrol(
    context: JobContext, installation: Installation, offset_seconds: float = 0.0, *, at_once: bool = False
) -> None:
    """Schedules its sweeps if they are permitted; if not, logs since when, and why.

    A first sweep is due after the offset. With `at_once` the next one is due now, whatever its date was.
    """
    now, why = context.clock(), why_not_swept(installation)
    if why is None:
        await context.schedule.add(installation.id, now if at_once else now + offset_seconds)
        if at_once:
            await context.schedule.due_by(installation.id, now)
        return
    await context.schedule.remove(installation.id)
    if why is Reason.PERSONAL_ACCOUNT:
        return
    survey = await context.runners.survey(installation.id)
    await context.runners.save_survey(installation.id, survey_after_failure(survey, why, now))
    await forget_unswept(context, installation)


def warn_of_name(context: JobContext, installation: Installation) -> None:
    """Logs that an organization was renamed, and what to change, until the configuration has followed."""
    wrong = stale_name(installation, context.settings.named)
    if wrong is not None:
        log.warning(
            "the organization has another name",
            installation=installation.id,
            org=installation.org,
            login=installation.called,
            why=wrong.text,
            fix=wrong.fix,
        )


async def present_state(context: JobContext, installation: Installation) -> Installation:
    """Returns the present account, login, permissions and suspension.

    A repository's scope has the permissions and the suspension of its installation. Its id identifies it; its pools and
    controllers know it by its name. Of an enterprise GitHub says nothing; its list of runners has to do.

    Raises:
        InstallationMissingError: the App was uninstalled there, or the repository is no scope any more.
        GitHubError: GitHub gave no usable answer.
    """
    if installation.kind is ScopeKind.ENTERPRISE:
        return installation
    if installation.kind is ScopeKind.ORGANIZATION:
        return await context.github.installation(installation.id)
    parent = await context.github.installation(installation.caller)
    client = await context.installation_client(installation, Purpose.ACT)
    found = await read_repository_of(client, installation.repository_id)
    if found is None or not is_of_account(parent, found):
        raise InstallationMissingError(
            f"{installation.called}: deleted, archived or transferred, or the App sees it not"
        )
    return replace(installation, login=found.name, permissions=parent.permissions, suspended=parent.suspended)
