"""Is what is missing really gone? Only when GitHub can be believed, and says so twice."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from ghapp.errors import GitHubError
from ghapp.github.tenant import Tenant
from ghapp.github.transport import PER_PAGE
from ghapp.health import absence, seen
from ghapp.health.absence import Look, Told
from ghapp.health.cadence import Purpose
from ghapp.health.demand import RUNNING_TOO_LONG_SECONDS, Job, is_over
from ghapp.health.evidence import Evidence, Registration, Survey
from ghapp.health.installation import Installation
from ghapp.log import logger
from ghapp.store.claims import OUTLIVING_SECONDS
from jobs.decide import decide
from jobs.house import House, furnished, open_house
from jobs.observe import ask_each, first_page, observe

log = logger(__name__)


async def confirm(installation_id: int) -> None:
    """The job: confirm what a sweep found missing, and plan for what is."""
    async with open_house(furnished()) as house:
        await confirm_installation(house, installation_id)


async def confirm_installation(house: House, installation_id: int) -> int:
    """Confirm each suspect whose first 404 is `confirm_seconds` old; how many are gone.

    In this order, and any doubt ends it with nothing confirmed: the installation is the same account, not
    suspended, and holds the permission; the runner runs no job; a control list with the same token lacks it; its own
    GET still answers 404; and no delivery reported a job of it in between.
    """
    async with house.claims.hold("confirm", installation_id, OUTLIVING_SECONDS) as mine:
        installation = await house.installations.one(installation_id)
        if not mine or installation is None:
            return 0
        suspects = await _due(house, installation)
        gone = 0
        if suspects:
            try:
                gone = await _confirm(house, installation, suspects)
            except GitHubError as error:
                log.warning("not confirmed", installation=installation_id, org=installation.org, why=str(error))
    await decide(house, installation)
    return gone


async def _due(house: House, installation: Installation) -> dict[int, Evidence]:
    runners = await house.runners.all(installation.id)
    survey = await house.runners.survey(installation.id)
    return absence.due(runners.values(), survey, house.clock(), house.settings.of(installation.org).evidence)


async def _confirm(house: House, installation: Installation, suspects: dict[int, Evidence]) -> int:
    if not absence.is_sane(installation, await house.github.installation(installation.id)):
        log.warning("the installation is not what it was; nothing is confirmed", org=installation.org)
        return 0
    tenant = await house.tenant(installation, Purpose.ACT)
    suspects = await _without_ended_jobs(house, tenant, suspects)
    suspects = {each.id: each for each in suspects.values() if each.running_job is None}
    if not suspects:
        return 0
    concurrency = house.settings.of(installation.org).sweep.concurrency
    survey, listed_at = await house.runners.survey(installation.id), house.clock()
    control = await _control(house, tenant, suspects.values(), survey)
    if doubt := absence.doubt(control, survey):
        log.warning("the control list proves nothing", org=installation.org, reason=doubt)
        return 0
    listed = {each: Told(control.runners[each], listed_at) for each in suspects if each in control.runners}
    unproven = [each.id for each in absence.unproven(suspects.values(), control)]
    asked = await ask_each(tenant, unproven, concurrency, house.clock)
    folds = {runner_id: absence.confirmed(*told) for runner_id, told in (listed | asked).items()}
    revised = await house.runners.revise(installation.id, folds)
    gone = sum(each.confirmed_at is not None for each in revised.values())
    log.info("confirmed", installation=installation.id, org=installation.org, gone=gone, of=len(suspects))
    return gone


async def _control(house: House, tenant: Tenant, suspects: Collection[Evidence], survey: Survey) -> Look:
    """The list that must lack the suspects: the whole one, or, of a large fleet, a list of each suspect's own name."""
    concurrency = house.settings.of(tenant.installation.org).sweep.concurrency
    if absence.wants_whole_list(suspects, survey, PER_PAGE):
        control = absence.lenient((await observe(tenant, house.pages, concurrency)).look)
    else:
        control = await first_page(tenant, house.pages)
    if not control.slipped:
        return control
    slots = asyncio.Semaphore(concurrency)

    async def named(name: str) -> list[Registration]:
        async with slots:
            return await tenant.runners_named(name)

    found = await asyncio.gather(*(named(each.name) for each in suspects))
    return control._replace(runners={**control.runners, **{each.id: each for several in found for each in several}})


async def _without_ended_jobs(house: House, tenant: Tenant, suspects: dict[int, Evidence]) -> dict[int, Evidence]:
    """Ask whether the jobs of those still at work are over: the delivery that would say so of them may be lost."""
    ended = {
        each.id: partial(_ended, job_id=each.running_job, at=house.clock())
        for each in suspects.values()
        if each.running_job is not None and await _has_ended(house, tenant, each.running_job, each.job_started_at)
    }
    return suspects | await house.runners.revise(tenant.installation.id, ended)


async def _has_ended(house: House, tenant: Tenant, job_id: int, started_at: float | None) -> bool:
    """By a delivery that did not name its runner, by GitHub's own answer, or because no job runs for as long."""
    now, job = house.clock(), await house.demand.one(tenant.installation.id, job_id)
    if job is None:  # nobody knows where to ask
        return started_at is not None and now - started_at > RUNNING_TOO_LONG_SECONDS
    if is_over(job, now):
        return True
    return tenant.installation.may("actions", "read") and await _is_over(tenant, job)


async def _is_over(tenant: Tenant, job: Job) -> bool:
    """Any doubt says no: the runner stays a suspect, and is left alone."""
    try:
        return await tenant.job_is_over(job.repository, job.id)
    except GitHubError as error:
        log.info("the job gave no answer", org=tenant.installation.org, job=job.id, why=str(error))
        return False


def _ended(evidence: Evidence | None, job_id: int, at: float) -> Evidence | None:
    return None if evidence is None else seen.job_ended(evidence, job_id, at)
