"""Act on one lost runner: claim, look again, remove, have it replaced, record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ghapp.github.tenant import Removal
from ghapp.health import absence, seen
from ghapp.health.cadence import Purpose
from ghapp.health.cluster.podclaim import by_name, claim_on
from ghapp.health.evidence import Evidence, Fold
from ghapp.health.fuse import fuse_of
from ghapp.health.installation import Installation
from ghapp.health.pools import pool_of
from ghapp.health.remediation import Step, heir_of, may_act, step_after, there
from ghapp.health.verdict import judge, runs_a_job
from ghapp.log import logger
from ghapp.store.claims import OUTLIVING_SECONDS
from ghapp.store.fuses import WHOLE_ORG
from jobs.house import House, furnished, open_house
from jobs.replacement.errand import Remedy
from jobs.replacement.job_lookup import learn_known_job
from jobs.replacement.ledger import STILL_WAITING
from jobs.replacement.replace import REPLACERS, replace_in_cluster
from jobs.tell import ask_for_replacement

log = logger(__name__)


async def remediate(installation_id: int, runner_id: int) -> None:
    """The job: remediate one runner that the plan granted."""
    async with open_house(furnished()) as house:
        await remediate_runner(house, installation_id, runner_id)


async def remediate_runner(house: House, installation_id: int, runner_id: int) -> str:
    """Remediate once, however often it is called; returns the outcome as it is counted.

    Outcomes: `held` (somebody else acts, or a person or the fuse stopped it since), `returned` (its registration is
    back, or it has a new one), `busy` (GitHub says it runs a job), `replaced` (asked for; done before counts too);
    where something is deleted in a cluster, also those of `jobs.replacement.replace`.
    """
    async with house.claims.hold("runner", f"{installation_id}:{runner_id}", OUTLIVING_SECONDS) as mine:
        installation = await house.installations.one(installation_id)
        evidence = (await house.runners.some(installation_id, [runner_id])).get(runner_id)
        if not mine or installation is None or evidence is None:
            return "held"
        if not await _may_act(house, installation, evidence):
            if await _is_claimed(house, installation, {evidence.name}):
                await _fold(house, installation, evidence, _if_known(seen.made_room))
            elif runs_a_job(evidence, house.clock()):  # reported after its removal: the delivery of its end may be lost
                await learn_known_job(house, installation, evidence)
            return "held"
        outcome = await _act(house, installation, evidence)
    if outcome == STILL_WAITING:
        return outcome
    await house.counters.add("ghapp_remediations_total", org=installation.org, outcome=outcome)
    log.info("remediated", installation=installation_id, org=installation.org, runner=evidence.name, outcome=outcome)
    return outcome


async def _act(house: House, installation: Installation, evidence: Evidence) -> str:
    rules = house.settings.pools_of(installation.org)
    pool = pool_of(evidence.labels, evidence.custom_labels, rules)
    rule = next((each for each in rules if each.name == pool), None)
    if rule is not None and rule.replacer in REPLACERS:
        remedy = Remedy(
            partial(_look_again, house, installation),
            partial(_remove, house, installation),
            partial(_may_still_act, house, installation),
        )
        return await replace_in_cluster(house, installation, evidence, rule, remedy)
    names = {evidence.name}
    if evidence.removed_at is None:
        outcome = await _look_again(house, installation, evidence)
        if outcome:
            return outcome
        if not await _may_still_act(house, installation, evidence, names):
            return "held"
        removed = await _remove(house, installation, evidence)
        if removed is None:
            return "busy"
        evidence = removed
    if not await _may_still_act(house, installation, evidence, names):
        return "held"
    await ask_for_replacement(house, installation, evidence, house.clock())
    return "replaced"


async def _look_again(house: House, installation: Installation, evidence: Evidence) -> str:
    """The last look at GitHub: the outcome when nothing is to be done any more, else an empty string."""
    tenant = await house.tenant(installation, Purpose.ACT)
    await tenant.settle()
    answer = await tenant.runner(evidence.id)
    bearers = await tenant.runners_named(evidence.name) if answer is None else []
    match step_after(evidence, answer, bearers):
        case Step.RECORD_RETURN:
            back = there(evidence, answer, bearers)
            await _fold(house, installation, evidence, absence.answered(back, house.clock()))
            return "returned"
        case Step.RECORD_HEIR:
            heir = heir_of(evidence, bearers) or 0
            await _fold(house, installation, evidence, _if_known(partial(seen.reregistered, as_id=heir)))
            return "returned"
        case Step.CALL_OFF:
            await _fold(house, installation, evidence, _if_known(seen.called_off))
            return "returned"
    return ""


async def _remove(house: House, installation: Installation, evidence: Evidence) -> Evidence | None:
    """Take its registration away; None when GitHub says that it is busy after all."""
    tenant = await house.tenant(installation, Purpose.ACT)
    removal = await tenant.remove_runner(evidence.id)
    at = house.clock()
    if removal is Removal.BUSY:
        await _fold(house, installation, evidence, _if_known(partial(seen.busy_after_all, at=at)))
        return None
    return await _fold(house, installation, evidence, _if_known(partial(seen.removed, at=at, granted=evidence)))


async def _may_still_act(house: House, installation: Installation, evidence: Evidence, names: set[str]) -> bool:
    """By what is known of it, and of all who may stop it, this very moment."""
    fresh = (await house.runners.some(installation.id, [evidence.id])).get(evidence.id)
    return fresh is not None and await _may_act(house, installation, fresh, names)


async def _may_act(house: House, installation: Installation, evidence: Evidence, names: set[str] | None = None) -> bool:
    if not installation.may("organization_self_hosted_runners", "write"):
        return False  # `doctor` and /readyz say so
    policy, rules = house.settings.of(installation.org), house.settings.pools_of(installation.org)
    survey = await house.runners.survey(installation.id)
    pool = pool_of(evidence.labels, evidence.custom_labels, rules)
    pauses = await house.fuses.pauses(installation.id)
    fuse, now = fuse_of(await house.fuses.all(installation.id), pool), house.clock()
    return may_act(
        evidence,
        judge(evidence, survey, now, policy.evidence).state,
        fuse.position,
        policy.remediation.mode,
        now,
        paused=WHOLE_ORG in pauses or pool in pauses,
        claimed=await _is_claimed(house, installation, names or {evidence.name}),
    )


async def _is_claimed(house: House, installation: Installation, names: set[str]) -> bool:
    now = house.clock()
    claimed = by_name(await house.pod_claims.all(installation.id, now))
    return any(claim_on(claimed, name, now) is not None for name in names)


async def _fold(house: House, installation: Installation, evidence: Evidence, fold: Fold) -> Evidence:
    return (await house.runners.revise(installation.id, {evidence.id: fold}))[evidence.id]


def _if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    return lambda evidence: None if evidence is None else change(evidence)
