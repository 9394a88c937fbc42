"""The manifest flow: register an App from a manifest, install it on an organization."""

from __future__ import annotations

import json
from html import escape
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.sandbox.directory import SENDER
from ghapp.sandbox.pages.html import form, form_fields, page
from ghapp.sandbox.world import World


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
            Route("/organizations/{org}/settings/installations/{installation_id:int}", self.installed),
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
            self._world.announcements.installation(installation, "created")
        if not app.setup_url:
            own = self._world.directory.installation_document(installation)["html_url"]
            return RedirectResponse(own, HTTPStatus.FOUND)
        answer = {"installation_id": str(installation.id), "setup_action": "install"}
        if fields.get("state"):
            answer["state"] = fields["state"]
        return RedirectResponse(_with_query(app.setup_url, answer), HTTPStatus.FOUND)

    async def installed(self, request: Request) -> Response:
        """Shows an installation's settings page."""
        installation = self._world.registry.installations.get(request.path_params["installation_id"])
        if installation is None:
            return page("Page not found", "", HTTPStatus.NOT_FOUND)
        return page(f"{installation.app.name} is installed on {installation.org}", "")

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
