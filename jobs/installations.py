"""Know where the App is installed: at the clock's start, and when a delivery says that it changed."""

from __future__ import annotations

from ghapp.github.deliveries import Delivery
from ghapp.health.absence import failed
from ghapp.health.installation import Installation, misnomer
from ghapp.health.verdict import Reason
from ghapp.log import logger
from jobs.house import House, furnished, open_house

log = logger(__name__)

BEGUN = ("created", "unsuspend", "new_permissions_accepted")
ENDED = ("suspend", "deleted")


async def discover() -> None:
    """The job: ask GitHub for all installations."""
    async with open_house(furnished()) as house:
        await discover_installations(house)


async def discover_installations(house: House) -> int:
    """Record every installation, enrol those to be swept, strike the others; how many there are.

    First sweeps are staggered over the interval by the installation's id, so that a restart asks GitHub evenly.
    """
    told = await house.github.installations()
    before = {each.id for each in await house.installations.all()}
    found = await house.installations.replace_all(told)
    for installation in found:
        warn_of_name(house, installation)
        interval = house.settings.of(installation.org).sweep.interval_seconds
        offset = installation.id % max(1, int(interval)) if len(found) > 1 else 0
        await _enrol(house, installation, offset)
    for gone in before - {each.id for each in found}:
        await house.schedule.strike(gone)
    log.info("installations", found=len(found), missing={each.org: each.missing() for each in found if each.missing()})
    return len(found)


async def installation_changed(house: House, delivery: Delivery) -> None:
    """Believe an `installation` delivery at once; the discovery that follows it has the last word."""
    told, action = delivery.installation, delivery.action
    if told is None or action not in (*BEGUN, *ENDED):
        return
    if action == "deleted":
        await house.installations.remove(told.id)
        await house.schedule.strike(told.id)
    elif told.account is not None:
        installation = Installation(
            told.id, told.account.login, told.account.id, told.permissions, suspended=action == "suspend"
        )
        known = await house.installations.put(installation)
        warn_of_name(house, known)
        await _enrol(house, known)
    await house.reports.try_again(told.id)
    log.info("installation changed", installation=told.id, action=action)


def warn_of_name(house: House, installation: Installation) -> None:
    """Log that an organization was renamed, and what to change, until the configuration has followed."""
    wrong = misnomer(installation, house.settings.named)
    if wrong is not None:
        log.warning(
            "the organization has another name",
            installation=installation.id,
            org=installation.org,
            login=installation.called,
            why=wrong.said,
            fix=wrong.fix,
        )


async def _enrol(house: House, installation: Installation, offset_seconds: float = 0.0) -> None:
    """Have it swept, if it lets us; a first sweep is due after the offset. If not, say since when, and why."""
    now = house.clock()
    may_look = installation.may("organization_self_hosted_runners", "read")
    if may_look and not installation.suspended:
        await house.schedule.enrol(installation.id, now + offset_seconds)
        return
    await house.schedule.strike(installation.id)
    why = Reason.INSTALLATION_SUSPENDED if installation.suspended else Reason.PERMISSION_MISSING
    survey = await house.runners.survey(installation.id)
    await house.runners.save_survey(installation.id, failed(survey, why, now))
