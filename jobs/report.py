"""Say how the fleet is where its admins look: one check run, posted when what it says changes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ghapp import work
from ghapp.errors import BudgetSpentError, GitHubError, PermissionMissingError, RateLimitedError
from ghapp.github.checks import Checks
from ghapp.health.attempt import next_attempt
from ghapp.health.cadence import Purpose
from ghapp.health.cluster.clusterside import ClusterSide, namespaces_of
from ghapp.health.installation import Installation
from ghapp.health.posting import Head, Next, Posted, Setback, Standing, next_of, repository_of
from ghapp.health.report import Fleet, Report, report_on
from ghapp.log import logger
from ghapp.store.claims import OUTLIVING_SECONDS
from ghapp.store.fuses import WHOLE_ORG
from jobs.clusterside import in_the_way, leaks_of, look_at_cluster, not_seen
from jobs.house import House, furnished, open_house

log = logger(__name__)


class Outcome(StrEnum):
    """What became of a report, as it is counted."""

    NOTHING_TO_DO = "nothing-to-do"
    CREATED = "created"
    UPDATED = "updated"
    PERMISSION_MISSING = "permission-missing"
    REPOSITORY_MISSING = "repository-missing"
    HEAD_UNKNOWN = "head-unknown"
    REFUSED = "refused"
    NOT_NOW = "not-now"
    UNAVAILABLE = "unavailable"


SETBACKS: Mapping[Outcome, float] = {
    Outcome.PERMISSION_MISSING: 300.0,
    Outcome.REPOSITORY_MISSING: 300.0,
    Outcome.HEAD_UNKNOWN: 300.0,
    Outcome.REFUSED: 300.0,
    Outcome.NOT_NOW: 0.0,
    Outcome.UNAVAILABLE: 0.0,
}
"""Seconds in which GitHub is not asked again. Those without a wait are tried again when the clock next asks."""

WHYS: Mapping[Outcome, str] = {
    Outcome.PERMISSION_MISSING: "the installation has not granted checks: write",
    Outcome.REPOSITORY_MISSING: "GitHub shows no such repository to this installation",
    Outcome.HEAD_UNKNOWN: "no workflow ran on its default branch, and no push was told of since; push to it",
    Outcome.REFUSED: "GitHub does not know the commit, or the repository, any more",
}
"""Where GitHub's own words are not at hand."""

FAILURES: Mapping[type[GitHubError], Outcome] = {
    PermissionMissingError: Outcome.PERMISSION_MISSING,
    RateLimitedError: Outcome.NOT_NOW,
    BudgetSpentError: Outcome.NOT_NOW,
}


def ask_for_report(house: House, installation: Installation) -> None:
    """Have some worker look whether there is something to say, if the org has somewhere to say it.

    Where its pools have pods it is also asked to look at those, though there be no check run: commands tell of them.
    """
    has_pods = bool(namespaces_of(house.settings.pools_of(installation.org)))
    if has_pods or repository_for(house, installation) is not None:
        work.ask_for_report(house.desk, installation.id)


def repository_for(house: House, installation: Installation) -> str | None:
    """Where an org's check run is posted; None for no report."""
    repository = repository_of(house.settings.of(installation.org).report.repository, installation.org)
    return None if repository is None else installation.at_github(repository)


async def report(installation_id: int) -> None:
    """The job: on behalf of the clock, and of whoever changed something."""
    async with open_house(furnished()) as house:
        await report_installation(house, installation_id)


async def report_installation(house: House, installation_id: int) -> Outcome:
    """Post what is to be said, if it is not what the newest head says already.

    One process at a time posts, and looks for a check run of ours before it creates one: a crash between the
    creation and its record leaves one check run.
    """
    async with house.claims.hold("report", installation_id, OUTLIVING_SECONDS) as mine:
        installation = await house.installations.one(installation_id)
        if not mine or installation is None or installation.suspended:
            return Outcome.NOTHING_TO_DO
        now, repository = house.clock(), repository_for(house, installation)
        side = await look_at_cluster(house, installation, now)
        if repository is None:
            return Outcome.NOTHING_TO_DO
        said = report_on(await _fleet(house, installation, side, now), now)
        standing = (await house.reports.standing(installation_id)).at(repository)
        if next_of(standing, said.digest, now) is Next.NOTHING:
            return Outcome.NOTHING_TO_DO
        why = ""
        try:
            outcome = await _post(house, installation, repository, standing, said, now)
        except GitHubError as error:
            outcome, why = FAILURES.get(type(error), Outcome.UNAVAILABLE), str(error)
        await _account(house, installation, repository, outcome, why, now)
    return outcome


async def _fleet(house: House, installation: Installation, side: ClusterSide | None, now: float) -> Fleet:
    policy = house.settings.of(installation.org)
    pauses = await house.fuses.pauses(installation.id)
    survey = await house.runners.survey(installation.id)
    sweep_at, discovery_at = await house.schedule.next(installation.id), await house.schedule.next_discovery()
    return Fleet(
        org=installation.org,
        web_url=house.settings.web_url,
        runners=(await house.runners.all(installation.id)).values(),
        survey=survey,
        fuses=await house.fuses.all(installation.id),
        pauses={pool: pause for pool, pause in pauses.items() if pool != WHOLE_ORG},
        org_pause=pauses.get(WHOLE_ORG),
        rules=house.settings.pools_of(installation.org),
        mode=policy.remediation.mode,
        limits=policy.evidence,
        phantoms=side.phantoms if side else (),
        deaths=side.deaths if side else (),
        unseen=await not_seen(house, installation, now),
        hindrances=await in_the_way(house, installation),
        leaks=await leaks_of(house, installation, now),
        login=installation.login,
        attempt=next_attempt(installation, survey, sweep_at, discovery_at, now),
    )


async def _post(
    house: House, installation: Installation, repository: str, standing: Standing, said: Report, now: float
) -> Outcome:
    if not installation.may("checks", "write"):
        return Outcome.PERMISSION_MISSING
    tenant = await house.tenant(installation, Purpose.REPORT)
    checks = Checks(tenant, repository, house.settings.public_url)
    standing = standing._replace(setback=None)
    if next_of(standing, said.digest, now) is Next.LOOK:
        branch = await checks.default_branch()
        if branch is None:
            return Outcome.REPOSITORY_MISSING
        standing = standing._replace(head=await _look_for_head(house, checks, branch, standing.head, now))
    if standing.head is None:
        return Outcome.HEAD_UNKNOWN
    posted, sha = standing.posted, standing.head.sha
    check_run: int | None
    match next_of(standing, said.digest, now):
        case Next.NOTHING:
            return Outcome.NOTHING_TO_DO
        case Next.UPDATE if posted is not None and await checks.update(posted.check_run, said):
            check_run, outcome = posted.check_run, Outcome.UPDATED
        case _:
            check_run, outcome = await _post_anew(checks, sha, said)
    if check_run is None:
        await house.reports.forget_head(installation.id)
        return outcome
    await house.reports.posted(installation.id, Posted(repository, sha, check_run, said.digest))
    log.info(
        "reported",
        installation=installation.id,
        org=installation.org,
        repository=repository,
        check_run=check_run,
        outcome=outcome.value,
        conclusion=said.conclusion,
    )
    return outcome


async def _look_for_head(house: House, checks: Checks, branch: str, known: Head | None, now: float) -> Head | None:
    """Where the branch is, by GitHub's answer; what deliveries told stands where GitHub has no newer word."""
    found = await checks.head(branch, now)
    if found is None and known is not None and known.branch == branch:
        found = known._replace(confirmed_at=now)
    return None if found is None else await house.reports.tell_head(checks.installation.id, found)


async def _post_anew(checks: Checks, sha: str, said: Report) -> tuple[int | None, Outcome]:
    """On a commit where we know of no check run of ours; there may be one all the same."""
    found = await checks.find(sha)
    if found is not None and await checks.update(found, said):
        return found, Outcome.UPDATED
    created = await checks.create(sha, said)
    return created, Outcome.REFUSED if created is None else Outcome.CREATED


async def _account(
    house: House, installation: Installation, repository: str, outcome: Outcome, why: str, now: float
) -> None:
    """Count it; a setback is recorded, and logged when it is another one than before."""
    if outcome is Outcome.NOTHING_TO_DO:
        return
    await house.counters.add("ghapp_reports_total", org=installation.org, outcome=outcome.value)
    if outcome not in SETBACKS:
        return
    setback = Setback(repository, outcome.value, now + SETBACKS[outcome])
    if await house.reports.put_off(installation.id, setback):
        log.warning(
            "not reported",
            installation=installation.id,
            org=installation.org,
            repository=repository,
            reason=outcome.value,
            why=why or WHYS[outcome],
        )
