"""Checks the log store, which supplies the log lines of a post-mortem: whether it answers and has the needed logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import httpx

from ghapp.doctor.finding import Finding, ok, warning
from ghapp.errors import LogStoreUnavailableError
from ghapp.loki.client import JOURNAL_SELECTORS, LogStore, runners_selector
from ghapp.settings import Settings

GROUP = "cluster"
SECONDS = 3.0
"""Time limit of all queries together."""

PATH = "/loki/api/v1/labels"
"""Answered by every store with Loki's API; hosted ones have no /ready."""

LOOK_BACK_SECONDS = 86_400.0
"""A store without a line of this age or younger for some labels is reported, even if no runner ran in that time."""

RUNNERS, JOURNALS = "logs of runners", "journals of nodes"
SHIP = {
    RUNNERS: "ship the logs of the runners' pods with the labels namespace and pod",
    JOURNALS: "ship the nodes' journals with the labels job and instance",
}


async def check(settings: Settings) -> list[Finding]:
    """Queries the label names, if a log store is configured; then a line of each source that post-mortems need."""
    if settings.loki_url is None:
        return []
    url = httpx.URL(settings.loki_url.rstrip("/") + PATH)
    name = url.netloc.decode("ascii", "replace")
    try:
        async with asyncio.timeout(SECONDS):
            problem = await _problem(url)
            found = [of_store(name, problem)]
            if problem is None and settings.namespaces:
                found += await _contents(settings.loki_url, settings.namespaces)
    except TimeoutError:
        return [of_store(name, f"no answer within {SECONDS:.0f} s")]
    except LogStoreUnavailableError as error:
        return [of_store(name, str(error))]
    return found


async def _problem(url: httpx.URL) -> str | None:
    """Returns why the store cannot be queried; None when it answers."""
    try:
        # A user and a password in the URL are sent as basic auth. Only the head of the answer is read.
        async with httpx.AsyncClient(timeout=SECONDS) as client, client.stream("GET", url) as answer:
            return None if answer.is_success else f"it answered {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ValueError) as error:
        return f"no answer ({type(error).__name__})"


async def _contents(url: str, namespaces: Sequence[str]) -> list[Finding]:
    runners = [(f"{RUNNERS} in {each}", RUNNERS, [runners_selector(each)]) for each in namespaces]
    asked = [*runners, (JOURNALS, JOURNALS, [*JOURNAL_SELECTORS])]
    now = time.time()
    async with LogStore.open(url) as logs:

        async def has_lines(selectors: Sequence[str]) -> bool:
            answers = (logs.has_lines(each, now - LOOK_BACK_SECONDS, now) for each in selectors)
            return any(await asyncio.gather(*answers))

        results = await asyncio.gather(*(has_lines(selectors) for *_, selectors in asked))
    return [
        of_contents(name, kind, selectors, has_lines=each)
        for (name, kind, selectors), each in zip(asked, results, strict=True)
    ]


def of_store(name: str, problem: str | None) -> Finding:
    """Reports whether the log store answers; without it, post-mortems still work but lack its lines."""
    if problem is None:
        return ok(GROUP, "log store", name)
    fix = "check GHAPP_LOKI_URL, and its user, password or tenant; post-mortems lack runner and host logs until then"
    return warning(GROUP, "log store", f"{name}: {problem}", fix)


def of_contents(name: str, kind: str, selectors: Sequence[str], *, has_lines: bool) -> Finding:
    """Reports whether the store has recent lines of a source.

    Args:
        name: name of the finding.
        kind: `RUNNERS` or `JOURNALS`.
        selectors: the LogQL selectors that were queried.
        has_lines: True if any of them matched a line.
    """
    if has_lines:
        return ok(GROUP, name, "the log store has lines of the last day")
    text = f"the log store has no lines of the last day for {' or '.join(selectors)}"
    fix = f"{SHIP[kind]}, as manifests/observability/alloy-values.yaml does; post-mortems lack them until then"
    return warning(GROUP, name, text, fix)
