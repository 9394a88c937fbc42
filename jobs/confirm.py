"""Is what is missing really gone? Only when GitHub can be believed, and says so twice."""

from __future__ import annotations

from functools import partial

from ghapp.errors import GitHubError
from ghapp.github.api import GitHub
from ghapp.health import evidence as seen
from ghapp.health.evidence import Evidence, Registration
from ghapp.health.installation import Installation
from ghapp.health.verdict import State, judge
from ghapp.log import logger
from ghapp.work import TIMEOUT_SECONDS
from jobs.decide import decide
from jobs.house import House, furnished, open_house
from jobs.observe import observe

log = logger(__name__)


async def confirm(installation_id: int) -> None:
    """The job: confirm what a sweep found missing, and plan for what is."""
    async with open_house(furnished()) as house:
        await confirm_installation(house, installation_id)


async def confirm_installation(house: House, installation_id: int) -> int:
    """Confirm each suspect whose first 404 is `confirm_seconds` old; how many are gone.

    In this order, and any doubt ends it with nothing confirmed: the installation is the same account, not
    suspended, and holds the permission; a control list with the same token is complete and lacks the runner; it
    runs no job; its own GET still answers 404.
    """
    async with house.claims.hold("confirm", installation_id, TIMEOUT_SECONDS) as mine:
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
    now = house.clock()
    survey = await house.runners.survey(installation.id)
    limits = house.settings.of(installation.org).evidence
    return {
        each.id: each
        for each in (await house.runners.all(installation.id)).values()
        if each.missing_at is not None
        and now - each.missing_at >= limits.confirm_seconds
        and judge(each, survey, now, limits).state is State.SUSPECT
    }


async def _confirm(house: House, installation: Installation, suspects: dict[int, Evidence]) -> int:
    if not await _is_sane(house.github, installation):
        return 0
    began = house.clock()
    tenant = await house.github.tenant(installation)
    control = await observe(tenant, house.pages, house.settings.of(installation.org).sweep.concurrency)
    believed = await house.runners.survey(installation.id)
    if control.flaw is not None or (not control.runners and believed.total > 0):
        log.warning("control list proves nothing", org=installation.org, reason=control.flaw or "ListEmpty")
        return 0
    names = {runner.name for runner in control.runners.values()}
    gone = 0
    for runner_id, evidence in suspects.items():
        answer = control.runners.get(runner_id)
        # Busy by delivery, or its name is borne by a later registration: not lost, whatever a GET would say.
        if answer is None and (evidence.running_job is not None or evidence.name in names):
            continue
        answer = answer or await tenant.runner(runner_id)
        await house.runners.revise(installation.id, {runner_id: partial(_fold, answer=answer, at=house.clock())})
        gone += answer is None
    log.info(
        "confirmed",
        installation=installation.id,
        org=installation.org,
        gone=gone,
        of=len(suspects),
        milliseconds=round((house.clock() - began) * 1000),
    )
    return gone


def _fold(evidence: Evidence | None, answer: Registration | None, at: float) -> Evidence | None:
    if evidence is None:
        return None
    if answer is not None:
        return seen.registration_seen(evidence, answer, at, listed=False)
    return seen.absence_confirmed(evidence, at)


async def _is_sane(github: GitHub, known: Installation) -> bool:
    now = await github.installation(known.id)
    same = now.account_id == known.account_id and now.org == known.org
    return same and not now.suspended and now.may("organization_self_hosted_runners", "read")
