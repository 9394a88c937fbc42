"""Repositories, workflow runs and jobs, and what is left of the rate limit."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ghapp.sandbox.documents import Document, job_document, run_document
from ghapp.sandbox.fleet.jobs import Run, SandboxJob
from ghapp.sandbox.people import person_called
from ghapp.sandbox.rest.answers import RestError, Window, json_response, not_found
from ghapp.sandbox.rest.call import Caller, RestCall
from ghapp.sandbox.rest.operation import RestOperation

ACTIONS = ("actions", "read")
RERUN = ("actions", "write")
METADATA = ("metadata", "read")

#: GitHub re-runs a run 50 times at most, since April 2026.
MOST_ATTEMPTS = 51

#: Other budgets that GitHub names, and that this App never spends.
_OTHER_LIMITS = {"search": 30, "graphql": 5000, "integration_manifest": 5000, "actions_runner_registration": 10_000}


def list_repositories(call: RestCall) -> Response:
    """The repositories that the installation sees."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    seen = [r for r in call.org.repositories.values() if call.installation.sees(r.name)]
    document = {
        "total_count": len(seen),
        "repository_selection": call.installation.selection,
        "repositories": [call.org.repository_document(r) for r in window.cut(seen)],
    }
    return json_response(document, headers=window.link(f"{call.base}/installation/repositories", query, len(seen)))


def list_organization_repositories(call: RestCall) -> Response:
    """The organization's repositories that the person may read."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    seen = [each for each in call.org.repositories.values() if call.reads(call.org, each.name)]
    shown = [call.org.repository_document(each) for each in window.cut(seen)]
    return json_response(shown, headers=window.link(f"{call.base}/organizations/{call.org.id}/repos", query, len(seen)))


def get_repository(call: RestCall) -> Response:
    """One repository."""
    return json_response(call.org.repository_document(call.repository))


def get_permission(call: RestCall) -> Response:
    """What a person may do in the repository; 404 for a login of no account."""
    if (person := person_called(call.request.path_params["username"])) is None:
        raise not_found()
    role = person.role_in(call.org is min(call.world.orgs.values(), key=lambda each: each.id))
    may_write = role is not None and (person.repositories is None or call.repository.name in person.repositories)
    level = "admin" if role == "owner" else "write" if may_write else "none"
    user = call.world.documents.account(person.login, person.id, kind="User")
    return json_response({"permission": level, "role_name": level, "user": user})


def list_runs(call: RestCall) -> Response:
    """Workflow runs, newest first, of a `branch` or all, with a `status` or a `head_sha` or any."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    repository = call.repository
    owner = call.org.repository_document(repository)
    ahead = call.world.clock.github_ahead
    found = [run_document(run.with_clock_ahead(ahead), repository, owner, call.world.url) for run in repository.runs]
    for parameter, key in (("branch", "head_branch"), ("status", "status"), ("head_sha", "head_sha")):
        if wanted := query.get(parameter):
            found = [run for run in found if wanted in {run[key], run["conclusion"] if key == "status" else None}]
    url = f"{call.base}/repositories/{repository.id}/actions/runs"
    document = {"total_count": len(found), "workflow_runs": window.cut(found)}
    return json_response(document, headers=window.link(url, query, len(found)))


def get_run(call: RestCall) -> Response:
    """One run."""
    run, repository = _run_in_path(call).with_clock_ahead(call.world.clock.github_ahead), call.repository
    return json_response(run_document(run, repository, call.org.repository_document(repository), call.world.url))


def _run_in_path(call: RestCall) -> Run:
    run_id = call.number("run_id")
    run = next((run for run in call.repository.runs if run.id == run_id), None)
    if run is None:
        raise not_found()
    return run


def list_run_jobs(call: RestCall) -> Response:
    """The jobs of a run: of its latest attempt or, with `filter=all`, of all attempts."""
    run = _run_in_path(call)
    jobs = [] if run.job is None else [run.job]
    if jobs and call.request.query_params.get("filter") == "all":
        jobs = [each for each in call.org.fleet.jobs.values() if each.run_id == run.id]
    return json_response({"total_count": len(jobs), "jobs": [_document(call, each) for each in jobs]})


def get_job(call: RestCall) -> Response:
    """One job."""
    return json_response(_document(call, job_in_path(call, "job_id")))


def rerun_job(call: RestCall) -> Response:
    """A job of a run that is over runs again, as a new job in the run's next attempt; 403 where it may not."""
    job = job_in_path(call, "job_id")
    run = next((run for run in call.repository.runs if run.id == job.run_id), None)
    if run is None:
        raise not_found()
    if run.job is not job or job.status != "completed":
        raise RestError(HTTPStatus.FORBIDDEN, "The workflow run containing this job is already running")
    if job.attempt >= MOST_ATTEMPTS:
        raise RestError(HTTPStatus.FORBIDDEN, "This workflow run has reached the maximum number of re-runs.")
    run.job = call.org.fleet.rerun(job, call.now, f"{call.app.slug}[bot]")
    return json_response({}, HTTPStatus.CREATED)


def get_job_log(call: RestCall) -> Response:
    """The address of a job's raw log, which is elsewhere and needs no token; 404 where none was uploaded."""
    job = job_in_path(call, "job_id")
    if job.log is None:
        raise not_found()
    return Response(status_code=HTTPStatus.FOUND, headers={"location": f"{call.world.url}/_logs/{job.id}?sig=secret"})


async def _raw_log(request: Request) -> Response:
    job_id, world = int(request.path_params["job_id"]), request.app.state.world
    found = [org.fleet.jobs[job_id] for org in world.orgs.values() if job_id in org.fleet.jobs]
    if not found or found[0].log is None or "authorization" in request.headers:
        return Response(status_code=HTTPStatus.BAD_REQUEST)  # as Azure answers requests with two kinds of credentials
    return PlainTextResponse(found[0].log)


LOGS = [Route("/_logs/{job_id:int}", _raw_log, methods=["GET"])]


def job_in_path(call: RestCall, name: str) -> SandboxJob:
    """The job whose id is this path parameter, if it belongs to the path's repository; else 404."""
    job = call.org.fleet.jobs.get(call.number(name))
    if job is None or job.repository is not call.repository:
        raise not_found()
    return job


def _document(call: RestCall, job: SandboxJob) -> Document:
    return job_document(job.with_clock_ahead(call.world.clock.github_ahead), call.world.url)


def get_rate_limit(call: RestCall) -> Response:
    """What is left; asking costs nothing."""
    meter = call.world.limits.meter(call.installation.id, call.now)
    reset = int(call.world.stated(meter.reset))
    core = {"limit": meter.limit, "used": meter.used, "remaining": meter.remaining, "reset": reset}
    others = {
        name: {"limit": limit, "used": 0, "remaining": limit, "reset": reset} for name, limit in _OTHER_LIMITS.items()
    }
    return json_response({"resources": {"core": core, **others}, "rate": core})


OPERATIONS = [
    RestOperation("GET", "/installation/repositories", list_repositories),
    RestOperation("GET", "/orgs/{org}/repos", list_organization_repositories, Caller.USER),
    RestOperation("GET", "/repos/{owner}/{repo}", get_repository, needs=METADATA),
    RestOperation("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", get_permission, needs=METADATA),
    RestOperation("GET", "/repos/{owner}/{repo}/actions/runs", list_runs, needs=ACTIONS),
    RestOperation("GET", "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs", list_run_jobs, needs=ACTIONS),
    RestOperation("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id}", get_job, needs=ACTIONS),
    RestOperation("GET", "/repos/{owner}/{repo}/actions/runs/{run_id}", get_run, needs=ACTIONS),
    RestOperation("POST", "/repos/{owner}/{repo}/actions/jobs/{job_id}/rerun", rerun_job, needs=RERUN),
    RestOperation("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id}/logs", get_job_log, needs=ACTIONS),
    RestOperation("GET", "/rate_limit", get_rate_limit, counted=False),
]
