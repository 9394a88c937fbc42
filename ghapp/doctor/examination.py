"""Look everywhere, go on after each failure, and never hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ghapp import work
from ghapp.credentials import AppCredentials
from ghapp.doctor import findings
from ghapp.doctor.findings import Finding, warning, wrong
from ghapp.errors import GhappError, UnauthorizedError
from ghapp.health.cadence import left
from ghapp.health.installation import Installation
from ghapp.health.posting import repository_of
from ghapp.settings import Settings
from ghapp.store.budget import Budget, skew
from ghapp.store.connect import connect, connect_sync
from ghapp.store.credentials import Credentials
from ghapp.store.fuses import Fuses
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.inbox import Inbox
from ghapp.store.installations import Installations
from ghapp.store.reports import Reports
from ghapp.store.runners import Runners

PATIENCE_SECONDS = 6.0
CONNECT_SECONDS = 2.0

Look = Callable[[], Awaitable[list[Finding]]]


async def examine(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Everything there is to find, in the order in which to mend it. Never raises, and ends within seconds."""
    found = findings.of_configuration(settings, environ)
    found += await _looked("redis", "answers", lambda: _redis(settings), "check GHAPP_REDIS_URL, and start Redis")
    is_there = all(each.status != "wrong" for each in found if each.group == "redis")
    if is_there:
        found += await _looked("roles", "roles", lambda: _roles(settings), "see the error")
    if settings.credentials is not None:
        credentials = settings.credentials
        found += await _looked("github", "app", lambda: _github(settings, credentials), _unreachable(settings))
    if is_there:
        found += await _looked("installations", "installations", lambda: _installations(settings), "see the error")
    found += await asyncio.gather(*(_controller(pool.org, pool.name, pool.url) for pool in settings.pools if pool.url))
    return found


async def _looked(group: str, name: str, look: Look, fix: str) -> list[Finding]:
    """What a look finds; or that it failed, which is a finding, too."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await look()
    except TimeoutError:
        return [wrong(group, name, f"no answer within {PATIENCE_SECONDS:.0f} s", fix)]
    except UnauthorizedError:
        fix = "GHAPP_APP_ID and the private key must be of the same App; make a new key in its settings on GitHub"
        return [wrong(group, name, "GitHub does not accept the App's id and key", fix)]
    except (GhappError, RedisError, OSError) as error:
        return [wrong(group, name, str(error), fix)]


async def _redis(settings: Settings) -> list[Finding]:
    if settings.redis_url is None:
        return [warning("redis", "url", "GHAPP_REDIS_URL is not set", "only `ghapp up` does without: it embeds one")]
    async with _connected(settings.redis_url) as redis:
        began = time.monotonic()
        await redis.ping()
        milliseconds = 1000 * (time.monotonic() - began)
        info: Any = await redis.info()
        try:
            told: Any = await redis.config_get("maxmemory-policy")
            policy = str(told.get("maxmemory-policy", ""))
        except ResponseError:  # managed Redis servers do not tell
            policy = str(info.get("maxmemory_policy", ""))
    return findings.of_redis(settings.redis_url, milliseconds, info, policy)


async def _roles(settings: Settings) -> list[Finding]:
    if settings.redis_url is None:
        return []
    async with _connected(settings.redis_url) as redis:
        now, inbox = time.time(), Inbox(redis)
        clocks = await Heartbeats(redis).alive("clock", now)
        load = await asyncio.to_thread(_load, settings.redis_url)
        return [
            *findings.of_roles(load.workers, clocks, load.waiting, load.failed),
            *findings.of_inbox(await inbox.lag(), await inbox.dead_letters()),
        ]


def _load(url: str) -> work.Load:
    desk = connect_sync(url)
    try:
        return work.load(desk)
    finally:
        desk.close()


async def _github(settings: Settings, credentials: AppCredentials) -> list[Finding]:
    from ghapp.github.api import GitHub
    from ghapp.github.app import hook, latest_deliveries, registration

    # Nothing is asked of Redis here: the App itself needs no installation's token, and spends no budget of one.
    async with _connected(settings.redis_url or "redis://") as redis:
        vault, meter = Credentials(redis, credentials.private_key), Budget(redis)
        async with GitHub.open(settings.api_url, credentials, vault, meter) as github:
            app, date = await registration(github)
            found = findings.of_app(app, skew(date, time.time()))
            return found + findings.of_hook(await hook(github), await latest_deliveries(github), settings.public_url)


async def _installations(settings: Settings) -> list[Finding]:
    if settings.redis_url is None:
        return []
    async with _connected(settings.redis_url) as redis:
        installed = await Installations(redis).all()
        found = (
            [] if installed else [warning("installations", "installed", "nowhere yet", "install the App; see above")]
        )
        for installation in installed:
            found += await _installation(settings, redis, installation)
        return found + findings.of_unknown_orgs(settings, [each.org for each in installed])


async def _installation(settings: Settings, redis: Redis, installation: Installation) -> list[Finding]:
    now, policy, org = time.time(), settings.of(installation.org), installation.org
    survey = await Runners(redis).survey(installation.id)
    allowance = await Budget(redis).left(installation.id, now)
    repository = repository_of(policy.report.repository, org)
    has_pool = bool(settings.pools_of(org))
    return [
        *findings.of_installation(installation, settings.web_url, has_pool=has_pool),
        *findings.of_sweeps(org, survey, policy.sweep.interval_seconds, left(allowance, policy.budget), now),
        *findings.of_remediation(
            org, await Fuses(redis).all(installation.id), await Fuses(redis).pauses(installation.id)
        ),
        *findings.of_report(org, repository, (await Reports(redis).standing(installation.id)).setback),
    ]


async def _controller(org: str, pool: str, url: str) -> Finding:
    """Connect, and say nothing: no request means nothing to a controller."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    problem = None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
        writer.close()
    except TimeoutError:
        problem = f"no connection within {CONNECT_SECONDS:.0f} s"
    except OSError as error:
        problem = error.strerror or type(error).__name__
    return findings.of_url(org, pool, url, problem)


def _unreachable(settings: Settings) -> str:
    return f"check that this machine reaches {settings.api_url}, and GHAPP_GITHUB_API_URL"


@asynccontextmanager
async def _connected(url: str) -> Any:
    redis = connect(url)
    try:
        yield redis
    finally:
        await redis.aclose()
