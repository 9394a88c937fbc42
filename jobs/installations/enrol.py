"""Schedules the sweeps of an installation, or of another scope, if they are permitted."""

from __future__ import annotations

from ghapp.installations.installation import Installation, stale_name
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
            await context.schedule.due_at(installation.id, now)
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
