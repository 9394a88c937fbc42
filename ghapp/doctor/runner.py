"""Runs all checks; continues after each failure, and always ends within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from ghapp.doctor import cluster, controllers, github, log_store, pod_locations, redis, roles, watch
from ghapp.doctor.configuration import of_configuration
from ghapp.doctor.finding import DetachedThreads, Finding, FindingStatus, probe, warning
from ghapp.gate import doctor as active_shard
from ghapp.installations import doctor as installations
from ghapp.leaks import doctor as reaper
from ghapp.notifications import doctor as notifications
from ghapp.settings import Settings

GROUPS = (
    "configuration",
    "redis",
    "roles",
    "github",
    "deliveries",
    "installations",
    "controllers",
    "cluster",
    "notifications",
)
"""In the order in which problems should be fixed."""


class RedisProbe(NamedTuple):
    """The findings about Redis and the roles.

    Attributes:
        findings: these.
        url: of Redis, if it answers; else None.
        started_at: when the oldest live worker started (epoch seconds); None if that is unknown, or none is alive.
    """

    findings: list[Finding]
    url: str | None = None
    started_at: float | None = None

    @property
    def writable_url(self) -> str | None:
        """The URL of Redis if it accepts writes: else what the roles recorded there is out of date."""
        return None if any(map(_is_refusal, self.findings)) else self.url


async def examine(settings: Settings, environ: Mapping[str, str], *, by_web_role: bool = False) -> list[Finding]:
    """Returns all findings, sorted by group and org. Ends within seconds; a failed check does not stop the others.

    Args:
        settings: what is configured.
        environ: the environment variables.
        by_web_role: only the findings that the web role can get with its own rights. It runs no command of a pool, asks
            no controller, cluster, log store or receiver of notifications, and spends no installation's calls. Of the
            cluster it has what the watch and the reaper recorded.
    """
    asyncio.get_running_loop().set_default_executor(DetachedThreads())
    of_redis = await _redis_and_roles(settings)
    url, records_url, started_at = of_redis.url, of_redis.writable_url, of_redis.started_at
    at_github = await _github(settings, started_at)
    checks = [
        installations.check(settings, url, at_github.installed, started_at, ask_for_repositories=not by_web_role),
        watch.check(settings, records_url),
        pod_locations.check(settings, records_url),
        reaper.check(settings, records_url, started_at),
    ]
    if not by_web_role:
        checks = [
            controllers.check(settings),
            active_shard.check(settings, records_url, started_at),
            cluster.check(settings),
            *checks,
            log_store.check(settings),
            notifications.check(settings, records_url),
        ]
    has_workers = started_at is not None  # they may have a part of the configuration that is missing here
    found = [*of_configuration(settings, environ, has_workers=has_workers), *of_redis.findings, *at_github.findings]
    found += chain.from_iterable(await asyncio.gather(*checks))
    return sorted(found, key=lambda each: (GROUPS.index(each.group), (each.org or "").lower()))


async def _redis_and_roles(settings: Settings) -> RedisProbe:
    url = settings.redis_url
    if url is None:
        fix = "set GHAPP_URL to ask a server, or GHAPP_REDIS_URL; or run `ghapp up` here, which starts a local Redis"
        return RedisProbe([warning("redis", "url", "GHAPP_REDIS_URL is not set", fix)])
    found = await probe("redis", "answers", lambda: redis.check(url), "check GHAPP_REDIS_URL, and start Redis")
    if found[0].status is FindingStatus.WRONG:  # no connection at all
        return RedisProbe(found)
    if any(map(_is_refusal, found)):  # the heartbeats of live roles expire, too
        text = "unknown, as is what they record about the cluster: Redis accepts no writes"
        return RedisProbe([*found, warning("roles", "roles", text, installations.REDIS_FAILED)], url)
    started_at: float | None = None

    async def check_roles() -> list[Finding]:
        nonlocal started_at
        of_roles = await roles.check(url, has_app=settings.credentials is not None)
        started_at = of_roles.started_at
        return of_roles.findings

    found += await probe("roles", "roles", check_roles, installations.REDIS_FAILED)
    return RedisProbe(found, url, started_at)


def _is_refusal(finding: Finding) -> bool:
    """True if Redis rejects writes."""
    return (finding.group, finding.name, finding.status) == (redis.GROUP, redis.WRITING, FindingStatus.WRONG)


async def _github(settings: Settings, started_at: float | None) -> github.GitHubProbe:
    """Returns the findings about GitHub; none without App credentials. `started_at`: when the workers started."""
    if settings.credentials is None:
        return github.GitHubProbe([])
    return await github.check(settings, settings.credentials, started_at)
