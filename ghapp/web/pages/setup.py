"""/setup: creates and installs the App by GitHub's manifest flow, without a restart.

It decides which App this machine obeys. It is therefore open only to a browser on this machine, or with the key that
`ghapp up` prints, and only until there is an App.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from functools import cached_property
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.credentials import AppCredentials, keep
from ghapp.errors import CodeRefusedError, ConfigurationError, GitHubError
from ghapp.github.manifest import app_yml, convert, manifest
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.report.suggested_config import suggested_config
from ghapp.settings import Settings
from ghapp.store.org_views import load_current_runners
from ghapp.store.stores import Stores
from ghapp.web.api.health import Clock, Enqueue
from ghapp.web.local_access import can_deliver, is_from_this_machine
from ghapp.web.pages import layout

log = logger(__name__)

STATE_SECONDS = 3600
"""GitHub's code is valid for an hour."""

MOST_LOOKS = 24
"""Reloads of the last page, every five seconds, while no runner is known."""

MOST_DIGITS = 4
LARGEST_FORM_BYTES = 64 * 1024
KEY_COOKIE, STATE_COOKIE = "ghapp_setup_key", "ghapp_setup_state"
ORGANIZATION = re.compile(r"[A-Za-z0-9_-]{1,100}")


class SetupOrganization(NamedTuple):
    """An organization that the last page shows: its name, the number of known runners, and the mode of remediation."""

    name: str
    runners: int
    mode: str


class SetupEndpoints:
    """The set-up's endpoints, and the App's credentials once there are any."""

    def __init__(self, settings: Settings, stores: Stores, enqueue_job: Enqueue, clock: Clock) -> None:
        """`settings` without credentials need a `setup_key`."""
        self._settings, self._stores, self._enqueue, self._clock = settings, stores, enqueue_job, clock
        self._credentials: AppCredentials | None = settings.credentials
        self._begun: dict[str, float] = {}
        self._one_at_a_time = asyncio.Lock()

    def webhook_secrets(self) -> tuple[str, ...]:
        """Returns the current webhook secrets; empty before there is an App."""
        return self._credentials.webhook_secrets if self._credentials is not None else ()

    def credentials(self) -> AppCredentials | None:
        """Returns the App's credentials; None before there is an App."""
        return self._credentials

    def routes(self) -> list[Route]:
        """Returns all routes of the set-up."""
        return [
            Route("/setup", self._show, methods=["GET"]),
            Route("/setup", self._begin, methods=["POST"], max_body_size=LARGEST_FORM_BYTES),
            Route("/setup/created", self._created, methods=["GET"]),
            Route("/setup/installed", self._installed, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        if self._credentials is not None:
            return self._exists(self._credentials)
        key = request.query_params.get("key")
        if key is not None and self._is_key(key):
            # The key moves to a cookie, so that it does not stay in the browser's history.
            response = RedirectResponse("setup", 303, layout.headers())
            _set_cookie(request, response, KEY_COOKIE, key)
            return response
        if not self._may(request):
            return self._page("key_needed", 403, wrong=key is not None)
        return self._form(request)

    async def _begin(self, request: Request) -> Response:
        """Redirects the browser to GitHub with 307, so that it posts the manifest of this form again there."""
        if self._credentials is not None:
            return self._exists(self._credentials, 409)
        if not self._may(request) or request.headers.get("sec-fetch-site") == "cross-site":
            return self._page("key_needed", 403, wrong=False)
        form = parse_qs((await request.body()).decode(errors="replace"))
        organization = form.get("organization", [""])[0].strip()
        if organization and not ORGANIZATION.fullmatch(organization):
            return self._form(request, 422, rejected=organization)
        owner = f"/organizations/{quote(organization)}" if organization else ""
        state = self._new_state()
        target = f"{self._settings.web_url}{owner}/settings/apps/new?{urlencode({'state': state})}"
        response = RedirectResponse(target, 307, layout.headers())
        _set_cookie(request, response, STATE_COOKIE, state)
        return response

    async def _created(self, request: Request) -> Response:
        """Handles GitHub's redirect: exchanges the code for the App's credentials, stores them, and redirects."""
        async with self._one_at_a_time:
            if self._credentials is not None or not self._may(request):
                return RedirectResponse("../setup", 303, layout.headers())
            state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
            if not self._is_begun(state, request.cookies.get(STATE_COOKIE, "")) or not code:
                return self._failed(400, "This set-up was not started here", NOT_STARTED)
            return await self._exchange(state, code)

    async def _exchange(self, state: str, code: str) -> Response:
        try:
            app = await convert(self._settings.api_url, code)
        except CodeRefusedError:
            self._begun.pop(state, None)
            return self._failed(400, "GitHub rejected the code", CODE_REJECTED)
        except GitHubError as error:
            # The code may still be valid, so the state is kept. The error's text contains the code: it is not shown.
            log.warning("App creation failed", why=type(error).__name__)
            return self._failed(502, "GitHub gave no answer", NO_ANSWER, again=True)
        self._begun.pop(state, None)
        try:
            await asyncio.to_thread(keep, self._settings.state_dir, app)
        except (OSError, ConfigurationError) as error:
            log.warning("App credentials not stored", why=str(error))
            return self._failed(500, "The App's credentials could not be stored", f"{error}. {NOT_STORED}")
        self._credentials = app.credentials
        log.info("App created", app=app.id)
        return RedirectResponse("../setup", 303, layout.headers())

    async def _installed(self, request: Request) -> Response:
        """Handles the App's `setup_url`; discovers installations, because deliveries may not reach us."""
        if self._credentials is None:
            return RedirectResponse("../setup", 303, layout.headers())
        may = self._may(request)
        if may:
            await self._enqueue(JobName.INSTALLATIONS, key="installations", retry=False)
        if request.query_params.get("setup_action") == "request":
            return self._page("requested")
        if not may:  # what was found is not for strangers
            return self._page("installed")
        return await self._found(request.query_params.get("look", "0"))

    async def _found(self, look: str) -> Response:
        """Returns the page with the organizations, their runners, and a configuration to copy.

        It reloads by itself until runners are known; `look` counts the reloads.
        """
        now = self._clock()
        fleets = {
            each.org: await load_current_runners(self._stores, each, self._settings, now)
            for each in await self._stores.installations.all()
        }
        looks = int(look) if look.isdecimal() and len(look) < MOST_DIGITS else MOST_LOOKS
        organizations = [
            SetupOrganization(org, len(runners), self._settings.of(org).remediation.mode)
            for org, runners in sorted(fleets.items())
        ]
        return self._page(
            "found",
            organizations=organizations,
            suggestion=suggested_config(fleets),
            next_look=None if any(fleets.values()) or looks >= MOST_LOOKS else looks + 1,
        )

    def _may(self, request: Request) -> bool:
        return is_from_this_machine(request) or self._is_key(request.cookies.get(KEY_COOKIE, ""))

    def _is_key(self, key: str) -> bool:
        expected = self._settings.setup_key
        return expected is not None and compare_digest(key.encode(), expected.encode())

    def _new_state(self) -> str:
        now = self._clock()
        self._begun = {state: ends for state, ends in self._begun.items() if ends > now}
        state = secrets.token_urlsafe(24)
        self._begun[state] = now + STATE_SECONDS
        return state

    def _is_begun(self, state: str, cookie: str) -> bool:
        """True if this browser got this state from us within the last hour, and has not used it yet."""
        return compare_digest(state.encode(), cookie.encode()) and self._begun.get(state, 0.0) > self._clock()

    def _manifest(self, request: Request) -> dict[str, Any]:
        """Returns the manifest, with addresses of ours for the browser, which has our cookies, and for GitHub."""
        public = self._settings.public_url
        here = f"{request.url.scheme}://{request.headers.get('host', '')}"
        if public is not None and not is_from_this_machine(request):
            here = public
        reachable = public or here
        return manifest(self._app, here, reachable if can_deliver(self._settings.web_url, reachable) else None)

    @cached_property
    def _app(self) -> dict[str, Any]:
        return app_yml()

    def _form(self, request: Request, status: int = 200, rejected: str = "") -> Response:
        """Returns the form that creates the App; `rejected` is the invalid organization that was entered."""
        found = self._manifest(request)
        return self._page(
            "begin",
            status,
            manifest=json.dumps(found),
            permissions=found["default_permissions"],
            host=self._settings.web_url.partition("://")[2],
            delivers=found["hook_attributes"]["active"],
            rejected=rejected,
        )

    def _exists(self, credentials: AppCredentials, status: int = 200) -> Response:
        """Returns the page of an App that exists, with a link to install it if /setup created it."""
        if credentials.install_url is None:
            return self._page("configured", status)
        return self._page("created", status, install_url=credentials.install_url)

    def _failed(self, status: int, title: str, detail: str, *, again: bool = False) -> Response:
        return self._page("failed", status, title=title, detail=detail, again=again)

    def _page(self, name: str, status: int = 200, **values: Any) -> Response:
        """Returns one of the templates in `setup/`."""
        github, html = urlsplit(self._settings.web_url), layout.render(f"setup/{name}.html", **values)
        return HTMLResponse(html, status, layout.headers("'self'", f"{github.scheme}://{github.netloc}"))


NOT_STARTED = (
    "GitHub's answer does not belong to a set-up that was started in this browser within the last hour, or that set-up "
    "is finished. Nothing was changed."
)
CODE_REJECTED = (
    "A code is valid once, and for an hour. If GitHub has just created an App for you, delete that App there, in its "
    "advanced settings: ghapp can no longer get its key."
)
NO_ANSWER = "The App exists there. Trying again does not create a second one; the code stays valid for an hour."
NOT_STORED = "Delete the App on GitHub, in its advanced settings, fix the problem, and start again."


def _set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    # Lax: the cookie must be sent with GitHub's redirect back to us.
    response.set_cookie(
        name, value, max_age=STATE_SECONDS, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
