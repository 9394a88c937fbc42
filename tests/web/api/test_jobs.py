"""Jobs in pages, and one job with its reason."""

from __future__ import annotations

import pytest

from ghapp.workflow_jobs.job import Job, PullReference
from ghapp.workflow_jobs.store import Demand
from tests.web.conftest import INSTALLATION, NOW

QUEUED = Job(
    1,
    "queued",
    ("gpu",),
    "acme/api",
    NOW - 600,
    run_id=41,
    attempt=2,
    workflow="CI",
    name="test",
    head_sha="f" * 40,
    html_url="https://github.com/acme/api/actions/runs/41/job/1",
    head_branch="cache",
    actor="lisa",
)
IDLE = Job(2, "queued", ("linux-4vcpu",), "acme/api", NOW - 30)
RUNNING = Job(3, "running", ("linux-4vcpu",), "acme/api", NOW - 90, 1, "a", NOW - 80)
OVER = Job(
    4, "over", ("linux-4vcpu",), "acme/api", NOW - 900, 1, "a", NOW - 800, ended_at=NOW - 9, conclusion="failure"
)


@pytest.fixture(autouse=True)
async def four_jobs(redis):
    await Demand(redis).record(INSTALLATION, [QUEUED, IDLE, RUNNING, OVER])


async def test_a_queued_job_has_its_reason(http):
    answer = await http.get("/v1/orgs/ACME/jobs/1")
    assert answer.json() == {
        "job_id": 1,
        "run_id": 41,
        "attempt": 2,
        "repository": "acme/api",
        "workflow": "CI",
        "name": "test",
        "head_sha": "f" * 40,
        "head_branch": "cache",
        "actor": "lisa",
        "rerun_by": None,
        "html_url": "https://github.com/acme/api/actions/runs/41/job/1",
        "labels": ["gpu"],
        "pool": "",
        "state": "queued",
        "queued_at": "2027-01-15T07:50:00Z",
        "started_at": None,
        "ended_at": None,
        "conclusion": None,
        "runner": None,
        "why": {
            "reason": "NoRunnerWithLabels",
            "text": "no runner has the label gpu",
            "since": "2027-01-15T07:50:00Z",
            "ahead": None,
            "typical_wait_seconds": None,
            "next": [
                {
                    "step": "register a runner with the label gpu",
                    "why": "GitHub assigns the job to such a runner; the platform team can do that",
                    "url": None,
                },
            ],
            "fails_at": "2027-01-16T07:50:00Z",
        },
        "waited_for": None,
        "death": None,
        "rerun": None,
        "later_attempt": None,
        "summary": None,
        "failed_by": None,
        "story": [
            {
                "at": "2027-01-15T07:50:00Z",
                "step": "queued",
                "text": "queued for a runner with the label gpu as attempt 2 of its run",
            },
            {"at": "2027-01-15T07:50:00Z", "step": "waits", "text": "waits: no runner has the label gpu"},
        ],
        "next": answer.json()["why"]["next"],
    }


@pytest.mark.parametrize(
    ("job_id", "state", "started_at", "ended_at", "conclusion", "runner"),
    [
        (2, "queued", None, None, None, None),
        (3, "running", "2027-01-15T07:58:40Z", None, None, "a"),
        (4, "over", "2027-01-15T07:46:40Z", "2027-01-15T07:59:51Z", "failure", "a"),
    ],
    ids=["about to be assigned", "running", "completed"],
)
async def test_a_job_that_is_not_waiting_has_no_reason(http, job_id, state, started_at, ended_at, conclusion, runner):
    found = (await http.get(f"/v1/orgs/acme/jobs/{job_id}")).json()
    assert (found["state"], found["started_at"], found["ended_at"]) == (state, started_at, ended_at)
    assert (found["conclusion"], found["runner"], found["why"]) == (conclusion, runner, None)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", [1, 2, 3, 4]),
        ("?state=queued", [1, 2]),
        ("?state=running", [3]),
        ("?state=over", [4]),
        ("?pool=linux-4vcpu", [2, 3, 4]),
        ("?pool=gpu&state=running", []),
        ("?pool=gpu", []),
        ("?runner=a", [3, 4]),
        ("?runner=a&state=over", [4]),
        (f"?sha={'f' * 7}", [1]),
        ("?run_id=41", [1]),
        ("?run_id=42", []),
        ("?branch=cache", [1]),
        ("?branch=Cache", []),
        ("?actor=LISA", [1]),
        ("?actor=lisa&state=over", []),
        ("?run_id=41&actor=mona", []),
    ],
)
async def test_jobs_are_listed_by_state_and_pool(http, query, ids):
    listed = (await http.get(f"/v1/orgs/acme/jobs{query}")).json()
    assert [each["job_id"] for each in listed["jobs"]] == ids
    assert (listed["total"], listed["next_cursor"]) == (len(ids), None)


async def test_jobs_are_found_by_the_check_run_that_is_about_them(http, redis):
    await Demand(redis).note_check_run(INSTALLATION, 9000, [4, 1, 99])
    for query, ids in (("9000", [1, 4]), ("9000&run_id=41", [1]), ("9000&state=over", [4]), ("9001", [])):
        listed = (await http.get(f"/v1/orgs/acme/jobs?check_run={query}")).json()
        assert [each["job_id"] for each in listed["jobs"]] == ids
    answer = await http.get("/v1/orgs/acme/jobs?check_run=0")
    assert (answer.status_code, answer.json()["detail"].partition(" ")[0]) == (400, "check_run")


async def test_jobs_are_found_by_their_pull_request(http, redis):
    await Demand(redis).note_pull(INSTALLATION, PullReference("acme/api", 7), QUEUED.head_sha, NOW)
    for pull, ids in (("acme/api%237", [1]), ("https://github.com/acme/api/pull/7", [1]), ("acme/api%238", [])):
        listed = (await http.get(f"/v1/orgs/acme/jobs?pull={pull}")).json()
        assert [each["job_id"] for each in listed["jobs"]] == ids


async def test_pages_follow_each_other(http):
    first = (await http.get("/v1/orgs/acme/jobs?limit=3")).json()
    assert ([each["job_id"] for each in first["jobs"]], first["total"], first["next_cursor"]) == ([1, 2, 3], 4, "3")
    second = (await http.get(f"/v1/orgs/acme/jobs?limit=3&cursor={first['next_cursor']}")).json()
    assert ([each["job_id"] for each in second["jobs"]], second["next_cursor"]) == ([4], None)


async def test_an_unchanged_page_is_not_sent_again(http):
    first = await http.get("/v1/orgs/acme/jobs")
    again = await http.get("/v1/orgs/acme/jobs", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = await http.get("/v1/orgs/acme/jobs?state=over", headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("jobs?state=done", 400),
        ("jobs?limit=0", 400),
        ("jobs?limit=1001", 400),
        ("jobs?cursor=x", 400),
        ("jobs?pull=7", 400),
        ("jobs?sha=xyz", 400),
        ("jobs?sha=abc", 400),
        ("jobs?run_id=0", 400),
        ("jobs?run_id=x", 400),
        ("jobs/0", 400),
        ("jobs/x", 400),
        ("jobs/99", 404),
    ],
)
async def test_an_invalid_or_unknown_value_is_a_problem(http, path, status):
    answer = await http.get(f"/v1/orgs/acme/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize("path", ["jobs", "jobs/1"])
async def test_another_org_is_refused(http, path):
    assert (await http.get(f"/v1/orgs/globex/{path}")).status_code == 403
