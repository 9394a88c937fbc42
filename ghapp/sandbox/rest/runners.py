"""Self-hosted runners: list, one, delete, just-in-time registration, groups."""

from __future__ import annotations

import base64
import hashlib
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from ghapp.sandbox.config import READ_ONLY_LABELS
from ghapp.sandbox.documents import Document, rfc3339_or_none, runner_document
from ghapp.sandbox.faults import JSON
from ghapp.sandbox.fleet.runners import DEFAULT_GROUP_ID, DEFAULT_GROUP_NAME
from ghapp.sandbox.organizations import ElsewhereRegistered
from ghapp.sandbox.rest.answers import RestError, Window, json_response, no_content, not_found, unprocessable
from ghapp.sandbox.rest.call import Caller, RestCall
from ghapp.sandbox.rest.operation import RestOperation
from ghapp.sandbox.runner_list import RunnerPlace

READ = ("organization_self_hosted_runners", "read")
WRITE = ("organization_self_hosted_runners", "write")
ADMINISTRATION_READ = ("administration", "read")
ADMINISTRATION_WRITE = ("administration", "write")
SHARED_GROUP_ID = 2
ENTERPRISE_SCOPE = "manage_runners:enterprise"


class JitRequest(msgspec.Struct):
    """Body of generate-jitconfig."""

    name: str
    runner_group_id: int
    labels: list[str]
    work_folder: str = "_work"


def list_runners(call: RestCall) -> Response:
    """A page of runners; its ETag is good for the token that asked, and no other."""
    return _list(call, call.org, f"/organizations/{call.org.id}/actions/runners")


def get_runner(call: RestCall) -> Response:
    """One registration; 404 when there is none."""
    return _get(call, call.org)


def get_version_end(call: RestCall) -> Response:
    """Until when a version of the runner gets jobs; 404 for one that was never released.

    As GitHub so far, it states no end of the registration while there is no date of it.
    """
    version = call.request.path_params["version"]
    end = call.world.versions.find(version)
    if end is None:
        raise not_found()
    document: Document = {
        "runner_version": version,
        "runtime_deprecates_at": rfc3339_or_none(_stated(call, end.jobs_end_at)),
    }
    if end.registration_ends_at is not None:
        document["registration_deprecates_at"] = rfc3339_or_none(_stated(call, end.registration_ends_at))
    return json_response(document)


def _stated(call: RestCall, moment: float | None) -> float | None:
    return None if moment is None else call.world.stated(moment)


def delete_runner(call: RestCall) -> Response:
    """Takes a registration away: 204; 404 when there is none; 422 while it is busy."""
    return _delete(call, call.org)


def _delete(call: RestCall, place: RunnerPlace | None) -> Response:
    runner_id = call.number("runner_id")
    deletion = "absent" if place is None else call.world.delete_runner(place, runner_id)
    if place is None or deletion == "absent":
        raise not_found()
    if deletion == "busy":
        runner = place.fleet.roster.registered[runner_id]
        raise unprocessable(f"Runner {runner.name} is currently running a job and cannot be deleted.")
    return no_content()


def generate_jitconfig(call: RestCall) -> Response:
    """Registers a runner that is started later."""
    asked = call.json(JitRequest)
    if not asked.labels:
        raise unprocessable("Labels must not be empty")
    if any(runner.name == asked.name for runner in call.org.fleet.roster.registered.values()):
        raise RestError(HTTPStatus.CONFLICT, "Already exists - A runner with the name already exists.")
    labels = tuple(dict.fromkeys((*READ_ONLY_LABELS, *asked.labels)))
    runner = call.org.fleet.register_jit(asked.name, labels)
    settings = base64.b64encode(f"{call.org.login}/{runner.id}".encode()).decode()
    return json_response({"runner": runner_document(runner), "encoded_jit_config": settings}, HTTPStatus.CREATED)


def list_hosted_runners(call: RestCall) -> Response:
    """The larger runners that GitHub hosts for the organization."""
    query = dict(call.request.query_params)
    window, names = Window.asked(query), call.org.hosted_runners
    shown = [
        {
            "id": number,
            "name": name,
            "runner_group_id": DEFAULT_GROUP_ID,
            "platform": "linux-x64",
            "image_details": None,
            "machine_size_details": {"id": "4-core", "cpu_cores": 4, "memory_gb": 16, "storage_gb": 150},
            "status": "Ready",
            "maximum_runners": 10,
            "public_ip_enabled": False,
        }
        for number, name in window.cut([*enumerate(names, 1)])
    ]
    url = f"{call.base}/organizations/{call.org.id}/actions/hosted-runners"
    document = {"total_count": len(names), "runners": shown}
    return json_response(document, headers=window.link(url, query, len(names)))


def list_groups(call: RestCall) -> Response:
    """The one group of the organization, and the one that its enterprise shares if it has one."""
    visibility = call.org.fleet.access.visibility
    group = _group(call, DEFAULT_GROUP_ID, DEFAULT_GROUP_NAME) | {"visibility": visibility, "default": True}
    if visibility == "selected":
        url = f"{call.base}/orgs/{call.org.login}/actions/runner-groups/{DEFAULT_GROUP_ID}/repositories"
        group["selected_repositories_url"] = url
    groups = [group]
    if call.org.enterprise:
        groups.append(_group(call, SHARED_GROUP_ID, call.org.enterprise) | {"inherited": True})
    return json_response({"total_count": len(groups), "runner_groups": groups})


def _group(call: RestCall, group_id: int, name: str) -> Document:
    return {
        "id": group_id,
        "name": name,
        "visibility": "all",
        "default": False,
        "runners_url": f"{call.base}/orgs/{call.org.login}/actions/runner-groups/{group_id}/runners",
        "inherited": False,
        "allows_public_repositories": False,
        "restricted_to_workflows": False,
        "selected_workflows": [],
        "workflow_restrictions_read_only": False,
    }


def list_group_runners(call: RestCall) -> Response:
    """The organization's runners are in its one group; an enterprise's are in the one that it shares."""
    group_id = call.number("runner_group_id")
    if group_id == SHARED_GROUP_ID and call.org.enterprise:
        shared = call.world.enterprises[call.org.enterprise]
        return _list(call, shared, f"/organizations/{call.org.id}/actions/runner-groups/{group_id}/runners")
    if group_id != DEFAULT_GROUP_ID:
        raise not_found()
    query = dict(call.request.query_params)
    window = Window.asked(query)
    page = call.world.runners_of(call.org).page("", window.page, window.size)
    url = f"{call.base}/organizations/{call.org.id}/actions/runner-groups/{group_id}/runners"
    return Response(page.body, HTTPStatus.OK, window.link(url, query, page.total), JSON)


def list_group_repositories(call: RestCall) -> Response:
    """The repositories that may use the one group: the selected ones, or all."""
    if call.number("runner_group_id") != DEFAULT_GROUP_ID:
        raise not_found()
    query = dict(call.request.query_params)
    window = Window.asked(query)
    admitted = [each for each in call.org.repositories.values() if call.org.fleet.access.admits(each.name)]
    url = f"{call.base}/organizations/{call.org.id}/actions/runner-groups/{DEFAULT_GROUP_ID}/repositories"
    shown = [call.org.repository_document(each) for each in window.cut(admitted)]
    document = {"total_count": len(admitted), "repositories": shown}
    return json_response(document, headers=window.link(url, query, len(admitted)))


def list_repository_runners(call: RestCall) -> Response:
    """The runners that are registered at a repository."""
    repository = call.repository
    return _list(call, call.org.at_repositories.get(repository.name), f"/repositories/{repository.id}/actions/runners")


def get_repository_runner(call: RestCall) -> Response:
    """One of them; 404 for another one: an organization's runner is not to be had at a repository."""
    return _get(call, call.org.at_repositories.get(call.repository.name))


def delete_repository_runner(call: RestCall) -> Response:
    """Takes a registration at a repository away, as `delete_runner`."""
    return _delete(call, call.org.at_repositories.get(call.repository.name))


def list_enterprise_runners(call: RestCall) -> Response:
    """The runners that are registered at an enterprise."""
    return _list(call, _enterprise(call), f"/enterprises/{call.request.path_params['enterprise']}/actions/runners")


def get_enterprise_runner(call: RestCall) -> Response:
    """One of them."""
    return _get(call, _enterprise(call))


def delete_enterprise_runner(call: RestCall) -> Response:
    """Takes a registration at an enterprise away, as `delete_runner`."""
    return _delete(call, _enterprise(call))


def get_version_end_for_enterprise(call: RestCall) -> Response:
    """Until when a version gets jobs."""
    _enterprise(call)
    return get_version_end(call)


def _enterprise(call: RestCall) -> ElsewhereRegistered:
    """The enterprise in the path, for a classic token of an owner with the scope; else 404 or 403."""
    found = call.world.enterprises.get(call.request.path_params["enterprise"])
    personal = call.personal
    if found is None or personal is None or personal.scopes is None or not personal.person.owns:
        raise not_found()
    if ENTERPRISE_SCOPE not in personal.scopes:
        headers = {"x-accepted-oauth-scopes": f"admin:enterprise, {ENTERPRISE_SCOPE}"}
        raise RestError(HTTPStatus.FORBIDDEN, "Must have admin rights to Enterprise.", headers)
    return found


def _list(call: RestCall, place: RunnerPlace | None, path: str) -> Response:
    if place is None:
        return json_response({"total_count": 0, "runners": []})
    query = dict(call.request.query_params)
    window = Window.asked(query)
    view = call.world.runners_of(place)
    page = view.page(query.get("name", ""), window.page, window.size)
    etag = f'W/"{hashlib.sha256((page.digest + call.credential).encode()).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "private, max-age=60, s-maxage=60"}
    headers |= window.link(f"{call.base}{path}", query, page.total)
    view.served(window.page, window.size)
    if call.request.headers.get("if-none-match") == etag:
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    return Response(page.body, HTTPStatus.OK, headers, JSON)


def _get(call: RestCall, place: RunnerPlace | None) -> Response:
    shown = None if place is None else call.world.runners_of(place).find(call.number("runner_id"))
    if shown is None:
        raise not_found()
    return json_response(shown)


_RUNNERS = "/orgs/{org}/actions/runners"
_GROUPS = "/orgs/{org}/actions/runner-groups"
_REPOSITORY_RUNNERS = "/repos/{owner}/{repo}/actions/runners"
_ENTERPRISE_RUNNERS = "/enterprises/{enterprise}/actions/runners"

OPERATIONS = [
    RestOperation("GET", _RUNNERS, list_runners, needs=READ),
    RestOperation("GET", f"{_RUNNERS}/deprecations/{{version}}", get_version_end, needs=READ),
    RestOperation("GET", f"{_RUNNERS}/{{runner_id}}", get_runner, needs=READ),
    RestOperation("DELETE", f"{_RUNNERS}/{{runner_id}}", delete_runner, needs=WRITE),
    RestOperation("POST", f"{_RUNNERS}/generate-jitconfig", generate_jitconfig, needs=WRITE),
    RestOperation("GET", "/orgs/{org}/actions/hosted-runners", list_hosted_runners, needs=READ),
    RestOperation("GET", _GROUPS, list_groups, needs=READ),
    RestOperation("GET", f"{_GROUPS}/{{runner_group_id}}/runners", list_group_runners, needs=READ),
    RestOperation("GET", f"{_GROUPS}/{{runner_group_id}}/repositories", list_group_repositories, needs=READ),
    RestOperation("GET", _REPOSITORY_RUNNERS, list_repository_runners, needs=ADMINISTRATION_READ),
    RestOperation("GET", f"{_REPOSITORY_RUNNERS}/deprecations/{{version}}", get_version_end, needs=ADMINISTRATION_READ),
    RestOperation("GET", f"{_REPOSITORY_RUNNERS}/{{runner_id}}", get_repository_runner, needs=ADMINISTRATION_READ),
    RestOperation(
        "DELETE", f"{_REPOSITORY_RUNNERS}/{{runner_id}}", delete_repository_runner, needs=ADMINISTRATION_WRITE
    ),
    RestOperation("GET", _ENTERPRISE_RUNNERS, list_enterprise_runners, Caller.USER),
    RestOperation(
        "GET", f"{_ENTERPRISE_RUNNERS}/deprecations/{{version}}", get_version_end_for_enterprise, Caller.USER
    ),
    RestOperation("GET", f"{_ENTERPRISE_RUNNERS}/{{runner_id}}", get_enterprise_runner, Caller.USER),
    RestOperation("DELETE", f"{_ENTERPRISE_RUNNERS}/{{runner_id}}", delete_enterprise_runner, Caller.USER),
]
