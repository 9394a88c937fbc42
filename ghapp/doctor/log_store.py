"""The log store that is asked for a death's surroundings: whether it answers."""

from __future__ import annotations

import asyncio

import httpx

from ghapp.doctor.finding import Finding, ok, warning
from ghapp.settings import Settings

GROUP = "cluster"
SECONDS = 3.0
PATH = "/loki/api/v1/labels"
"""Answered by every store that speaks Loki's language; hosted ones have no /ready."""


async def look(settings: Settings) -> list[Finding]:
    """Ask for the names of its labels, where one is configured."""
    if settings.loki_url is None:
        return []
    url = httpx.URL(settings.loki_url.rstrip("/") + PATH)
    try:
        # A user and a password in the address are sent as basic auth. No more is read of the answer than its head.
        async with (
            asyncio.timeout(SECONDS),
            httpx.AsyncClient(timeout=SECONDS) as client,
            client.stream("GET", url) as answer,
        ):
            problem = None if answer.is_success else f"it answered {answer.status_code}"
    except TimeoutError:
        problem = f"no answer within {SECONDS:.0f} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ValueError) as error:
        problem = f"no answer ({type(error).__name__})"
    return [of_store(url.netloc.decode("ascii", "replace"), problem)]


def of_store(name: str, problem: str | None) -> Finding:
    """Whether it can be asked; deaths are told without it, too."""
    if problem is None:
        return ok(GROUP, "log store", name)
    fix = "check GHAPP_LOKI_URL, and its user, password or tenant; deaths are told without what surrounded them"
    return warning(GROUP, "log store", f"{name}: {problem}", fix)
