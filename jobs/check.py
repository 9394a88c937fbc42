"""Look at one runner now, for somebody who asked."""

from __future__ import annotations

from ghapp.errors import GitHubError
from ghapp.health import absence
from ghapp.health.cadence import Purpose
from ghapp.log import logger
from ghapp.work import Work
from jobs.house import House, furnished, open_house

log = logger(__name__)


async def check(installation_id: int, runner_id: int) -> None:
    """The job: one GET on behalf of a controller."""
    async with open_house(furnished()) as house:
        await check_runner(house, installation_id, runner_id)


async def check_runner(house: House, installation_id: int, runner_id: int) -> None:
    """Ask GitHub for one runner, and record what it says; a 404 starts the clock of its confirmation.

    It may spend no more than reports may, so that nobody who asks too often makes the sweeps blind.
    """
    installation = await house.installations.one(installation_id)
    if installation is None:
        return
    try:
        tenant = await house.tenant(installation, Purpose.REPORT)
        answer = await tenant.runner(runner_id)
    except GitHubError as error:
        log.info("checked in vain", installation=installation_id, runner=runner_id, why=str(error))
        return
    at = house.clock()
    revised = await house.runners.revise(installation_id, {runner_id: absence.answered(answer, at)})
    limits, survey = house.settings.of(installation.org).evidence, await house.runners.survey(installation_id)
    for due in absence.confirm_at(revised.values(), survey, at, limits):
        house.ask(Work.CONFIRM, installation_id, key=f"confirm-{installation_id}-{int(due)}", after_seconds=due - at)
    log.info("checked", installation=installation_id, runner=runner_id, there=answer is not None)
