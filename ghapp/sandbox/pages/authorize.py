"""GitHub's web application flow: a person authorizes an App, and the App exchanges the code for a token.

https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.sandbox.apps import App
from ghapp.sandbox.pages.html import form, form_fields, page
from ghapp.sandbox.people import PEOPLE, USER_TOKEN_SECONDS, CodeError, person_called
from ghapp.sandbox.rest.answers import json_response
from ghapp.sandbox.world import World

AUTHORIZE, EXCHANGE = "/login/oauth/authorize", "/login/oauth/access_token"
REFRESH_TOKEN_SECONDS = 15_897_600
ROLES = {"mona": "an owner", "lisa": "a member", "olga": "an outside collaborator", "sam": "a stranger"}


class AuthorizationPages:
    """The pages and the endpoint, on a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """All routes."""
        return [
            Route(AUTHORIZE, self.choose, methods=["GET"]),
            Route(AUTHORIZE, self.authorize, methods=["POST"]),
            Route(EXCHANGE, self.exchange, methods=["POST"]),
        ]

    async def choose(self, request: Request) -> Response:
        """A button for each person, and one to refuse."""
        query = dict(request.query_params)
        app = self._app(query.get("client_id", ""))
        if app is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        redirect = query.get("redirect_uri") or next(iter(app.callback_urls), "")
        if not _is_registered(app, redirect):
            text = "<p>The redirect_uri is not associated with this application.</p>"
            return page("Be careful!", text, HTTPStatus.BAD_REQUEST)
        if query.get("code_challenge") and query.get("code_challenge_method") != "S256":
            return RedirectResponse(_with(redirect, query, {"error": "invalid_request"}), HTTPStatus.FOUND)
        fields = {**query, "redirect_uri": redirect}
        buttons = [
            form(AUTHORIZE, f"Authorize {app.name} as {each.login}", {**fields, "login": each.login})
            + f"<p>{escape(ROLES[each.login])}</p>"
            for each in PEOPLE
        ]
        return page(f"Authorize {app.name}", "".join([*buttons, form(AUTHORIZE, "Cancel", fields)]))

    async def authorize(self, request: Request) -> Response:
        """Redirects to the App with a code, or with `access_denied`."""
        fields = await form_fields(request)
        app, redirect = self._app(fields.get("client_id", "")), fields.get("redirect_uri", "")
        if app is None or not _is_registered(app, redirect):
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        person = person_called(fields.get("login", ""))
        if person is None:
            denied = {"error": "access_denied", "error_description": "The user has denied your application access."}
            return RedirectResponse(_with(redirect, fields, denied), HTTPStatus.FOUND)
        challenge, now = fields.get("code_challenge", ""), self._world.now()
        code = self._world.authorizations.authorize(app, person, redirect, challenge, now)
        return RedirectResponse(_with(redirect, fields, {"code": code}), HTTPStatus.FOUND)

    async def exchange(self, request: Request) -> Response:
        """Answers 200 with a token or with an error, as JSON or as a form, by the `Accept` header."""
        fields = await self._fields(request)
        app = self._app(fields.get("client_id", ""))
        if app is None or fields.get("client_secret") != app.client_secret:
            wrong = "The client_id and/or client_secret passed are incorrect."
            return _answer(request, {"error": "incorrect_client_credentials", "error_description": wrong})
        code, redirect, verifier = (fields.get(name, "") for name in ("code", "redirect_uri", "code_verifier"))
        try:
            token = self._world.authorizations.exchange(app, code, redirect, verifier, self._world.now())
        except CodeError as error:
            return _answer(request, {"error": error.code, "error_description": error.description})
        return _answer(
            request,
            {
                "access_token": token.value,
                "expires_in": USER_TOKEN_SECONDS,
                "refresh_token": token.value.replace("ghu_", "ghr_"),
                "refresh_token_expires_in": REFRESH_TOKEN_SECONDS,
                "token_type": "bearer",
                "scope": "",
            },
        )

    async def _fields(self, request: Request) -> dict[str, str]:
        if request.headers.get("content-type", "").startswith("application/json"):
            return msgspec.json.decode(await request.body() or b"{}", type=dict[str, str])
        return dict(parse_qsl((await request.body()).decode(errors="replace")))

    def _app(self, client_id: str) -> App | None:
        return next((app for app in self._world.registry.apps.values() if app.client_id == client_id), None)


def _is_registered(app: App, redirect: str) -> bool:
    """True if it lies below a callback URL; a loopback callback permits every port, as RFC 8252 has it."""
    asked = urlsplit(redirect)
    for each in map(urlsplit, app.callback_urls):
        is_loopback = each.hostname in ("127.0.0.1", "::1")
        same_host = asked.hostname == each.hostname if is_loopback else asked.netloc == each.netloc
        if asked.scheme == each.scheme and same_host and asked.path.startswith(each.path):
            return True
    return False


def _with(redirect: str, fields: dict[str, str], answer: dict[str, str]) -> str:
    query = answer | ({"state": fields["state"]} if fields.get("state") else {})
    return f"{redirect}{'&' if urlsplit(redirect).query else '?'}{urlencode(query)}"


def _answer(request: Request, document: dict[str, str | int]) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        return json_response(document)
    return Response(urlencode(document), media_type="application/x-www-form-urlencoded")
