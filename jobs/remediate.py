"""Act on one lost runner: claim, look again, remove, have it replaced, record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ghapp.github.api import Removal
from ghapp.health import absence
from ghapp.health import evidence as seen
from ghapp.health.cadence import Purpose
from ghapp.health.evidence import Evidence, Fold
from ghapp.health.fuse import Fuse
from ghapp.health.installation import Installation
from ghapp.health.pools import pool_of
from ghapp.health.remediation import Step, may_act, step_after
from ghapp.health.verdict import judge
from ghapp.log import logger
from ghapp.store.claims import OUTLIVING_SECONDS
from ghapp.store.fuses import WHOLE_ORG
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
    async with house.claims.hold("runner", f"{installation_id}:{runner_id}", OUTLIVING_SECONDS) as mine:
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
        tenant = await house.tenant(installation, Purpose.ACT)
        answer = await tenant.runner(evidence.id)
        match step_after(evidence, answer):
            case Step.RECORD_RETURN:
                await _fold(house, installation, evidence, absence.answered(answer, house.clock()))
                return "returned"
            case Step.CALL_OFF:
                await _fold(house, installation, evidence, _if_known(seen.called_off))
                return "returned"
        removal = await tenant.remove_runner(evidence.id)
        at = house.clock()
        if removal is Removal.BUSY:
            await _fold(house, installation, evidence, _if_known(partial(seen.busy_after_all, at=at)))
            return "busy"
        evidence = await _fold(house, installation, evidence, _if_known(partial(seen.removed, at=at)))
    await ask_for_replacement(house, installation, evidence, house.clock())
    return "replaced"


async def _may_act(house: House, installation: Installation, evidence: Evidence) -> bool:
    if not installation.may("organization_self_hosted_runners", "write"):
        return False  # `doctor` and /readyz say so
    policy, rules = house.settings.of(installation.org), house.settings.pools_of(installation.org)
    survey = await house.runners.survey(installation.id)
    pool = pool_of(evidence.labels, evidence.custom_labels, rules)
    pauses = await house.fuses.pauses(installation.id)
    fuse = (await house.fuses.all(installation.id)).get(pool, Fuse())
    return may_act(
        evidence,
        judge(evidence, survey, house.clock(), policy.evidence).state,
        fuse.position,
        policy.remediation.mode,
        paused=WHOLE_ORG in pauses or pool in pauses,
    )


async def _fold(house: House, installation: Installation, evidence: Evidence, fold: Fold) -> Evidence:
    return (await house.runners.revise(installation.id, {evidence.id: fold}))[evidence.id]


def _if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    return lambda evidence: None if evidence is None else change(evidence)
