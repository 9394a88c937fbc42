"""A demoted Redis behind one address: clients leave it at the first refusal, with all their connections."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ReadOnlyError, ResponseError

from ghapp.errors import Refusal, StoreRefusedError, StoreUnavailableError
from ghapp.redis_errors import refusal_of, translated
from ghapp.store.connect import PipeliningRedis, connect, connect_sync, probe_write
from tests.support.ports import free_port
from tests.support.redis_weather import Address, asked, follow, redis_server, swap

READERS = 5


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """The ports of two servers."""
    one, other, folder = free_port(), free_port(), tmp_path_factory.mktemp("demotion")
    with redis_server(folder, "one", [f"port {one}"]), redis_server(folder, "other", [f"port {other}"]):
        yield one, other


@pytest.fixture
def address(servers):
    """An address with a primary behind it; the other server follows that primary."""
    primary, replica = servers
    with asked(primary) as redis:
        redis.replicaof("NO", "ONE")
        redis.flushall()
    follow(replica, primary)
    with Address(primary) as found:
        yield found


def demote(address, servers):
    """The server behind the address is a replica from now on; new connections reach the new primary."""
    primary, replica = servers
    swap(primary, replica)
    address.target = replica
    with asked(replica) as redis:
        redis.set("where", "primary")


async def in_a_pipeline(redis):
    await redis.pipeline(transaction=False).get("a").set("a", 1).execute()


async def in_a_transaction(redis):
    await redis.pipeline(transaction=True).get("a").set("a", 1).execute()


async def by_a_script(redis):
    await redis.register_script("return redis.call('SET', 'a', ARGV[1])")(args=["1"])


async def among_others(redis):
    reader = PipeliningRedis(redis)
    _, written = await asyncio.gather(reader.get("a"), reader.set("a", 1), return_exceptions=True)
    if isinstance(written, Exception):
        raise written


@pytest.mark.parametrize("write", [probe_write, in_a_pipeline, in_a_transaction, by_a_script, among_others])
async def test_after_one_refusal_all_connections_of_the_stores_reach_the_new_primary(address, servers, write):
    async with connect(f"redis://127.0.0.1:{address.port}") as redis:
        await write(redis)
        in_use = [await redis.connection_pool.get_connection() for _ in range(READERS)]
        await asyncio.gather(*(redis.get("where") for _ in range(READERS)))
        demote(address, servers)
        with pytest.raises(StoreRefusedError) as refused:
            await write(redis)
        assert refused.value.refusal is Refusal.REPLICA
        await write(redis)
        for each in in_use:
            await redis.connection_pool.release(each)
        found = await asyncio.gather(*(redis.get("where") for _ in range(2 * READERS)))
        assert set(found) == {b"primary"}


async def test_a_command_that_blocks_while_its_server_is_demoted_is_refused_and_then_reaches_the_new_primary(
    address, servers
):
    async with connect(f"redis://127.0.0.1:{address.port}") as redis:
        blocked = asyncio.create_task(redis.blpop(["list"], 4))
        with asked(servers[0]) as server:
            while not server.info("clients")["blocked_clients"]:  # noqa: ASYNC110 - the server sends no notice
                await asyncio.sleep(0.01)
        await asyncio.to_thread(demote, address, servers)
        with pytest.raises(StoreRefusedError):
            await blocked
        assert await redis.rpush("list", "a") == 1


def test_after_one_refusal_all_connections_of_the_queue_reach_the_new_primary(address, servers):
    with connect_sync(f"redis://127.0.0.1:{address.port}") as redis:
        idle = [redis.connection_pool.get_connection() for _ in range(READERS)]
        for each in idle:
            redis.connection_pool.release(each)
        redis.set("a", 1)
        demote(address, servers)
        with pytest.raises(ReadOnlyError):
            redis.set("a", 2)
        assert redis.set("a", 2) is True
        used = [redis.connection_pool.get_connection() for _ in range(READERS)]
        for each in used:
            each.send_command("GET", "where")
            assert each.read_response() == b"primary"
            redis.connection_pool.release(each)


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        ("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", "replica"),
        ("ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't …", "replica"),
        ("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed when …", "memory"),
        ("MISCONF Errors writing to the AOF file: No space left on device", "disk"),
        ("ERR unknown command", "other"),
    ],
)
def test_a_refusal_is_recognized_by_its_code_wherever_redis_writes_it(message, refusal):
    assert refusal_of(ResponseError(message)).value == refusal


def test_a_replica_that_sentinel_named_is_a_refusal_and_not_an_absence():
    from redis.exceptions import ConnectionError as RedisConnectionError

    error = translated(RedisConnectionError("The previous master is now a slave"))
    assert isinstance(error, StoreRefusedError)
    assert error.refusal is Refusal.REPLICA
    assert type(translated(RedisConnectionError("refused"))) is StoreUnavailableError
