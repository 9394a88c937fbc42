"""GitHub's JSON documents, as REST answers and webhook payloads show them.

Shapes: `simple-user`, `full-repository`, `integration`, `installation`, `runner`, `job`, `workflow-run` and `check-run`
of GitHub's REST description; a test validates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ghapp.sandbox.apps import App, SandboxInstallation
from ghapp.sandbox.config import READ_ONLY_LABELS
from ghapp.sandbox.fleet.jobs import Run, SandboxJob, SandboxRepository
from ghapp.sandbox.fleet.runners import DEFAULT_GROUP_ID, DEFAULT_GROUP_NAME, Runner

Document = dict[str, Any]

WORKFLOW = "CI"
WORKFLOW_PATH = ".github/workflows/ci.yml"


def rfc3339(seconds: float) -> str:
    """Epoch seconds as GitHub writes a time: UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_or_none(seconds: float | None) -> str | None:
    """Returns the same, or None without a time."""
    return None if seconds is None else rfc3339(seconds)


@dataclass(frozen=True, slots=True)
class AccountDocuments:
    """Writes documents whose links point at this sandbox; `url` is its root, without a slash at the end."""

    url: str

    def account(self, login: str, account_id: int, kind: str = "Organization") -> Document:
        """Returns a user or an organization in its short form."""
        api = f"{self.url}/users/{login}"
        return {
            "login": login,
            "id": account_id,
            "node_id": f"O_{account_id}",
            "avatar_url": f"{self.url}/avatars/{account_id}",
            "gravatar_id": "",
            "url": api,
            "html_url": f"{self.url}/{login}",
            "type": kind,
            "site_admin": False,
        } | {key: api + path for key, path in USER_LINKS.items()}

    def user(self, login: str, account_id: int, kind: str = "User") -> Document:
        """A person, or another account, in the public form."""
        blank = dict.fromkeys(("name", "company", "location", "email", "hireable", "bio"))
        counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        born = "2024-01-15T09:00:00Z"
        dates = {"created_at": born, "updated_at": born}
        return self.account(login, account_id, kind) | blank | counts | dates | {"blog": "", "user_view_type": "public"}

    def organization(self, login: str, account_id: int) -> Document:
        """Returns an organization as webhook payloads show it."""
        api = f"{self.url}/orgs/{login}"
        return {
            "login": login,
            "id": account_id,
            "node_id": f"O_{account_id}",
            "url": api,
            "repos_url": f"{api}/repos",
            "events_url": f"{api}/events",
            "hooks_url": f"{api}/hooks",
            "issues_url": f"{api}/issues",
            "members_url": f"{api}/members{{/member}}",
            "public_members_url": f"{api}/public_members{{/member}}",
            "avatar_url": f"{self.url}/avatars/{account_id}",
            "description": "",
        }

    def repository(self, repository: SandboxRepository, owner: Document) -> Document:
        """Returns a full repository."""
        api = f"{self.url}/repos/{repository.full_name}"
        web = f"{self.url}/{repository.full_name}"
        born = "2024-01-15T09:00:00Z"
        links = {key: api + path for key, path in REPOSITORY_LINKS.items()}
        counts = dict.fromkeys(
            (
                *("forks", "forks_count", "open_issues", "open_issues_count", "stargazers_count"),
                *("watchers", "watchers_count", "network_count", "subscribers_count", "size"),
            ),
            0,
        )
        features = dict.fromkeys(("has_issues", "has_projects", "has_downloads", "has_wiki"), True)
        return {
            "id": repository.id,
            "node_id": f"R_{repository.id}",
            "name": repository.name,
            "full_name": repository.full_name,
            "private": True,
            "visibility": "private",
            "owner": owner,
            "html_url": web,
            "description": None,
            "fork": False,
            "url": api,
            "git_url": f"git:{web.partition(':')[2]}.git",
            "ssh_url": f"git@sandbox:{repository.full_name}.git",
            "clone_url": f"{web}.git",
            "svn_url": web,
            "homepage": None,
            "language": "Python",
            "mirror_url": None,
            "license": None,
            "topics": list(repository.topics),
            "default_branch": repository.default_branch,
            "created_at": born,
            "updated_at": born,
            "pushed_at": born,
            **dict.fromkeys(("archived", "disabled", "is_template", "has_pages", "has_discussions"), False),
            **features,
            **counts,
            **links,
        }

    def app(self, app: App) -> Document:
        """Returns an App as its owner and the public see it, without credentials."""
        return {
            "id": app.id,
            "slug": app.slug,
            "client_id": app.client_id,
            "node_id": f"A_{app.id}",
            "owner": self.account(app.owner, 9_000 + app.id % 1_000),
            "name": app.name,
            "description": app.description,
            "external_url": app.external_url,
            "html_url": f"{self.url}/apps/{app.slug}",
            "created_at": rfc3339(app.created_at),
            "updated_at": rfc3339(app.created_at),
            "permissions": app.permissions,
            "events": list(app.events),
        }

    def installation(
        self, installation: SandboxInstallation, account: Document, sender: Document, permissions: dict[str, str]
    ) -> Document:
        """Returns an installation with the `permissions` that it shows; `sender` is the admin who suspended it."""
        suspended = installation.suspended_at
        return {
            "id": installation.id,
            "client_id": installation.app.client_id,
            "account": account,
            "repository_selection": installation.selection,
            "access_tokens_url": f"{self.url}/app/installations/{installation.id}/access_tokens",
            "repositories_url": f"{self.url}/installation/repositories",
            "html_url": f"{self.url}/organizations/{installation.org}/settings/installations/{installation.id}",
            "app_id": installation.app.id,
            "app_slug": installation.app.slug,
            "target_id": account["id"],
            "target_type": account["type"],
            "permissions": permissions,
            "events": list(installation.app.events),
            "created_at": rfc3339(installation.created_at),
            "updated_at": rfc3339(installation.created_at),
            "single_file_name": None,
            "has_multiple_single_files": False,
            "single_file_paths": [],
            "suspended_by": None if suspended is None else sender,
            "suspended_at": rfc3339_or_none(suspended),
        }


USER_LINKS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}

REPOSITORY_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}


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
        "head_branch": job.branch or job.repository.default_branch,
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
