"""Organizations, repositories, workflow runs and jobs as people see them: where links of GitHub's documents lead."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.sandbox.documents.accounts import rfc3339
from ghapp.sandbox.fleet.jobs import Run, SandboxJob, SandboxRepository
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.pages.html import page
from ghapp.sandbox.world import World

MOST_RUNS = 50


class WorkPages:
    """The pages of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Returns all routes; they are tried after those of the API, which may be at the same root."""
        repository = "/{owner}/{repo}"
        return [
            Route("/", self.index, methods=["GET"]),
            Route("/organizations/{owner}/settings/actions/runners", self.runners, methods=["GET"]),
            Route(f"{repository}/actions/runs/{{run_id:int}}/job/{{job_id:int}}", self.job, methods=["GET"]),
            Route(f"{repository}/actions/runs/{{run_id:int}}", self.run, methods=["GET"]),
            Route(f"{repository}/commit/{{sha}}", self.repository, methods=["GET"]),
            Route(repository, self.repository, methods=["GET"]),
            Route("/{owner}", self.organization, methods=["GET"]),
        ]

    async def index(self, request: Request) -> Response:
        """Shows the organizations."""
        del request
        items = (_link(f"/{each.login}", each.login) for each in self._world.orgs.values())
        return page("GitHub", f"<p>Its organizations, with their runners, jobs and checks:</p>{_list(items)}")

    async def organization(self, request: Request) -> Response:
        """Shows the repositories of an organization, and where its runners are."""
        org = self._organization(request)
        count = len(org.fleet.roster.registered)
        runners = _link(f"/organizations/{org.login}/settings/actions/runners", f"{count:,} runners")
        repositories = _list(_link(f"/{each.full_name}", each.full_name) for each in org.repositories.values())
        return page(org.login, f"<p>{runners}</p><h2>Repositories</h2>{repositories}")

    async def runners(self, request: Request) -> Response:
        """Lists the registered runners."""
        org = self._organization(request)
        path = f"/organizations/{org.login}/settings/actions/runners"
        items = (_link(f"{path}/{each.id}", each.name) for each in org.fleet.roster.registered.values())
        return page(f"Runners of {org.login}", _list(items))

    async def repository(self, request: Request) -> Response:
        """Shows the latest runs of a repository."""
        repository = self._repository(request)
        checks = _link(f"/{repository.full_name}/runs", "Check runs of Apps")
        items = (_run_line(repository, each) for each in list(repository.runs)[:MOST_RUNS])
        return page(repository.full_name, f"<p>{checks}</p><h2>Workflow runs</h2>{_list(items)}")

    async def run(self, request: Request) -> Response:
        """Shows a workflow run and its job."""
        repository = self._repository(request)
        found = self._run(repository, request)
        if found is None:
            return _forgotten(repository)
        title = f"Run {found.id} of {repository.full_name}"
        if found.job is None:
            return page(title, "<p>It ran on hosted runners long ago.</p>")
        return page(title, f"<p>Its job: {_link(_job_path(found.job), str(found.job.id))}</p>{_facts(found.job)}")

    async def job(self, request: Request) -> Response:
        """Shows a job: its state, its runner, GitHub's annotations, and its log if one was uploaded."""
        repository = self._repository(request)
        job = self._organization(request).fleet.jobs.get(request.path_params["job_id"])
        if job is None or (job.repository, job.run_id) != (repository, request.path_params["run_id"]):
            return _forgotten(repository)
        notes = _list(escape(each["message"]) for each in job.annotations)
        content = f"{_facts(job)}{f'<h2>Annotations</h2>{notes}' if job.annotations else ''}"
        if job.log:
            content += f"<h2>Log</h2><pre>{escape(job.log)}</pre>"
        checks = _link(f"/{repository.full_name}/runs", "Check runs of Apps")
        return page(f"Job {job.id} of {repository.full_name}", f"{content}<p>{checks}</p>")

    def _organization(self, request: Request) -> Organization:
        org = self._world.directory.organization(request.path_params["owner"])
        if org is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return org

    def _repository(self, request: Request) -> SandboxRepository:
        repository = self._organization(request).repositories.get(request.path_params["repo"])
        if repository is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return repository

    def _run(self, repository: SandboxRepository, request: Request) -> Run | None:
        run_id = request.path_params["run_id"]
        known = (each for each in repository.runs if each.id == run_id)
        return next(known, None)


def _facts(job: SandboxJob) -> str:
    facts = {
        "Status": job.status if job.conclusion is None else f"{job.status}, {job.conclusion}",
        "Labels": ", ".join(job.labels),
        "Runner": job.runner_name or "none",
        "Attempt": str(job.attempt),
        "Commit": job.head_sha,
        "Created": rfc3339(job.created_at),
        "Started": "not yet" if job.started_at is None else rfc3339(job.started_at),
        "Completed": "not yet" if job.completed_at is None else rfc3339(job.completed_at),
    }
    return _list(f"{name}: <b>{escape(value)}</b>" for name, value in facts.items())


def _run_line(repository: SandboxRepository, run: Run) -> str:
    if run.job is None:
        return f"{_link(f'/{repository.full_name}/actions/runs/{run.id}', f'Run {run.id}')} on hosted runners"
    state = run.job.conclusion or run.job.status
    return f"{_link(_job_path(run.job), f'Job {run.job.id}')} {escape(state)}"


def _job_path(job: SandboxJob) -> str:
    return f"/{job.repository.full_name}/actions/runs/{job.run_id}/job/{job.id}"


def _forgotten(repository: SandboxRepository) -> Response:
    content = f"<p>The simulated GitHub keeps the latest runs only. {_link(f'/{repository.full_name}', 'See them')}</p>"
    return page("This run is no longer kept", content, HTTPStatus.NOT_FOUND)


def _link(target: str, text: str) -> str:
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def _list(items: Iterable[str]) -> str:
    listed = "".join(f"<li>{each}</li>" for each in items)
    return f"<ul>{listed}</ul>" if listed else "<p>None yet.</p>"
