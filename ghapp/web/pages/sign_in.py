"""Signing in and out: GitHub's web application flow with `state` and PKCE, and the session's cookie."""

from __future__ import annotations

from hmac import compare_digest
from math import ceil
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.errors import CodeRefusedError, GitHubError
from ghapp.log import logger
from ghapp.settings import Settings
from ghapp.store.sessions import ATTEMPT_SECONDS, SESSION_SECONDS, Session, SignInAttempt
from ghapp.web.cookies import cookie_of, delete_cookie, set_cookie
from ghapp.web.operation import Clock
from ghapp.web.pages import layout
from ghapp.web.pages.access import SESSION_COOKIE, PageAccess
from ghapp.web.pages.shell import NOTICES, PageShell
from ghapp.web.rate_limit import RateLimit
from ghapp.web.reachable import address_of, client_network
from ghapp.web.request_body import read_form

log = logger(__name__)

STATE_COOKIE = "ghapp_sign_in"
STARTS_AT_ONCE, STARTS_AN_HOUR, MOST_ADDRESSES = 30, 300, 10_000
LARGEST_FORM_BYTES = 4096
LONGEST_PATH = 500


class SignInEndpoints:
    """The endpoints."""

    def __init__(self, settings: Settings, access: PageAccess, clock: Clock) -> None:
        self._settings, self._access, self._clock = settings, access, clock
        self._starts: RateLimit[str] = RateLimit(STARTS_AT_ONCE, STARTS_AN_HOUR, MOST_ADDRESSES)

    def routes(self) -> list[Route]:
        """Returns all routes."""
        return [
            Route("/sign-in", self._show, methods=["GET"]),
            Route("/sign-in/github", self._begin, methods=["GET"]),
            Route("/sign-in/callback", self._callback, methods=["GET"]),
            Route("/sign-out", self._sign_out, methods=["POST"], max_body_size=LARGEST_FORM_BYTES),
        ]

    async def _show(self, request: Request) -> Response:
        to = own_path(request.query_params.get("to", ""))
        notice = NOTICES.get(request.query_params.get("done", ""), "")
        if not self._access.is_configured:
            return self._page(request, "not_configured", 503, notice=notice)
        host = self._settings.web_url.partition("://")[2]
        return self._page(request, "sign_in", 200, notice=notice, to=to, host=host)

    async def _begin(self, request: Request) -> Response:
        if not self._access.is_configured:
            return self._page(request, "not_configured", 503)
        if elsewhere := self._public(request):
            return elsewhere
        if wait := self._starts.grant(client_network(address_of(request)), self._clock()):
            return self._refused(request, 429, "Too many sign-ins", TOO_MANY, {"Retry-After": str(ceil(wait))})
        redirect_uri = f"{self._here(request)}/sign-in/callback"
        begun = self._access.authorization().begin(redirect_uri)
        attempt = SignInAttempt(begun.verifier, redirect_uri, own_path(request.query_params.get("to", "")))
        await self._access.sessions().begin(begun.state, attempt)
        response = RedirectResponse(begun.url, 303, layout.headers())
        self._set_cookie(request, response, STATE_COOKIE, begun.state, ATTEMPT_SECONDS)
        return response

    async def _callback(self, request: Request) -> Response:
        """Handles GitHub's redirect: checks the state, exchanges the code, and creates the session."""
        if not self._access.is_configured:
            return self._page(request, "not_configured", 503)
        query = request.query_params
        state = query.get("state", "")
        is_secure = self._access.is_secure(request)
        begun = cookie_of(request, STATE_COOKIE, is_secure=is_secure)
        if not state or not compare_digest(state.encode(), begun.encode()):
            return self._refused(request, 400, "This sign-in was not started in this browser", NOT_STARTED)
        attempt = await self._access.sessions().take(state)
        if attempt is None:
            return self._refused(request, 400, "This sign-in is over", NOT_STARTED)
        if query.get("error") or not query.get("code"):
            return self._refused(request, 403, "GitHub did not sign you in", DENIED)
        authorization, now = self._access.authorization(), self._clock()
        try:
            token, seconds = await authorization.exchange(query["code"], attempt.verifier, attempt.redirect_uri)
            user = await authorization.user(token)
            installations = await authorization.installations(token)
        except CodeRefusedError as error:
            log.warning("sign-in refused", why=str(error))
            return self._refused(request, 403, "GitHub refused the sign-in", REFUSED)
        except GitHubError as error:
            log.warning("sign-in failed", why=type(error).__name__)
            return self._refused(request, 502, "GitHub gave no answer", NO_ANSWER)
        ends = now + min(seconds, SESSION_SECONDS)
        session = Session(user.login, user.id, token, ends, installations, now)
        revocation = await self._access.end_session(self._access.session_cookie(request))
        cookie = await self._access.sessions().create(session, now)
        await self._access.record_sign_in(request, user.login, "sign in")
        log.info("signed in", who=user.login, installations=len(installations))
        response = RedirectResponse(f"../{attempt.to}", 303, layout.headers())
        self._set_cookie(request, response, SESSION_COOKIE, cookie, int(ends - now))
        delete_cookie(response, STATE_COOKIE, is_secure=is_secure)
        response.background = revocation
        return response

    async def _sign_out(self, request: Request) -> Response:
        """Ends the session, and has its user access token revoked."""
        visitor = await self._access.visitor(request)
        form = await read_form(request)
        response = RedirectResponse("sign-in?done=signed-out", 303, layout.headers())
        if visitor is None or visitor.has_key:
            return response
        if not self._access.is_own_form(request, visitor, form.get("form_token", "")):
            return self._page(
                request, "refused", 403, title="You are still signed in", detail=FORGED, is_signed_in=True
            )
        response.background = await self._access.end_session(visitor.cookie)
        await self._access.record_sign_in(request, visitor.name, "sign out")
        log.info("signed out", who=visitor.name)
        delete_cookie(response, SESSION_COOKIE, is_secure=self._access.is_secure(request))
        return response

    def _here(self, request: Request) -> str:
        """Returns our address, to which GitHub sends the browser back."""
        return self._settings.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}"

    def _public(self, request: Request) -> Response | None:
        """Sends a browser that has another address of ours to the public one, once: the cookies have to be there."""
        public, query = self._settings.public_url, request.query_params
        if public is None or "public" in query or request.headers.get("host") == urlsplit(public).netloc:
            return None
        to = urlencode({"to": own_path(query.get("to", "")), "public": ""})
        return RedirectResponse(f"{public}/sign-in/github?{to}", 303, layout.headers())

    def _refused(
        self, request: Request, status: int, title: str, detail: str, headers: dict[str, str] | None = None
    ) -> Response:
        response = self._page(request, "refused", status, title=title, detail=detail)
        response.headers.update(headers or {})
        return response

    def _page(
        self, request: Request, name: str, status: int, *, notice: str = "", is_signed_in: bool = False, **values: Any
    ) -> Response:
        shell = PageShell(root=layout.root_of(request.url.path), notice=notice, is_signed_in=is_signed_in)
        html = layout.render(f"sign_in/{name}.html", shell=shell, has_key=self._access.key.is_set, **values)
        return HTMLResponse(html, status, layout.headers(scripts=True))

    def _set_cookie(self, request: Request, response: Response, name: str, value: str, seconds: int) -> None:
        # Lax: the cookie must be sent with GitHub's redirect back to us.
        is_secure = self._access.is_secure(request)
        set_cookie(response, name, value, is_secure=is_secure, same_site="lax", seconds=seconds)


NOT_STARTED = "The answer does not belong to a sign-in that was started in this browser within the last ten minutes."
DENIED = "The authorization was cancelled at GitHub. Nothing was changed."
REFUSED = (
    "A code is valid once, and for ten minutes. If this happens again, an admin must check GHAPP_CLIENT_ID "
    "and GHAPP_CLIENT_SECRET."
)
NO_ANSWER = "Signing in needs GitHub. Try again in a minute."
TOO_MANY = "Wait a minute, then try again."
FORGED = "The form was not sent by a page of this ghapp in this browser. Open a page again, and sign out there."


def own_path(path: str) -> str:
    """Returns a path of ours, relative to `/`; empty for anything that could lead elsewhere."""
    is_ours = path.startswith(("orgs/", "system")) and len(path) <= LONGEST_PATH
    return quote(path, safe="/?=&%-_.~+") if is_ours and ".." not in path and "\\" not in path else ""
