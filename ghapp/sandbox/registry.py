"""All Apps, installations and tokens, and the codes of the manifest flow."""

from __future__ import annotations

import itertools
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

from ghapp.sandbox.apps import TOKEN_SECONDS, App, SandboxHook, SandboxInstallation, SandboxToken, key_pair

CODE_SECONDS = 3600


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
        return next((i for i in self.of(app) if i.org == org), None)

    def of(self, app: App) -> list[SandboxInstallation]:
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
        self._codes[code] = (manifest, owner, now + CODE_SECONDS)
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
