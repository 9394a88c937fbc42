"""GitHub: whether we reach it, whether it knows us, and what the App is registered to ask for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ghapp.credentials import AppCredentials
from ghapp.doctor.deliveries import GROUP as DELIVERIES
from ghapp.doctor.deliveries import of_arrivals, of_hook
from ghapp.doctor.finding import Finding, FindingStatus, ok, warning, wrong
from ghapp.doctor.probe import connected, probe
from ghapp.errors import GhappError, UnauthorizedError
from ghapp.github.api import GitHub
from ghapp.github.app import AppRegistration, date_told, hook, latest_deliveries, registration
from ghapp.github.checks import Checks
from ghapp.health.installation import NEEDED, Installation
from ghapp.settings import Settings
from ghapp.store.budget import skew
from ghapp.store.token_cache import SharedTokens

GROUP = "github"
SKEW_WARNING, SKEW_WRONG = 30.0, 60.0
"""Seconds. A JWT is issued a minute back; beyond that GitHub takes it for one of the future."""


ASKED_AT_ONCE, REPOSITORIES_SECONDS = 10, 3.0
"""Report repositories, and how long their answers are waited for in all."""


class GitHubProbe(NamedTuple):
    """What was found, and where GitHub says that the App is installed; None when it does not say."""

    findings: list[Finding]
    installed: list[Installation] | None = None


class Unmetered:
    """Lets the few calls of an examination pass, whatever the others have spent."""

    async def enter(self, installation: int, ceiling: float, points: int) -> str:  # noqa: ARG002
        """At once."""
        return ""

    async def leave(self, installation: int, flight: str, headers: Mapping[str, str]) -> None:
        """Nothing is noted."""

    async def hold(self, installation: int, seconds: float) -> None:
        """Nobody is kept from asking by what doctor was told."""


async def look(settings: Settings, credentials: AppCredentials) -> GitHubProbe:
    """Ask as the App itself; when it is not known there, there is nothing more to ask."""
    away = f"check that this machine reaches {settings.api_url}, and GHAPP_GITHUB_API_URL"
    # Nothing is asked of Redis here, which may be away: the App itself needs no installation's token.
    async with (
        connected(settings.redis_url or "redis://") as redis,
        GitHub.open(settings.api_url, credentials, SharedTokens(redis, credentials.private_key), Unmetered()) as github,
    ):
        pages: list[str] = []
        installed: list[list[Installation]] = []

        async def look_at_app() -> list[Finding]:
            try:
                app, date = await registration(github)
            except UnauthorizedError:
                return of_refusal(credentials.app_id, skew(await date_told(settings.api_url), time.time()))
            pages.append(settings_page(app, settings.web_url))
            return [*of_clock(skew(date, time.time())), *of_app(app, pages[0])]

        async def look_at_installations() -> list[Finding]:
            installed.append(await github.installations())
            return []

        found = await probe(GROUP, "app", look_at_app, away)
        if not pages:
            return GitHubProbe(found)
        later = "ask again in a moment; see githubstatus.com"
        for more in await asyncio.gather(
            probe(DELIVERIES, "webhook", partial(_hook, github, settings.public_url, pages[0]), later),
            probe(DELIVERIES, "arrivals", partial(_arrivals, github, pages[0]), later),
            probe(GROUP, "installations", look_at_installations, later),
        ):
            found += more
        return GitHubProbe(found, installed[0] if installed else None)


async def repositories_shown(
    settings: Settings, credentials: AppCredentials, redis_url: str, named: Sequence[tuple[Installation, str]]
) -> dict[int, bool]:
    """Whether GitHub shows each installation its repository (`owner/name`), by the installation's id.

    Those to which it gave no answer that can be believed are left out.
    """
    slots = asyncio.Semaphore(ASKED_AT_ONCE)
    shown: dict[int, bool] = {}
    async with (
        connected(redis_url) as redis,
        GitHub.open(settings.api_url, credentials, SharedTokens(redis, credentials.private_key), Unmetered()) as github,
    ):

        async def ask(installation: Installation, repository: str) -> None:
            async with slots:
                with suppress(GhappError):  # a token that is too young to be believed, among others
                    installation_client = await github.installation_client(installation)
                    shown[installation.id] = await Checks(installation_client, repository).default_branch() is not None

        with suppress(TimeoutError):
            async with asyncio.timeout(REPOSITORIES_SECONDS):
                await asyncio.gather(*(ask(*each) for each in named))
    return shown


async def _hook(github: GitHub, public_url: str | None, page: str) -> list[Finding]:
    return of_hook(await hook(github), public_url, page)


async def _arrivals(github: GitHub, page: str) -> list[Finding]:
    return of_arrivals(await latest_deliveries(github), page)


def of_clock(skew_seconds: float) -> list[Finding]:
    """Our clock, which GitHub's is ahead of by so many seconds."""
    off = abs(skew_seconds)
    said = f"our clock is {off:.0f} s {'behind' if skew_seconds > 0 else 'ahead of'} GitHub's"
    fix = "run NTP here: GitHub refuses tokens that are issued in its future"
    if off > SKEW_WRONG:
        return [wrong(GROUP, "clock", said, fix)]
    if off > SKEW_WARNING:
        return [warning(GROUP, "clock", said, fix)]
    return [ok(GROUP, "clock", f"within {max(1, round(off))} s of GitHub's")]


def of_refusal(app_id: str, skew_seconds: float) -> list[Finding]:
    """GitHub does not accept our tokens: either the clock is off, or the id and the key are not of one App."""
    clock = of_clock(skew_seconds)
    if clock[0].status is FindingStatus.WRONG:
        return [*clock, wrong(GROUP, "app", "GitHub does not accept our tokens", "mend the clock first")]
    said = f"GitHub does not accept the key as that of App {app_id}"
    fix = "GHAPP_APP_ID and the private key must be of the same App; make a new key in its settings on GitHub"
    return [*clock, wrong(GROUP, "app", said, fix)]


def of_app(app: AppRegistration, page: str) -> list[Finding]:
    """What it is registered to ask of every organization; `page` is that of its settings."""
    found = [ok(GROUP, "app", f"{app.name} ({app.slug}), of {app.owner}")]
    asked = Installation(0, app.owner, 0, app.permissions)
    if missing := asked.missing():
        fix = f"add them at {page}/permissions, and have each organization accept"
        found.append(wrong(GROUP, "permissions", f"the App does not ask for {', '.join(missing)}", fix))
    else:
        found.append(ok(GROUP, "permissions", f"it asks for {', '.join(NEEDED)}"))
    if "workflow_job" not in app.events:
        fix = f"subscribe to `Workflow job` at {page}/permissions"
        found.append(wrong(GROUP, "events", "the App is not told of jobs", fix))
    else:
        found.append(ok(GROUP, "events", ", ".join(app.events)))
    return found


def settings_page(app: AppRegistration, web_url: str) -> str:
    """Where its owner changes it."""
    owner = f"/organizations/{app.owner}" if app.is_of_organization else ""
    return f"{web_url}{owner}/settings/apps/{app.slug}"
