"""Check runs: those that an App posts, and those that GitHub keeps behind each job."""

from __future__ import annotations

import itertools
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response

from ghapp.sandbox.documents import Document, check_run_document, job_check_run, rfc3339
from ghapp.sandbox.rest.answers import RestError, Window, json_response, not_found, unprocessable
from ghapp.sandbox.rest.call import RestCall
from ghapp.sandbox.rest.operation import RestOperation
from ghapp.sandbox.rest.repositories import job_in_path

READ = ("checks", "read")
WRITE = ("checks", "write")
LONGEST_TEXT = 65_535

_ids = itertools.count(60_000_000_001)

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Conclusion = Literal["action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out"]


class Annotation(msgspec.Struct, omit_defaults=True):
    """A note on a line of a file."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Literal["notice", "warning", "failure"]
    message: str
    title: str | None = None
    raw_details: str | None = None
    start_column: int | None = None
    end_column: int | None = None


class Output(msgspec.Struct, omit_defaults=True):
    """The output of a check run."""

    summary: Text
    title: str | None = None
    text: Text | None = None
    annotations: Annotated[list[Annotation], msgspec.Meta(max_length=50)] = []


class SentAction(msgspec.Struct):
    """A button."""

    label: Annotated[str, msgspec.Meta(max_length=20)]
    description: Annotated[str, msgspec.Meta(max_length=40)]
    identifier: Annotated[str, msgspec.Meta(max_length=20)]


class CheckRunUpdate(msgspec.Struct, omit_defaults=True):
    """Body of an update; what is left out stays."""

    name: str | None = None
    head_sha: str | None = None
    details_url: str | None = None
    external_id: str | None = None
    status: Literal["queued", "in_progress", "completed"] | None = None
    started_at: str | None = None
    conclusion: Conclusion | None = None
    completed_at: str | None = None
    output: Output | None = None
    actions: Annotated[list[SentAction], msgspec.Meta(max_length=3)] | None = None


def create_check_run(call: RestCall) -> Response:
    """Posts a check run to a commit."""
    asked = _asked(call)
    if "name" not in asked or "head_sha" not in asked:
        raise unprocessable('Invalid request.\n\n"name", "head_sha" weren\'t supplied.')
    check_run_id = next(_ids)
    _complete(asked, call.stated_now)
    asked.setdefault("started_at", rfc3339(call.stated_now))
    call.repository.check_runs[check_run_id] = asked | {"app_id": call.app.id}
    call.world.announce_check_run(call.org, call.repository, check_run_id, "created")
    return json_response(_document(call, check_run_id), HTTPStatus.CREATED)


def update_check_run(call: RestCall) -> Response:
    """Changes a check run; only the App that posted it may."""
    check_run_id = call.number("check_run_id")
    present = call.repository.check_runs.get(check_run_id)
    if present is None:
        raise not_found()
    if present["app_id"] != call.app.id:
        raise RestError(HTTPStatus.FORBIDDEN, "Invalid app_id - check run was created by another App.")
    asked = _asked(call)
    asked.pop("head_sha", None)
    _complete(asked, call.stated_now)
    present.update(asked)
    return json_response(_document(call, check_run_id))


def get_check_run(call: RestCall) -> Response:
    """One check run, a posted one or a job's."""
    return json_response(_document(call, call.number("check_run_id")))


def list_check_runs(call: RestCall) -> Response:
    """The check runs of a commit or a branch, newest first; `check_name`, `status` and `app_id` filter."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    repository = call.repository
    ref = call.request.path_params["ref"]
    sha = repository.head_sha if ref in {repository.default_branch, f"heads/{repository.default_branch}"} else ref
    posted = [_document(call, i) for i, run in repository.check_runs.items() if run["head_sha"] == sha]
    found = [
        run
        for run in reversed(posted)
        if query.get("check_name") in {None, run["name"]}
        and query.get("status") in {None, run["status"]}
        and query.get("app_id") in {None, str(run["app"]["id"])}
    ]
    url = f"{call.base}/repositories/{repository.id}/commits/{ref}/check-runs"
    document = {"total_count": len(found), "check_runs": window.cut(found)}
    return json_response(document, headers=window.link(url, query, len(found)))


def list_annotations(call: RestCall) -> Response:
    """The annotations of a check run."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    check_run_id = call.number("check_run_id")
    posted = call.repository.check_runs.get(check_run_id)
    if posted is None:
        notes = job_in_path(call, "check_run_id").annotations
    else:
        notes = (posted.get("output") or {}).get("annotations", [])
    optional = dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
    shown = [optional | note | {"blob_href": f"{call.world.url}/{note['path']}"} for note in window.cut(notes)]
    url = f"{call.base}/repositories/{call.repository.id}/check-runs/{check_run_id}/annotations"
    return json_response(shown, headers=window.link(url, query, len(notes)))


def _asked(call: RestCall) -> dict[str, Any]:
    asked: dict[str, Any] = msgspec.to_builtins(call.json(CheckRunUpdate))
    return asked


def _complete(asked: dict[str, Any], now: float) -> None:
    """A conclusion completes a check run, and completion has a time; buttons stay until others are given."""
    if asked.get("conclusion"):
        asked["status"] = "completed"
        asked.setdefault("completed_at", rfc3339(now))
    elif asked.get("status") in {"queued", "in_progress"}:
        asked |= {"conclusion": None, "completed_at": None}
    elif asked.get("status") == "completed":
        raise unprocessable('Invalid request.\n\n"conclusion" wasn\'t supplied.')


def _document(call: RestCall, check_run_id: int) -> Document:
    posted = call.repository.check_runs.get(check_run_id)
    if posted is None:
        job = job_in_path(call, "check_run_id")
        job = job.with_clock_ahead(call.world.clock.github_ahead)
        return job_check_run(job, call.world.documents.app(call.app), call.world.url)
    app = call.world.documents.app(call.world.registry.apps[posted["app_id"]])
    return check_run_document(check_run_id, posted, call.repository, app, call.world.url)


_CHECK_RUNS = "/repos/{owner}/{repo}/check-runs"

OPERATIONS = [
    RestOperation("POST", _CHECK_RUNS, create_check_run, needs=WRITE),
    RestOperation("GET", f"{_CHECK_RUNS}/{{check_run_id}}", get_check_run, needs=READ),
    RestOperation("PATCH", f"{_CHECK_RUNS}/{{check_run_id}}", update_check_run, needs=WRITE),
    RestOperation("GET", f"{_CHECK_RUNS}/{{check_run_id}}/annotations", list_annotations, needs=READ),
    RestOperation("GET", "/repos/{owner}/{repo}/commits/{ref}/check-runs", list_check_runs, needs=READ),
]
