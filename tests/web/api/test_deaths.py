"""Post-mortems over HTTP."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.store import Deaths
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.web.conftest import INSTALLATION, NOW

JOB = DeadJob(42, "acme/api", "build", "c0ffee", "failure", "https://github.com/acme/api/actions/runs/1/job/42")
DEATH = Death("c", "c", "node-1", NOW - 60.5, 137, None, "OOMKilled", Cause.HOST_OOM, "give it more memory")
FULL = DEATH._replace(at=NOW - 30, pod_uid="u", signal=9, job=JOB, runner_log=("one", "two"), host_log=("oom-kill",))


async def test_a_death_is_found_by_the_runner_s_name(http, redis):
    await Deaths(redis, lambda: NOW).record(INSTALLATION, DEATH)
    answer = await http.get("/v1/orgs/ACME/deaths/c")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "runner_name": "c",
        "pod": "c",
        "node": "node-1",
        "at": "2027-01-15T07:58:59.500Z",
        "exit_code": 137,
        "signal": None,
        "reason": "OOMKilled",
        "cause": "host-oom",
        "advice": "give it more memory",
        "pool": "",
        "job": None,
        "runner_log": [],
        "host_log": [],
        "image": "",
        "memory_limit": "",
        "runner_id": None,
    }


@pytest.mark.parametrize(
    ("runner_id", "status"), [("3", 200), ("2", 404), ("999", 200), ("0", 400), ("x", 400)], ids=str
)
async def test_a_death_of_an_earlier_runner_of_the_same_name_is_404_for_a_runner_id(http, redis, runner_id, status):
    await Deaths(redis, lambda: NOW).record(INSTALLATION, DEATH._replace(runner_id=3))
    assert (await http.get(f"/v1/orgs/acme/deaths/c?runner_id={runner_id}")).status_code == status


async def test_the_latest_death_is_shown_with_its_job_and_its_context(http, redis):
    deaths = Deaths(redis, lambda: NOW)
    for each in (FULL, DEATH):
        await deaths.record(INSTALLATION, each)
    document = (await http.get("/v1/orgs/acme/deaths/c")).json()
    assert (document["signal"], document["runner_log"], document["host_log"]) == (9, ["one", "two"], ["oom-kill"])
    assert (document["job"]["id"], document["job"]["repository"]) == (42, "acme/api")


@pytest.mark.parametrize("name", ["unknown", "a", "%00", "%C3%A4", "x" * 300])
async def test_a_runner_without_a_death_is_404(http, name):
    answer = await http.get(f"/v1/orgs/acme/deaths/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "30 days" in answer.json()["detail"]


@pytest.mark.parametrize(("age", "status"), [(30 * 86_400, 200), (30 * 86_400 + 1, 404)])
async def test_a_death_expires_after_30_days(http, redis, times, age, status):
    await Deaths(redis, lambda: NOW).record(INSTALLATION, DEATH._replace(at=NOW))
    times[0] = NOW + age
    assert (await http.get("/v1/orgs/acme/deaths/c")).status_code == status


async def test_a_job_whose_end_was_delivered_after_its_runners_has_its_conclusion(http, redis):
    await Deaths(redis, lambda: NOW).record(INSTALLATION, DEATH._replace(job=DeadJob(70, "acme/api")))
    assert (await http.get("/v1/orgs/acme/deaths/c")).json()["job"]["conclusion"] is None
    over = Job(70, "over", (), "acme/api", NOW - 40, 1, "c", NOW - 30, conclusion="success", ended_at=NOW - 20)
    await Demand(redis).record(INSTALLATION, [over])
    assert (await http.get("/v1/orgs/acme/deaths/c")).json()["job"]["conclusion"] == "success"


async def test_a_death_requires_a_token_of_its_org(http):
    assert (await http.get("/v1/orgs/globex/deaths/c")).status_code == 403
    del http.headers["authorization"]
    assert (await http.get("/v1/orgs/acme/deaths/c")).status_code == 401


async def test_while_redis_is_away_the_answer_is_503_and_not_404(http, away):
    await http.get("/v1/orgs/acme/runners/1/health")
    away.away = True
    assert (await http.get("/v1/orgs/acme/deaths/c")).status_code == 503


async def three(redis):
    """Deaths of two pools; two at the same moment."""
    deaths = Deaths(redis, lambda: NOW)
    for name, at, pool, cause in (
        ("a", NOW - 30, "gpu", Cause.VANISHED),
        ("b", NOW - 20, "linux", Cause.HOST_OOM),
        ("c", NOW - 20, "linux", Cause.VANISHED),
        ("d", NOW - 10, "gpu", Cause.CLEAN_EXIT),
    ):
        await deaths.record(INSTALLATION, DEATH._replace(runner_name=name, pod=name, at=at, pool=pool, cause=cause))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "dcba"),
        ("?pool=gpu", "da"),
        ("?cause=vanished", "ca"),
        ("?pool=linux&cause=vanished", "c"),
        ("?pool=none", ""),
        ("?limit=2", "dc"),
    ],
)
async def test_deaths_are_listed_newest_first(http, redis, query, names):
    await three(redis)
    answer = await http.get(f"/v1/orgs/ACME/deaths{query}")
    assert [each["runner_name"] for each in answer.json()["deaths"]] == list(names)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_pages_have_each_death_once_even_if_another_is_recorded_between_them(http, redis, limit):
    await three(redis)
    found, cursor = [], ""
    for _ in range(5):
        page = (await http.get(f"/v1/orgs/acme/deaths?limit={limit}{cursor}")).json()
        found += [each["runner_name"] for each in page["deaths"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        await Deaths(redis, lambda: NOW).record(INSTALLATION, DEATH._replace(pod_uid=cursor, at=NOW))
    assert found == list("dcba")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "cause=murder", "cursor=x", "cursor=nan-61", "cursor=1.0-6", "cursor="],
)
async def test_an_invalid_query_is_a_400_problem(http, query):
    answer = await http.get(f"/v1/orgs/acme/deaths?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
