"""The check run "Runner gate" on a deployed commit: from the deploy until the gate passes or fails.

Enqueued when a deploy is reported, and by the scheduler while the gate is open. One process at a time evaluates it. A
gate check that a later deploy supersedes is completed first, so that no commit waits forever.
"""

from __future__ import annotations

from functools import partial

from ghapp.errors import GitHubError
from ghapp.gate.active_shard import Deploy
from ghapp.gate.gate_checks import (
    GateCheck,
    GateCheckStage,
    ended_undecided,
    is_forgotten,
    is_to_be_posted,
    observed,
    open_gate_checks,
    place_of,
    restarted,
    subject_of,
    superseded,
)
from ghapp.gate.judgement import ActiveShardSources, Gate, GateRequest, judge_gate
from ghapp.gate.shard_status import ShardInputs
from ghapp.gate.texts import gate_report, name_of, summary_digest, superseded_report
from ghapp.github.checks import Checks
from ghapp.installations.installation import Installation
from ghapp.loading.views import load_shard_inputs
from ghapp.log import logger
from ghapp.queue import jobs
from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.queue_check import QueueCheck
from jobs.checks.commit_check import CommitCheckPost
from jobs.checks.publisher import TRANSIENT, CheckRunOutcome, open_checks, outcome_of, publish
from jobs.context import JobContext
from jobs.each_installation import each_installation
from jobs.periodic_task import PeriodicTask, SchedulerContext, enqueue_where

log = logger(__name__)


async def report_gates(*installation_ids: int) -> None:
    """The job: all open gate checks of these orgs."""
    await each_installation(jobs.JobName.GATE, report_gates_of, installation_ids)


async def report_gates_of(context: JobContext, installation_id: int) -> dict[str, CheckRunOutcome]:
    """Evaluates each open gate check once and publishes it; returns the outcomes by `pool/shard`."""
    async with context.locks.acquire("gate", installation_id, context.locks.outliving_seconds) as acquired:
        installation = await context.installations.one(installation_id)
        if not acquired or installation is None or installation.suspended:
            return {}
        now = context.clock()
        pools = [pool for pool in context.settings.pools_of(installation.org) if pool.deploy_repository]
        known, done = await context.gate_checks.list(installation_id), {}
        deploys = {pool.name: await context.shards.deploys(installation_id, pool.name) for pool in pools}
        replaced = superseded(pools, deploys, known)
        held = {
            place
            for place, gate_check in replaced.items()
            if not await _is_ended(context, installation, place, gate_check, pools, now)
        }
        for pool in pools:
            goes_on = open_gate_checks(pool, deploys[pool.name], known, now)
            goes_on = [
                (deploy, gate_check) for deploy, gate_check in goes_on if place_of(pool.name, deploy.shard) not in held
            ]
            if not goes_on:
                continue
            inputs = await load_shard_inputs(context, installation, context.settings, pool, now)
            answer = await context.shards.answer(installation_id, pool.name) if pool.active_source else None
            sources = ActiveShardSources(deploys[pool.name], pool.active_source, answer)
            for deploy, gate_check in goes_on:
                look = _Look(context, installation, pool, deploy, _name(pool.name, pools), now)
                done[place_of(pool.name, deploy.shard)] = await look.run(gate_check, inputs, sources)
    return done


async def restart_gate_check(
    context: JobContext, installation: Installation, repository: str, check_run: int, sha: str
) -> bool:
    """Restarts gate checks that were re-requested on GitHub, one or all of a commit; returns False if there is none.

    Args:
        context: the stores.
        installation: the installation of the org.
        repository: `owner/name`, in any case.
        check_run: its id; 0 for all of a commit.
        sha: the commit; empty for one check run.
    """
    gates, found = context.gate_checks, False
    async with context.locks.acquire("gate", installation.id, context.locks.outliving_seconds) as acquired:
        for place, gate_check in (await gates.list(installation.id) if acquired else {}).items():
            is_there = (
                gate_check.sha == sha and installation.at_github(gate_check.repository).lower() == repository.lower()
            )
            is_meant = gate_check.check_run == check_run if check_run else is_there  # a repository may be renamed
            if is_meant and gate_check.check_run is not None:
                await gates.keep(installation.id, place, restarted(gate_check, context.clock()))
                found = True
    if found:
        jobs.enqueue_gates(context.queue_redis, installation.id)
    return found


def _name(pool: str, pools: list[PoolSettings]) -> str:
    repositories = {each.name: str(each.deploy_repository).lower() for each in pools}
    return name_of(pool, is_alone=list(repositories.values()).count(repositories.get(pool, "")) <= 1)


async def _is_ended(
    context: JobContext,
    installation: Installation,
    place: str,
    gate_check: GateCheck,
    pools: list[PoolSettings],
    now: float,
) -> bool:
    """Completes a gate check that another deploy supersedes; returns False if the attempt must be repeated."""
    pool, shard = place.split("/")
    try:
        checks = await _checks_of(context, installation, gate_check, place, _name(pool, pools))
        check_run = gate_check.check_run if gate_check.check_run is not None else await checks.find(gate_check.sha)
        if check_run is not None:
            named = next((each.deploy_repository or "" for each in pools if each.name == pool), "")
            elsewhere = None if named == gate_check.repository else named
            await checks.update(check_run, superseded_report(pool, shard, elsewhere))
    except GitHubError as error:
        if outcome_of(error) in TRANSIENT and not is_forgotten(gate_check, now):
            return False
        log.warning("gate not ended", installation=installation.id, place=place, sha=gate_check.sha, why=str(error))
    await context.gate_checks.keep(installation.id, place, ended_undecided(gate_check))
    return True


async def _checks_of(
    context: JobContext, installation: Installation, gate_check: GateCheck, place: str, name: str
) -> Checks:
    """Opens the check runs of a deploy: their repository, their name, and their subject on the commit."""
    repository = installation.at_github(gate_check.repository)
    subject, details_url = subject_of(place, gate_check), context.links(installation).gate
    return await open_checks(context, installation, repository, name=name, subject=subject, details_url=details_url)


class _Look(CommitCheckPost):
    """One evaluation of one gate check."""

    FAILED = "gate not reported"
    WHY = "GitHub shows no such commit or repository to this installation"

    def __init__(
        self,
        context: JobContext,
        installation: Installation,
        pool: PoolSettings,
        deploy: Deploy,
        name: str,
        now: float,
    ) -> None:
        super().__init__(context, installation, place_of(pool.name, deploy.shard), now)
        self._pool, self._name = pool, name
        self._question = GateRequest(deploy.shard, pool.min_online)

    async def run(self, gate_check: GateCheck, inputs: ShardInputs, sources: ActiveShardSources) -> CheckRunOutcome:
        """Evaluates the gate check, publishes a changed text, and records the result."""
        after, outcome = gate_check, CheckRunOutcome.NOTHING_TO_DO
        if after.private is None:
            after, outcome = await self.attempt(after, self._with_privacy)
        after, gate, stage = self._judged(after, inputs, sources)
        await self._context.shards.record_result(self._installation.id, self._question, inputs, sources, self._now)
        if outcome is CheckRunOutcome.NOTHING_TO_DO:
            after, outcome = await self.attempt(after, partial(self._publish, gate, stage))
        is_published = stage is not GateCheckStage.WAITS and not after.setback
        kept = after._replace(over=is_published or is_forgotten(after, self._now))
        await self._context.gate_checks.keep(self._installation.id, self._place, kept)
        return outcome

    async def _with_privacy(self, gate_check: GateCheck) -> tuple[GateCheck, CheckRunOutcome]:
        is_private = bool(await (await self._checks(gate_check)).is_private())
        return gate_check._replace(private=is_private), CheckRunOutcome.NOTHING_TO_DO

    def _judged(
        self, gate_check: GateCheck, inputs: ShardInputs, sources: ActiveShardSources
    ) -> tuple[GateCheck, Gate, GateCheckStage]:
        known = inputs if gate_check.private else inputs.without_repositories
        gate = judge_gate(self._question, known, sources, self._now)
        return observed(gate_check, gate, self._pool.settle_seconds or 0.0, self._now)

    async def _checks(self, gate_check: GateCheck) -> Checks:
        return await _checks_of(self._context, self._installation, gate_check, self._place, self._name)

    async def _publish(
        self, gate: Gate, stage: GateCheckStage, gate_check: GateCheck
    ) -> tuple[GateCheck, CheckRunOutcome]:
        report = gate_report(gate, gate_check, stage)
        relevant = summary_digest(report, gate)
        if not is_to_be_posted(gate_check, report.digest, relevant, self._now):
            return gate_check, CheckRunOutcome.NOTHING_TO_DO
        if gate_check.check_run is None:  # recorded before it is created, so that it is completed even after a crash
            await self._context.gate_checks.keep(self._installation.id, self._place, gate_check)
        check_run, outcome = await publish(
            self._context, await self._checks(gate_check), gate_check.sha, report, gate_check.check_run
        )
        if check_run is None:
            return gate_check._replace(check_run=None), outcome
        posted = {"check_run": check_run, "outcome": outcome.value, "conclusion": report.conclusion}
        log.info("gate reported", **self.named(gate_check), **posted)
        published = gate_check._replace(
            check_run=check_run, digest=report.digest, summary_digest=relevant, posted_at=self._now
        )
        return published._replace(setback="", again_at=0.0), outcome

    def named(self, check: GateCheck | QueueCheck) -> dict[str, str | int]:
        """Returns the fields of the log that identify the gate check."""
        return {**super().named(check), "place": self._place}


async def waits_for_gate(context: SchedulerContext, installation: Installation) -> bool:
    """True if a commit that was deployed in an org waits for the gate, or if its gate check must be completed."""
    pools = [pool for pool in context.settings.pools_of(installation.org) if pool.deploy_repository]
    known = await context.gate_checks.list(installation.id) if pools else {}
    deploys = {pool.name: await context.shards.deploys(installation.id, pool.name) for pool in pools}
    now = context.clock()
    is_open = any(open_gate_checks(pool, deploys[pool.name], known, now) for pool in pools)
    return is_open or bool(superseded(pools, deploys, known))


REPORT_GATES = PeriodicTask(
    "report_gates",
    10.0,
    enqueue_where(jobs.JobName.GATE, waits_for_gate),
    is_wanted=lambda settings: any(pool.deploy_repository for pool in settings.pools),
)
"""Looks for deployed commits that wait for the gate."""
