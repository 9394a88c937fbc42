"""Our check runs in one repository, and the head of its branch.

A branch's head cannot be read without the permission to read contents; it is known from the branch's newest workflow
run, and from `check_suite` deliveries.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from ghapp.decoding import Id, Moment, Name, RowDecoder, Text
from ghapp.github.installation_client import InstallationClient
from ghapp.github.response import NOT_FOUND, UNPROCESSABLE
from ghapp.github.wire import read, read_rows
from ghapp.report.check_run import NAME, Report
from ghapp.report.check_run_state import Head

REFUSED = (NOT_FOUND, UNPROCESSABLE)
ADMIN = "admin"
RUNS_LOOKED_AT = 10
"""The newest run may be of a fork: of a pull request from a branch of the same name."""


class _Repository(msgspec.Struct):
    default_branch: Name
    private: bool = False
    topics: list[Text] = []


class _Person(msgspec.Struct):
    id: Id


class _Collaborator(msgspec.Struct):
    permission: Text
    user: _Person | None = None


class _Named(msgspec.Struct):
    full_name: Name


class _Run(msgspec.Struct):
    head_sha: Name
    created_at: Moment
    head_repository: _Named | None = None


class _Runs(msgspec.Struct):
    workflow_runs: list[_Run]


class _CheckRun(msgspec.Struct):
    id: Id
    external_id: str | None = None


class _CheckRuns(msgspec.Struct):
    check_runs: list[_CheckRun]


_repository = RowDecoder[_Repository]("repository", _Repository)
_runs = RowDecoder[_Runs]("workflow-run", _Runs)
_collaborator = msgspec.json.Decoder(_Collaborator)
_check_run = msgspec.json.Decoder(_CheckRun)
_check_runs = RowDecoder[_CheckRuns]("check-run", _CheckRuns)


class Checks:
    """Our check runs in one repository, `owner/name`, as one installation. Each call may raise `GitHubError`."""

    def __init__(
        self,
        installation_client: InstallationClient,
        repository: str,
        details_url: str | None = None,
        *,
        name: str = NAME,
        subject: str | None = None,
    ) -> None:
        """By default for the fleet's check run.

        Args:
            installation_client: the client to use.
            repository: `owner/name`.
            details_url: target of the check run's "Details" link; None: GitHub's own page.
            name: of the check run.
            subject: distinguishes it from check runs of the same name on one commit; None if there is only one.
        """
        self.client, self.installation = installation_client, installation_client.installation
        self._repository, self._details_url, self.name = repository, details_url, name
        self._path = f"/repos/{quote(repository)}"
        self.key = external_id(self.installation.id, subject)
        # The filter `latest` returns only the newest check run of a name, whatever its subject.
        self._filter = "latest" if subject is None else "all"

    async def default_branch(self) -> str | None:
        """Returns the default branch; None if the repository does not exist, or the installation cannot see it."""
        answer = await self.client.send("GET", self._path)
        return None if answer.status in REFUSED else self._described(answer.body).default_branch

    async def is_private(self) -> bool | None:
        """True if only members can read what is posted there; None if there is none that the installation can see."""
        answer = await self.client.send("GET", self._path)
        return None if answer.status in REFUSED else self._described(answer.body).private

    async def topics(self) -> list[str] | None:
        """Returns the repository's topics; None if it does not exist, or the installation cannot see it."""
        answer = await self.client.send("GET", self._path)
        return None if answer.status in REFUSED else self._described(answer.body).topics

    async def is_admin(self, login: str, user_id: int) -> bool:
        """True if a person is an admin of the repository; needs `metadata: read`.

        GitHub takes a login, which may belong to another person now: the answer must be about the one with this id.
        """
        path = f"{self._path}/collaborators/{quote(login, safe='')}/permission"
        answer = await self.client.send("GET", path)
        if answer.status in REFUSED:
            return False
        found = read(_collaborator, answer.body)
        return found.permission == ADMIN and found.user is not None and found.user.id == user_id

    async def head(self, branch: str, now: float) -> Head | None:
        """Returns the branch's head by its newest workflow run; None if there is no run."""
        path = f"{self._path}/actions/runs"
        answer = await self.client.send("GET", path, branch=branch, per_page=RUNS_LOOKED_AT)
        if answer.status in REFUSED:
            return None
        for run in read_rows(_runs, answer.body, self.client.left_out).value.workflow_runs:
            source = run.head_repository
            if source is not None and source.full_name.lower() == self._repository.lower():
                return Head(self._repository, branch, run.head_sha, run.created_at.timestamp(), now)
        return None

    async def find(self, sha: str) -> int | None:
        """Returns the id of our check run on that commit; None if there is none."""
        path = f"{self._path}/commits/{quote(sha)}/check-runs"
        answer = await self.client.send("GET", path, check_name=self.name, filter=self._filter, per_page=100)
        if answer.status in REFUSED:
            return None
        listed = read_rows(_check_runs, answer.body, self.client.left_out).value
        ours = [run.id for run in listed.check_runs if run.external_id == self.key]
        return max(ours, default=None)

    async def create(self, sha: str, report: Report) -> int | None:
        """Posts a new check run to a commit; returns its id, or None if the repository or the commit is missing."""
        body = self._body(report) | {"head_sha": sha, "external_id": self.key}
        answer = await self.client.send("POST", f"{self._path}/check-runs", json=body)
        return None if answer.status in REFUSED else read(_check_run, answer.body).id

    async def update(self, check_run: int, report: Report) -> bool:
        """Updates a check run; returns False if it no longer exists."""
        answer = await self.client.send("PATCH", f"{self._path}/check-runs/{check_run}", json=self._body(report))
        return answer.status not in REFUSED

    def _described(self, body: bytes) -> _Repository:
        return read_rows(_repository, body, self.client.left_out).value

    def _body(self, report: Report) -> dict[str, Any]:
        over = {"status": "completed", "conclusion": report.conclusion.value} if report.conclusion else {}
        body: dict[str, Any] = {
            "name": self.name,
            "status": "in_progress",
            **over,
            "output": {"title": report.title, "summary": report.summary, "text": report.text},
            "actions": [action._asdict() for action in report.actions],
        }
        return body if self._details_url is None else body | {"details_url": self._details_url}


def external_id(installation: int, subject: str | None = None) -> str:
    """Returns the external id of our check runs; unique, because an installation belongs to one App."""
    return f"ghapp-{installation}" if subject is None else f"ghapp-{installation}-{subject}"
