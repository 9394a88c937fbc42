"""The log store that is asked for a death's surroundings: whether it answers, and holds what is asked for."""

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
"""For all questions."""

PATH = "/loki/api/v1/labels"
"""Answered by every store that speaks Loki's language; hosted ones have no /ready."""

LOOK_BACK_SECONDS = 86_400.0
"""A store that holds nothing so recent for some labels is told, even where no runner lived in that time."""

RUNNERS, JOURNALS = "logs of runners", "journals of nodes"
SHIP = {
    RUNNERS: "ship the logs of the runners' pods with the labels namespace and pod",
    JOURNALS: "ship the nodes' journals with the labels job and instance",
}


async def look(settings: Settings) -> list[Finding]:
    """Ask for the names of its labels, where one is configured; then for a line of each source that deaths need."""
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
    """Why the store cannot be asked; None when it answers."""
    try:
        # A user and a password in the address are sent as basic auth. No more is read of the answer than its head.
        async with httpx.AsyncClient(timeout=SECONDS) as client, client.stream("GET", url) as answer:
            return None if answer.is_success else f"it answered {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ValueError) as error:
        return f"no answer ({type(error).__name__})"


async def _contents(url: str, namespaces: Sequence[str]) -> list[Finding]:
    runners = [(f"{RUNNERS} in {each}", RUNNERS, [runners_selector(each)]) for each in namespaces]
    asked = [*runners, (JOURNALS, JOURNALS, [*JOURNAL_SELECTORS])]
    now = time.time()
    async with LogStore.open(url) as logs:

        async def holds(selectors: Sequence[str]) -> bool:
            answers = (logs.holds(each, now - LOOK_BACK_SECONDS, now) for each in selectors)
            return any(await asyncio.gather(*answers))

        held = await asyncio.gather(*(holds(selectors) for *_, selectors in asked))
    return [
        of_contents(name, kind, selectors, holds=each)
        for (name, kind, selectors), each in zip(asked, held, strict=True)
    ]


def of_store(name: str, problem: str | None) -> Finding:
    """Whether it can be asked; deaths are told without it, too."""
    if problem is None:
        return ok(GROUP, "log store", name)
    fix = "check GHAPP_LOKI_URL, and its user, password or tenant; deaths are told without what surrounded them"
    return warning(GROUP, "log store", f"{name}: {problem}", fix)


def of_contents(name: str, kind: str, selectors: Sequence[str], *, holds: bool) -> Finding:
    """Whether the store holds anything of a source.

    Args:
        name: of the finding.
        kind: `RUNNERS` or `JOURNALS`.
        selectors: what was asked for, in LogQL.
        holds: whether any of them found a line.
    """
    if holds:
        return ok(GROUP, name, "the log store has lines of the last day")
    said = f"the log store holds nothing of the last day for {' or '.join(selectors)}"
    fix = f"{SHIP[kind]}, as manifests/observability/alloy-values.yaml does; post-mortems lack them until then"
    return warning(GROUP, name, said, fix)
