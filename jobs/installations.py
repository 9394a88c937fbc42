"""Know where the App is installed: at the clock's start, and when a delivery says that it changed."""

from __future__ import annotations

from ghapp.log import logger
from jobs.house import House, furnished, open_house

log = logger(__name__)


async def discover() -> None:
    """The job: ask GitHub for all installations."""
    async with open_house(furnished()) as house:
        await discover_installations(house)


async def discover_installations(house: House) -> int:
    """Record every installation, enrol those to be swept, strike the others; how many there are.

    First sweeps are staggered over the interval by the installation's id, so that a restart asks GitHub evenly.
    """
    now = house.clock()
    found = await house.github.installations()
    before = {each.id for each in await house.installations.all()}
    await house.installations.replace_all(found)
    for installation in found:
        if installation.suspended or not installation.may("organization_self_hosted_runners", "read"):
            await house.schedule.strike(installation.id)
            continue
        interval = house.settings.of(installation.org).sweep.interval_seconds
        offset = installation.id % max(1, int(interval)) if len(found) > 1 else 0
        await house.schedule.enrol(installation.id, now + offset)
    for gone in before - {each.id for each in found}:
        await house.schedule.strike(gone)
    log.info("installations", found=len(found), missing={each.org: each.missing() for each in found if each.missing()})
    return len(found)
