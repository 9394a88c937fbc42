"""The pages on which people create Apps from a manifest, install them, and authorize them.

In the web application flow a person authorizes an App, and the App exchanges the code for a token:
https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from __future__ import annotations

import json
from html import escape
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.sandbox.apps import App
from ghapp.sandbox.organizations import SENDER
from ghapp.sandbox.pages import SESSION_COOKIE, form, form_fields, page
from ghapp.sandbox.people import PEOPLE, USER_TOKEN_SECONDS, CodeError, person_called
from ghapp.sandbox.rest.answers import json_response
from ghapp.sandbox.world import World

REFRESH_TOKEN_SECONDS = 15_897_600
INSTALLATION = "/organizations/{org}/settings/installations/{installation_id:int}"
ROLES = {"mona": "an owner", "lisa": "a member", "olga": "an outside collaborator", "sam": "a stranger"}


class HookAttributes(msgspec.Struct):
    """`hook_attributes` of a manifest."""

    url: str
    active: bool = True


class Manifest(msgspec.Struct):
    """The required and optional fields of an App's manifest; unknown keys are accepted, as by GitHub."""

    name: str
    url: str
    redirect_url: str
    hook_attributes: HookAttributes
    default_permissions: dict[str, str] = {}
    default_events: list[str] = []
    setup_url: str = ""
    callback_urls: list[str] = []
    description: str = ""
    public: bool = False

    def mistakes(self) -> list[str]:
        """Returns the mistakes in the values, in words."""
        addresses = {
            "url": self.url,
            "redirect_url": self.redirect_url,
            "hook_attributes.url": self.hook_attributes.url,
            "setup_url": self.setup_url or self.url,
        }
        addresses |= {f"callback_urls[{at}]": url for at, url in enumerate(self.callback_urls)}
        wrong = [f"{key} must be a URL" for key, value in addresses.items() if not _is_url(value)]
        if not self.name.strip():
            wrong.append("name can't be blank")
        wrong += [
            f"default_permissions.{permission} must be read, write or admin"
            for permission, level in self.default_permissions.items()
            if level not in {"read", "write", "admin"}
        ]
        return wrong


class ManifestPages:
    """The pages of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Returns all routes."""
        return [
            Route("/settings/apps/new", self.review, methods=["POST"]),
            Route("/organizations/{org}/settings/apps/new", self.review, methods=["POST"]),
            Route("/settings/apps", self.create, methods=["POST"]),
            Route("/organizations/{org}/settings/apps", self.create, methods=["POST"]),
            Route("/apps/{slug}", self.app, methods=["GET"]),
            Route("/apps/{slug}/installations/new", self.choose, methods=["GET"]),
            Route("/apps/{slug}/installations", self.install, methods=["POST"]),
            Route(INSTALLATION, self.installed, methods=["GET"]),
            Route(INSTALLATION, self.accept, methods=["POST"]),
        ]

    async def review(self, request: Request) -> Response:
        """Shows what the manifest requests, with one button."""
        owner = self._owner(request)
        if owner is None:
            return page("Page not found", "<p>There is no such organization.</p>", HTTPStatus.NOT_FOUND)
        fields = await form_fields(request)
        text = fields.get("manifest", "")
        manifest = read_manifest(text)
        if isinstance(manifest, list):
            content = "".join(f"<li>{escape(mistake)}</li>" for mistake in manifest)
            return page("Invalid GitHub App configuration", f"<ul>{content}</ul>", HTTPStatus.UNPROCESSABLE_ENTITY)
        permissions = "".join(
            f"<li>{escape(name)}: {escape(level)}</li>" for name, level in manifest.default_permissions.items()
        )
        target = request.url.path.removesuffix("/new")
        button = form(
            target,
            f"Create GitHub App for {owner}",
            {"manifest": text, "state": request.query_params.get("state", "")},
        )
        return page(f"Create {manifest.name}", f"<ul>{permissions}</ul>{button}")

    async def create(self, request: Request) -> Response:
        """Redirects to the manifest's address, with a code and the state."""
        fields = await form_fields(request)
        text = fields.get("manifest", "")
        manifest, owner = read_manifest(text), self._owner(request)
        if isinstance(manifest, list) or owner is None:
            return page("Invalid GitHub App configuration", "", HTTPStatus.UNPROCESSABLE_ENTITY)
        code = self._world.registry.promise(json.loads(text), owner, self._world.now())
        answer = {"code": code} | ({"state": fields["state"]} if fields.get("state") else {})
        return RedirectResponse(_with_query(manifest.redirect_url, answer), HTTPStatus.FOUND)

    async def app(self, request: Request) -> Response:
        """Shows the App's public page."""
        app = self._world.registry.app_named(request.path_params["slug"])
        if app is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        return page(app.name, f'<a href="/apps/{app.slug}/installations/new">Install</a>')

    async def choose(self, request: Request) -> Response:
        """Shows a button for each organization where the App can be installed."""
        app = self._world.registry.app_named(request.path_params["slug"])
        if app is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        target = f"/apps/{app.slug}/installations"
        state = request.query_params.get("state", "")
        buttons = [
            form(target, f"Install on {org.login}", {"org": org.login, "state": state})
            for org in self._world.orgs.values()
        ]
        return page(f"Install {app.name}", "".join(buttons))

    async def install(self, request: Request) -> Response:
        """Installs the App, notifies it, and redirects to its setup URL if it has one."""
        app = self._world.registry.app_named(request.path_params["slug"])
        fields = await form_fields(request)
        org = self._world.directory.organization(fields.get("org", ""))
        if app is None or org is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        new = self._world.registry.installation_on(org.login, app) is None
        installation = self._world.registry.install(app, org.login, self._world.now())
        if new:
            self._world.webhook_events.installation(installation, "created")
        if not app.setup_url:
            own = self._world.directory.installation_document(installation)["html_url"]
            return RedirectResponse(own, HTTPStatus.FOUND)
        answer = {"installation_id": str(installation.id), "setup_action": "install"}
        if fields.get("state"):
            answer["state"] = fields["state"]
        return RedirectResponse(_with_query(app.setup_url, answer), HTTPStatus.FOUND)

    async def installed(self, request: Request) -> Response:
        """Shows an installation's settings page: its permissions, and the button that accepts what is missing."""
        installation = self._world.registry.installations.get(request.path_params["installation_id"])
        if installation is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        granted = self._world.directory.granted(installation)
        rows = [
            f"<li><code>{escape(name)}: {escape(level)}</code>{'' if name in granted else ' (not granted)'}</li>"
            for name, level in installation.permissions.items()
        ]
        is_complete = len(granted) == len(installation.permissions)
        button = "" if is_complete else form(request.url.path, "Accept new permissions", {})
        content = f"<h2>Permissions</h2><ul>{''.join(rows)}</ul>{button}"
        return page(f"{installation.app.name} is installed on {installation.org}", content)

    async def accept(self, request: Request) -> Response:
        """Grants an installation what is withheld from it."""
        installation = self._world.registry.installations.get(request.path_params["installation_id"])
        if installation is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        self._world.directory.accept_permissions(installation)
        return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)

    def _owner(self, request: Request) -> str | None:
        """Returns the owner of a new App: the organization in the path, else the signed-in person."""
        login = request.path_params.get("org")
        if login is None:
            return SENDER[0]
        org = self._world.directory.organization(login)
        return None if org is None else org.login


def read_manifest(text: str) -> Manifest | list[str]:
    """Returns the manifest in a form field, or its mistakes."""
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError as error:
        return [str(error)]
    return manifest.mistakes() or manifest


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in {"http", "https"} and bool(parts.netloc)


def _with_query(url: str, query: dict[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"


AUTHORIZE, EXCHANGE = "/login/oauth/authorize", "/login/oauth/access_token"


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
            return RedirectResponse(_with_state(redirect, query, {"error": "invalid_request"}), HTTPStatus.FOUND)
        fields = {**query, "redirect_uri": redirect}
        buttons = [
            form(AUTHORIZE, f"Authorize {app.name} as {each.login}", {**fields, "login": each.login})
            + f"<p>{escape(ROLES[each.login])}</p>"
            for each in PEOPLE
        ]
        return page(f"Authorize {app.name}", "".join([*buttons, form(AUTHORIZE, "Cancel", fields)]))

    async def authorize(self, request: Request) -> Response:
        """Redirects to the App with a code, or with `access_denied`; the browser is signed in as that person then."""
        fields = await form_fields(request)
        app, redirect = self._app(fields.get("client_id", "")), fields.get("redirect_uri", "")
        if app is None or not _is_registered(app, redirect):
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        person = person_called(fields.get("login", ""))
        if person is None:
            denied = {"error": "access_denied", "error_description": "The user has denied your application access."}
            return RedirectResponse(_with_state(redirect, fields, denied), HTTPStatus.FOUND)
        challenge, now = fields.get("code_challenge", ""), self._world.now()
        code = self._world.authorizations.authorize(app, person, redirect, challenge, now)
        answer = RedirectResponse(_with_state(redirect, fields, {"code": code}), HTTPStatus.FOUND)
        answer.set_cookie(SESSION_COOKIE, person.login, httponly=True, samesite="lax")
        return answer

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


def _with_state(redirect: str, fields: dict[str, str], answer: dict[str, str]) -> str:
    query = answer | ({"state": fields["state"]} if fields.get("state") else {})
    return _with_query(redirect, query)


def _answer(request: Request, document: dict[str, str | int]) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        return json_response(document)
    return Response(urlencode(document), media_type="application/x-www-form-urlencoded")
