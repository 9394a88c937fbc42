"""What is asked of the pools, and looks at one runner."""

from __future__ import annotations

import pytest

from ghapp.health.demand import Job
from ghapp.store.demand import Demand
from ghapp.work import Work
from tests.web.conftest import INSTALLATION, NOW


async def test_demand_is_told_by_pool_with_the_jobs_that_nobody_can_take(http, redis):
    jobs = [
        Job(1, "queued", ("linux-4vcpu",), "acme/api", NOW - 60),
        Job(2, "running", ("linux-4vcpu",), "acme/api", NOW - 90, 1, "a", NOW - 80),
        Job(3, "queued", ("gpu",), "acme/web", NOW - 30),
        Job(4, "queued", ("ubuntu-latest",), "acme/web", NOW - 30),
    ]
    await Demand(redis).tell(INSTALLATION, jobs)
    answer = await http.get("/v1/orgs/ACME/demand")
    assert answer.json() == {
        "org": "acme",
        "observed_at": "2027-01-15T07:59:56.800Z",
        "pools": [
            {"pool": "gpu", "queued": 1, "running": 0, "online": 0, "idle": 0, "assigned": None},
            {"pool": "linux-4vcpu", "queued": 1, "running": 1, "online": 2, "idle": 2, "assigned": None},
        ],
        "unserved": [
            {
                "job_id": 3,
                "repository": "acme/web",
                "labels": ["gpu"],
                "queued_at": "2027-01-15T07:59:30Z",
                "reason": "NoRunnerWithLabels",
            }
        ],
    }


async def test_a_runner_is_looked_at_when_it_is_asked_for(http, asked):
    assert (await http.post("/v1/orgs/acme/runners/3/check")).status_code == 202
    assert asked == [(Work.CHECK, (INSTALLATION, 3), f"check-{INSTALLATION}-3")]


async def test_of_strangers_one_look_waits_at_a_time(http, asked):
    for stranger in (98, 99):
        await http.post(f"/v1/orgs/acme/runners/{stranger}/check")
    assert {key for _, _, key in asked} == {f"check-{INSTALLATION}-unknown"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/orgs/acme/runners/x/check", 400),
        ("POST", "/v1/orgs/globex/runners/1/check", 403),
        ("GET", "/v1/orgs/globex/demand", 403),
        ("GET", "/v1/orgs/acme/runners/1/check", 405),
    ],
)
async def test_what_is_not_to_be_had_is_a_problem(http, asked, method, path, status):
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert asked == []
