"""The health endpoints answer exactly as the contract specifies."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.runners.observations import granted, removal_reported, replaced, succeeded_by
from ghapp.runners.store import Runners
from ghapp.store.tokens import Tokens
from tests.web.conftest import INSTALLATION, NOW


async def test_a_runner_is_shown_with_its_state_its_age_and_its_evidence(http):
    answer = await http.get("/v1/orgs/acme/runners/1/health")
    document = answer.json()
    assert answer.status_code == 200
    expected = {"org": "acme", "runner_id": 1, "name": "a", "pool": "linux-4vcpu", "shard": None, "state": "healthy"}
    assert expected.items() <= document.items()
    assert (document["reason"], document["age_seconds"], document["stale"]) == ("Online", 3.2, False)
    assert document["observed_at"] == "2027-01-15T07:59:56.800Z"
    assert [row["source"] for row in document["evidence"]] == ["list", "list"]


async def test_a_runner_that_was_never_observed_is_unknown_and_not_404(http):
    for path in ("runners/99/health", "runners/health?name=unknown"):
        answer = await http.get(f"/v1/orgs/acme/{path}")
        assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (
            200,
            "unknown",
            "NeverObserved",
        )


@pytest.mark.parametrize("given", ["x", "0", "-1", "1.5", "²", "9" * 40])
async def test_a_non_numeric_id_is_a_400_problem(http, given):
    answer = await http.get(f"/v1/orgs/acme/runners/{given}/health")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_batch_is_answered_in_the_order_of_the_request_ids_first(http):
    answer = await http.post("/v1/orgs/acme/runners/health", json={"ids": [3, 1], "names": ["b", "unknown"]})
    assert [each["name"] for each in answer.json()["runners"]] == ["c", "a", "b", "unknown"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"idz": []}', b'{"ids": ["a"]}', b'{"ids": [' + b"1," * 1000 + b"1]}"]
)
async def test_an_invalid_batch_is_a_400_problem(http, body):
    answer = await http.post("/v1/orgs/acme/runners/health", content=body)
    assert answer.status_code == 400
    assert answer.json()["detail"]


async def test_the_fleet_is_paged_and_filtered_by_state_and_pool(http):
    first = (await http.get("/v1/orgs/acme/runners?limit=2")).json()
    second = (await http.get(f"/v1/orgs/acme/runners?limit=2&cursor={first['next_cursor']}")).json()
    assert [each["runner_id"] for each in first["runners"] + second["runners"]] == [1, 2, 3]
    assert (first["total"], second["total"], second["next_cursor"]) == (3, 3, None)
    lost = (await http.get("/v1/orgs/acme/runners?state=invalidated&pool=linux-4vcpu")).json()
    assert [each["runner_id"] for each in lost["runners"]] == [3]
    assert (await http.get("/v1/orgs/acme/runners?pool=other")).json()["total"] == 0


@pytest.mark.parametrize("query", ["state=dead", "healed=1", "all=1", "limit=0", "limit=1001", "limit=x", "cursor=x"])
async def test_an_invalid_page_is_a_400_problem(http, query):
    assert (await http.get(f"/v1/orgs/acme/runners?{query}")).status_code == 400


async def test_the_fleet_can_be_filtered_by_healed_and_open_losses(http, redis):
    async def page(query=""):
        answer = (await http.get(f"/v1/orgs/acme/runners?{query}")).json()
        return [each["runner_id"] for each in answer["runners"]], answer["total"], answer["healed"]

    assert await page() == ([1, 2, 3], 3, 0)
    accepted = {3: lambda known: replaced(granted(known, NOW - 20, "e"), NOW - 10)}
    await Runners(redis).revise(INSTALLATION, accepted)
    await asyncio.sleep(1.1)  # cached values expire after one second
    assert await page("healed=true") == ([], 0, 0), "its successor is not online"
    document = (await http.get("/v1/orgs/acme/runners/3/health")).json()
    assert document["remediation"] == {
        "status": "requested",
        "since": "2027-01-15T07:59:50Z",
        "blocked_by": None,
        "text": "no successor is online yet",
        "open": True,
    }
    await Runners(redis).revise(INSTALLATION, {3: succeeded_by(9, NOW - 1)})
    await asyncio.sleep(1.1)
    assert await page() == ([1, 2], 2, 1), "its loss is over"
    assert await page("all=true") == ([1, 2, 3], 3, 1)
    assert await page("healed=false") == ([1, 2], 2, 0)
    assert await page("healed=true") == ([3], 1, 1)
    assert await page("state=invalidated&healed=false") == ([], 0, 0)
    document = (await http.get("/v1/orgs/acme/runners/3/health")).json()
    assert (document["state"], document["healed"], document["replace"]) == ("invalidated", True, False)
    assert document["since"] == "2027-01-15T07:59:00Z", "when it was confirmed"


async def test_the_fleet_counts_retired_runners_and_lists_them_when_they_are_asked_for(http, redis):
    async def page(query=""):
        answer = (await http.get(f"/v1/orgs/acme/runners?{query}")).json()
        return [each["runner_id"] for each in answer["runners"]], answer["total"], answer["retired"]

    assert await page() == ([1, 2, 3], 3, 0)
    await Runners(redis).revise(INSTALLATION, {2: lambda known: removal_reported(known, 2, NOW - 10)})
    await asyncio.sleep(1.1)  # cached values expire after one second
    assert await page() == ([1, 3], 2, 1)
    assert await page("all=true") == ([1, 2, 3], 3, 1)
    assert await page("all=false&pool=other") == ([], 0, 0)
    assert await page("state=retired") == ([2], 1, 1)
    assert await page("state=healthy") == ([1], 1, 0)


async def test_an_unchanged_fleet_is_a_304_even_if_its_age_grew(http, times):
    first = await http.get("/v1/orgs/acme/runners")
    times[0] += 10
    again = await http.get("/v1/orgs/acme/runners", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    times[0] += 3600
    assert (
        await http.get("/v1/orgs/acme/runners", headers={"if-none-match": first.headers["etag"]})
    ).status_code == 200


async def claims(http, redis):
    secret, _ = await Tokens(redis).create("c", ("acme",), ("claim", "read"), NOW)
    http.headers["authorization"] = f"Bearer {secret}"


async def test_a_runner_removed_by_its_controller_is_retired_at_once(http, redis):
    await claims(http, redis)
    assert (await http.get("/v1/orgs/acme/runners/1/health")).json()["state"] == "healthy"
    answer = await http.delete("/v1/orgs/acme/runners/1")
    assert (answer.status_code, answer.content) == (204, b"")
    document = (await http.get("/v1/orgs/acme/runners/1/health")).json()
    assert (document["state"], document["reason"]) == ("retired", "RemovedByController")


async def test_so_is_one_that_no_list_has_brought_yet(http, redis):
    """Its controller creates and removes it between two lists; its absence from the next one is no loss."""
    await claims(http, redis)
    assert (await http.delete("/v1/orgs/acme/runners/99")).status_code == 204
    document = (await http.get("/v1/orgs/acme/runners/99/health")).json()
    assert (document["state"], document["reason"]) == ("retired", "RemovedByController")


async def test_replace_is_true_from_the_grant_until_the_controller_reports_the_replacement(http, redis, times):
    await claims(http, redis)
    assert (await http.post("/v1/orgs/acme/runners/3/replaced")).status_code == 204, "before any grant"
    assert (await http.get("/v1/orgs/acme/runners/3/health")).json()["replace"] is False
    await Runners(redis).revise(INSTALLATION, {3: lambda known: granted(known, NOW, "event")})
    await asyncio.sleep(1.1)
    assert (await http.get("/v1/orgs/acme/runners/3/health")).json()["replace"] is True
    assert (await http.post("/v1/orgs/acme/runners/3/replaced")).status_code == 204
    assert (await http.get("/v1/orgs/acme/runners/3/health")).json()["replace"] is False


@pytest.mark.parametrize(("method", "path"), [("DELETE", "runners/1"), ("POST", "runners/1/replaced")])
async def test_a_controllers_report_requires_the_scope_claim_and_a_numeric_id(http, redis, method, path):
    assert (await http.request(method, f"/v1/orgs/acme/{path}")).status_code == 403
    await claims(http, redis)
    assert (await http.request(method, f"/v1/orgs/acme/{path.replace('1', 'x')}")).status_code == 400
    assert (await http.request(method, f"/v1/orgs/acme/{path.replace('1', '99')}")).status_code == 204


async def test_alive_requires_no_token_and_is_410_only_for_an_invalidated_runner_with_a_grant(http, redis):
    del http.headers["authorization"]
    held_back = await http.get("/v1/orgs/acme/runners/c/alive")
    assert held_back.status_code == 200, "in a false mass loss, liveness probes must not terminate every pod"
    await Runners(redis).revise(INSTALLATION, {3: lambda known: granted(known, NOW, "event")})
    await asyncio.sleep(1.1)
    codes = [(await http.get(f"/v1/orgs/acme/runners/{name}/alive")).status_code for name in ("a", "c", "unknown")]
    assert codes == [200, 410, 200]
    assert (await http.get("/v1/orgs/elsewhere/runners/c/alive")).status_code == 200
    for name in ("a/b", "a%2Fb", "..%2Fc", "%0A"):
        assert (await http.get(f"/v1/orgs/acme/runners/{name}/alive")).status_code == 200, "it fails open"


async def test_without_a_token_of_that_org_and_scope_nothing_is_shown(http):
    good = http.headers["authorization"]
    assert (await http.get("/v1/orgs/other/runners/1/health")).status_code == 403
    for bad in ("Bearer nonsense", "Basic abc", "Bearer "):
        answer = await http.get("/v1/orgs/acme/runners/1/health", headers={"authorization": bad})
        assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
    assert (await http.get("/v1/orgs/acme/runners/1/health", headers={"authorization": good})).status_code == 200


async def test_while_redis_is_away_reads_return_the_last_answer_and_its_age(http, away, times):
    assert (await http.get("/v1/orgs/acme/runners/1/health")).json()["age_seconds"] == 3.2
    await asyncio.sleep(1.1)  # cached values expire after one second
    away.away = True
    times[0] += 100
    document = (await http.get("/v1/orgs/acme/runners/1/health")).json()
    assert (document["state"], document["age_seconds"]) == ("healthy", 103.2)
    times[0] += 300
    document = (await http.get("/v1/orgs/acme/runners/1/health")).json()
    assert (document["state"], document["reason"]) == ("unknown", "ObservationStale")
    assert (await http.get("/readyz")).status_code == 503


async def test_an_unknown_path_is_a_problem(http):
    answer = await http.get("/v1/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == "there is no such address; /docs and /v1/openapi.json describe the API"


async def test_a_document_is_rendered_again_when_its_content_or_its_age_changed(http, times, redis):
    first = (await http.get("/v1/orgs/acme/runners/1/health")).json()
    times[0] += 0.05
    assert (await http.get("/v1/orgs/acme/runners/1/health")).json() == first
    times[0] += 0.06
    assert (await http.get("/v1/orgs/acme/runners/1/health")).json()["age_seconds"] == 3.3
    times[0] -= 60
    assert (await http.get("/v1/orgs/acme/runners/1/health")).json()["age_seconds"] == 0.0, "a clock that jumped back"
