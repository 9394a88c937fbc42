"""Redis with Sentinel: a primary, a replica and one Sentinel."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.store.connect import connect, connect_sync
from ghapp.store.schedule import Schedule
from tests.support.ports import free_port
from tests.support.redis_weather import redis_server


@pytest.fixture
def ports(tmp_path):
    """The ports of the primary, the replica and the Sentinel."""
    primary, replica, sentinel = free_port(), free_port(), free_port()
    watched = [
        f"port {sentinel}",
        f"sentinel monitor main 127.0.0.1 {primary} 1",
        "sentinel failover-timeout main 2000",
    ]
    with (
        redis_server(tmp_path, "primary", [f"port {primary}"]),
        redis_server(tmp_path, "replica", [f"port {replica}", f"replicaof 127.0.0.1 {primary}"]),
    ):
        asyncio.run(answered(lambda: follows(replica)))  # before the first query: a Sentinel polls every ten seconds
        with redis_server(tmp_path, "sentinel", watched, "--sentinel"):
            yield primary, replica, sentinel


async def answered(ask):
    """Waits for the server's answer, and returns it."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StoreUnavailableError):
                if (found := await ask()) is not None:
                    return found
            await asyncio.sleep(0.05)


async def test_after_a_failover_writes_go_to_the_new_primary(ports):
    primary, replica, sentinel = ports
    url = f"redis+sentinel://127.0.0.1:{sentinel},127.0.0.1:1/main/0"
    async with connect(url) as redis, connect(f"redis://127.0.0.1:{sentinel}") as watcher:
        schedule = Schedule(redis)
        await answered(lambda: enrolled(schedule, 7))
        await answered(lambda: kept_by(replica, 7))
        await answered(lambda: failover(watcher))
        await answered(lambda: has_role(replica, "master"))
        await demote(primary, replica)
        await answered(lambda: has_role(primary, "slave"))
        await answered(lambda: enrolled(schedule, 8))
        assert await kept_by(replica, 7) == 1.0, "earlier writes were replicated"
        assert await kept_by(replica, 8) == 1.0
    with connect_sync(url) as queue_redis:
        assert queue_redis.connection_pool.get_master_address() == ("127.0.0.1", replica)


async def test_a_sentinel_that_accepts_connections_and_does_not_answer_is_passed_over(ports):
    _, _, sentinel = ports
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis+sentinel://127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{sentinel}/main/0"
        async with connect(url) as redis:
            assert await redis.ping() is True
        with connect_sync(url) as queue_redis:
            assert await asyncio.wait_for(asyncio.to_thread(queue_redis.ping), 5) is True


async def enrolled(schedule, installation):
    await schedule.add(installation, 1.0)
    return await schedule.next(installation)


async def failover(watcher):
    """Retries until the Sentinel knows the replica; before, it refuses a failover."""
    return await watcher.execute_command("SENTINEL", "FAILOVER", "main")


async def demote(port, new):
    """Makes the old primary a replica, as a Sentinel does after ten seconds of polling."""
    async with connect(f"redis://127.0.0.1:{port}") as redis, redis.pipeline() as orders:
        await orders.execute_command("REPLICAOF", "127.0.0.1", new)
        await orders.execute_command("CLIENT", "KILL", "TYPE", "normal")
        await orders.execute()


async def follows(port):
    async with connect(f"redis://127.0.0.1:{port}") as redis:
        return True if (await redis.info("replication"))["master_link_status"] == "up" else None


async def has_role(port, role):
    async with connect(f"redis://127.0.0.1:{port}") as redis:
        return True if (await redis.info("replication"))["role"] == role else None


async def kept_by(port, installation):
    async with connect(f"redis://127.0.0.1:{port}") as redis:
        return await Schedule(redis).next(installation)
