"""The payloads of webhook deliveries; the envelope (organization, sender, installation) is added on sending."""

from __future__ import annotations

from ghapp.sandbox.apps import App
from ghapp.sandbox.documents.accounts import Document, rfc3339
from ghapp.sandbox.documents.work import check_suite_id, commit_document, job_document
from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob, SandboxRepository


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
