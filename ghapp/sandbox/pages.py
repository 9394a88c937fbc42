"""Where links of GitHub's documents lead: pages of organizations, repositories, runs, jobs, runners and check runs.

Plain HTML, with forms that are one button, and Markdown as GitHub shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from urllib.parse import parse_qsl

from markdown_it import MarkdownIt  # comes with rich
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.sandbox.documents import Document, rfc3339
from ghapp.sandbox.fleet.jobs import Run, SandboxJob, SandboxRepository
from ghapp.sandbox.organizations import SENDER, Organization
from ghapp.sandbox.people import person_called
from ghapp.sandbox.world import World

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --paper: #fff; --line: #d1d9e0; --link: #0969da;
  --band: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --soft: #9198a1; --paper: #0d1117; --line: #3d444d;
  --link: #4493f8; --band: #151b23; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
header { padding: .6rem 1rem; background: var(--band); border-bottom: 1px solid var(--line); color: var(--soft); }
main { max-width: 76rem; margin: 0 auto; padding: 1rem; } h1 { font-size: 1.4rem; line-height: 1.3; }
a { color: var(--link); } code, pre { font: .88em ui-monospace, monospace; }
form { margin: .5rem 0 0; } form + p { margin: .2rem 0 .8rem; color: var(--soft); font-size: .9rem; }
button { font: inherit; font-weight: 600; color: inherit; background: var(--band); padding: .35rem .9rem;
  border: 1px solid var(--line); border-radius: .4rem; cursor: pointer; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.markdown { overflow-x: auto; margin: 1.25rem 0; }
pre { white-space: pre-wrap; background: var(--band); padding: .75rem; border-radius: .4rem; }
table { border-collapse: collapse; font-size: .9rem; } tr:nth-child(even) td { background: var(--band); }
th, td { border: 1px solid var(--line); padding: .35rem .7rem; text-align: left; white-space: nowrap; }
"""

NOTICE = "A simulated GitHub; it runs on this machine alone."
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")

SESSION_COOKIE = "user_session"
"""Has the login of the person who signed in last in this browser; it protects nothing."""

CHECK_RUN_PATH = "/{owner}/{repo}/runs/{check_run_id:int}"
MOST_RUNS = 50


async def form_fields(request: Request) -> dict[str, str]:
    """Returns the fields of a URL-encoded form, as a browser posts it."""
    return dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))


def form(target: str, label: str, fields: Mapping[str, str]) -> str:
    """Returns a button that posts these fields."""
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in fields.items()
    )
    return f'<form method="post" action="{escape(target)}">{hidden}<button>{escape(label)}</button></form>'


def markdown(text: str) -> str:
    """Returns Markdown as HTML; HTML in it is shown as text, but for `code` and `br` elements."""
    rendered = re.sub(r"&lt;code&gt;(.*?)&lt;/code&gt;", r"<code>\1</code>", _MARKDOWN.render(text))
    rendered = rendered.replace("&lt;br&gt;", "<br>")
    return f'<div class="markdown" tabindex="0">{rendered}</div>'


def page(title: str, content: str, status: int = HTTPStatus.OK) -> Response:
    """Returns a page; `content` is HTML."""
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
    )
    body = f"<body><header>{NOTICE}</header><main><h1>{escape(title)}</h1>{content}</main></body></html>"
    return HTMLResponse(head + body, status)


class _Pages:
    """Pages of a world; each is 404 where its path names nothing."""

    def __init__(self, world: World) -> None:
        self._world = world

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


class CheckRunPages(_Pages):
    """Check runs, with the buttons that people press."""

    def routes(self) -> list[Route]:
        """Returns all routes."""
        return [
            Route("/{owner}/{repo}/runs", self.index, methods=["GET"]),
            Route(CHECK_RUN_PATH, self.show, methods=["GET"]),
            Route(CHECK_RUN_PATH, self.press, methods=["POST"]),
        ]

    async def index(self, request: Request) -> Response:
        """Shows the check runs of a repository, newest first."""
        repository = self._repository(request)
        items = (
            _link(f"/{repository.full_name}/runs/{number}", _check_run_title(posted))
            for number, posted in reversed(repository.check_runs.items())
        )
        return page(f"Checks of {repository.full_name}", _list(items))

    async def show(self, request: Request) -> Response:
        """Shows its text, and a button for each of its actions once it is completed."""
        posted = self._check_run(request)
        output = posted.get("output") or {}
        conclusion = posted.get("conclusion")
        state = (
            f"Conclusion: <b>{escape(conclusion)}</b>" if conclusion else f"Status: <b>{escape(_status(posted))}</b>"
        )
        if (details := str(posted.get("details_url") or "")).startswith(("http://", "https://")):
            state += f' <a href="{escape(details)}">Details</a>'
        content = "".join(markdown(output[key]) for key in ("summary", "text") if output.get(key))
        buttons = _buttons(request.url.path, posted, _signed_in(request))
        return page(_check_run_title(posted), f"<p>{state}</p>{buttons}{content}")

    async def press(self, request: Request) -> Response:
        """Presses a button or, without an identifier, "Re-run", as the person who signed in; shows the page again."""
        self._check_run(request)
        org, repository = self._organization(request), self._repository(request)
        identifier = (await form_fields(request)).get("identifier")
        number = request.path_params["check_run_id"]
        self._world.press_button(org, repository, number, identifier, _signed_in(request))
        return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)

    def _check_run(self, request: Request) -> Document:
        posted = self._repository(request).check_runs.get(request.path_params["check_run_id"])
        if posted is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return posted


def _status(posted: Document) -> str:
    return str(posted.get("status", "queued")).replace("_", " ")


def _signed_in(request: Request) -> str:
    """Returns the login of the person who signed in last in this browser; the owner's without one."""
    person = person_called(request.cookies.get(SESSION_COOKIE))
    return SENDER[0] if person is None else person.login


def _buttons(target: str, posted: Document, login: str) -> str:
    if posted.get("status") != "completed":
        return ""
    actions = posted.get("actions") or []
    pressed = [
        form(target, action["label"], {"identifier": action["identifier"]}) + f"<p>{escape(action['description'])}</p>"
        for action in actions
    ]
    return "".join([*pressed, form(target, "Re-run", {}), f"<p>Signed in as {escape(login)}</p>"])


def _check_run_title(posted: Document) -> str:
    title = (posted.get("output") or {}).get("title")
    return f"{posted['name']}: {title}" if title else str(posted["name"])


class WorkPages(_Pages):
    """Organizations, repositories, workflow runs, jobs and runners."""

    def routes(self) -> list[Route]:
        """Returns all routes; they are tried after those of the API, which may be at the same root."""
        repository = "/{owner}/{repo}"
        return [
            Route("/", self.index, methods=["GET"]),
            Route("/organizations/{owner}/settings/actions/runners", self.runners, methods=["GET"]),
            Route("/organizations/{org}/settings/actions/runners/{runner_id:int}", self.runner, methods=["GET"]),
            Route(f"{repository}/actions/runs/{{run_id:int}}/job/{{job_id:int}}", self.job, methods=["GET"]),
            Route(f"{repository}/actions/runs/{{run_id:int}}", self.run, methods=["GET"]),
            Route(f"{repository}/actions/runs/{{run_id:int}}/workflow", self.workflow, methods=["GET"]),
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

    async def runner(self, request: Request) -> Response:
        """Shows the registration; 404 without one."""
        org = self._world.directory.organization(request.path_params["org"])
        runner_id = request.path_params["runner_id"]
        runner = None if org is None else org.fleet.roster.registered.get(runner_id)
        if runner is None:
            content = f"<p>No runner {runner_id} is registered: it was lost, or removed.</p>"
            return page("Page not found", content, HTTPStatus.NOT_FOUND)
        state = "Offline" if not runner.online else "Active" if runner.busy else "Idle"
        labels = ", ".join(f"<code>{escape(label)}</code>" for label in runner.labels)
        return page(runner.name, f"<p>Status: <b>{state}</b></p><p>Labels: {labels}</p>")

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

    async def workflow(self, request: Request) -> Response:
        """Shows the workflow file of a run, as far as it is simulated: the labels of its job."""
        repository = self._repository(request)
        found = self._run(repository, request)
        if found is None or found.job is None:
            return _forgotten(repository)
        text = f"on: push\njobs:\n  test:\n    runs-on: [{', '.join(found.job.labels)}]\n"
        return page(f"Workflow file of run {found.id}", f"<pre>{escape(text)}</pre>")

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
        "Branch": job.branch or job.repository.default_branch,
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
