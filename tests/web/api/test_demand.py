"""The demand for each pool, and checks of single runners."""

from __future__ import annotations

import pytest

from ghapp.pods.pod import EphemeralRunner
from ghapp.pods.store import Pods
from ghapp.queue.jobs import JobName
from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.support.snapshots import record_snapshot
from tests.web.conftest import INSTALLATION, NOW


async def test_demand_is_listed_by_pool_with_the_jobs_that_no_runner_can_take(http, redis):
    jobs = [
        Job(1, "queued", ("linux-4vcpu",), "acme/api", NOW - 60),
        Job(2, "running", ("linux-4vcpu",), "acme/api", NOW - 90, 1, "a", NOW - 80),
        Job(3, "queued", ("gpu",), "acme/web", NOW - 30),
        Job(4, "queued", ("ubuntu-latest",), "acme/web", NOW - 30),
    ]
    await Demand(redis).record(INSTALLATION, jobs)
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


ARC = PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",), replacer="arc", namespace="runners")


def assigned_to(name, **changes):
    return EphemeralRunner("runners", name, name, "1", NOW - 60, phase="Running", job_id="42")._replace(**changes)


@pytest.mark.parametrize("pools", [(ARC,)])
@pytest.mark.parametrize(
    ("age", "assigned"),
    [(0.0, 2), (119.9, 2), (120.0, None), (-119.9, 2), (-120.0, None)],
    ids=["now", "fresh", "old", "a clock slightly ahead", "a clock that jumped"],
)
async def test_assigned_is_the_clusters_count_while_the_watch_is_fresh(http, redis, age, assigned):
    phantoms = [assigned_to("a"), assigned_to("ghost"), assigned_to("idle", job_id="")]
    await record_snapshot(Pods(redis), "runners", [], phantoms, NOW - age)
    (pool,) = (await http.get("/v1/orgs/acme/demand")).json()["pools"]
    assert (pool["pool"], pool["running"], pool["assigned"]) == ("linux-4vcpu", 0, assigned)


@pytest.mark.parametrize("pools", [(ARC,)])
async def test_assigned_is_null_before_the_first_list_of_the_watch(http):
    (pool,) = (await http.get("/v1/orgs/acme/demand")).json()["pools"]
    assert pool["assigned"] is None


async def test_a_requested_check_of_a_runner_is_enqueued(http, asked):
    assert (await http.post("/v1/orgs/acme/runners/3/check")).status_code == 202
    assert asked == [(JobName.CHECK, (INSTALLATION, 3), f"check-{INSTALLATION}-3")]


async def test_one_check_of_unknown_runners_is_queued_at_a_time(http, asked):
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
async def test_an_invalid_or_forbidden_request_is_a_problem(http, asked, method, path, status):
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert asked == []
