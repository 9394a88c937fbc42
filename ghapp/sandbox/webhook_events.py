"""Decides which Apps receive which webhook deliveries, and builds the payloads."""

from __future__ import annotations

from typing import Any

import msgspec

from ghapp.sandbox.apps import App, SandboxInstallation, holds
from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.directory import Directory
from ghapp.sandbox.documents.accounts import Document
from ghapp.sandbox.documents.payloads import ping, repository_names
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.organizations import Organization

#: Permission that an installation needs to receive an event; events without an entry need none.
_PERMISSION_FOR = {"workflow_job": "actions", "check_run": "checks", "check_suite": "checks"}
_BY_SUBSCRIPTION = frozenset({"workflow_job"})


class Announcements:
    """Builds payloads of events and queues them as deliveries."""

    def __init__(self, directory: Directory, deliveries: Deliveries) -> None:
        self._directory = directory
        self._deliveries = deliveries
        self._repositories: dict[tuple[int, str], msgspec.Raw] = {}

    def event(
        self,
        org: Organization,
        event: str,
        body: Document,
        *,
        repository: SandboxRepository | None = None,
        app: App | None = None,
    ) -> None:
        """Delivers an event to each installed App that may receive it, or to one App."""
        for installation in self._directory.registry.installations.values():
            if installation.org != org.login or app not in (None, installation.app):
                continue
            if installation.suspended_at is None and self._hears_of(event, installation):
                self.payload(installation, event, self._enveloped(org, installation, body, repository), repository)

    def installation(
        self, installation: SandboxInstallation, action: str, extra: Document | None = None, event: str = "installation"
    ) -> None:
        """Delivers an event about an installation to its App."""
        seen = [r for r in self._directory.home_of(installation).repositories.values() if installation.sees(r.name)]
        body: Document = {
            "action": action,
            "installation": self._directory.installation_document(installation),
            "sender": self._directory.sender,
        }
        if event == "installation":
            body["repositories"] = repository_names(seen)
        self.payload(installation, event, body | (extra or {}))

    def created(self, app: App, now: float) -> str | None:
        """Sends a new App's hook a ping; returns the GUID."""
        return self._deliveries.send(app, "ping", msgspec.json.encode(ping(app, self._directory.documents.url, now)))

    def payload(
        self,
        installation: SandboxInstallation,
        event: str,
        payload: Document,
        repository: SandboxRepository | None = None,
    ) -> str | None:
        """Sends a payload unchanged to the installation's App; returns the GUID."""
        return self._deliveries.send(
            installation.app,
            event,
            msgspec.json.encode(payload),
            action=payload.get("action"),
            org_id=self._directory.home_of(installation).id,
            installation_id=installation.id,
            repository_id=None if repository is None else repository.id,
        )

    def _enveloped(
        self, org: Organization, installation: SandboxInstallation, body: Document, repository: SandboxRepository | None
    ) -> Document:
        envelope: dict[str, Any] = {
            "organization": self._directory.documents.organization(org.login, org.id),
            "sender": body.get("sender", self._directory.sender),
            "installation": {"id": installation.id, "node_id": f"I_{installation.id}"},
        }
        if repository is not None:
            # The one large part of most payloads, which is the same in all of them.
            key = (repository.id, repository.full_name)
            if key not in self._repositories:
                self._repositories[key] = msgspec.Raw(msgspec.json.encode(org.repository_document(repository)))
            envelope["repository"] = self._repositories[key]
        return body | envelope

    def _hears_of(self, event: str, installation: SandboxInstallation) -> bool:
        permission = _PERMISSION_FOR.get(event)
        if permission is not None and not holds(self._directory.granted(installation), permission, "read"):
            return False
        return event not in _BY_SUBSCRIPTION or event in installation.app.events
