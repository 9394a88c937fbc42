"""One complete look at an installation: observe, judge, record; ask for confirmation of what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from ghapp.errors import (
    GitHubError,
    InstallationGoneError,
    InstallationSuspendedError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github.api import Tenant
from ghapp.health import evidence as seen
from ghapp.health.cadence import next_sweep_in
from ghapp.health.evidence import Evidence, Registration, Survey
from ghapp.health.fuse import FuseLimits
from ghapp.health.installation import Installation
from ghapp.health.news import may_be_forgotten
from ghapp.health.verdict import Limits, Reason, State, judge
from ghapp.log import logger
from ghapp.store.runners import Fold
from ghapp.work import TIMEOUT_SECONDS, Work
from jobs.decide import decide
from jobs.house import House, furnished, open_house
from jobs.observe import Observation, Progress, observe

log = logger(__name__)

FAILURES: dict[type[GitHubError], Reason] = {
    RateLimitedError: Reason.RATE_LIMITED,
    UnauthorizedError: Reason.UNAUTHORIZED,
    PermissionMissingError: Reason.PERMISSION_MISSING,
    InstallationSuspendedError: Reason.INSTALLATION_SUSPENDED,
    InstallationGoneError: Reason.INSTALLATION_GONE,
}


@dataclass(frozen=True, slots=True)
class SweepAccount:
    """What a sweep found and what it cost: calls, of them billable, and milliseconds. `flaw` is empty when complete.

    `pages` are the billable calls of the list alone: what the next sweep will cost, too. Suspects are asked for once.
    """

    org: str
    runners: int
    suspects: int
    calls: int
    billable: int
    milliseconds: float
    pages: int = 0
    flaw: str = ""


async def sweep(installation_id: int) -> None:
    """The job: one sweep on behalf of the clock."""
    async with open_house(furnished()) as house:
        await sweep_installation(house, installation_id)


async def sweep_installation(
    house: House, installation_id: int, *, act: bool = True, progress: Progress = lambda _done, _of: None
) -> SweepAccount | None:
    """Sweep once; None when the installation is not known, or somebody else sweeps it just now.

    With `act` false everything is recorded and nothing is asked for.
    """
    async with house.claims.hold("sweep", installation_id, TIMEOUT_SECONDS) as mine:
        installation = await house.installations.one(installation_id)
        if not mine or installation is None:
            return None
        began = house.clock()
        survey = await house.runners.survey(installation_id)
        try:
            tenant = await house.github.tenant(installation)
            concurrency = house.settings.of(installation.org).sweep.concurrency
            observation = await observe(tenant, house.pages, concurrency, progress)
            account = await _record(house, tenant, observation, survey, began)
        except GitHubError as error:
            reason = FAILURES.get(type(error), Reason.GITHUB_UNAVAILABLE)
            log.warning(
                "sweep failed", installation=installation_id, org=installation.org, reason=reason, why=str(error)
            )
            await house.runners.save_survey(installation_id, _failed(survey, reason, began))
            account = SweepAccount(installation.org, 0, 0, 0, 0, (house.clock() - began) * 1000, flaw=reason)
        await _count(house, installation, account, began)
    if act:
        await decide(house, installation)
    return account


async def _record(house: House, tenant: Tenant, observation: Observation, survey: Survey, began: float) -> SweepAccount:
    """Fold what was listed and what was not; look at each suspect alone."""
    installation = tenant.installation
    policy = house.settings.of(installation.org)
    limits = policy.evidence
    known = await house.runners.all(installation.id)
    flaw = observation.flaw or _implausible(observation, known, survey, began, policy.fuse)
    after = Survey(began, observation.total) if flaw is None else _failed(survey, flaw, began)
    folds = _folds(observation, known, began, complete=flaw is None)
    records = {**known, **await house.runners.revise(installation.id, folds, known)}
    suspects = [each.id for each in records.values() if judge(each, after, began, limits).state is State.SUSPECT]
    looked = await _look_at(tenant, suspects, policy.sweep.concurrency)
    at = house.clock()
    await house.runners.revise(
        installation.id, {runner_id: _alone(answer, at) for runner_id, answer in looked.items()}, records
    )
    await house.runners.save_survey(installation.id, after)
    await _forget(house, installation.id, records, after, at, limits)
    missing = sum(answer is None for answer in looked.values())
    if missing:
        due = at + limits.confirm_seconds
        house.ask(
            Work.CONFIRM,
            installation.id,
            key=f"confirm-{installation.id}-{int(due)}",
            after_seconds=limits.confirm_seconds,
        )
    return SweepAccount(
        org=installation.org,
        runners=len(observation.runners),
        suspects=missing,
        calls=observation.calls + len(looked),
        billable=observation.billable + len(looked),
        milliseconds=(house.clock() - began) * 1000,
        pages=observation.billable,
        flaw=flaw or "",
    )


def _folds(observation: Observation, known: dict[int, Evidence], at: float, *, complete: bool) -> dict[int, Fold]:
    folds: dict[int, Fold] = {
        runner_id: partial(seen.registration_seen, seen=runner, at=at, listed=complete)
        for runner_id, runner in observation.runners.items()
    }
    if complete:
        bearers = {runner.name: runner.id for runner in observation.runners.values()}
        for runner_id, evidence in known.items():
            if runner_id not in observation.runners and evidence.registered:
                folds[runner_id] = partial(_gone, at=at, total=observation.total, heir=bearers.get(evidence.name))
    return folds


def _gone(evidence: Evidence | None, at: float, total: int, heir: int | None) -> Evidence | None:
    if evidence is None:
        return None
    absent = seen.unlisted(evidence, at, total)
    return absent if heir is None else seen.reregistered(absent, heir)


def _alone(answer: Registration | None, at: float) -> Fold:
    """The fold of a runner's own GET: its registration, or None for a 404."""
    if answer is not None:
        return partial(seen.registration_seen, seen=answer, at=at, listed=False)
    return lambda evidence: None if evidence is None else seen.get_missed(evidence, at)


async def _look_at(tenant: Tenant, suspects: Iterable[int], concurrency: int) -> dict[int, Registration | None]:
    """GET each; those that gave no answer are left out."""
    slots = asyncio.Semaphore(concurrency)
    answers: dict[int, Registration | None] = {}

    async def look(runner_id: int) -> None:
        async with slots:
            try:
                answers[runner_id] = await tenant.runner(runner_id)
            except GitHubError as error:
                log.info("suspect gave no answer", runner=runner_id, org=tenant.installation.org, why=str(error))

    await asyncio.gather(*(look(runner_id) for runner_id in suspects))
    return answers


def _implausible(
    observation: Observation, known: dict[int, Evidence], survey: Survey, now: float, limits: FuseLimits
) -> Reason | None:
    """An empty list for a fleet that was there a moment ago is no answer, until it has been one for a window.

    Even then it is a hint: each runner is asked for alone, twice.
    """
    if observation.runners or sum(each.listed for each in known.values()) <= limits.floor:
        return None
    since = survey.failing_since if survey.failure == Reason.LIST_EMPTY else None
    return None if since is not None and now - since >= limits.window_seconds else Reason.LIST_EMPTY


def _failed(survey: Survey, reason: Reason, at: float) -> Survey:
    """The last complete list stays; since when and why there is none newer is added."""
    failing_since = survey.failing_since if survey.failing_since is not None and survey.failure == reason else at
    return Survey(survey.swept_at, survey.total, failing_since, reason)


async def _forget(
    house: House, installation: int, records: dict[int, Evidence], survey: Survey, now: float, limits: Limits
) -> None:
    def fold(evidence: Evidence | None) -> Evidence | None:
        if evidence is None or may_be_forgotten(evidence, judge(evidence, survey, now, limits), now):
            return None
        return evidence

    old = [each.id for each in records.values() if fold(each) is None]
    await house.runners.revise(installation, dict.fromkeys(old, fold))


async def _count(house: House, installation: Installation, account: SweepAccount, began: float) -> None:
    """Say what it cost, and when the next one is due."""
    log.info("swept", installation=installation.id, **_public(account))
    org = installation.org
    await house.counters.add("ghapp_sweeps_total", org=org, outcome=account.flaw or "complete")
    await house.counters.add("ghapp_sweep_calls_total", account.calls, org=org)
    await house.counters.add("ghapp_sweep_billable_calls_total", account.billable, org=org)
    await house.counters.add("ghapp_sweep_seconds_total", account.milliseconds / 1000, org=org)
    policy = house.settings.of(org)
    allowance = await house.budget.left(installation.id, house.clock())
    wait = next_sweep_in(policy.sweep.interval_seconds, account.pages, allowance, policy.budget)
    await house.schedule.due_at(installation.id, began + wait)


def _public(account: SweepAccount) -> dict[str, object]:
    return {
        "org": account.org,
        "runners": account.runners,
        "suspects": account.suspects,
        "calls": account.calls,
        "billable": account.billable,
        "milliseconds": round(account.milliseconds),
        "flaw": account.flaw,
    }
