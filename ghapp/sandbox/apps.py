"""GitHub Apps, their installations and tokens, and the codes of the manifest flow."""

from __future__ import annotations

import itertools
import re
import secrets
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

TOKEN_SECONDS = 3600
_RANK = {"read": 1, "write": 2, "admin": 3}

MANIFEST_CODE_SECONDS = 3600


@cache
def key_pair(number: int) -> tuple[str, str]:  # noqa: ARG001 -- the key of the cache
    """Returns the private and public PEM of the number-th App; generated once in a process, for that takes time."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


@dataclass(slots=True)
class SandboxHook:
    """Where an App's deliveries go; an empty URL sends none."""

    url: str = ""
    secret: str = ""
    content_type: str = "json"


@dataclass(slots=True, eq=False)
class App:
    """A GitHub App with its credentials; `owner` is the login of an organization or a person."""

    id: int
    slug: str
    name: str
    owner: str
    client_id: str
    client_secret: str
    private_key_pem: str
    public_key_pem: str
    permissions: dict[str, str]
    events: tuple[str, ...]
    hook: SandboxHook
    created_at: float
    external_url: str = "https://example.com"
    description: str = ""
    setup_url: str = ""
    callback_urls: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class SandboxInstallation:
    """The installation of an App on an organization, with the permissions that its admins granted."""

    id: int
    app: App
    org: str
    permissions: dict[str, str]
    created_at: float
    suspended_at: float | None = None
    repositories: tuple[str, ...] | None = None

    @property
    def selection(self) -> str:
        """Returns `all` or `selected`, for the repositories."""
        return "all" if self.repositories is None else "selected"

    def sees(self, repository: str) -> bool:
        """True if the repository of that name belongs to the installation."""
        return self.repositories is None or repository in self.repositories


@dataclass(frozen=True, slots=True)
class SandboxToken:
    """An installation token.

    Attributes:
        granted: its permissions when it was issued; permissions that the installation is granted later are not added.
    """

    value: str
    installation: SandboxInstallation
    expires_at: float
    granted: dict[str, str]

    @property
    def minted_at(self) -> float:
        """Epoch seconds."""
        return self.expires_at - TOKEN_SECONDS

    def allows(self, permission: str, level: str) -> bool:
        """True if both the installation and the token have the permission at this level."""
        return holds(self.installation.permissions, permission, level) and holds(self.granted, permission, level)


def holds(permissions: dict[str, str], permission: str, level: str) -> bool:
    """True if these permissions include this one: write includes read."""
    return _RANK.get(permissions.get(permission, ""), 0) >= _RANK[level]


@dataclass(slots=True)
class Registry:
    """GitHub's records of Apps."""

    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, SandboxInstallation] = field(default_factory=dict)
    _tokens: dict[str, SandboxToken] = field(default_factory=dict)
    _codes: dict[str, tuple[dict[str, Any], str, float]] = field(default_factory=dict)
    _app_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _installation_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(70_001))

    def register(
        self,
        *,
        name: str,
        owner: str,
        permissions: dict[str, str],
        events: tuple[str, ...],
        hook: SandboxHook,
        now: float,
    ) -> App:
        """Adds an App with its own credentials."""
        number = next(self._app_numbers)
        private, public = key_pair(number)
        app = App(
            id=900_000 + number,
            slug=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
            name=name,
            owner=owner,
            client_id=f"Iv23li{secrets.token_hex(7)}",
            client_secret=secrets.token_hex(20),
            private_key_pem=private,
            public_key_pem=public,
            permissions=permissions,
            events=events,
            hook=hook,
            created_at=now,
        )
        self.apps[app.id] = app
        return app

    def app_named(self, slug: str) -> App | None:
        """Returns the App with that slug."""
        return next((app for app in self.apps.values() if app.slug == slug), None)

    def app_issuing(self, issuer: str) -> App | None:
        """Returns the App of a JWT's `iss`, by id or by client id."""
        return next((app for app in self.apps.values() if issuer in (str(app.id), app.client_id)), None)

    def install(self, app: App, org: str, now: float) -> SandboxInstallation:
        """Installs an App on an organization with all requested permissions, or returns the present installation."""
        present = self.installation_on(org, app)
        if present is not None:
            return present
        installation = SandboxInstallation(
            id=next(self._installation_ids), app=app, org=org, permissions=dict(app.permissions), created_at=now
        )
        self.installations[installation.id] = installation
        return installation

    def installation_on(self, org: str, app: App) -> SandboxInstallation | None:
        """Returns the installation of an App on an organization."""
        return next((i for i in self.installations_of(app) if i.org == org), None)

    def installations_of(self, app: App) -> list[SandboxInstallation]:
        """Returns an App's installations."""
        return [i for i in self.installations.values() if i.app is app]

    def uninstall(self, installation: SandboxInstallation) -> None:
        """Removes an installation and every token of it."""
        del self.installations[installation.id]
        self._tokens = {value: t for value, t in self._tokens.items() if t.installation is not installation}

    def mint(self, installation: SandboxInstallation, now: float, granted: dict[str, str]) -> SandboxToken:
        """Issues a token with these permissions, valid for an hour."""
        token = SandboxToken(f"ghs_{secrets.token_urlsafe(27)}", installation, now + TOKEN_SECONDS, granted)
        self._tokens[token.value] = token
        return token

    def token(self, value: str, now: float) -> SandboxToken | None:
        """Returns the token of that value, unless it has expired."""
        token = self._tokens.get(value)
        return token if token is not None and token.expires_at > now else None

    def promise(self, manifest: dict[str, Any], owner: str, now: float) -> str:
        """Returns a code for the credentials of a new App, valid once and for an hour."""
        code = secrets.token_hex(20)
        self._codes[code] = (manifest, owner, now + MANIFEST_CODE_SECONDS)
        return code

    def redeem(self, code: str, now: float) -> App | None:
        """Exchanges a code for an App; None for a code that is unknown, used or expired."""
        manifest, owner, expires_at = self._codes.pop(code, ({}, "", 0.0))
        if expires_at <= now:
            return None
        hook = manifest.get("hook_attributes", {})
        app = self.register(
            name=manifest["name"],
            owner=owner,
            permissions={"metadata": "read", **manifest.get("default_permissions", {})},
            events=tuple(manifest.get("default_events", ())),
            hook=SandboxHook(hook.get("url", "") if hook.get("active", True) else "", secrets.token_hex(20)),
            now=now,
        )
        app.external_url = manifest["url"]
        app.description = manifest.get("description", "")
        app.callback_urls = tuple(manifest.get("callback_urls", ()))
        app.setup_url = manifest.get("setup_url", "")
        return app
