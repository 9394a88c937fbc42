"""/setup: from no App to an App that is at work, by GitHub's manifest flow, without a restart.

Whoever walks through it decides which App this machine obeys. So it is open to this machine's own browser, and to
others only with the key that `ghapp up` prints; and only until there is an App.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from functools import cached_property
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.credentials import AppCredentials, keep
from ghapp.errors import CodeRefusedError, ConfigurationError, GitHubError
from ghapp.github.manifest import app_yml, convert, manifest
from ghapp.log import logger
from ghapp.queue.jobs import JobName
from ghapp.settings import Settings
from ghapp.web.api.health import Clock, Enqueue
from ghapp.web.local_access import can_deliver, is_from_this_machine
from ghapp.web.pages import layout, setup_pages

log = logger(__name__)

STATE_SECONDS = 3600
"""As long as GitHub's code is good."""

LARGEST_FORM_BYTES = 64 * 1024
KEY_COOKIE, STATE_COOKIE = "ghapp_setup_key", "ghapp_setup_state"
ORGANIZATION = re.compile(r"[A-Za-z0-9_-]{1,100}")


class SetupEndpoints:
    """The endpoints, and the App's credentials as soon as there are any."""

    def __init__(self, settings: Settings, ask_for: Enqueue, clock: Clock) -> None:
        """`settings` without credentials have a `setup_key`."""
        self._settings, self._ask_for, self._clock = settings, ask_for, clock
        self._credentials: AppCredentials | None = settings.credentials
        self._begun: dict[str, float] = {}
        self._one_at_a_time = asyncio.Lock()

    def webhook_secrets(self) -> tuple[str, ...]:
        """Those that hold now; none before there is an App."""
        return self._credentials.webhook_secrets if self._credentials is not None else ()

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/setup", self._show, methods=["GET"]),
            Route("/setup", self._begin, methods=["POST"], max_body_size=LARGEST_FORM_BYTES),
            Route("/setup/created", self._created, methods=["GET"]),
            Route("/setup/installed", self._installed, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        if self._credentials is not None:
            return self._page(setup_pages.done(self._credentials.install_url))
        key = request.query_params.get("key")
        if key is not None and self._is_key(key):
            # Into a cookie, and out of the address: it is not to stay in the history.
            response = RedirectResponse("setup", 303, layout.headers())
            _set_cookie(request, response, KEY_COOKIE, key)
            return response
        if not self._may(request):
            return self._page(setup_pages.key_needed(wrong=key is not None), 403)
        return self._page(setup_pages.begin(self._manifest(request), self._settings.web_url))

    async def _begin(self, request: Request) -> Response:
        """Send the browser to GitHub, with the manifest that it has just posted here: a 307 makes it post it again."""
        if self._credentials is not None:
            return self._page(setup_pages.done(self._credentials.install_url), 409)
        if not self._may(request) or request.headers.get("sec-fetch-site") == "cross-site":
            return self._page(setup_pages.key_needed(wrong=False), 403)
        form = parse_qs((await request.body()).decode(errors="replace"))
        organization = form.get("organization", [""])[0].strip()
        if organization and not ORGANIZATION.fullmatch(organization):
            return self._page(setup_pages.begin(self._manifest(request), self._settings.web_url, organization), 422)
        owner = f"/organizations/{quote(organization)}" if organization else ""
        state = self._new_state()
        target = f"{self._settings.web_url}{owner}/settings/apps/new?{urlencode({'state': state})}"
        response = RedirectResponse(target, 307, layout.headers())
        _set_cookie(request, response, STATE_COOKIE, state)
        return response

    async def _created(self, request: Request) -> Response:
        """GitHub sent the browser back: exchange the code, keep what it brings, and lead on."""
        async with self._one_at_a_time:
            if self._credentials is not None or not self._may(request):
                return RedirectResponse("../setup", 303, layout.headers())
            state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
            if not self._is_begun(state, request.cookies.get(STATE_COOKIE, "")) or not code:
                return self._page(setup_pages.failed("That was not begun here", NOT_BEGUN), 400)
            return await self._exchange(state, code)

    async def _exchange(self, state: str, code: str) -> Response:
        try:
            app = await convert(self._settings.api_url, code)
        except CodeRefusedError:
            self._begun.pop(state, None)
            return self._page(setup_pages.failed("GitHub does not know this code", CODE_REFUSED), 400)
        except GitHubError as error:
            # The code may still be good, so the state is too; and the error's own words, which hold it, are not told.
            log.warning("App not created", why=type(error).__name__)
            return self._page(setup_pages.failed("GitHub gave no answer", NO_ANSWER, again=True), 502)
        self._begun.pop(state, None)
        try:
            await asyncio.to_thread(keep, self._settings.state_dir, app)
        except (OSError, ConfigurationError) as error:
            log.warning("App created, and its credentials not kept", why=str(error))
            return self._page(
                setup_pages.failed("The App's credentials could not be kept", f"{error}. {NOT_KEPT}"), 500
            )
        self._credentials = app.credentials
        log.info("App created", app=app.id)
        return RedirectResponse("../setup", 303, layout.headers())

    async def _installed(self, request: Request) -> Response:
        """The App's `setup_url`. Deliveries may be impossible, so this is a reason to look where it is installed."""
        if self._credentials is None:
            return RedirectResponse("../setup", 303, layout.headers())
        if self._may(request):
            await self._ask_for(JobName.INSTALLATIONS, key="installations", retry=False)
        return self._page(setup_pages.installed(request.query_params.get("setup_action", "")))

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
        """Whether this browser was given this state, here, within the hour, and has not used it up."""
        return compare_digest(state.encode(), cookie.encode()) and self._begun.get(state, 0.0) > self._clock()

    def _manifest(self, request: Request) -> dict[str, Any]:
        """With addresses by which the browser, which holds our cookies, and GitHub reach us."""
        public = self._settings.public_url
        here = f"{request.url.scheme}://{request.headers.get('host', '')}"
        if public is not None and not is_from_this_machine(request):
            here = public
        reachable = public or here
        return manifest(self._app, here, reachable if can_deliver(self._settings.web_url, reachable) else None)

    @cached_property
    def _app(self) -> dict[str, Any]:
        return app_yml()

    def _page(self, html: str, status: int = 200) -> Response:
        github = urlsplit(self._settings.web_url)
        return HTMLResponse(html, status, layout.headers("'self'", f"{github.scheme}://{github.netloc}"))


NOT_BEGUN = (
    "This answer of GitHub's belongs to no set-up that was begun in this browser within the last hour, or to one that "
    "is over. Nothing was done with it."
)
CODE_REFUSED = (
    "It is good once, and for an hour. If GitHub has just created an App for you, delete it there, in its advanced "
    "settings: its key can be had no more from here."
)
NO_ANSWER = "The App is waiting there. Trying again creates no second one; the code stays good for an hour."
NOT_KEPT = "Delete the App on GitHub, in its advanced settings, and start again when that is mended."


def _set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    # Lax: GitHub's redirect back to us is to bring it along.
    response.set_cookie(
        name, value, max_age=STATE_SECONDS, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
