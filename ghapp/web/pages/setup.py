"""/setup: creates and installs the App by GitHub's manifest flow, without a restart.

It decides which App this machine obeys. It is therefore open only to a browser with the key that `ghapp up` prints, and
only until there is an App.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.credentials import AppCredentials, keep
from ghapp.errors import CodeRefusedError, ConfigurationError, GitHubError, StoreUnavailableError
from ghapp.github.manifest import app_yml, convert, manifest
from ghapp.installations.texts import suggested_config
from ghapp.loading.views import load_current_runners
from ghapp.log import logger
from ghapp.queue.jobs import Enqueue, JobName
from ghapp.settings import Settings
from ghapp.store import keys
from ghapp.store.audit import AuditEntry, Channel, Trail
from ghapp.store.stores import Stores
from ghapp.web.operation import Clock
from ghapp.web.pages import layout
from ghapp.web.pages.access import KEY_HOLDER, is_of_our_page
from ghapp.web.pages.page_key import PARAMETER, PageKey
from ghapp.web.reachable import address_of, can_deliver
from ghapp.web.request_body import read_form

log = logger(__name__)

STATE_SECONDS = 3600
"""GitHub's code is valid for an hour."""

MOST_LOOKS = 24
"""Reloads of the last page, every five seconds, while no runner is known."""

MOST_DIGITS = 4
LARGEST_FORM_BYTES = 64 * 1024
OWN_ACCOUNT = "own account"
"""Value of the form's field `owner` for an App that no organization owns."""

ORGANIZATION = re.compile(r"[A-Za-z0-9_-]{1,100}")


class SetupOrganization(NamedTuple):
    """An organization that the last page shows: its name, the number of known runners, and the mode of remediation."""

    name: str
    runners: int
    mode: str


class SetupEndpoints:
    """The set-up's endpoints, and the App's credentials once there are any."""

    def __init__(self, settings: Settings, stores: Stores, enqueue_job: Enqueue, clock: Clock) -> None:
        """`settings` without credentials need a `page_key`."""
        self._key = PageKey(settings.page_key)
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
            return self._key.taken(request) or self._exists(self._credentials)
        if not self._key.is_held(request):
            return self._key.taken(request) or self._key.again(request) or self._refused(request)
        return self._form(request)

    async def _begin(self, request: Request) -> Response:
        """Redirects the browser to GitHub with 307, so that it posts the manifest of this form again there."""
        if self._credentials is not None:
            return self._exists(self._credentials, 409)
        if not (self._key.is_held(request) and is_of_our_page(request)):
            return self._refused(request)
        form = await read_form(request)
        organization, owner = form.get("organization", "").strip(), ""
        if form.get("owner") != OWN_ACCOUNT:
            if not ORGANIZATION.fullmatch(organization):
                return self._form(request, 422, rejected=organization)
            owner = f"/organizations/{quote(organization)}"
        state = self._new_state()
        target = f"{self._settings.web_url}{owner}/settings/apps/new?{urlencode({'state': state})}"
        return RedirectResponse(target, 307, layout.headers())

    async def _created(self, request: Request) -> Response:
        """Handles GitHub's redirect: exchanges the code for the App's credentials, stores them, and redirects.

        The state shows that a browser with the key began this set-up. It may have another address of ours, where its
        cookies are.
        """
        async with self._one_at_a_time:
            if self._credentials is not None:
                return RedirectResponse("../setup", 303, layout.headers())
            state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
            if not self._is_begun(state) or not code:
                return self._failed(400, "This set-up was not started here", NOT_STARTED)
            return await self._exchange(request, state, code)

    async def _exchange(self, request: Request, state: str, code: str) -> Response:
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
        now, address = self._clock(), address_of(request)
        created = AuditEntry(now, KEY_HOLDER, Channel.PAGE, "create App", str(app.id), "", "created", address)
        with suppress(StoreUnavailableError):  # the App exists at GitHub, and this is the only answer with its key
            await self._stores.audit.record(keys.ALL_ORGS, created, Trail.CHANGES)
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
        is_held = self._key.is_held(request)
        if not is_held and (again := self._key.again(request)):
            return again
        if is_held:
            await self._enqueue(JobName.INSTALLATIONS, key="installations", retry=False)
        if request.query_params.get("setup_action") == "request":
            return self._page("requested")
        if not is_held:  # what was found is not for strangers
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

    def _refused(self, request: Request) -> Response:
        return self._page("key_needed", 403, wrong=PARAMETER in request.query_params)

    def _new_state(self) -> str:
        now = self._clock()
        self._begun = {state: ends for state, ends in self._begun.items() if ends > now}
        state = secrets.token_urlsafe(24)
        self._begun[state] = now + STATE_SECONDS
        return state

    def _is_begun(self, state: str) -> bool:
        """True if a browser got this state from us within the last hour, and it was not used yet."""
        return self._begun.get(state, 0.0) > self._clock()

    def _manifest(self, request: Request) -> dict[str, Any]:
        """Returns the manifest, with our addresses for the browser and for GitHub."""
        here = f"{request.url.scheme}://{request.headers.get('host', '')}"
        ours = self._settings.public_url or here
        return manifest(self._app, here, ours if can_deliver(self._settings.web_url, ours) else None)

    @cached_property
    def _app(self) -> dict[str, Any]:
        return app_yml()

    def _form(self, request: Request, status: int = 200, rejected: str | None = None) -> Response:
        """Returns the form that creates the App; `rejected` is the invalid organization that was entered."""
        found = self._manifest(request)
        hook = found["hook_attributes"]
        return self._page(
            "begin",
            status,
            manifest=json.dumps(found),
            permissions=found["default_permissions"],
            host=self._settings.web_url.partition("://")[2],
            webhook=hook["url"] if hook["active"] else "",
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
