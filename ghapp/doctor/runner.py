"""Look everywhere, go on after each failure, and never hang."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ghapp.doctor import active_shard, cluster, controllers, github, installations, redis, roles
from ghapp.doctor.configuration import of_configuration
from ghapp.doctor.finding import Finding, FindingStatus, warning
from ghapp.doctor.probe import DetachedThreads, probe
from ghapp.settings import Settings

GROUPS = ("configuration", "redis", "roles", "github", "deliveries", "installations", "controllers", "cluster")
"""In the order in which to mend them."""


async def examine(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Everything there is to find, by group and org. Ends within seconds, and is not stopped by what it finds."""
    asyncio.get_running_loop().set_default_executor(DetachedThreads())
    (ours, url), seen, reached, watched, shards = await asyncio.gather(
        _ours(settings),
        _theirs(settings),
        controllers.look(settings),
        cluster.look(settings, settings.redis_url),
        active_shard.look(settings, settings.redis_url),
    )
    found = [*of_configuration(settings, environ), *ours, *seen.findings]
    found += await installations.look(settings, url, seen.installed)
    return sorted(
        [*found, *reached, *shards, *watched], key=lambda each: (GROUPS.index(each.group), (each.org or "").lower())
    )


async def _ours(settings: Settings) -> tuple[list[Finding], str | None]:
    """Of Redis and of those who work; and Redis' URL, when it answers."""
    url = settings.redis_url
    if url is None:
        fix = "start `ghapp up` here, which embeds one, or set GHAPP_REDIS_URL"
        return [warning("redis", "url", "GHAPP_REDIS_URL is not set", fix)], None
    found = await probe("redis", "answers", lambda: redis.look(url), "check GHAPP_REDIS_URL, and start Redis")
    if found[0].status is FindingStatus.WRONG:  # it does not even answer
        return found, None
    return [*found, *await probe("roles", "roles", lambda: roles.look(url), installations.BROKE_OFF)], url


async def _theirs(settings: Settings) -> github.GitHubProbe:
    """Of GitHub, where there is an App to ask as."""
    if settings.credentials is None:
        return github.GitHubProbe([])
    return await github.look(settings, settings.credentials)
