"""Every answer of the sandbox, each operation and each status, against GitHub's own description of it.

What the sandbox holds for the calls below: an organization with runners of both kinds, one of them at work; a job that has
failed with an annotation, one that runs and one that waits; a check run; a delivery that succeeded and one that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from ghapp.sandbox import OrgConfig, PoolConfig, SandboxConfig, SandboxServer
from ghapp.sandbox.config import FIRST_ELSEWHERE_ID
from ghapp.sandbox.server import OPERATIONS
from tests.sandbox.clients import app_client, installation_client, logged, person_client
from tests.sandbox.conftest import SMALL
from tests.sandbox.openapi import description, mistakes, statuses
from tests.sandbox.receivers import Receiver

RUNNERS = "/orgs/{org}/actions/runners"
GROUPS = "/orgs/{org}/actions/runner-groups"
ENTERPRISE_RUNNERS = "/enterprises/{enterprise}/actions/runners"
REPO = "/repos/{owner}/{repo}"
TOKENS = "/app/installations/{installation_id}/access_tokens"
JIT = {"name": "fresh", "runner_group_id": 1, "labels": ["gpu"]}
OUTPUT = {
    "title": "1 lost",
    "summary": "one is lost",
    "annotations": [
        {"path": "a.yml", "start_line": 1, "end_line": 1, "annotation_level": "warning", "message": "look"}
    ],
}
AT_THE_ENTERPRISE, AT_A_REPOSITORY = FIRST_ELSEWHERE_ID, FIRST_ELSEWHERE_ID + 1_000_000
PERMISSIONS = {
    "organization_self_hosted_runners": "write",
    "administration": "write",
    "checks": "write",
    "actions": "write",
    "metadata": "read",
}


@dataclass
class Stage:
    """A sandbox in which something of everything has happened, and the ids of it."""

    sandbox: SandboxServer
    app: httpx.Client
    acme: httpx.Client
    person: httpx.Client
    ids: dict[str, Any] = field(default_factory=dict)

    def call(
        self,
        method: str,
        template: str,
        *,
        anonymous: bool = False,
        query: str = "",
        job: str = "",
        own: str = "",
        **options: Any,
    ) -> httpx.Response:
        if job:
            options["ids"] = {"job_id": self.ids[job]}
        path = template.format(**(self.ids | options.pop("ids", {}))) + query
        if own:  # with a token that a person made for themselves
            options["headers"] = {"authorization": f"token {own}"}
        if anonymous or own:
            return httpx.request(method, self.sandbox.url + path, **options)
        if template.startswith("/user"):
            return self.person.request(method, path, **options)
        caller = self.app if template.startswith(("/app", "/orgs/{org}/installation")) else self.acme
        return caller.request(method, path, **options)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    at_repository = {"api": (PoolConfig(name="own", size=2, ephemeral=False),)}
    config = SandboxConfig(
        orgs=(OrgConfig(pools=SMALL, repository_pools=at_repository, hosted_runners=("big",)),),
        quiet=True,
        ticking=False,
        permissions=PERMISSIONS,
    )
    with (
        SandboxServer(config) as sandbox,
        Receiver() as hook,
        app_client(sandbox) as app,
        installation_client(sandbox) as acme,
        person_client(sandbox, "lisa") as person,
    ):
        control = sandbox.control
        control.webhook(url=hook.url)
        control.head("acme", repository="api")
        hook.wait(1)
        hook.status = 500
        control.head("acme", repository="api")
        hook.wait(2)
        control.webhook(url="")
        failed, _ = logged(app, 2)
        lost, running = control.queue("acme", labels=["linux-4vcpu"], count=2)
        control.queue("acme", labels=["windows"])
        control.finish("acme", job_id=lost, lost=True)
        (again,) = control.queue("acme", labels=["linux-4vcpu"])
        control.abandon("acme", job_id=again, log="the end")
        control.end_version(version="2.900.0", jobs_in=86_400, registration_in=3_600)
        (busy,) = control.busy("acme", count=1, pool="gpu")
        head = sandbox.world.orgs["acme"].repositories["api"].head_sha
        posted = acme.post("/repos/acme/api/check-runs", json={"name": "n", "head_sha": head, "output": OUTPUT}).json()
        ids = {
            "org": "acme",
            "enterprise": "acme-corp",
            "username": "acme",
            "owner": "acme",
            "repo": "api",
            "ref": "main",
            "runner_id": busy,
            "runner_group_id": 1,
            "installation_id": sandbox.installation_id(),
            "delivery_id": failed["id"],
            "job_id": lost,
            "run_id": sandbox.fleet.jobs[lost].run_id,
            "check_run_id": posted["id"],
            "client_id": sandbox.app.client_id,
            "running": running,
            "again": again,
        }
        acme.post("/orgs/acme/actions/runners/generate-jitconfig", json=JIT | {"name": "taken"})
        yield Stage(sandbox, app, acme, person, ids)


@dataclass(frozen=True)
class Case:
    """One call and the status it must have."""

    method: str
    template: str
    status: int
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.template} {self.status}"


def case(method: str, template: str, status: int, **options: Any) -> Case:
    return Case(method, template, status, options)


def absent(**ids: Any) -> dict[str, Any]:
    return {"ids": ids}


CASES = [
    case("GET", "/app", 200),
    case("GET", "/app", 401, anonymous=True),
    case("GET", "/app/installations", 200),
    case("GET", "/app/installations/{installation_id}", 200),
    case("GET", "/app/installations/{installation_id}", 404, **absent(installation_id=1)),
    case("POST", TOKENS, 201),
    case("POST", TOKENS, 201, json={"permissions": {"checks": "read"}}),
    case("POST", TOKENS, 401, anonymous=True),
    case("POST", TOKENS, 404, **absent(installation_id=1)),
    case("POST", TOKENS, 422, json={"permissions": {"checks": "admin"}}),
    case("POST", TOKENS, 400, content=b"{"),
    case("GET", "/orgs/{org}/installation", 200),
    case("GET", "/orgs/{org}/installation", 404, **absent(org="unknown")),
    case("POST", "/app-manifests/{code}/conversions", 404, **absent(code="unknown")),
    case("DELETE", "/applications/{client_id}/token", 401, json={"access_token": "x"}),
    case("GET", f"{REPO}/collaborators/{{username}}/permission", 200, **absent(username="mona")),
    case("GET", f"{REPO}/collaborators/{{username}}/permission", 200, **absent(username="sam")),
    case("GET", f"{REPO}/collaborators/{{username}}/permission", 404, **absent(username="nobody")),
    case("GET", "/app/hook/config", 200),
    case("PATCH", "/app/hook/config", 200, json={"content_type": "json"}),
    case("GET", "/app/hook/deliveries", 200),
    case("GET", "/app/hook/deliveries", 400, query="?cursor=x"),
    case("GET", "/app/hook/deliveries", 422, query="?status=x"),
    case("GET", "/app/hook/deliveries/{delivery_id}", 200),
    case("GET", "/app/hook/deliveries/{delivery_id}", 404, **absent(delivery_id=1)),
    case("POST", "/app/hook/deliveries/{delivery_id}/attempts", 202),
    case("POST", "/app/hook/deliveries/{delivery_id}/attempts", 404, **absent(delivery_id=1)),
    case("GET", "/installation/repositories", 200),
    case("GET", "/installation/repositories", 401, anonymous=True),
    case("GET", "/rate_limit", 200),
    case("GET", RUNNERS, 200),
    case("GET", RUNNERS, 401, anonymous=True),
    case("GET", RUNNERS, 404, **absent(org="unknown")),
    case("GET", f"{RUNNERS}/{{runner_id}}", 200),
    case("GET", f"{RUNNERS}/{{runner_id}}", 404, **absent(runner_id=1)),
    case("GET", f"{RUNNERS}/deprecations/{{version}}", 200, **absent(version="2.336.0")),
    case("GET", f"{RUNNERS}/deprecations/{{version}}", 200, **absent(version="2.337.0")),
    case("GET", f"{RUNNERS}/deprecations/{{version}}", 200, **absent(version="2.900.0")),
    case("GET", f"{RUNNERS}/deprecations/{{version}}", 404, **absent(version="9.9.9")),
    case("GET", f"{REPO}/actions/runners/deprecations/{{version}}", 200, **absent(version="2.335.1")),
    case("DELETE", f"{RUNNERS}/{{runner_id}}", 422),
    case("DELETE", f"{RUNNERS}/{{runner_id}}", 204, **absent(runner_id=1010)),
    case("DELETE", f"{RUNNERS}/{{runner_id}}", 404, **absent(runner_id=1)),
    case("POST", f"{RUNNERS}/generate-jitconfig", 201, json=JIT),
    case("POST", f"{RUNNERS}/generate-jitconfig", 409, json=JIT | {"name": "taken"}),
    case("POST", f"{RUNNERS}/generate-jitconfig", 422, json=JIT | {"labels": []}),
    case("GET", GROUPS, 200),
    case("GET", f"{GROUPS}/{{runner_group_id}}/runners", 200),
    case("GET", f"{GROUPS}/{{runner_group_id}}/runners", 404, **absent(runner_group_id=9)),
    case("GET", f"{GROUPS}/{{runner_group_id}}/repositories", 200),
    case("GET", f"{GROUPS}/{{runner_group_id}}/repositories", 404, **absent(runner_group_id=9)),
    case("GET", f"{REPO}/actions/runners", 200),
    case("GET", f"{REPO}/actions/runners/{{runner_id}}", 404),
    case("DELETE", f"{REPO}/actions/runners/{{runner_id}}", 404),
    case("DELETE", f"{REPO}/actions/runners/{{runner_id}}", 204, **absent(runner_id=AT_A_REPOSITORY + 1)),
    case("GET", REPO, 200),
    case("GET", REPO, 404, **absent(repo="nothing")),
    case("GET", f"{REPO}/actions/runs", 200),
    case("GET", f"{REPO}/actions/runs", 200, query="?branch=main&status=completed"),
    case("GET", f"{REPO}/actions/runs/{{run_id}}/jobs", 200),
    case("GET", f"{REPO}/actions/runs/{{run_id}}/jobs", 404, **absent(run_id=1)),
    case("GET", f"{REPO}/actions/jobs/{{job_id}}", 200),
    case("GET", f"{REPO}/actions/jobs/{{job_id}}", 404, **absent(job_id=1)),
    case("GET", f"{REPO}/actions/runs/{{run_id}}", 200),
    case("GET", f"{REPO}/actions/runs/{{run_id}}", 404, **absent(run_id=1)),
    case("GET", f"{REPO}/actions/jobs/{{job_id}}/logs", 404),
    case("GET", f"{REPO}/actions/jobs/{{job_id}}/logs", 302, job="again"),
    case("POST", f"{REPO}/actions/jobs/{{job_id}}/rerun", 403, job="running"),
    case("POST", f"{REPO}/actions/jobs/{{job_id}}/rerun", 201, job="again"),
    case("POST", f"{REPO}/actions/jobs/{{job_id}}/rerun", 404, **absent(job_id=1)),
    case("POST", f"{REPO}/check-runs", 201, json={"name": "n", "head_sha": "a" * 40, "conclusion": "success"}),
    case("POST", f"{REPO}/check-runs", 422, json={"name": "n"}),
    case("GET", f"{REPO}/check-runs/{{check_run_id}}", 200),
    case("GET", f"{REPO}/check-runs/{{check_run_id}}", 404, **absent(check_run_id=1)),
    case("PATCH", f"{REPO}/check-runs/{{check_run_id}}", 200, json={"conclusion": "action_required"}),
    case("PATCH", f"{REPO}/check-runs/{{check_run_id}}", 404, json={}, **absent(check_run_id=1)),
    case("PATCH", f"{REPO}/check-runs/{{check_run_id}}", 422, json={"conclusion": "splendid"}),
    case("GET", f"{REPO}/check-runs/{{check_run_id}}/annotations", 200),
    case("GET", f"{REPO}/check-runs/{{check_run_id}}/annotations", 404, **absent(check_run_id=1)),
    case("GET", f"{REPO}/commits/{{ref}}/check-runs", 200),
    case("GET", "/orgs/{org}/repos", 200, own="ghp_lisa"),
    case("GET", "/orgs/{org}/repos", 404, own="ghp_sam"),
    case("GET", f"{REPO}/actions/runners", 200, own="ghp_mona"),
    case("GET", f"{REPO}/actions/runners/{{runner_id}}", 200, own="ghp_mona", **absent(runner_id=AT_A_REPOSITORY)),
    case("GET", ENTERPRISE_RUNNERS, 200, own="ghp_mona"),
    case("GET", ENTERPRISE_RUNNERS, 404, own="ghp_sam"),
    case("GET", f"{ENTERPRISE_RUNNERS}/deprecations/{{version}}", 200, own="ghp_mona", **absent(version="2.336.0")),
    case("GET", f"{ENTERPRISE_RUNNERS}/{{runner_id}}", 200, own="ghp_mona", **absent(runner_id=AT_THE_ENTERPRISE)),
    case("GET", f"{ENTERPRISE_RUNNERS}/{{runner_id}}", 404, own="ghp_mona", **absent(runner_id=1)),
    case(
        "DELETE", f"{ENTERPRISE_RUNNERS}/{{runner_id}}", 204, own="ghp_mona", **absent(runner_id=AT_THE_ENTERPRISE + 1)
    ),
    case("GET", "/orgs/{org}/actions/hosted-runners", 200, own="ghp_mona"),
    case("GET", RUNNERS, 403, own="ghp_lisa"),
    case("GET", RUNNERS, 401, own="ghp_unknown"),
    case("GET", "/users/{username}", 200),
    case("GET", "/users/{username}", 200, **absent(username="mona")),
    case("GET", "/users/{username}", 404, **absent(username="unknown")),
    case("GET", "/user/orgs", 200),
    case("GET", "/user", 200),
    case("GET", "/user", 401, anonymous=True),
    case("GET", "/user/installations", 200),
    case("GET", "/user/installations", 401, anonymous=True),
    case("GET", "/user/installations/{installation_id}/repositories", 200),
    case("GET", "/user/installations/{installation_id}/repositories", 404, **absent(installation_id=1)),
]


@pytest.mark.xdist_group("openapi")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_answer_is_as_github_describes_it(stage, case):
    answer = stage.call(case.method, case.template, **case.options)
    assert answer.status_code == case.status, answer.text
    assert mistakes(case.method, case.template, answer) == []


@pytest.mark.xdist_group("openapi")
def test_jobs_and_check_runs_are_as_described_in_every_state_of_theirs(stage):
    template, seen = f"{REPO}/actions/jobs/{{job_id}}", set()
    for job in stage.sandbox.fleet.jobs.values():
        ids = {"job_id": job.id, "check_run_id": job.id}
        answer = stage.call("GET", template, ids=ids)
        assert mistakes("GET", template, answer) == []
        seen.add(answer.json()["status"])
        for path in ("", "/annotations"):
            of_the_job = f"{REPO}/check-runs/{{check_run_id}}{path}"
            assert mistakes("GET", of_the_job, stage.call("GET", of_the_job, ids=ids)) == []
    assert seen == {"queued", "in_progress", "completed"}


@pytest.mark.xdist_group("openapi")
def test_answers_under_faults_are_as_described_too(stage):
    control, list_url = stage.sandbox.control, RUNNERS
    unmodified = {"if-none-match": stage.call("GET", list_url).headers["etag"]}
    answer = stage.call("GET", list_url, headers=unmodified)
    assert (answer.status_code, answer.content) == (304, b"")
    control.permissions("acme", permissions={"metadata": "read"})
    forbidden = stage.call("GET", list_url)
    control.permissions("acme", permissions=PERMISSIONS)
    control.suspend("acme")
    suspended = [("POST", TOKENS, stage.call("POST", TOKENS)), ("GET", list_url, stage.call("GET", list_url))]
    installation = "/app/installations/{installation_id}"
    shown = stage.call("GET", installation)
    control.unsuspend("acme")
    control.limits(remaining=0)
    spent = stage.call("GET", list_url)
    control.limits(remaining=5000)
    for method, template, refusal in [("GET", list_url, forbidden), ("GET", list_url, spent), *suspended]:
        assert refusal.status_code == 403
        assert mistakes(method, template, refusal) == []
    assert shown.json()["suspended_at"] is not None
    assert mistakes("GET", installation, shown) == []


@pytest.mark.xdist_group("openapi")
@pytest.mark.parametrize(
    ("control_name", "arguments", "status"),
    [
        ("withhold_permission", {}, 403),
        ("withhold_permission", {"status": 404}, 404),
        ("doubt_new_tokens", {"refused": 9_999}, 401),
        ("doubt_new_tokens", {"refused": 0, "hidden": 9_999}, 404),
        ("secondary_limit", {"status": 403}, 403),
        ("secondary_limit", {"status": 429}, 429),
        ("secondary_limit", {"stated": "{date}"}, 403),
        ("exhaust_limit", {"status": 429}, 429),
        ("block_address", {}, 403),
        ("fault", {"status": 502}, 502),
        ("empty_list", {}, 200),
        ("unlist", {"share": 0.5}, 200),
        ("miscount", {"by": 9}, 200),
        ("misreport", {"busy": False, "status": "offline"}, 200),
        ("stale_lists", {}, 200),
        ("linger", {}, 200),
        ("slip_pages", {"appear": 1}, 200),
        ("skew_clock", {}, 200),
    ],
)
def test_a_false_answer_has_the_shape_of_a_true_one(stage, control_name, arguments, status):
    control = stage.sandbox.control
    try:
        getattr(control, control_name)(**({"org": "acme"} if control_name != "skew_clock" else {}), **arguments)
        for template in (RUNNERS, f"{RUNNERS}/{{runner_id}}"):
            answer = stage.call("GET", template)
            assert answer.status_code == status
            assert mistakes("GET", template, answer) == []
    finally:
        control.no_faults()


@pytest.mark.xdist_group("openapi")
def test_a_converted_manifest_is_as_described(stage):
    manifest = {
        "name": "another",
        "url": "https://example.com",
        "redirect_url": "https://example.com/back",
        "hook_attributes": {"url": "https://example.com/hook"},
    }
    page = httpx.post(f"{stage.sandbox.url}/settings/apps", data={"manifest": json.dumps(manifest)})
    code = page.headers["location"].rpartition("code=")[2]
    template = "/app-manifests/{code}/conversions"
    answer = stage.call("POST", template, ids={"code": code})
    assert answer.status_code == 201
    assert mistakes("POST", template, answer) == []


@pytest.mark.xdist_group("openapi")
def test_a_token_of_a_person_is_revoked_once_by_its_app(stage):
    app, template = stage.sandbox.app, "/applications/{client_id}/token"
    with person_client(stage.sandbox, "olga") as person:
        token = person.headers["authorization"].partition(" ")[2]
        answers = [
            stage.call("DELETE", template, anonymous=True, auth=(app.client_id, secret), json={"access_token": token})
            for secret in ("wrong", app.client_secret, app.client_secret)
        ]
        assert [answer.status_code for answer in answers] == [401, 204, 422]
        assert [mistakes("DELETE", template, answer) for answer in answers] == [[], [], []]
        assert person.get("/user").status_code == 401


def test_every_operation_is_one_that_github_describes():
    for operation in OPERATIONS:
        assert statuses(operation.method, operation.template)


def test_every_operation_that_github_describes_here_is_played_and_tried():
    described = {(method.upper(), path) for path, methods in description()["paths"].items() for method in methods}
    assert {(operation.method, operation.template) for operation in OPERATIONS} == described
    assert {(case.method, case.template) for case in CASES} == described


@pytest.mark.parametrize(
    ("template", "answer", "text"),
    [
        ("/app", httpx.Response(200, json={"id": "one"}), "$.id"),
        (RUNNERS, httpx.Response(200, json={"total_count": 1, "runners": [{"id": 1}]}), "$.runners[0]"),
        (RUNNERS, httpx.Response(404, json={"message": "missing"}), "documentation_url"),
    ],
)
def test_a_wrong_answer_would_be_found(template, answer, text):
    assert text in " ".join(mistakes("GET", template, answer))
