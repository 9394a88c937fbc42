"""A load generator: so many connections, each with one request on its way, against one server after the other.

It runs in a process of its own (`alternate` starts it) and does as little as it can, so that the server is what is
measured: requests are bytes that were made before, and of an answer only the status and the length are read.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import cast

import msgspec
import uvloop

from tests.bench.cpu import scheduled

GUID_LENGTH = 36
"""`{guid}` in a request stands for one that was never sent before: `prefix-%012d`, as long as a real one."""

PLACEHOLDER = b"{guid}"


class Target(msgspec.Struct):
    """A server on the loopback (its port and process), and what to send to it, in turns.

    Every answer must have this status.
    """

    port: int
    process: int
    requests: list[bytes]
    status: int = 200
    guids: str = ""


class Plan(msgspec.Struct):
    """Rounds of so many seconds for each target, the targets in turns."""

    targets: list[Target]
    rounds: int
    seconds: float
    connections: int


class Round(msgspec.Struct):
    """One round against one server.

    Time in which the server could have run, and waited for a core that others used, is left out of it: otherwise a
    busy machine decides which of two servers looks faster.

    Attributes:
        rate: answers a second.
        microseconds: CPU time of the server for each answer.
        busy: the share of the round in which the server ran. Near 1 the server is what was measured, and neither this
            load generator nor anything behind the server.
        crowded: the share of the whole round that was left out.
    """

    rate: float
    microseconds: float
    busy: float
    crowded: float


class Outcome(msgspec.Struct):
    """What became of a target.

    Attributes:
        answers: all of them; requests that were on their way at the end of a round were waited for, and count.
        rounds: without the first, which warms up.
    """

    answers: int
    rounds: list[Round]

    @property
    def rate(self) -> float:
        """Answers a second, the median of all rounds."""
        return median(each.rate for each in self.rounds)

    @property
    def microseconds(self) -> float:
        """CPU of the server for an answer, the median of all rounds."""
        return median(each.microseconds for each in self.rounds)

    def against(self, other: Outcome) -> list[float]:
        """The ratio of the rates, in each round."""
        return [ours.rate / theirs.rate for ours, theirs in zip(self.rounds, other.rounds, strict=True)]

    def summary(self) -> str:
        """What an answer cost, whether the server was what the others waited for, and what this machine had for it."""
        busy, crowded = (median(getattr(each, name) for each in self.rounds) for name in ("busy", "crowded"))
        return f"{self.microseconds:.0f} µs of CPU each, {busy:.0%} busy, {crowded:.0%} of the time no core was free for it"


def alternate(plan: Plan, folder: Path) -> list[Outcome]:
    """Runs a plan; what became of each target, in the plan's order."""
    file = folder / f"load-{time.monotonic_ns()}"
    file.write_bytes(msgspec.msgpack.encode(plan))
    done = subprocess.run([sys.executable, "-m", "tests.bench.load", str(file)], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=list[Outcome])


class Client(asyncio.Protocol):
    """One connection with at most one request on its way."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = b""
        self.idle = asyncio.Event()
        self.idle.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.idle.is_set():
            self._source.failure = f"a connection ended in the midst of a request: {exc}"
            self.idle.set()

    def begin(self) -> None:
        self.idle.clear()
        self._write(self._source.next())

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        head = data.find(b"\r\n\r\n")
        length = data.find(b"content-length: ", 0, head)
        if head < 0 or len(data) < head + 4 + int(data[length + 16 : data.find(b"\r\n", length)]):
            self._buffer = data
            return
        self._buffer = b""
        if self._source.take(data) and time.perf_counter() < self._source.ends:
            self._write(self._source.next())
        else:
            self.idle.set()


class Source:
    """Gives out a target's requests, and counts its answers."""

    def __init__(self, target: Target) -> None:
        self._parts = [request.split(PLACEHOLDER) for request in target.requests]
        self._prefix, self._status = target.guids.encode(), f"HTTP/1.1 {target.status} ".encode()
        self._given = 0
        self.answers, self.ends, self.failure = 0, 0.0, ""

    def next(self) -> bytes:
        parts = self._parts[self._given % len(self._parts)]
        self._given += 1
        return parts[0] if len(parts) == 1 else (b"%s-%012d" % (self._prefix, self._given)).join(parts)

    def take(self, answer: bytes) -> bool:
        if not answer.startswith(self._status):
            self.failure = f"wanted {self._status.decode()}, got {answer[:400]!r}"
            return False
        self.answers += 1
        return True


async def _run(plan: Plan) -> list[Outcome]:
    sources = [Source(target) for target in plan.targets]
    rounds: list[list[Round]] = [[] for _ in sources]
    loop = asyncio.get_running_loop()
    for turn in range(plan.rounds + 1):
        numbers = range(len(sources))
        for number in numbers if turn % 2 else reversed(numbers):
            source, target = sources[number], plan.targets[number]
            opened = [
                await loop.create_connection(partial(Client, source), "127.0.0.1", target.port)
                for _ in range(plan.connections)
            ]
            clients = [client for _, client in opened]
            rounds[number].append(await _round(source, clients, plan.seconds, target.process))
            for transport, _ in opened:
                transport.close()
    return [Outcome(source.answers, each[1:]) for source, each in zip(sources, rounds, strict=True)]


async def _round(source: Source, clients: Sequence[Client], seconds: float, server: int) -> Round:
    before, spent, began = source.answers, scheduled(server), time.perf_counter()
    source.ends = began + seconds
    for client in clients:
        client.begin()
    for client in clients:
        await client.idle.wait()
    if source.failure:
        sys.exit(f"load: {source.failure}")
    took, spent, answers = time.perf_counter() - began, scheduled(server).since(spent), source.answers - before
    given = took - spent.waited
    return Round(answers / given, spent.ran / answers * 1e6, spent.ran / given, spent.waited / took)


if __name__ == "__main__":
    given = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_run(given))))
