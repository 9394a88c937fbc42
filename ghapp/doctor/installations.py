"""Each organization: what it lets us do, whether it is looked at, and what holds us back."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from redis.asyncio import Redis

from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.doctor.looking import connected, looked
from ghapp.health.cadence import left
from ghapp.health.document import timestamp
from ghapp.health.evidence import Survey
from ghapp.health.fuse import Fuse, Position
from ghapp.health.installation import Installation, known_as, misnomer
from ghapp.health.posting import Setback, repository_of
from ghapp.settings import Settings
from ghapp.store.budget import Budget
from ghapp.store.fuses import WHOLE_ORG, Fuses, Pause
from ghapp.store.installations import Installations
from ghapp.store.reports import Reports
from ghapp.store.runners import Runners

GROUP = "installations"
STALE_SWEEPS = 3
"""Intervals without a sweep that are still nothing to worry about."""

BROKE_OFF = "Redis went away, or its user there may not read our keys; see redis, above"


async def look(settings: Settings, url: str | None, told: Sequence[Installation] | None) -> list[Finding]:
    """What GitHub says of each, and what we know of it.

    Args:
        settings: names orgs, and their pools.
        url: of Redis; None when it is away.
        told: where GitHub says that the App is installed; None when it does not say: then what we last heard.
    """
    known = list(told) if told is not None else None

    async def recall() -> list[Finding]:
        nonlocal known
        if url is None:
            return []
        async with connected(url) as redis:
            records = await Installations(redis, settings.named).all()
            known = records if known is None else [known_as(each, records, settings.named) for each in known]
            return [each for installation in known for each in await _recall(settings, redis, installation)]

    recalled = await looked(GROUP, "records", recall, BROKE_OFF)
    if known is None:
        return recalled
    found = [] if known else [warning(GROUP, "installed", "nowhere yet", "install the App on an organization")]
    for installation in known:
        has_pool = bool(settings.pools_of(installation.org))
        found += of_name(installation, settings.named)
        found += of_installation(installation, settings.web_url, has_pool=has_pool)
    return [*found, *recalled, *of_unknown_orgs(settings, [name for each in known for name in each.own])]


async def _recall(settings: Settings, redis: Redis, installation: Installation) -> list[Finding]:
    now, policy, org = time.time(), settings.of(installation.org), installation.org
    survey = await Runners(redis).survey(installation.id)
    allowance = await Budget(redis).left(installation.id, now)
    repository = repository_of(policy.report.repository, org)
    fuses, pauses = Fuses(redis), await Fuses(redis).pauses(installation.id)
    setback = (await Reports(redis).standing(installation.id)).setback
    return [
        *of_sweeps(org, survey, policy.sweep.interval_seconds, now),
        *of_budget(org, left(allowance, policy.budget)),
        *of_remediation(org, await fuses.all(installation.id), pauses),
        *of_report(org, installation.at_github(repository) if repository else None, setback),
    ]


def of_name(installation: Installation, named: Collection[str]) -> list[Finding]:
    """Whether it was renamed, and the configuration has not followed."""
    found = misnomer(installation, named)
    return [] if found is None else [warning(GROUP, "name", found.said, found.fix, installation.org)]


def of_installation(installation: Installation, web_url: str, *, has_pool: bool) -> list[Finding]:
    """What an organization lets the App do."""
    org = installation.org
    page = f"{web_url}/organizations/{installation.called}/settings/installations/{installation.id}"
    if installation.suspended:
        return [wrong(GROUP, "suspended", "the organization suspended the App", f"unsuspend it at {page}", org)]
    if missing := installation.missing():
        found = [
            wrong(GROUP, "permissions", f"not granted: {', '.join(missing)}", f"an owner accepts them at {page}", org)
        ]
    else:
        found = [ok(GROUP, "permissions", "all are granted", org)]
    if not has_pool:
        fix = f'add [[pools]] with org = "{org}", if lost runners are to be replaced'
        found.append(warning(GROUP, "pools", "no pool is configured for it", fix, org))
    return found


def of_sweeps(org: str, survey: Survey, interval: float, now: float) -> list[Finding]:
    """Whether it is being looked at."""
    if survey.failing_since is not None:
        said = f"no complete list since {timestamp(survey.failing_since)}: {survey.failure}"
        return [wrong(GROUP, "sweeps", said, f"run `ghapp sweep --org {org} --dry-run` to see why", org)]
    if survey.swept_at is None:
        return [warning(GROUP, "sweeps", "never swept", "wait a minute; then see roles, above", org)]
    age = now - survey.swept_at
    if age > STALE_SWEEPS * interval:
        fix = "see the clock and the workers, above, or the budget, below"
        return [warning(GROUP, "sweeps", f"last swept {age:.0f} s ago", fix, org)]
    return [ok(GROUP, "sweeps", f"{survey.total} runners, {age:.0f} s ago", org)]


def of_budget(org: str, left: int) -> list[Finding]:
    """How many calls are left to sweeps in this hour."""
    if left:
        return [ok(GROUP, "budget", f"{left} calls left for sweeps", org)]
    fix = "raise [budget] share, or [sweep] interval_seconds; it begins anew within the hour"
    return [warning(GROUP, "budget", "the share of sweeps is spent", fix, org)]


def of_remediation(org: str, fuses: Mapping[str, Fuse], pauses: Mapping[str, Pause]) -> list[Finding]:
    """What holds it back."""
    found = []
    for pool, fuse in fuses.items():
        if fuse.position is Position.STOPPED:
            fix = f"find out why, then `ghapp resume {org} --pool {pool}`"
            found.append(wrong(GROUP, f"fuse {pool}", f"stopped: {fuse.reason}", fix, org))
        elif fuse.position is Position.PROVING:
            fix = "watch it: it goes on by itself when replacements come online"
            found.append(warning(GROUP, f"fuse {pool}", f"proving: {fuse.reason}", fix, org))
    for pool, pause in pauses.items():
        fix = f"`ghapp resume {org}`" if pool == WHOLE_ORG else f"`ghapp resume {org} --pool {pool}`"
        said = f"paused by {pause.who} since {timestamp(pause.at)}: {pause.why}"
        found.append(warning(GROUP, f"pause {pool}", said, fix, org))
    return found


def of_report(org: str, repository: str | None, setback: Setback | None) -> list[Finding]:
    """Whether admins see the check run."""
    if repository is None:
        return []
    if setback is None:
        return [ok(GROUP, "report", repository, org)]
    fix = "the App needs checks: write there, the repository must be among those it may see, and have a commit"
    return [warning(GROUP, "report", f"not posted to {repository}: {setback.reason}", fix, org)]


def of_unknown_orgs(settings: Settings, installed: Iterable[str]) -> list[Finding]:
    """Orgs that the configuration names and where the App is not installed."""
    named = {pool.org.lower(): pool.org for pool in settings.pools} | {org: org for org in settings.org_policies}
    there = {org.lower() for org in installed}
    said = "the configuration names it, and the App is not installed there"
    fix = "install the App there, or mend the name: it may have been renamed before the App was installed there"
    return [wrong(GROUP, "installed", said, fix, org) for login, org in sorted(named.items()) if login not in there]
