"""The pools' controllers: whether one listens where the replacements are asked for."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from ghapp.doctor.finding import Finding, ok, wrong
from ghapp.settings import Settings

GROUP = "controllers"
CONNECT_SECONDS = 2.0
HTTP, HTTPS = 80, 443


async def look(settings: Settings) -> list[Finding]:
    """Connect to each, and say nothing: a request might mean something to a controller."""
    pools = [(pool, pool.url) for pool in settings.pools if pool.url]
    problems = await asyncio.gather(*(_problem(url) for _, url in pools))
    return [of_url(pool.org, pool.name, url, problem) for (pool, url), problem in zip(pools, problems, strict=True)]


async def _problem(url: str) -> str | None:
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            port = parts.port or (HTTPS if parts.scheme == "https" else HTTP)
            _, writer = await asyncio.open_connection(parts.hostname, port)
        writer.close()
    except TimeoutError:
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return None


def of_url(org: str, pool: str, url: str, problem: str | None) -> Finding:
    """Whether a pool's controller can be reached."""
    name = f"controller of {pool}"
    if problem is None:
        return ok(GROUP, name, url, org)
    return wrong(GROUP, name, f"{url}: {problem}", "start it, or mend the pool's url", org)
