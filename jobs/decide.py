"""Which of the lost are acted on now: read, decide, record, and ask for it to be done."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import partial

from ghapp.health import seen
from ghapp.health.cluster.deletion import is_deferred
from ghapp.health.cluster.podclaim import by_name
from ghapp.health.decision import Decision, Situation, Turn, by_pool, counts_for, deliveries_flow, is_as_planned
from ghapp.health.decision import decide as decided
from ghapp.health.demand import is_over
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.installation import Installation
from ghapp.health.plan import Plan
from ghapp.health.remediation import is_open
from ghapp.log import logger
from ghapp.store.claims import OUTLIVING_SECONDS
from ghapp.store.fuses import WHOLE_ORG
from ghapp.store.leaks import Leaks
from ghapp.work import Work
from jobs.house import House
from jobs.report import ask_for_report
from jobs.tell import tell_fuse, tell_runners, tell_turns

log = logger(__name__)


async def decide(house: House, installation: Installation) -> Plan:
    """Plan for one installation. One process at a time plans: two could each let a first batch through."""
    async with house.claims.hold("plan", installation.id, OUTLIVING_SECONDS) as mine:
        if not mine:
            return Plan()
        now = house.clock()
        policy, rules = house.settings.of(installation.org), house.settings.pools_of(installation.org)
        survey = await house.runners.survey(installation.id)
        runners = await house.runners.all(installation.id)
        await tell_runners(house, installation, survey, runners.values(), now)
        pools = by_pool(runners.values(), survey, rules, now, policy.evidence)
        fuses = await house.fuses.all(installation.id)
        situation = await _situation(house, installation, survey, runners, now)
        await tell_turns(house, installation, fuses, counts_for(pools, fuses, rules, policy.fuse, situation), now)
        pauses = await house.fuses.pauses(installation.id)
        paused = pools if WHOLE_ORG in pauses else pauses
        decision = decided(pools, fuses, paused, rules, policy.fuse, policy.remediation, situation)
        decision = decision.without(await _turn(house, installation, decision.turns, now))
        await _write_off(house, installation, decision, runners, now)
        if policy.remediation.mode == "act":
            await _grant(house, installation, decision, runners, now)
        else:
            await _spare(house, installation, decision, runners, now)
        await _ask_again(house, installation, runners.values())
    ask_for_report(house, installation)
    return decision.plan


async def _situation(
    house: House, installation: Installation, survey: Survey, runners: Mapping[int, Evidence], now: float
) -> Situation:
    """What is known beside runners and fuses. Where no delivery tells of jobs, whether one waits is not known."""
    queued = None
    if deliveries_flow(runners.values(), now):
        jobs = await house.demand.all(installation.id)
        queued = [
            frozenset(label.lower() for label in job.labels)
            for job in jobs
            if job.status == "queued" and not is_over(job, now)
        ]
    claimed = by_name(await house.pod_claims.all(installation.id, now))
    window = house.settings.of(installation.org).fuse.window_seconds
    reaped = await Leaks(house.redis).reaped_by_pool(installation.id, now - window)
    return Situation(survey, now, queued, claimed, reaped)


async def _write_off(
    house: House, installation: Installation, decision: Decision, known: dict[int, Evidence], now: float
) -> None:
    """Record the lost runners that their pool does without, as a scale-down leaves them."""

    def fold(evidence: Evidence | None, planned: Evidence) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return seen.not_needed(evidence, now)

    folds = {runner_id: partial(fold, planned=known[runner_id]) for runner_id in decision.not_needed}
    for evidence in (await house.runners.revise(installation.id, folds)).values():
        if evidence.not_needed_at == now:
            log.info("loss written off", installation=installation.id, org=installation.org, runner=evidence.name)


async def _turn(house: House, installation: Installation, turns: tuple[Turn, ...], now: float) -> list[str]:
    """Record and tell each turn; the pools where a person was faster. There the next look decides."""
    overtaken = []
    for pool, before, after, counted in turns:
        if await house.fuses.save(installation.id, pool, before, after):
            await tell_fuse(house, installation, pool, after, counted, now)
        else:
            overtaken.append(pool)
    return overtaken


async def _grant(
    house: House, installation: Installation, decision: Decision, known: dict[int, Evidence], now: float
) -> None:
    def fold(evidence: Evidence | None, planned: Evidence, event_id: str) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return seen.granted(evidence, now, event_id)

    chosen = decision.plan
    folds = {runner_id: partial(fold, planned=known[runner_id], event_id=str(uuid.uuid4())) for runner_id in chosen.now}
    for runner_id, evidence in (await house.runners.revise(installation.id, folds)).items():
        if evidence.granted_at is not None:
            _ask(house, installation, runner_id)
    if chosen.now or chosen.deferred:
        log.info(
            "planned",
            installation=installation.id,
            org=installation.org,
            now=len(chosen.now),
            deferred=len(chosen.deferred),
            because=sorted({reason.value for reason in chosen.deferred.values()}),
        )


async def _spare(
    house: House, installation: Installation, decision: Decision, known: dict[int, Evidence], now: float
) -> None:
    """Dry-run: record, log and count what would have been done, once a loss."""

    def fold(evidence: Evidence | None, planned: Evidence) -> Evidence | None:
        if evidence is None or not is_as_planned(planned, evidence):
            return evidence
        return seen.spared(evidence, now)

    folds = {runner_id: partial(fold, planned=known[runner_id]) for runner_id in decision.plan.now}
    for evidence in (await house.runners.revise(installation.id, folds)).values():
        if evidence.would_act_at == now:
            log.info("would remediate", installation=installation.id, org=installation.org, runner=evidence.name)
            await house.counters.add("ghapp_remediations_total", org=installation.org, outcome="dry-run")


async def _ask_again(house: House, installation: Installation, known: Iterable[Evidence]) -> None:
    """Ask again for what a crash may have lost between a record and the queue, and for what waits in the cluster.

    A job that waits keeps its key. Where a replacer deletes something, there is no event, and none that is missing.
    """
    now = house.clock()
    granted = {
        each.event_id: each
        for each in known
        if each.event_id is not None and is_open(each) and not is_deferred(each.deletion, now)
    }
    for event_id in await house.events.missing(list(granted)):
        _ask(house, installation, granted[event_id].id)


def _ask(house: House, installation: Installation, runner_id: int) -> None:
    house.ask(Work.REMEDIATE, installation.id, runner_id, key=f"remediate-{installation.id}-{runner_id}")
