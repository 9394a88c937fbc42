"""Say on the deployed commit whether its shard may take over: one check run, from the deploy to the gate's answer.

Asked for by whoever tells of a deploy, and by the clock while a round goes on. One process at a time looks, and finds
a check run of ours before it creates one: a crash between the creation and its record leaves one check run. A round
whose place another deploy took is ended first: no commit waits for ever.
"""

from __future__ import annotations

from ghapp import work
from ghapp.errors import GitHubError
from ghapp.github.checks import Checks
from ghapp.health.installation import Installation
from ghapp.health.rollout.active import Deploy
from ghapp.health.rollout.announcement import announcement, farewell, gist_of, name_of
from ghapp.health.rollout.gate import Gate, Question, judge_gate
from ghapp.health.rollout.rounds import (
    Round,
    Stage,
    begun_again,
    is_forgotten,
    is_to_be_posted,
    observed,
    open_rounds,
    place_of,
    superseded,
)
from ghapp.log import logger
from ghapp.settings import PoolSettings
from ghapp.store.claims import OUTLIVING_SECONDS
from ghapp.store.gates import Gates
from ghapp.store.shards import Shards
from jobs.gatechecks import PASSING, POSTED, SETBACK_SECONDS, SETBACKS, Outcome, checks_of, outcome_of, post
from jobs.house import House, furnished, open_house
from jobs.shardsight import Sight, sight_of

log = logger(__name__)


async def report_gates(installation_id: int) -> None:
    """The job: every round of an org that goes on."""
    async with open_house(furnished()) as house:
        await report_gates_of(house, installation_id)


async def report_gates_of(house: House, installation_id: int) -> dict[str, Outcome]:
    """Look at each round once, and post what is to be said; what became of each, by place."""
    async with house.claims.hold("gate", installation_id, OUTLIVING_SECONDS) as mine:
        installation = await house.installations.one(installation_id)
        if not mine or installation is None or installation.suspended:
            return {}
        pools = [pool for pool in house.settings.pools_of(installation.org) if pool.deploy_repository]
        known, done = await Gates(house.redis).rounds(installation_id), {}
        deploys = {pool.name: await Shards(house.redis).deploys(installation_id, pool.name) for pool in pools}
        gone = superseded(pools, deploys, known)
        held = {place for place, begun in gone.items() if not await _is_ended(house, installation, place, begun, pools)}
        for pool in pools:
            goes_on = open_rounds(pool, deploys[pool.name], known, house.clock())
            goes_on = [(deploy, begun) for deploy, begun in goes_on if place_of(pool.name, deploy.shard) not in held]
            if not goes_on:
                continue
            sight = await sight_of(house, installation, pool, deploys[pool.name])
            for deploy, begun in goes_on:
                look = _Look(house, installation, pool, deploy, _name(pool.name, pools))
                done[place_of(pool.name, deploy.shard)] = await look.run(begun, sight)
    return done


async def begin_again(house: House, installation: Installation, repository: str, check_run: int, sha: str) -> bool:
    """Somebody asks for a check run of a round anew, or for all of a commit's; whether there is such a round.

    Args:
        house: the stores.
        installation: whose.
        repository: `owner/name`, in any case.
        check_run: its id; 0 for all of a commit.
        sha: the commit; empty for one check run.
    """
    gates, found = Gates(house.redis), False
    async with house.claims.hold("gate", installation.id, OUTLIVING_SECONDS) as mine:
        for place, begun in (await gates.rounds(installation.id) if mine else {}).items():
            is_there = begun.sha == sha and installation.at_github(begun.repository).lower() == repository.lower()
            is_meant = begun.check_run == check_run if check_run else is_there  # a repository may be renamed
            if is_meant and begun.check_run is not None:
                await gates.keep(installation.id, place, begun_again(begun, house.clock()))
                found = True
    if found:
        work.ask_for_gates(house.desk, installation.id)
    return found


def _name(pool: str, pools: list[PoolSettings]) -> str:
    repositories = {each.name: str(each.deploy_repository).lower() for each in pools}
    return name_of(pool, is_alone=list(repositories.values()).count(repositories.get(pool, "")) <= 1)


async def _is_ended(
    house: House, installation: Installation, place: str, begun: Round, pools: list[PoolSettings]
) -> bool:
    """End a round that another deploy supersedes, and say so on its commit; False when GitHub is to be asked again."""
    pool, shard = place.split("/")
    try:
        checks = await checks_of(house, installation, begun, place, _name(pool, pools))
        check_run = begun.check_run if begun.check_run is not None else await checks.find(begun.sha)
        if check_run is not None:
            await checks.update(check_run, farewell(pool, shard))
    except GitHubError as error:
        if outcome_of(error) in PASSING and not is_forgotten(begun, house.clock()):
            return False
        log.warning("gate not ended", installation=installation.id, place=place, sha=begun.sha, why=str(error))
    await Gates(house.redis).keep(installation.id, place, begun._replace(over=True))
    return True


class _Look:
    """One look at one round."""

    def __init__(self, house: House, installation: Installation, pool: PoolSettings, deploy: Deploy, name: str) -> None:
        self._house, self._installation, self._pool, self._deploy = house, installation, pool, deploy
        self._name, self._place = name, place_of(pool.name, deploy.shard)

    async def run(self, begun: Round, sight: Sight) -> Outcome:
        """Look, post if there is something to say, and remember."""
        now, outcome, why = self._house.clock(), Outcome.NOTHING_TO_DO, ""
        after, gate, stage = self._judged(begun, sight, now)
        try:
            is_due = not now < begun.again_at <= now + SETBACK_SECONDS  # one from a clock that had jumped is
            if is_due and begun.private is None:
                after = after._replace(private=await (await self._checks(begun)).is_private())
                after, gate, stage = self._judged(after, sight, now)
            if is_due:
                after, outcome = await self._say(after, gate, stage, now)
        except GitHubError as error:
            outcome, why = outcome_of(error), str(error)
        if outcome not in (Outcome.NOTHING_TO_DO, *POSTED):
            after = self._put_off(after, outcome, why, now)
        is_said = stage is not Stage.WAITS and not after.setback
        kept = after._replace(over=is_said or is_forgotten(after, now))
        await Gates(self._house.redis).keep(self._installation.id, self._place, kept)
        if outcome is not Outcome.NOTHING_TO_DO:
            await self._house.counters.add("ghapp_reports_total", org=self._installation.org, outcome=outcome.value)
        return outcome

    def _judged(self, begun: Round, sight: Sight, now: float) -> tuple[Round, Gate, Stage]:
        question = Question(self._deploy.shard, self._pool.min_online)
        known = sight.known if begun.private else sight.without_repositories
        gate = judge_gate(question, known, sight.sources, now)
        return observed(begun, gate, self._pool.settle_seconds or 0.0, now)

    async def _checks(self, begun: Round) -> Checks:
        return await checks_of(self._house, self._installation, begun, self._place, self._name)

    async def _say(self, begun: Round, gate: Gate, stage: Stage, now: float) -> tuple[Round, Outcome]:
        report = announcement(gate, begun, stage)
        gist = gist_of(report, gate)
        if not is_to_be_posted(begun, report.digest, gist, now):
            return begun, Outcome.NOTHING_TO_DO
        if begun.check_run is None:  # known before it is posted, so that it is ended even after a crash
            await Gates(self._house.redis).keep(self._installation.id, self._place, begun)
        check_run, outcome = await post(await self._checks(begun), begun, report)
        if check_run is None:
            return begun._replace(check_run=None), Outcome.REFUSED
        told = {"check_run": check_run, "outcome": outcome.value, "conclusion": report.conclusion}
        log.info("gate reported", **self._named(begun), **told)
        said = begun._replace(check_run=check_run, digest=report.digest, gist=gist, posted_at=now)
        return said._replace(setback="", again_at=0.0), outcome

    def _put_off(self, begun: Round, outcome: Outcome, why: str, now: float) -> Round:
        """Remember what keeps us from posting; it is logged when it is another thing than before."""
        if begun.setback != outcome.value:
            why = why or "GitHub shows no such commit or repository to this installation"
            log.warning("gate not reported", **self._named(begun), reason=outcome.value, why=why)
        return begun._replace(setback=outcome.value, again_at=now + SETBACKS.get(outcome, 0.0))

    def _named(self, begun: Round) -> dict[str, str | int]:
        """Which round it is, for the log."""
        return {
            "installation": self._installation.id,
            "org": self._installation.org,
            "place": self._place,
            "repository": begun.repository,
            "sha": begun.sha,
        }
