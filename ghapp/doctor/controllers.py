"""Checks that a controller listens at each pool's url, where replacements are requested."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

import httpx

from ghapp.doctor.finding import Finding, ok, wrong
from ghapp.settings import Settings

GROUP = "controllers"
CONNECT_SECONDS = 2.0
HTTP, HTTPS = 80, 443


async def check(settings: Settings) -> list[Finding]:
    """Connects to each controller and sends no data: a request might have an effect there."""
    pools = [(pool, pool.url) for pool in settings.pools if pool.url]
    problems = await asyncio.gather(*(_problem(url) for _, url in pools))
    return [of_url(pool.org, pool.name, url, problem) for (pool, url), problem in zip(pools, problems, strict=True)]


async def _problem(url: str) -> str | None:
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            # The same trust store as the sender of events.
            tls = httpx.create_ssl_context() if parts.scheme == "https" else None
            port = parts.port or (HTTPS if tls else HTTP)
            _, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
        writer.close()
    except TimeoutError:
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}"
    except ssl.SSLError as error:
        return f"its TLS handshake failed: {error.reason or error}"
    except OSError as error:
        return error.strerror or str(error)
    return None


def of_url(org: str, pool: str, url: str, problem: str | None) -> Finding:
    """Reports whether a pool's controller accepts connections; `problem` is None if it does."""
    name = f"controller of {pool}"
    if problem is None:
        return ok(GROUP, name, url, org)
    fix = "start it, or fix the pool's url"
    if url.startswith("https:"):
        fix = "start it, or fix its certificate (SSL_CERT_FILE names further CAs) or the pool's url"
    return wrong(GROUP, name, f"{url}: {problem}", fix, org)
