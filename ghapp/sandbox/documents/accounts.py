"""GitHub's JSON documents of people, repositories and Apps, as REST answers and webhook payloads show them.

Shapes: `simple-user`, `full-repository`, `integration` and `installation` of GitHub's REST description; a test
validates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ghapp.sandbox.apps import App, SandboxInstallation
from ghapp.sandbox.fleet.jobs import SandboxRepository

Document = dict[str, Any]


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
