"""Many concurrent reads: one round trip for all reads of a request, and a bounded number of connections."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.installations.installation import NEEDED, Installation
from ghapp.installations.store import Installations
from ghapp.runners.store import Runners
from ghapp.store import connect as connections
from ghapp.store.schedule import Schedule
from ghapp.web.api.status import ORGS_AT_ONCE, STATES_AT_ONCE
from tests.web.conftest import INSTALLATION, NOW, Away, healthy

HEALTH = "/v1/orgs/acme/runners/health"
FIRST = 1001


async def registered(redis, count):
    known = [healthy(each, f"linux-{each}") for each in range(FIRST, FIRST + count)]
    await Runners(redis).revise(INSTALLATION, {each.id: lambda _, each=each: each for each in known})
    return [each.id for each in known], [each.name for each in known]


async def calls(redis, command):
    return (await redis.info("commandstats")).get(f"cmdstat_{command}", {"calls": 0})["calls"]


async def test_a_thousand_runners_are_answered_without_a_read_of_their_records(http, redis):
    ids, names = await registered(redis, 1000)
    await http.get("/v1/orgs/acme/runners/1/health")
    before = [await calls(redis, each) for each in ("hmget", "hscan")]
    by_id, by_name = await http.post(HEALTH, json={"ids": ids}), await http.post(HEALTH, json={"names": names})
    assert [(each["runner_id"], each["state"]) for each in by_id.json()["runners"]] == [
        (each, "healthy") for each in ids
    ]
    assert [each["name"] for each in by_name.json()["runners"]] == names
    assert [await calls(redis, each) for each in ("hmget", "hscan")] == before


async def test_a_batch_has_at_most_a_thousand_runners(http, redis):
    ids, names = await registered(redis, 500)
    assert (await http.post(HEALTH, json={"ids": ids, "names": names})).status_code == 200
    assert (await http.post(HEALTH, json={"ids": [*ids, 1], "names": names})).status_code == 400
    assert (await http.post(HEALTH, json={"ids": list(range(1, 1002))})).status_code == 400


async def test_a_runner_that_is_requested_twice_is_answered_twice(http, redis):
    answer = await http.post(HEALTH, json={"ids": [1, 1, 99], "names": ["a", "a"]})
    assert [each["name"] for each in answer.json()["runners"]] == ["a", "a", None, "a", "a"]


async def test_two_thousand_concurrent_reads_of_as_many_runners_are_all_answered(http, redis):
    ids, _ = await registered(redis, 2000)
    answers = await asyncio.gather(*(http.get(f"/v1/orgs/acme/runners/{each}/health") for each in ids))
    assert {(each.status_code, each.json().get("state")) for each in answers} == {(200, "healthy")}
    assert [each.json()["runner_id"] for each in answers] == ids
    assert (await redis.info("clients"))["connected_clients"] <= connections.MOST_CONNECTIONS + 5


async def test_a_slow_redis_is_reported_as_slow_and_not_as_unavailable(http, redis, monkeypatch):
    monkeypatch.setattr("ghapp.web.cache.LONGEST_SECONDS", 0.2)
    await redis.client_pause(600, all=True)
    answer = await http.get("/v1/orgs/acme/runners/1/health")
    assert answer.status_code == 503
    assert "did not answer within" in answer.json()["detail"]
    assert "unavailable" not in answer.json()["detail"]


async def test_a_batch_of_cached_runners_is_answered_while_redis_is_away(http, away):
    known = (await http.post(HEALTH, json={"ids": [1, 2]})).json()
    await asyncio.sleep(1.1)  # cached values expire after one second
    away.away = True
    assert (await http.post(HEALTH, json={"ids": [1, 2]})).json() == known
    answer = await http.post(HEALTH, json={"ids": [99]})
    assert (answer.status_code, answer.json()["runners"][0]["state"]) == (200, "unknown")


class Counting(Away):
    """Counts pipelines: each is a round trip."""

    def __init__(self, redis):
        super().__init__(redis)
        self.trips = 0

    def pipeline(self, *args, **kwargs):
        self.trips += 1
        return self.__getattr__("pipeline")(*args, **kwargs)


@pytest.fixture
async def away(away):
    return Counting(away.redis)


@pytest.mark.parametrize(("path", "at_once"), [("/readyz", STATES_AT_ONCE), ("/metrics", ORGS_AT_ONCE)])
async def test_the_round_trips_grow_with_chunks_of_installations_and_not_with_each(http, away, redis, path, at_once):
    async def trips(count):
        await Installations(redis).replace_all(
            [Installation(each, f"org{each}", each, NEEDED) for each in range(count)]
        )
        for each in range(count):
            await Schedule(redis).add(each, NOW)
        away.trips = 0
        answer = await http.get(path)
        assert (answer.status_code, "org0" in answer.text) == (200, True)
        return away.trips

    few, chunk, two_chunks = await trips(1), await trips(at_once), await trips(at_once + 1)
    assert chunk <= few + 4, "a pipeline holds a few hundred commands"
    assert two_chunks <= 2 * chunk
