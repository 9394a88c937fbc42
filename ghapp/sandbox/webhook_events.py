"""The events that webhooks deliver: their payloads, and which Apps receive them.

The envelope of a payload (organization, sender, installation) is added on sending.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ghapp.sandbox.apps import App, SandboxInstallation, holds
from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.documents import Document, check_suite_id, commit_document, job_document, rfc3339
from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob, SandboxRepository
from ghapp.sandbox.organizations import Directory, Organization

#: Permission that an installation needs to receive an event; events without an entry need none.
_PERMISSION_FOR = {"workflow_job": "actions", "check_run": "checks", "check_suite": "checks"}
_BY_SUBSCRIPTION = frozenset({"workflow_job"})


def workflow_job(action: JobAction, job: SandboxJob, url: str) -> Document:
    """Returns the payload of a job that was queued, started or completed."""
    return {"action": action, "workflow_job": job_document(job, url)}


def check_suite_requested(repository: SandboxRepository, app: Document, url: str, now: float) -> Document:
    """Returns the payload of a moved default branch, which requests checks from Apps."""
    suite_url = f"{url}/repos/{repository.full_name}/check-suites/{check_suite_id(repository, repository.head_sha)}"
    suite = _check_suite(repository, repository.head_sha, app, url, now) | {
        "status": "queued",
        "conclusion": None,
        "latest_check_runs_count": 0,
        "check_runs_url": f"{suite_url}/check-runs",
        "head_commit": commit_document(repository.head_sha, now),
    }
    return {"action": "requested", "check_suite": suite}


def check_run_event(
    action: str,
    check_run: Document,
    repository: SandboxRepository,
    url: str,
    now: float,
    *,
    identifier: str | None = None,
) -> Document:
    """Returns the payload of a check run: created, completed, re-requested, or its button `identifier` pressed."""
    suite = _check_suite(repository, check_run["head_sha"], check_run["app"], url, now)
    suite |= {"status": check_run["status"], "conclusion": check_run["conclusion"]}
    event = {"action": action, "check_run": check_run | {"check_suite": suite}}
    return event if identifier is None else event | {"requested_action": {"identifier": identifier}}


def ping(app: App, url: str, now: float) -> Document:
    """Returns the first delivery to a new App's hook."""
    hook = {
        "type": "App",
        "id": app.id,
        "name": "web",
        "active": True,
        "events": list(app.events),
        "config": {
            "content_type": app.hook.content_type,
            "insecure_ssl": "0",
            "secret": "********",
            "url": app.hook.url,
        },
        "updated_at": rfc3339(now),
        "created_at": rfc3339(now),
        "app_id": app.id,
        "deliveries_url": f"{url}/app/hook/deliveries",
    }
    return {"zen": "Keep it logically awesome.", "hook_id": app.id, "hook": hook}


def _check_suite(repository: SandboxRepository, sha: str, app: Document, url: str, now: float) -> Document:
    suite_id = check_suite_id(repository, sha)
    return {
        "id": suite_id,
        "node_id": f"CS_{suite_id}",
        "head_branch": repository.default_branch,
        "head_sha": sha,
        "url": f"{url}/repos/{repository.full_name}/check-suites/{suite_id}",
        "before": repository.before_sha,
        "after": sha,
        "pull_requests": [],
        "app": app,
        "created_at": rfc3339(now),
        "updated_at": rfc3339(now),
    }


def repository_names(repositories: list[SandboxRepository]) -> list[Document]:
    """Returns repositories in the shortest form, as installation events list them."""
    return [
        {
            "id": repository.id,
            "node_id": f"R_{repository.id}",
            "name": repository.name,
            "full_name": repository.full_name,
            "private": True,
        }
        for repository in repositories
    ]


class WebhookEvents:
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
