"""Runs all checks; continues after each failure, and always ends within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ghapp.doctor import active_shard, cluster, controllers, github, installations, notifications, redis, roles
from ghapp.doctor.configuration import of_configuration
from ghapp.doctor.finding import Finding, FindingStatus, warning
from ghapp.doctor.probe import DetachedThreads, probe
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


async def examine(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Returns all findings, sorted by group and org. Ends within seconds; a failed check does not stop the others."""
    asyncio.get_running_loop().set_default_executor(DetachedThreads())
    of_redis, url = await _redis_and_roles(settings)
    current = None if any(map(_is_refusal, of_redis)) else settings.redis_url
    at_github, of_controllers, of_cluster, of_shards, of_notifications = await asyncio.gather(
        _github(settings),
        controllers.check(settings),
        cluster.check(settings, current),
        active_shard.check(settings, current),
        notifications.check(settings, current),
    )
    found = [*of_configuration(settings, environ), *of_redis, *at_github.findings]
    found += await installations.check(settings, url, at_github.installed)
    return sorted(
        [*found, *of_controllers, *of_shards, *of_cluster, *of_notifications],
        key=lambda each: (GROUPS.index(each.group), (each.org or "").lower()),
    )


async def examine_for_page(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Returns the findings that the web role can get with its own rights, sorted as by `examine`.

    It runs no command of a pool, asks no controller, cluster, log store or receiver of notifications, and spends no
    installation's calls.
    """
    asyncio.get_running_loop().set_default_executor(DetachedThreads())
    (of_redis, url), at_github = await asyncio.gather(_redis_and_roles(settings), _github(settings))
    found = [*of_configuration(settings, environ), *of_redis, *at_github.findings]
    found += await installations.check(settings, url, at_github.installed, ask_for_repositories=False)
    return sorted(found, key=lambda each: (GROUPS.index(each.group), (each.org or "").lower()))


async def _redis_and_roles(settings: Settings) -> tuple[list[Finding], str | None]:
    """Returns the findings about Redis and the roles, and the URL of Redis if it answers."""
    url = settings.redis_url
    if url is None:
        fix = "run `ghapp up` here, which starts a local Redis, or set GHAPP_REDIS_URL"
        return [warning("redis", "url", "GHAPP_REDIS_URL is not set", fix)], None
    found = await probe("redis", "answers", lambda: redis.check(url), "check GHAPP_REDIS_URL, and start Redis")
    if found[0].status is FindingStatus.WRONG:  # no connection at all
        return found, None
    if any(map(_is_refusal, found)):  # the heartbeats of live roles expire, too
        text = "unknown, as is what they record about the cluster: Redis accepts no writes"
        return [*found, warning("roles", "roles", text, installations.REDIS_FAILED)], url
    return [*found, *await probe("roles", "roles", lambda: roles.check(url), installations.REDIS_FAILED)], url


def _is_refusal(finding: Finding) -> bool:
    """True if Redis rejects writes."""
    return (finding.group, finding.name, finding.status) == (redis.GROUP, redis.WRITING, FindingStatus.WRONG)


async def _github(settings: Settings) -> github.GitHubProbe:
    """Returns the findings about GitHub; none without App credentials."""
    if settings.credentials is None:
        return github.GitHubProbe([])
    return await github.check(settings, settings.credentials)
