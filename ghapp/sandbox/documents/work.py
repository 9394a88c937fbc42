"""GitHub's JSON documents of runners, jobs, runs and check runs.

Shapes: `runner`, `job`, `workflow-run`, `check-run` of GitHub's REST description, and what webhooks make of the last.
"""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.config import READ_ONLY_LABELS
from ghapp.sandbox.documents.accounts import Document, rfc3339, rfc3339_or_none
from ghapp.sandbox.fleet.jobs import Run, SandboxJob, SandboxRepository
from ghapp.sandbox.fleet.runners import DEFAULT_GROUP_ID, DEFAULT_GROUP_NAME, Runner

WORKFLOW = "CI"
WORKFLOW_PATH = ".github/workflows/ci.yml"


def runner_document(runner: Runner) -> Document:
    """Returns a registration as the list and the single GET show it."""
    version = {"version": runner.version} if runner.version else {}
    return version | {
        "id": runner.id,
        "name": runner.name,
        "os": "Linux",
        "status": "online" if runner.online else "offline",
        "busy": runner.busy,
        "ephemeral": runner.ephemeral,
        "runner_group_id": DEFAULT_GROUP_ID,
        "labels": [
            {"id": number, "name": name, "type": "read-only" if name in READ_ONLY_LABELS else "custom"}
            for number, name in enumerate(runner.labels, start=1)
        ],
    }


def job_document(job: SandboxJob, url: str) -> Document:
    """Returns a workflow job as REST and `workflow_job` deliveries show it; `url` is the sandbox's root."""
    api = f"{url}/repos/{job.repository.full_name}"
    web = f"{url}/{job.repository.full_name}/actions/runs/{job.run_id}"
    taken = job.runner_id is not None
    return {
        "id": job.id,
        "run_id": job.run_id,
        "run_url": f"{api}/actions/runs/{job.run_id}",
        "run_attempt": job.attempt,
        "node_id": f"CR_{job.id}",
        "workflow_name": WORKFLOW,
        "head_branch": job.repository.default_branch,
        "head_sha": job.head_sha,
        "url": f"{api}/actions/jobs/{job.id}",
        "html_url": f"{web}/job/{job.id}",
        "status": job.status,
        "conclusion": job.conclusion,
        "created_at": rfc3339(job.created_at),
        "started_at": rfc3339(job.created_at if job.started_at is None else job.started_at),
        "completed_at": rfc3339_or_none(job.completed_at),
        "name": "test",
        "steps": _steps(job),
        "check_run_url": f"{api}/check-runs/{job.id}",
        "labels": list(job.labels),
        "runner_id": job.runner_id,
        "runner_name": job.runner_name,
        "runner_group_id": DEFAULT_GROUP_ID if taken else None,
        "runner_group_name": DEFAULT_GROUP_NAME if taken else None,
    }


def _steps(job: SandboxJob) -> list[Document]:
    if job.started_at is None:
        return []
    started = rfc3339(job.started_at)
    setup = {"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1}
    # A job that lost its runner never reports the end of its last step.
    ended = job.status == "completed" and not job.left_open
    last = {
        "status": "completed" if ended else "in_progress",
        "conclusion": (job.step_conclusion or job.conclusion) if ended else None,
        "started_at": started,
        "completed_at": rfc3339_or_none(job.completed_at) if ended else None,
    }
    if not job.own_steps:
        return [setup | last]
    setup |= {"started_at": started, "completed_at": started}
    return [setup, {"name": "Run tests", "number": 2} | last]


def run_document(run: Run, repository: SandboxRepository, repository_document: Document, url: str) -> Document:
    """A workflow run."""
    api = f"{url}/repos/{repository.full_name}/actions/runs/{run.id}"
    status = run.job.status if run.job else "completed"
    moment = rfc3339(run.created_at)
    return {
        "id": run.id,
        "node_id": f"WFR_{run.id}",
        "name": WORKFLOW,
        "display_title": f"{WORKFLOW} #{run.number}",
        "path": WORKFLOW_PATH,
        "run_number": run.number,
        "run_attempt": run.job.attempt if run.job else 1,
        "event": run.event,
        "status": status,
        "conclusion": (run.conclusion or run.job.conclusion) if run.job else "success",
        "head_branch": run.branch or repository.default_branch,
        "head_sha": run.head_sha,
        "workflow_id": repository.id,
        "check_suite_id": run.id,
        "url": api,
        "html_url": f"{url}/{repository.full_name}/actions/runs/{run.id}",
        "created_at": moment,
        "updated_at": moment,
        "run_started_at": moment,
        "jobs_url": f"{api}/jobs",
        "logs_url": f"{api}/logs",
        "check_suite_url": f"{url}/repos/{repository.full_name}/check-suites/{run.id}",
        "artifacts_url": f"{api}/artifacts",
        "cancel_url": f"{api}/cancel",
        "rerun_url": f"{api}/rerun",
        "workflow_url": f"{url}/repos/{repository.full_name}/actions/workflows/{repository.id}",
        "pull_requests": [],
        "head_commit": commit_document(run.head_sha, run.created_at),
        "repository": repository_document,
        "head_repository": repository_document,
    }


def commit_document(sha: str, at: float) -> Document:
    """A commit in its short form."""
    author = {"name": "Mona", "email": "mona@example.com"}
    return {
        "id": sha,
        "tree_id": sha[::-1],
        "message": "Make it work",
        "timestamp": rfc3339(at),
        "author": author,
        "committer": author,
    }


def job_check_run(job: SandboxJob, app: Document, url: str) -> Document:
    """The check run behind a job: GitHub gives both the same id."""
    asked = {
        "name": "test",
        "head_sha": job.head_sha,
        "status": job.status,
        "conclusion": job.conclusion,
        "started_at": rfc3339(job.created_at if job.started_at is None else job.started_at),
        "completed_at": rfc3339_or_none(job.completed_at),
        "output": {"annotations": job.annotations},
    }
    return check_run_document(job.id, asked, job.repository, app, url)


def check_run_document(
    check_run_id: int, asked: Document, repository: SandboxRepository, app: Document, url: str
) -> Document:
    """Returns a check run after a request to create or update it."""
    api = f"{url}/repos/{repository.full_name}/check-runs/{check_run_id}"
    web = f"{url}/{repository.full_name}/runs/{check_run_id}"
    output: dict[str, Any] = asked.get("output") or {}
    return {
        "id": check_run_id,
        "node_id": f"CR_{check_run_id}",
        "name": asked["name"],
        "head_sha": asked["head_sha"],
        "external_id": asked.get("external_id", ""),
        "url": api,
        "html_url": web,
        "details_url": asked.get("details_url") or web,
        "status": asked.get("status", "queued"),
        "conclusion": asked.get("conclusion"),
        "started_at": asked.get("started_at"),
        "completed_at": asked.get("completed_at"),
        "output": {
            "title": output.get("title"),
            "summary": output.get("summary"),
            "text": output.get("text"),
            "annotations_count": len(output.get("annotations", ())),
            "annotations_url": f"{api}/annotations",
        },
        "check_suite": {"id": check_suite_id(repository, asked["head_sha"])},
        "app": app,
        "pull_requests": [],
    }


def check_suite_id(repository: SandboxRepository, sha: str) -> int:
    """Returns the id of the check suite of a commit; the same for every caller."""
    return repository.id * 1_000_000 + int(sha[:4] or "0", 16)
