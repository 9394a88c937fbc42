"""What commands read over HTTP beside the runners: orgs of a token, overview, deliveries that were given up."""

from __future__ import annotations

import pytest

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.pods.store import DegradedSources, Pods
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.settings import PoolSettings
from ghapp.store.tokens import Tokens
from tests.support.snapshots import record_snapshot
from tests.web.conftest import INSTALLATION, NOW


@pytest.fixture
def pools():
    return (
        PoolSettings(
            org="acme",
            name="linux",
            labels=("linux-4vcpu",),
            namespace="runners",
            shard_label="shard",
            settle_seconds=60.0,
        ),
    )


async def test_a_token_sees_the_orgs_that_it_may_read_and_where_the_app_is_installed(http, redis):
    await Installations(redis).put(Installation(8, "globex", 2))
    answer = await http.get("/v1/orgs")
    assert (answer.status_code, answer.json()) == (200, {"orgs": ["acme"], "github_url": "https://github.com"})


async def test_an_overview_has_pauses_pools_and_the_defaults_of_the_gate(http, redis):
    await Fuses(redis).pause(INSTALLATION, "linux", Pause("mona", "a move", NOW))
    found = (await http.get("/v1/orgs/ACME/overview")).json()
    assert found["held"] == [
        {"org": "acme", "pool": "linux", "kind": "pause", "text": "by mona since 2027-01-15 08:00:00 UTC: a move"}
    ]
    assert found["shard_pools"] == [{"pool": "linux", "min_online": 1, "settle_seconds": 60.0}]
    assert (found["org"], found["sweep_seconds"], found["phantoms"]) == ("acme", 60.0, [])
    lost, unseen, paused = found["headlines"]
    assert (lost["kind"], lost["severity"], lost["pool"]) == ("lost", "critical", "linux")
    assert (unseen["kind"], unseen["command"]) == ("unseen", "ghapp doctor")
    assert (paused["kind"], paused["pool"], paused["since"]) == ("paused", "linux", "2027-01-15T08:00:00Z")
    (pool,) = found["pools"]
    assert (pool["pool"], pool["queued"], pool["idle"], pool["oldest_queued_at"]) == ("linux", 0, 2, None)


async def test_an_overview_begins_with_what_is_wrong_now(http, redis):
    await record_snapshot(Pods(redis), "runners", [], [], NOW)
    await DegradedSources(redis).record("deaths in runners between two lists", "RBAC lacks watch on pods")
    lost, unseen = (await http.get("/v1/orgs/acme/overview")).json()["headlines"]
    assert lost["text"].startswith("1 of 3 runners of linux is lost (no job waits for this pool, 2 runners are idle): ")
    assert unseen["text"] == "Not seen: deaths in runners between two lists: RBAC lacks watch on pods."


async def test_given_up_deliveries_need_the_scope_admin(http, redis):
    assert (await http.get("/v1/deliveries/dead")).status_code == 403
    secret, _ = await Tokens(redis).create("t", ("acme",), ("admin",), NOW)
    answer = await http.get("/v1/deliveries/dead", headers={"authorization": f"Bearer {secret}"})
    assert (answer.status_code, answer.json()) == (200, {"deliveries": []})


@pytest.mark.parametrize("path", ["/v1/orgs", "/v1/orgs/acme/overview", "/v1/deliveries/dead"])
async def test_each_needs_a_token(http, path):
    del http.headers["authorization"]
    assert (await http.get(path)).status_code == 401


async def test_an_overview_of_another_org_is_403(http):
    assert (await http.get("/v1/orgs/globex/overview")).status_code == 403
