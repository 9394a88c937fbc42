"""One complete look at an installation: observe, judge, record; ask for confirmation of what is missing."""

from __future__ import annotations

from dataclasses import dataclass

from ghapp.errors import (
    GitHubError,
    InstallationGoneError,
    InstallationSuspendedError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github.api import Tenant
from ghapp.health import absence
from ghapp.health.cadence import next_sweep_in
from ghapp.health.evidence import Evidence, Survey
from ghapp.health.installation import Installation
from ghapp.health.news import may_be_forgotten
from ghapp.health.verdict import Limits, Reason, judge
from ghapp.log import logger
from ghapp.work import TIMEOUT_SECONDS, Work
from jobs.decide import decide
from jobs.house import House, furnished, open_house
from jobs.observe import Observation, Progress, ask_each, observe

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
            await house.runners.save_survey(installation_id, absence.failed(survey, reason, began))
            account = SweepAccount(installation.org, 0, 0, 0, 0, (house.clock() - began) * 1000, flaw=reason)
        await _count(house, installation, account, began)
    if act:
        await decide(house, installation)
    return account


async def _record(house: House, tenant: Tenant, observation: Observation, survey: Survey, began: float) -> SweepAccount:
    """Fold what was listed and what was not; look at each suspect alone."""
    installation = tenant.installation
    policy = house.settings.of(installation.org)
    known = await house.runners.all(installation.id)
    look = absence.weighed(observation.look, known, survey, began, policy.fuse)
    after = absence.surveyed(survey, look, began)
    records = {**known, **await house.runners.revise(installation.id, absence.folds(look, known, began), known)}
    suspects = absence.suspects(records.values(), after, began, policy.evidence)
    looked = await ask_each(tenant, suspects, policy.sweep.concurrency)
    at = house.clock()
    await house.runners.revise(
        installation.id, {runner_id: absence.answered(answer, at) for runner_id, answer in looked.items()}, records
    )
    await house.runners.save_survey(installation.id, after)
    await _forget(house, installation.id, records, after, at, policy.evidence)
    missing = sum(answer is None for answer in looked.values())
    if missing:
        wait = policy.evidence.confirm_seconds
        key = f"confirm-{installation.id}-{int(at + wait)}"
        house.ask(Work.CONFIRM, installation.id, key=key, after_seconds=wait)
    return SweepAccount(
        org=installation.org,
        runners=len(look.runners),
        suspects=missing,
        calls=observation.calls + len(looked),
        billable=observation.billable + len(looked),
        milliseconds=(house.clock() - began) * 1000,
        pages=observation.billable,
        flaw=look.flaw or "",
    )


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
