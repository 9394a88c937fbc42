"""Which of the lost are acted on now: count, turn the fuses, plan, grant, and ask for it to be done."""

from __future__ import annotations

import uuid
from collections import defaultdict
from functools import partial

from ghapp.health import evidence as seen
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.fuse import Fuse, Position, room, tally, turn
from ghapp.health.installation import Installation
from ghapp.health.plan import Candidate, Plan, PoolLeave, plan
from ghapp.health.pools import pool_of
from ghapp.health.verdict import State, judge
from ghapp.log import logger
from ghapp.settings import PoolSettings
from ghapp.store.fuses import WHOLE_ORG
from ghapp.work import Work
from jobs.house import House
from jobs.tell import tell_fuse, tell_runners

log = logger(__name__)

PLANNING_SECONDS = 30.0

Judged = tuple[Evidence, State]


async def decide(house: House, installation: Installation) -> Plan:
    """Plan for one installation. One process at a time plans: two could each let a first batch through."""
    async with house.claims.hold("plan", installation.id, PLANNING_SECONDS) as mine:
        if not mine:
            return Plan()
        now = house.clock()
        survey = await house.runners.survey(installation.id)
        pools = await _by_pool(house, installation, survey, now)
        await tell_runners(house, installation, survey, [each for pool in pools.values() for each, _ in pool], now)
        leaves = await _leaves(house, installation, pools, now)
        chosen = plan(
            _candidates(house.settings.pools_of(installation.org), pools, now),
            leaves,
            house.settings.of(installation.org).remediation,
        )
        await _grant(house, installation, chosen, now)
        await _ask_again(house, installation, pools)
    if chosen.now or chosen.deferred:
        deferred = sorted({reason.value for reason in chosen.deferred.values()})
        log.info(
            "planned",
            installation=installation.id,
            org=installation.org,
            now=len(chosen.now),
            deferred=len(chosen.deferred),
            because=deferred,
        )
    return chosen


async def _by_pool(house: House, installation: Installation, survey: Survey, now: float) -> dict[str, list[Judged]]:
    rules = house.settings.pools_of(installation.org)
    limits = house.settings.of(installation.org).evidence
    pools: dict[str, list[Judged]] = defaultdict(list)
    for evidence in (await house.runners.all(installation.id)).values():
        pool = pool_of(evidence.labels, evidence.custom_labels, rules)
        pools[pool].append((evidence, judge(evidence, survey, now, limits).state))
    return pools


async def _leaves(
    house: House, installation: Installation, pools: dict[str, list[Judged]], now: float
) -> dict[str, PoolLeave]:
    """Turn each pool's fuse, and say what it and the pauses allow."""
    limits = house.settings.of(installation.org).fuse
    known = await house.fuses.all(installation.id)
    pauses = await house.fuses.pauses(installation.id)
    leaves: dict[str, PoolLeave] = {}
    for pool, members in pools.items():
        before = known.get(pool)
        counted = tally(members, before or Fuse(), now, limits)
        after = turn(before or Fuse(), counted, now, limits)
        if after != (before or Fuse()):
            if not await house.fuses.save(installation.id, pool, before, after):
                leaves[pool] = PoolLeave(room=0)  # a person was faster; the next look decides
                continue
            await tell_fuse(house, installation, pool, after, counted, now)
            counted = tally(members, after, now, limits)
        leaves[pool] = PoolLeave(
            room(after, counted),
            paused=WHOLE_ORG in pauses or pool in pauses,
            stopped=after.position is Position.STOPPED,
        )
    return leaves


def _candidates(rules: tuple[PoolSettings, ...], pools: dict[str, list[Judged]], now: float) -> list[Candidate]:
    """The lost that nobody acts on yet; and, where a pool asks for it, those offline for too long."""
    patience = {rule.name: rule.replace_offline_after_seconds for rule in rules}
    found: list[Candidate] = []
    for pool, members in pools.items():
        for evidence, state in members:
            if evidence.granted_at is not None:
                continue
            if state is State.INVALIDATED and evidence.confirmed_at is not None:
                found.append(Candidate(evidence.id, pool, evidence.confirmed_at))
            elif state is State.OFFLINE and _too_long(evidence, patience.get(pool), now):
                found.append(Candidate(evidence.id, pool, evidence.offline_since or now))
    return found


def _too_long(evidence: Evidence, patience: float | None, now: float) -> bool:
    return patience is not None and evidence.offline_since is not None and now - evidence.offline_since >= patience


async def _grant(house: House, installation: Installation, chosen: Plan, now: float) -> None:
    if house.settings.of(installation.org).remediation.mode != "act":
        for runner_id in chosen.now:
            log.info("would remediate", installation=installation.id, org=installation.org, runner=runner_id)
            await house.counters.add("ghapp_remediations_total", org=installation.org, outcome="dry-run")
        return

    def fold(evidence: Evidence | None, event_id: str) -> Evidence | None:
        return None if evidence is None else seen.granted(evidence, now, event_id)

    folds = {runner_id: partial(fold, event_id=str(uuid.uuid4())) for runner_id in chosen.now}
    for runner_id in await house.runners.revise(installation.id, folds):
        _ask(house, installation, runner_id)


async def _ask_again(house: House, installation: Installation, pools: dict[str, list[Judged]]) -> None:
    """A grant whose job was lost between the record and the queue is asked for again; a waiting one keeps its key."""
    for members in pools.values():
        for evidence, _ in members:
            if evidence.granted_at is not None and evidence.removed_at is None:
                _ask(house, installation, evidence.id)


def _ask(house: House, installation: Installation, runner_id: int) -> None:
    house.ask(Work.REMEDIATE, installation.id, runner_id, key=f"remediate-{installation.id}-{runner_id}")
