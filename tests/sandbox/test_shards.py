"""Two shards in the sandbox: deployed well or badly, and one of them active."""

from __future__ import annotations

import httpx
import pytest

from ghapp.sandbox import OrgConfig, SandboxConfig, SandboxServer, pools_of
from ghapp.sandbox.config import with_rollout
from ghapp.sandbox.control.controls import NoSuchThingError
from tests.sandbox.clients import installation_client

POOLS = with_rollout(pools_of(30))


@pytest.fixture
def shards():
    with SandboxServer(SandboxConfig(orgs=(OrgConfig(pools=POOLS),), quiet=True, ticking=False)) as server:
        yield server


def of(server, shard):
    roster = server.world.orgs["acme"].fleet.roster
    return [each for each in roster.registered.values() if each.pool == f"rollout-{shard}"]


def online(server, shard):
    return sum(each.online for each in of(server, shard))


def jobs_for(server, since):
    """The shards of the jobs that came since."""
    fleet = server.world.orgs["acme"].fleet
    return {job.labels[-1] for job in fleet.jobs.values() if job.created_at > since and "rollout" in job.labels}


def test_a_rollout_takes_its_runners_from_the_first_pool():
    assert sum(pool.size for pool in POOLS) == 30
    assert [pool.name for pool in POOLS][:3] == [pool.name for pool in pools_of(30)]
    assert {pool.labels for pool in POOLS[3:]} == {("rollout", "shard:purple"), ("rollout", "shard:pink")}


def test_github_lists_them_with_their_labels(shards):
    with installation_client(shards) as acme:
        listed = acme.get("/orgs/acme/actions/runners", params={"per_page": 100}).json()["runners"]
    labelled = [{label["name"] for label in runner["labels"]} for runner in listed]
    assert sum({"rollout", "shard:pink"} <= labels for labels in labelled) == 4


@pytest.mark.parametrize(("badly", "up"), [(False, 4), (True, 1)], ids=["well", "badly"])
def test_a_deployed_shard_comes_online_or_mostly_not(shards, badly, up):
    before = [each.id for each in of(shards, "pink")]
    answer = shards.control.deploy("acme", shard="pink", badly=badly)
    assert answer == {"shard": "pink", "role": "inactive", "runners": before, "sha": ""}
    assert online(shards, "pink") == 0, "while the shard is created again"
    shards.control.step(seconds=60)
    assert (online(shards, "pink"), online(shards, "purple")) == (up, 4)
    assert [each.id for each in of(shards, "pink")] == before, "they keep their registrations"


def test_a_bad_deploy_is_fixed_by_a_good_one(shards):
    shards.control.deploy("acme", shard="pink", badly=True)
    shards.control.step(seconds=60)
    shards.control.deploy("acme", shard="pink")
    shards.control.step(seconds=60)
    assert online(shards, "pink") == 4


def test_a_deploy_under_a_running_job_fails_it(shards):
    (job,) = shards.control.queue("acme", labels=["rollout", "shard:purple"])
    shards.control.deploy("acme", shard="purple")
    found = shards.world.orgs["acme"].fleet.jobs[job]
    assert (found.status, found.conclusion) == ("completed", "failure")
    shards.control.step(seconds=600)
    assert online(shards, "purple") == 4


def test_it_may_be_deployed_from_a_commit(shards):
    sha = shards.control.deploy("acme", shard="pink", repository="infra")["sha"]
    assert sha == shards.world.orgs["acme"].repositories["infra"].head_sha
    with pytest.raises(NoSuchThingError, match="missing"):
        shards.control.deploy("acme", shard="pink", repository="missing")


def test_users_jobs_come_to_the_active_shard_and_follow_it(shards):
    shards.control.quiet(quiet=False)
    began = shards.world.now()
    shards.control.step(seconds=900)
    assert jobs_for(shards, began) == {"shard:purple"}
    shards.control.switch("acme", shard="pink")
    switched = shards.world.now()
    shards.control.step(seconds=900)
    assert (jobs_for(shards, switched), shards.control.active_shard("acme")) == ({"shard:pink"}, "pink")


def test_a_switch_while_no_jobs_come_lets_none_come(shards):
    shards.control.switch("acme", shard="pink")
    began = shards.world.now()
    shards.control.step(seconds=900)
    assert jobs_for(shards, began) == set()


def test_the_active_shard_is_answered_as_plain_text(shards):
    url = f"{shards.url}/_sandbox/orgs/acme"
    assert httpx.get(f"{url}/active-shard").text == "purple\n"
    assert httpx.post(f"{url}/switch", json={"shard": "pink"}).status_code == 200
    answer = httpx.get(f"{url}/active-shard")
    assert (answer.text, answer.headers["content-type"]) == ("pink\n", "text/plain; charset=utf-8")
    assert httpx.get(f"{shards.url}/_sandbox/orgs/initech/active-shard").status_code == 404


@pytest.mark.parametrize("control", ["deploy", "switch"])
def test_an_unknown_shard_is_answered_with_the_known_ones(shards, control):
    answer = httpx.post(f"{shards.url}/_sandbox/orgs/acme/{control}", json={"shard": "green"})
    assert (answer.status_code, answer.json()["error"]) == (404, "no shard 'green'; there are purple, pink")


def test_without_shards_none_is_active(sandbox):
    assert sandbox.control.active_shard("acme") == ""
    with pytest.raises(NoSuchThingError, match="there are none"):
        sandbox.control.deploy("acme", shard="pink")
