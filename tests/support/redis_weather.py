"""Redis servers that a test stops, demotes, fills and moves, and an address that stays the same meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import redis

from ghapp.local.local_redis import choose_servers
from tests.support.ports import free_port

PATIENCE_SECONDS = 30


@contextmanager
def redis_server(folder: Path, name: str, lines: Sequence[str], *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server with these lines of configuration during the block; it may be stopped and killed."""
    home = folder / name
    home.mkdir(exist_ok=True)
    file = home / "redis.conf"
    file.write_text("\n".join([f'dir "{home}"', "bind 127.0.0.1", 'save ""', *lines]) + "\n")
    process = subprocess.Popen([choose_servers()[0].binary, file, *words], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def asked(port: int) -> Iterator[redis.Redis]:
    """A client of this very server, once it answers."""
    with redis.Redis(port=port, socket_timeout=5) as client:
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(redis.RedisError):
                client.ping()
                break
            assert time.monotonic() < ends, f"no Redis on {port}"
            time.sleep(0.02)
        yield client


def follow(replica: int, primary: int) -> None:
    """Makes one server the replica of another, and waits until it has its data."""
    with asked(primary) as source, asked(replica) as client:
        client.replicaof("127.0.0.1", primary)
        ends = time.monotonic() + PATIENCE_SECONDS
        while client.info("replication")["master_link_status"] != "up":
            assert time.monotonic() < ends, f"{replica} does not follow {primary}"
            time.sleep(0.02)
        source.wait(1, 5_000)


def swap(primary: int, replica: int) -> None:
    """Makes the replica the primary, and the other way round; connections stay open."""
    with asked(replica) as promoted:
        promoted.replicaof("NO", "ONE")
    with asked(primary) as demoted:
        demoted.replicaof("127.0.0.1", replica)


class Address:
    """A TCP address behind which another server may be at any time, as behind a Service or a virtual IP.

    Attributes:
        port: of the address.
        target: the port of the server that new connections reach; those that are open stay with theirs.
        delay_seconds: by how much what a client sends is delayed.
    """

    def __init__(self, target: int) -> None:
        self.port, self.target, self.delay_seconds = free_port(), target, 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for each in self._writers:
            each.close()
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            self._writers.discard(writer)
            writer.close()
            return
        self._writers.add(to_server)
        await asyncio.gather(self._pump(reader, to_server, slow=True), self._pump(from_server, writer, slow=False))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, slow: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if slow and self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                sink.write(data)
                await sink.drain()
        self._writers.discard(sink)
        sink.close()
