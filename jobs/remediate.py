"""Act on one lost runner: claim, look again, remove, have it replaced, record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ghapp.github.api import Removal
from ghapp.health import evidence as seen
from ghapp.health.evidence import Evidence
from ghapp.health.fuse import Position
from ghapp.health.installation import Installation
from ghapp.health.pools import pool_of
from ghapp.health.verdict import State, judge
from ghapp.log import logger
from ghapp.store.fuses import WHOLE_ORG
from ghapp.work import TIMEOUT_SECONDS
from jobs.house import House, furnished, open_house
from jobs.tell import ask_for_replacement

log = logger(__name__)


async def remediate(installation_id: int, runner_id: int) -> None:
    """The job: remediate one runner that the plan granted."""
    async with open_house(furnished()) as house:
        await remediate_runner(house, installation_id, runner_id)


async def remediate_runner(house: House, installation_id: int, runner_id: int) -> str:
    """Remediate once, however often it is called; returns the outcome as it is counted.

    Outcomes: `held` (somebody else acts, or a person or the fuse stopped it since), `returned` (its registration is
    back), `busy` (GitHub says it runs a job), `replaced` (asked for; done before counts too).
    """
    async with house.claims.hold("runner", f"{installation_id}:{runner_id}", TIMEOUT_SECONDS) as mine:
        installation = await house.installations.one(installation_id)
        evidence = (await house.runners.some(installation_id, [runner_id])).get(runner_id)
        if not mine or installation is None or evidence is None or not await _may_act(house, installation, evidence):
            return "held"
        outcome = await _act(house, installation, evidence)
    await house.counters.add("ghapp_remediations_total", org=installation.org, outcome=outcome)
    log.info("remediated", installation=installation_id, org=installation.org, runner=evidence.name, outcome=outcome)
    return outcome


async def _act(house: House, installation: Installation, evidence: Evidence) -> str:
    if evidence.removed_at is None:
        tenant = await house.github.tenant(installation)
        answer = await tenant.runner(evidence.id)
        at = house.clock()
        if answer is not None and evidence.confirmed_at is not None:
            await _fold(
                house, installation, evidence, partial(seen.registration_seen, seen=answer, at=at, listed=False)
            )
            return "returned"
        if answer is not None and (answer.online or answer.busy):  # granted for being offline, and no longer so
            await _fold(house, installation, evidence, seen.called_off)
            return "returned"
        if await tenant.remove_runner(evidence.id) is Removal.BUSY:
            await _fold(house, installation, evidence, partial(seen.busy_after_all, at=at))
            return "busy"
        evidence = await _fold(house, installation, evidence, partial(seen.removed, at=at))
    await ask_for_replacement(house, installation, evidence, house.clock())
    return "replaced"


async def _may_act(house: House, installation: Installation, evidence: Evidence) -> bool:
    """Granted, still true, and not stopped since."""
    if evidence.granted_at is None or evidence.event_id is None or evidence.replaced_at is not None:
        return False
    policy = house.settings.of(installation.org)
    survey = await house.runners.survey(installation.id)
    state = judge(evidence, survey, house.clock(), policy.evidence).state
    if evidence.removed_at is None and state not in (State.INVALIDATED, State.OFFLINE):
        return False
    pool = pool_of(evidence.labels, evidence.custom_labels, house.settings.pools_of(installation.org))
    pauses = await house.fuses.pauses(installation.id)
    fuse = (await house.fuses.all(installation.id)).get(pool)
    stopped = fuse is not None and fuse.position is Position.STOPPED
    return policy.remediation.mode == "act" and not stopped and WHOLE_ORG not in pauses and pool not in pauses


async def _fold(
    house: House, installation: Installation, evidence: Evidence, change: Callable[[Evidence], Evidence]
) -> Evidence:
    revised = await house.runners.revise(
        installation.id, {evidence.id: lambda known: None if known is None else change(known)}
    )
    return revised[evidence.id]
