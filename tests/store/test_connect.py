"""Connections: a command waits for a free one, and concurrent reads of one event loop turn are sent together."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from redis.asyncio.connection import AbstractConnection

from ghapp.errors import StoreRefusedError, StoreUnavailableError
from ghapp.store.connect import MOST_CONNECTIONS, PipeliningRedis, connect


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
async def test_a_cancellation_that_redis_py_loses_ends_the_task_all_the_same(redis_url, monkeypatch, send):
    """Before Python 3.12 `asyncio.wait_for` loses one that arrives with the end of what it waits for."""
    sending = asyncio.Event()

    async def lose_the_cancellation(connection, command, check_health=True):
        sending.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await send_packed_command(connection, command, check_health=False)

    redis = connect(redis_url)
    await redis.ping()
    send_packed_command = AbstractConnection.send_packed_command
    monkeypatch.setattr(AbstractConnection, "send_packed_command", lose_the_cancellation)
    task = asyncio.create_task(send(redis))
    await sending.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    await redis.aclose()
