"""Know where the App is installed: at the clock's start, and when a delivery says that it changed.

An installation that is suspended, or lacks the permission to read runners, is not swept. A delivery may say that it
permits sweeps again; deliveries get lost, so that GitHub is asked, too, as often as the installation would be swept.
"""

from __future__ import annotations

from math import floor

from ghapp.github.deliveries import Delivery
from ghapp.health.absence import failed
from ghapp.health.attempt import is_hindered
from ghapp.health.installation import Installation, misnomer
from ghapp.log import logger
from ghapp.work import Work
from jobs.house import House, furnished, open_house
from jobs.schedule import DISCOVER_SECONDS

log = logger(__name__)

BEGUN = ("created", "unsuspend", "new_permissions_accepted")
ENDED = ("suspend", "deleted")

PER_PAGE = 100
CALLS_AN_HOUR = 1250
"""What looking again for hindered installations may cost of the App's own hourly limit of 5,000."""


async def discover() -> None:
    """The job: ask GitHub for all installations."""
    async with open_house(furnished()) as house:
        await discover_installations(house)


async def discover_installations(house: House) -> int:
    """Record every installation, enrol those to be swept, strike the others; how many there are.

    First sweeps are staggered over the interval by the installation's id, so that a restart asks GitHub evenly. One
    that permits sweeps again is swept at once. While any does not, discovery runs again within its interval.
    """
    told = await house.github.installations()
    before = {each.id: each for each in await house.installations.all()}
    found = await house.installations.replace_all(told)
    for installation in found:
        warn_of_name(house, installation)
        interval = house.settings.of(installation.org).sweep.interval_seconds
        offset = installation.id % max(1, int(interval)) if len(found) > 1 else 0
        known = before.get(installation.id)
        await _enrol(house, installation, offset, at_once=known is not None and is_hindered(known) is not None)
    for gone in before.keys() - {each.id for each in found}:
        await house.schedule.strike(gone)
    await _discover_again(house, found)
    log.info("installations", found=len(found), missing={each.org: each.missing() for each in found if each.missing()})
    return len(found)


async def _discover_again(house: House, found: list[Installation]) -> None:
    """Run discovery again within the interval of each hindered installation, and record when the next one is due.

    Runs begin at multiples of the wait, each under a key of its own time: however many ask, there is one at a time.
    """
    now, due = house.clock(), house.clock() + DISCOVER_SECONDS
    intervals = [house.settings.of(each.org).sweep.interval_seconds for each in found if is_hindered(each)]
    if intervals:
        pages = -(-len(found) // PER_PAGE)
        wait = max(min(intervals), pages * 3600 / CALLS_AN_HOUR)
        slot = floor(now / wait) + 1
        due = min(due, slot * wait)
        if due == slot * wait:
            house.ask(Work.INSTALLATIONS, key=f"installations-{slot}", after_seconds=due - now)
    await house.schedule.discover_at(due)


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
        await _enrol(house, known, at_once=True)
        if is_hindered(known) is not None:
            await _discover_again(house, await house.installations.all())
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


async def _enrol(
    house: House, installation: Installation, offset_seconds: float = 0.0, *, at_once: bool = False
) -> None:
    """Have it swept, if it lets us; if not, say since when, and why.

    A first sweep is due after the offset. With `at_once` the next one is due now, whatever its date was.
    """
    now, why = house.clock(), is_hindered(installation)
    if why is None:
        await house.schedule.enrol(installation.id, now if at_once else now + offset_seconds)
        if at_once:
            await house.schedule.due_at(installation.id, now)
        return
    await house.schedule.strike(installation.id)
    survey = await house.runners.survey(installation.id)
    await house.runners.save_survey(installation.id, failed(survey, why, now))
