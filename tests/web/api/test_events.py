"""Server-sent events, over real HTTP."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest

from ghapp.installations.store import Installations
from ghapp.notifications import api as module
from ghapp.notifications.event_store import START, Events
from ghapp.remediation.steps import REPLACE
from ghapp.runners.store import Runners
from ghapp.settings import PoolSettings, Settings
from ghapp.store import keys
from ghapp.store.tokens import Tokens
from ghapp.web.app import Server, build
from tests.support.keys import private_key
from tests.support.ports import free_port
from tests.web.conftest import INSTALLATION, NOW

PATH = "/v1/orgs/acme/events"


@pytest.fixture
async def listening(redis, away):
    """A client of a real server, whose Redis can be taken away."""
    environ = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "secret"}

    async def ask_for(work, *args, key=None, retry=True):
        raise AssertionError("listeners ask for no work")

    port = free_port()
    application = build(Settings.read(environ), away, ask_for, lambda: NOW)
    server = Server(application, host="127.0.0.1", port=port)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    secret, token = await Tokens(redis).create("t", ("acme",), ("read",), NOW)
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=10) as client:
        client.token_id, client.server = token.id, server
        yield client
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


async def happen(redis, *names):
    for name in names:
        await Events(redis).append(INSTALLATION, {"id": name, "type": "ghapp.runner.offline.v1"}, None)


@asynccontextmanager
async def messages(client, last_id=None):
    """Yields the messages of one connection as (id, event), in the order of arrival."""
    headers = {} if last_id is None else {"last-event-id": last_id}
    async with client.stream("GET", PATH, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield parsed(answer)


async def parsed(answer):
    entry_id = None
    async for line in answer.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            entry_id = value
        elif field == "data":
            yield entry_id, msgspec.json.decode(value)["id"]


async def next_of(stream, count):
    async with asyncio.timeout(10):
        return [await anext(stream) for _ in range(count)]


async def test_a_stream_sends_events_published_after_the_connection(listening, redis):
    await happen(redis, "before")
    async with messages(listening) as stream:
        await happen(redis, "a", "b")
        assert [name for _, name in await next_of(stream, 2)] == ["a", "b"]


@pytest.mark.parametrize("received", range(6))
async def test_a_reconnect_with_the_last_event_id_misses_and_repeats_no_event(listening, redis, received):
    names = [str(each) for each in range(5)]
    await happen(redis, *names)
    async with messages(listening, "0") as stream:
        first = await next_of(stream, min(received, 5))
    async with messages(listening, first[-1][0] if first else "0") as stream:
        await happen(redis, "5")
        second = await next_of(stream, 6 - len(first))
    assert [name for _, name in first + second] == [*names, "5"]


async def test_a_stream_sends_its_start_id_so_that_a_reconnect_before_the_first_event_misses_none(listening, redis):
    await happen(redis, "before")
    async with listening.stream("GET", PATH) as answer:
        hello = [line async for line in first(2, answer.aiter_lines())]
    assert hello[0] == "retry: 2000"
    await happen(redis, "meanwhile")
    async with messages(listening, hello[1].removeprefix("id: ")) as stream:
        assert [name for _, name in await next_of(stream, 1)] == ["meanwhile"]


async def first(count, lines):
    while count:
        yield await anext(lines)
        count -= 1


async def test_the_start_id_of_an_org_without_events_is_0(listening, redis):
    async with listening.stream("GET", PATH) as answer:
        assert [line async for line in first(2, answer.aiter_lines())] == ["retry: 2000", "id: 0"]


async def test_a_last_event_id_older_than_the_stored_events_is_a_410_problem(listening, redis):
    await happen(redis, "a", "b", "c")
    (a, _), (b, _), (c, _) = await Events(redis).since(INSTALLATION, "0")
    await redis.xtrim(keys.events(INSTALLATION), maxlen=2, approximate=False)
    for known in (a, "1-1"):
        answer = await listening.get(PATH, headers={"last-event-id": known})
        assert (answer.status_code, answer.headers["content-type"]) == (410, "application/problem+json")
    async with messages(listening, b) as stream:
        assert await next_of(stream, 1) == [(c, "c")]


async def test_a_stream_that_missed_trimmed_events_is_closed(listening, redis, away):
    await happen(redis, "a")
    async with messages(listening, "0") as stream:
        assert [name for _, name in await next_of(stream, 1)] == ["a"]
        async with redis.pipeline() as pipe:  # atomic for concurrent readers
            pipe.xadd(keys.events(INSTALLATION), {"e": b"{}"})
            pipe.xtrim(keys.events(INSTALLATION), maxlen=1, approximate=False)
            await pipe.execute()
        with pytest.raises(StopAsyncIteration):
            await next_of(stream, 1)


async def change(redis, **changes):
    """Changes the record of the lost runner."""
    await Runners(redis).revise(INSTALLATION, {3: lambda known: known._replace(**changes)})


async def request(redis, event_id):
    """Publishes a replacement request for the lost runner."""
    await Events(redis).append(INSTALLATION, {"id": event_id, "type": REPLACE, "data": {"runner_id": 3}}, None)


@pytest.mark.parametrize(
    ("changes", "replacer", "requests"),
    [
        ({}, "cloudevents", ["e1"]),
        ({"event_id": None, "granted_at": None}, "cloudevents", []),
        ({"event_id": "e2"}, "cloudevents", []),
        ({"reregistered_as": 9}, "cloudevents", []),
        ({"replaced_at": NOW - 60}, "cloudevents", []),
        ({}, "none", []),
        ({}, None, []),
    ],
    ids=["open", "withdrawn", "lost again since", "registered again", "accepted", "polled", "without a pool"],
)
async def test_a_resumed_stream_leaves_out_requests_that_are_not_open_any_more(
    listening, redis, monkeypatch, changes, replacer, requests
):
    pool = PoolSettings("acme", "linux", ("linux-4vcpu",), replacer=replacer or "none")
    monkeypatch.setattr(Settings, "pools_of", lambda _settings, _org: () if replacer is None else (pool,))
    await change(redis, granted_at=NOW - 60, event_id="e1")
    await happen(redis, "before")
    await request(redis, "e1")
    await happen(redis, "after")
    await change(redis, **changes)
    async with messages(listening, last_id=START) as stream:
        read = [name for _, name in await next_of(stream, 2 + len(requests))]
    assert read == ["before", *requests, "after"]


async def test_a_stream_of_nothing_but_requests_that_are_over_goes_on(listening, redis):
    await request(redis, "e1")
    async with messages(listening, last_id=START) as stream:
        waiting = asyncio.create_task(next_of(stream, 1))
        await asyncio.sleep(0.3)
        await happen(redis, "news")
        assert [name for _, name in await waiting] == ["news"]


async def test_a_silent_stream_is_kept_alive(listening, monkeypatch):
    monkeypatch.setattr(module, "KEEP_ALIVE_SECONDS", 0.1)
    async with listening.stream("GET", PATH) as answer, asyncio.timeout(10):
        lines = [line async for line in first(8, answer.aiter_lines())]
    assert [line for line in lines[3:] if line] == [": still here"] * 3


async def test_a_head_request_ends_at_once(listening):
    answer = await listening.head(PATH)
    assert (answer.status_code, answer.headers["content-type"][:17]) == (200, "text/event-stream")
    assert (await listening.get("/livez")).status_code == 200, "the connection can be used again"


async def test_a_disconnect_leaves_no_task_running(listening):
    await listening.get("/livez")
    before = len(asyncio.all_tasks())
    for _ in range(5):
        async with messages(listening):
            pass
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - tasks of uvicorn's, which cannot be awaited
            await asyncio.sleep(0.02)


async def test_events_of_several_pages_are_sent_in_order(listening, redis):
    names = [str(each) for each in range(250)]
    await happen(redis, *names)
    async with messages(listening, "0") as stream:
        assert [name for _, name in await next_of(stream, 250)] == names


@pytest.mark.parametrize("last_id", ["x", "1", "1-", "-1", "1-2-3", "9" * 30, "0\u0660", ""])
async def test_an_invalid_last_event_id_is_a_400_problem(listening, last_id):
    answer = await listening.get(PATH, headers={"last-event-id": last_id.encode()})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_org_without_the_app_is_404_for_an_authorized_token(listening, redis):
    await Installations(redis).remove(INSTALLATION)
    await asyncio.sleep(0)
    assert (await listening.get(PATH)).status_code == 404


async def test_a_stream_is_closed_when_its_token_is_revoked(listening, redis):
    async with messages(listening) as stream:
        await Tokens(redis).revoke(listening.token_id)
        with pytest.raises(StopAsyncIteration):
            await next_of(stream, 1)


async def test_a_stream_resumes_after_a_redis_outage_without_a_missed_event(listening, redis, away):
    async with messages(listening) as stream:
        away.away = True
        await happen(redis, "meanwhile")
        await asyncio.sleep(1.2)
        away.away = False
        assert [name for _, name in await next_of(stream, 1)] == ["meanwhile"]


async def test_streams_are_closed_when_the_server_stops(listening):
    async with messages(listening) as stream:
        listening.server.should_exit = True
        with pytest.raises(StopAsyncIteration):
            await next_of(stream, 1)


async def test_the_queries_to_redis_do_not_grow_with_the_streams(listening, redis, away):
    asked = 0

    class Counting:
        def __getattr__(self, name):
            nonlocal asked
            asked += name == "xrevrange"
            return getattr(redis, name)

    away.redis = Counting()
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(_listen_for(listening, 2.0))
    assert asked <= 20 + 4, "one query for the start id of each stream, and then one a second for all streams"


async def _listen_for(client, seconds):
    async with messages(client) as stream:
        try:
            async with asyncio.timeout(seconds):
                await anext(stream)
        except TimeoutError:
            pass


async def test_streams_are_bounded_for_a_token_and_for_all(listening, redis, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_TOKEN", 2)
    monkeypatch.setattr(module, "MOST_STREAMS", 3)
    secret, _ = await Tokens(redis).create("another", ("acme",), ("read",), NOW)
    another = {"authorization": f"Bearer {secret}"}
    async with listening.stream("GET", PATH) as first, listening.stream("GET", PATH) as second:
        assert (first.status_code, second.status_code) == (200, 200)
        refused = await listening.get(PATH)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        async with listening.stream("GET", PATH, headers=another) as third:
            assert third.status_code == 200
            assert (await listening.get(PATH, headers=another)).status_code == 503
    ends = asyncio.get_running_loop().time() + 10
    while asyncio.get_running_loop().time() < ends:
        async with listening.stream("GET", PATH) as again:
            if again.status_code == 200:
                return
        await asyncio.sleep(0.05)
    raise AssertionError("streams that have ended still count")
