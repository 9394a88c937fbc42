"""Checks GitHub: the connection, the App's credentials, its permissions and events, and its webhook."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ghapp.credentials import AppCredentials
from ghapp.deliveries.doctor import GROUP as DELIVERIES
from ghapp.deliveries.doctor import of_arrivals, of_hook
from ghapp.doctor.finding import Finding, FindingStatus, ok, probe, warning, wrong
from ghapp.doctor.roles import starting
from ghapp.errors import GhappError, UnauthorizedError
from ghapp.github.api import GitHub
from ghapp.github.app import AppRegistration, hook, latest_deliveries, registration, server_date
from ghapp.github.checks import Checks
from ghapp.installations.installation import NEEDED, Installation
from ghapp.installations.pacing import CallLimits
from ghapp.settings import Settings
from ghapp.store.budget import skew
from ghapp.store.stores import open_stores

GROUP = "github"
SKEW_WARNING, SKEW_WRONG = 30.0, 60.0
"""Seconds. Our JWTs are issued one minute in the past; a larger skew makes GitHub reject them as of the future."""


MAX_CONCURRENT, REPOSITORIES_SECONDS = 10, 3.0
"""For report repositories: requests in flight, and the time limit of all of them together."""


class GitHubProbe(NamedTuple):
    """The findings, and the installations that GitHub lists; None when GitHub gave no list."""

    findings: list[Finding]
    installed: list[Installation] | None = None


class Unmetered:
    """A rate limiter that lets the few requests of `doctor` pass, whatever budget is left."""

    async def enter(self, installation: int, limits: CallLimits, points: int) -> str:  # noqa: ARG002
        """Returns at once."""
        return ""

    async def leave(self, installation: int, flight: str, headers: Mapping[str, str]) -> None:
        """Records nothing."""

    async def hold(self, installation: int, seconds: float) -> None:
        """Does nothing: an answer to `doctor` must not stop the workers' requests."""


async def check(settings: Settings, credentials: AppCredentials, started_at: float | None = None) -> GitHubProbe:
    """Checks with the App's own JWT; stops when GitHub rejects it. `started_at`: when the workers started."""
    unreachable = f"check that this machine reaches {settings.api_url}, and GHAPP_GITHUB_API_URL"
    # Redis, which may be down, is not used here: requests as the App need no installation token.
    async with (
        open_stores(settings.redis_url or "redis://") as stores,
        GitHub.open(settings.api_url, credentials, stores.token_cache(credentials.private_key), Unmetered()) as github,
    ):
        pages: list[str] = []
        installed: list[list[Installation]] = []

        async def check_app() -> list[Finding]:
            try:
                app, date = await registration(github)
            except UnauthorizedError:
                return of_rejection(credentials.app_id, skew(await server_date(settings.api_url), time.time()))
            pages.append(settings_page(app, settings.web_url))
            return [*of_clock(skew(date, time.time())), *of_app(app, pages[0])]

        async def list_installations() -> list[Finding]:
            installed.append((await github.installations()).readable)
            return []

        found = await probe(GROUP, "app", check_app, unreachable)
        if not pages:
            return GitHubProbe(found)
        retry = "run doctor again in a moment; see githubstatus.com"
        for more in await asyncio.gather(
            probe(DELIVERIES, "webhook", partial(_hook, github, settings.public_url, pages[0]), retry),
            probe(DELIVERIES, "arrivals", partial(_arrivals, github, pages[0], started_at), retry),
            probe(GROUP, "installations", list_installations, retry),
        ):
            found += more
        return GitHubProbe(found, installed[0] if installed else None)


async def report_repositories(
    settings: Settings, credentials: AppCredentials, redis_url: str, named: Sequence[tuple[Installation, str]]
) -> dict[tuple[int, str], bool | None]:
    """Returns by installation id and repository (`owner/name`) whether it is private; None if it cannot be seen.

    Those for which GitHub gave no reliable answer are left out.
    """
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    found: dict[tuple[int, str], bool | None] = {}
    async with (
        open_stores(redis_url) as stores,
        GitHub.open(settings.api_url, credentials, stores.token_cache(credentials.private_key), Unmetered()) as github,
    ):

        async def query(installation: Installation, repository: str) -> None:
            async with slots:
                with suppress(GhappError):  # for example, a new token may not be effective yet
                    installation_client = await github.installation_client(installation)
                    found[installation.id, repository] = await Checks(installation_client, repository).is_private()

        with suppress(TimeoutError):
            async with asyncio.timeout(REPOSITORIES_SECONDS):
                await asyncio.gather(*(query(*each) for each in named))
    return found


async def _hook(github: GitHub, public_url: str | None, page: str) -> list[Finding]:
    return of_hook(await hook(github), public_url, page)


async def _arrivals(github: GitHub, page: str, started_at: float | None) -> list[Finding]:
    just_started_at = started_at if starting(started_at, time.time()) else None
    return of_arrivals(await latest_deliveries(github), page, just_started_at)


def of_clock(skew_seconds: float) -> list[Finding]:
    """Judges our clock; `skew_seconds` is the lead of GitHub's clock over ours."""
    off = abs(skew_seconds)
    text = f"our clock is {off:.0f} s {'behind' if skew_seconds > 0 else 'ahead of'} GitHub's"
    fix = "run NTP here: GitHub rejects tokens that are issued in its future"
    if off > SKEW_WRONG:
        return [wrong(GROUP, "clock", text, fix)]
    if off > SKEW_WARNING:
        return [warning(GROUP, "clock", text, fix)]
    return [ok(GROUP, "clock", f"within {max(1, round(off))} s of GitHub's")]


def of_rejection(app_id: str, skew_seconds: float) -> list[Finding]:
    """Explains why GitHub rejects our JWT: the clock is off, or the id and the key belong to different Apps."""
    clock = of_clock(skew_seconds)
    if clock[0].status is FindingStatus.WRONG:
        return [*clock, wrong(GROUP, "app", "GitHub does not accept our tokens", "fix the clock first")]
    text = f"GitHub does not accept the key for App {app_id}"
    fix = "GHAPP_APP_ID and the private key must be of the same App; create a new key in its settings on GitHub"
    return [*clock, wrong(GROUP, "app", text, fix)]


def of_app(app: AppRegistration, page: str) -> list[Finding]:
    """Checks the permissions and events that the App requests; `page` is its settings page."""
    found = [ok(GROUP, "app", f"{app.name} ({app.slug}), of {app.owner}")]
    requested = Installation(0, app.owner, 0, app.permissions)
    if missing := requested.missing():
        fix = f"add them at {page}/permissions, and have each organization accept"
        found.append(wrong(GROUP, "permissions", f"the App does not request {', '.join(missing)}", fix))
    else:
        found.append(ok(GROUP, "permissions", f"it requests {', '.join(NEEDED)}"))
    if "workflow_job" not in app.events:
        fix = f"subscribe to `Workflow job` at {page}/permissions"
        found.append(wrong(GROUP, "events", "the App is not subscribed to workflow_job", fix))
    else:
        found.append(ok(GROUP, "events", ", ".join(app.events)))
    return found


def settings_page(app: AppRegistration, web_url: str) -> str:
    """Returns the URL of the App's settings."""
    owner = f"/organizations/{app.owner}" if app.is_of_organization else ""
    return f"{web_url}{owner}/settings/apps/{app.slug}"
