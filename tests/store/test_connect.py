"""Connections: a command waits for a free one, and concurrent reads of one event loop turn are sent together."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

import ghapp.store.connect as connect_module
from ghapp.errors import StoreRefusedError, StoreUnavailableError
from ghapp.store.connect import MOST_CONNECTIONS, MOST_IN_A_PIPELINE, PipeliningRedis, connect


async def test_more_commands_than_connections_are_all_answered(redis, redis_url):
    client = connect(redis_url)
    try:
        answers = await asyncio.gather(*(client.incr("counted") for _ in range(20 * MOST_CONNECTIONS)))
    finally:
        await client.aclose()
    assert sorted(answers) == list(range(1, 20 * MOST_CONNECTIONS + 1))


@pytest.fixture
def reader(redis):
    return PipeliningRedis(redis)


async def test_commands_of_one_turn_are_one_pipeline_and_each_has_its_own_answer(redis, reader):
    await redis.mset({f"k{each}": each for each in range(300)})
    before = (await redis.info("clients"))["connected_clients"]
    answers = await asyncio.gather(*(reader.get(f"k{each}") for each in range(300)), reader.hgetall("nothing"))
    assert answers == [*(str(each).encode() for each in range(300)), {}]
    assert (await redis.info("clients"))["connected_clients"] <= before + 2


async def test_a_refused_command_does_not_fail_the_others(redis, reader):
    await redis.set("text", "a")
    refused, answered = await asyncio.gather(reader.hgetall("text"), reader.get("text"), return_exceptions=True)
    assert isinstance(refused, StoreRefusedError)
    assert answered == b"a"


async def test_an_unknown_script_is_loaded(reader):
    echo = reader.register_script("return ARGV[1]")
    assert await asyncio.gather(echo(args=["a"]), echo(args=["b"])) == [b"a", b"b"]


async def test_while_redis_is_away_each_command_fails():
    client = connect("redis://127.0.0.1:1/0")
    reader = PipeliningRedis(client)
    found = await asyncio.gather(reader.get("a"), reader.get("b"), return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnavailableError, StoreUnavailableError]
    with pytest.raises(StoreUnavailableError, match="GHAPP_REDIS_URL"):
        await reader.get("alone")
    await client.aclose()


async def test_a_cancelled_waiter_does_not_affect_the_others(redis, reader):
    await redis.set("a", "1")
    impatient, patient = asyncio.create_task(reader.get("a")), asyncio.create_task(reader.get("a"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == b"1"


async def test_a_pipeline_raises_our_errors_too(redis, redis_url):
    await redis.set("text", "a")
    async with redis.pipeline() as pipe:
        pipe.hget("text", "field")
        with pytest.raises(StoreRefusedError):
            await pipe.execute()
    away = connect("redis://127.0.0.1:1/0")
    async with away.pipeline() as pipe:
        pipe.get("text")
        with pytest.raises(StoreUnavailableError, match="GHAPP_REDIS_URL"):
            await pipe.execute()
    await away.aclose()


@pytest.mark.parametrize("send", [lambda redis: redis.ping(), lambda redis: redis.pipeline().ping().execute()])
async def test_a_cancellation_at_any_turn_of_the_event_loop_ends_the_task(redis, send):
    """Before Python 3.12 `asyncio.wait_for` loses one that arrives with the end of what it waits for."""
    await redis.ping()
    turns = 0
    while True:
        task = asyncio.create_task(send(redis))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        turns += 1
    assert turns > 2


async def test_a_command_without_an_answer_fails_in_time_and_the_next_one_has_its_own(redis, redis_url, monkeypatch):
    monkeypatch.setattr(connect_module, "ANSWER_SECONDS", 0.2)
    client = connect(redis_url)
    pipe = client.pipeline(transaction=False)
    pipe.blpop(["nothing"], 1)
    found = await asyncio.gather(client.blpop(["nothing"], 1), pipe.execute(), return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnavailableError, StoreUnavailableError]
    assert "no answer within" in str(found[0])
    assert await client.ping() is True
    await client.aclose()


async def test_a_command_that_waits_for_a_connection_fails_in_time(redis, redis_url, monkeypatch):
    monkeypatch.setattr(connect_module, "ANSWER_SECONDS", 0.2)
    client = connect(redis_url)
    used = [await client.connection_pool.get_connection() for _ in range(MOST_CONNECTIONS)]
    with pytest.raises(StoreUnavailableError, match="no answer within"):
        await client.ping()
    await client.connection_pool.release(used.pop())
    assert await client.ping() is True
    await client.aclose()


@pytest.mark.parametrize("value", ["text", b"\xff\x00\r\n", 7, -1.5, 1e300, "ü" * 70_000], ids=repr)
async def test_values_are_sent_as_redis_py_sends_them(redis, value):
    connection = redis.connection_pool.make_connection()
    command = ("CONFIG SET", "key", value)
    ours, theirs = connection.pack_command(*command), AbstractConnection.pack_command(connection, *command)
    assert b"".join(ours) == b"".join(theirs)


async def test_a_value_that_redis_does_not_know_is_refused(redis):
    with pytest.raises(StoreUnavailableError, match="must be str, int, float or bytes"):
        await redis.set("key", None)


async def test_commands_that_come_while_a_pipeline_is_on_its_way_are_the_next_pipeline(redis, reader):
    sent = []
    execute = redis.pipeline

    def pipeline(transaction=True, shard_hint=None):
        sent.append(execute(transaction, shard_hint))
        return sent[-1]

    async def count_twice(each):
        await reader.incr(f"a{each}")
        return await reader.incr("b")

    redis.pipeline = pipeline
    first = asyncio.create_task(reader.incr("b"))
    await asyncio.sleep(0)  # the first command is queued …
    await asyncio.sleep(0)  # … and sent
    assert sorted(await asyncio.gather(*(count_twice(each) for each in range(5)))) == [2, 3, 4, 5, 6]
    assert await first == 1
    assert len(sent) == 2, "the first command alone, then five at once, then five at once"


async def test_a_pipeline_without_an_answer_holds_up_no_other_command(redis, reader):
    blocked = asyncio.create_task(reader.blpop("nothing", timeout=0))
    await asyncio.sleep(0.01)
    assert await asyncio.wait_for(reader.ping(), 4) is True
    assert not blocked.done()
    await redis.rpush("nothing", "something")
    assert await blocked == (b"nothing", b"something")


async def test_a_joining_pipeline_keeps_its_order_and_its_errors(redis, reader):
    await redis.set("text", "a")
    async with reader.pipeline(transaction=False) as pipe:
        pipe.rpush("list", "a", "b")
        pipe.lrange("list", 0, -1)
        assert await pipe.execute() == [2, [b"a", b"b"]]
        pipe.hget("text", "field")
        pipe.incr("n")
        error, counted = await pipe.execute(raise_on_error=False)
        assert (type(error), counted) == (ResponseError, 1)
        pipe.hget("text", "field")
        with pytest.raises(StoreRefusedError):
            await pipe.execute()
        assert await pipe.execute() == [], "what was sent is not sent again"


async def test_a_command_whose_caller_was_cancelled_before_it_was_sent_is_not_sent(redis, reader):
    first = asyncio.create_task(reader.incr("n"))
    second = asyncio.create_task(reader.incr("n"))
    await asyncio.sleep(0)
    second.cancel()
    assert await first == 1
    assert await redis.get("n") == b"1"


async def test_after_many_cancelled_commands_the_next_one_is_sent(redis, reader):
    first = asyncio.create_task(reader.incr("n"))
    await asyncio.sleep(0)
    cancelled = [asyncio.create_task(reader.incr("n")) for _ in range(MOST_IN_A_PIPELINE)]
    last = asyncio.create_task(reader.incr("n"))
    await asyncio.sleep(0)
    for each in cancelled:
        each.cancel()
    assert (await first, await asyncio.wait_for(last, 10)) == (1, 2)


async def test_more_commands_than_fit_in_a_pipeline_are_sent_in_their_order(redis, reader):
    count = 2 * MOST_IN_A_PIPELINE + 1
    answers = await asyncio.gather(*(reader.rpush("list", each) for each in range(count)))
    assert answers == [*range(1, count + 1)]
    async with reader.pipeline(transaction=False) as pipe:
        for _ in range(count):
            pipe.incr("n")
        assert await pipe.execute() == [*range(1, count + 1)], "one request is never divided"
