"""A simulated GitHub for many installations or very large ones: runner lists, GETs, removals and tokens, nothing else.

`python -m tests.bench.fleet.github FILE`, with a JSON `Config` in FILE, prints one line with its address when it
listens. The sandbox answers all that ghapp asks, and is slower than ghapp; this one answers in some 60 µs, and the bench
of many installations reports how many calls a second it can take. Answers have the shape of GitHub's OpenAPI
description.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import uvicorn

PER_PAGE = 100
WINDOW_SECONDS = 60.0
READ_POINTS, WRITE_POINTS = 1, 5
FIRST_INSTALLATION = 1_000
IDS_PER_INSTALLATION = 1_000_000
POOL = "linux-4vcpu"
TOKEN_EXPIRES = "2099-01-01T00:00:00Z"

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Config(msgspec.Struct):
    """What is simulated.

    Attributes:
        installations: how many organizations have the App.
        runners: of each of them.
        latency_seconds: of each answer.
        points_a_minute: GitHub's secondary limit of each installation; 0: none.
        hourly: GitHub's primary limit of each installation.
        offline: how many of the runners are offline, the first ones.
    """

    installations: int
    runners: int
    latency_seconds: float = 0.0
    points_a_minute: int = 900
    hourly: int = 15_000
    offline: int = 0


class Report(msgspec.Struct):
    """What was seen.

    Attributes:
        calls: by kind.
        refused: calls over the limit of points.
        unknown: paths that are not simulated.
        lists: by organization, when each list was begun (epoch seconds of its first page).
        events: by runner id, when its replacement was requested (epoch seconds).
    """

    calls: dict[str, int]
    refused: int
    unknown: list[str]
    lists: dict[str, list[float]]
    events: dict[int, float]


class Organization:
    """One organization: its runners as encoded JSON, and its pages, which are encoded when they are first asked for."""

    def __init__(self, number: int, config: Config) -> None:
        self.name, self.installation = f"org-{number}", FIRST_INSTALLATION + number
        first = number * IDS_PER_INSTALLATION + 1
        self.runners = {
            each: _runner(each, is_online=each >= first + config.offline)
            for each in range(first, first + config.runners)
        }
        self.lists: list[float] = []
        self._pages: dict[int, tuple[bytes, bytes]] = {}
        self._order: list[int] | None = None
        self._spent: deque[tuple[float, int]] = deque()
        self._points = 0
        self._limit, self.hourly, self.used = config.points_a_minute, config.hourly, 0
        self.reset = int(time.time()) + 3600

    def page(self, number: int) -> tuple[bytes, bytes]:
        """Returns a page and its ETag."""
        found = self._pages.get(number)
        if found is None:
            if self._order is None:
                self._order = list(self.runners)
            ids = self._order[(number - 1) * PER_PAGE : number * PER_PAGE]
            body = b'{"total_count":%d,"runners":[%s]}' % (
                len(self.runners),
                b",".join(self.runners[each] for each in ids),
            )
            etag = b'W/"%s"' % hashlib.md5(body, usedforsecurity=False).hexdigest().encode()
            found = self._pages[number] = body, etag
        return found

    def lose(self, ids: list[int]) -> None:
        """Deletes registrations; the pages behind them move up."""
        for each in ids:
            self.runners.pop(each, None)
        self._pages.clear()
        self._order = None

    def add(self, runner_id: int) -> None:
        """Registers a new runner."""
        self.runners[runner_id] = _runner(runner_id)
        self._pages.clear()
        self._order = None

    def admits(self, points: int) -> bool:
        """Counts a call against the limit of points; False if it is over."""
        now = time.monotonic()
        while self._spent and now - self._spent[0][0] >= WINDOW_SECONDS:
            self._points -= self._spent.popleft()[1]
        if self._limit and self._points + points > self._limit:
            return False
        self._spent.append((now, points))
        self._points += points
        return True


def _runner(runner_id: int, *, is_online: bool = True) -> bytes:
    labels = [{"id": 1, "name": "self-hosted", "type": "read-only"}, {"id": 2, "name": POOL, "type": "custom"}]
    return msgspec.json.encode(
        {
            "id": runner_id,
            "name": f"{POOL}-{runner_id}",
            "os": "linux",
            "status": "online" if is_online else "offline",
            "busy": False,
            "ephemeral": True,
            "runner_group_id": 1,
            "labels": labels,
        }
    )


class GitHub:
    """The application: plain ASGI, because a framework would take most of the time."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._organizations = {f"org-{number}": Organization(number, config) for number in range(config.installations)}
        self._by_id = {each.installation: each for each in self._organizations.values()}
        self._calls: Counter[str] = Counter()
        self._refused, self._unknown = 0, Counter[str]()
        self._events: dict[int, float] = {}
        self._successor = config.installations * IDS_PER_INSTALLATION

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        body = b"" if scope["method"] == "GET" else await body_of(receive)
        if self._config.latency_seconds and not scope["path"].startswith("/_"):
            await asyncio.sleep(self._config.latency_seconds)
        match scope["path"].split("/")[1:]:
            case ["orgs", org, "actions", "runners", *rest] if org in self._organizations:
                await self._runners(scope, send, self._organizations[org], rest)
            case ["app", "installations", *rest]:
                await self._installations(scope, send, rest)
            case ["app", "hook", "deliveries"]:
                await _answer(send, b"[]")
            case ["events"]:
                await self._event(send, body)
            case ["_lose"]:
                await self._lose(send, msgspec.json.decode(body))
            case ["_register"]:
                await self._register(send, msgspec.json.decode(body))
            case ["_report"]:
                await _answer(send, msgspec.json.encode(self._report()))
            case _:
                self._unknown[scope["path"]] += 1
                await _answer(send, b'{"message":"Not Found"}', 404)

    async def _runners(self, scope: dict[str, Any], send: Send, org: Organization, rest: list[str]) -> None:
        deletes = scope["method"] == "DELETE"
        if not org.admits(WRITE_POINTS if deletes else READ_POINTS):
            self._refused += 1
            message = b'{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}'
            return await _answer(send, message, 403, (b"retry-after", b"60"))
        limits = self._limits(org)
        if rest:
            self._calls["DELETE" if deletes else "GET"] += 1
            return await self._runner(send, org, int(rest[0]), limits, deletes=deletes)
        query = parse_qs(scope["query_string"].decode())
        if "name" in query:
            self._calls["named"] += 1
            rows = [row for each, row in org.runners.items() if query["name"][0] == f"{POOL}-{each}"]
            return await _answer(
                send, b'{"total_count":%d,"runners":[%s]}' % (len(rows), b",".join(rows)), 200, *limits
            )
        number = int(query.get("page", ["1"])[0])
        if number == 1:
            org.lists.append(time.time())
        body, etag = org.page(number)
        if (b"if-none-match", etag) in scope["headers"]:
            self._calls["unchanged page"] += 1
            return await _answer(send, b"", 304, *limits, (b"etag", etag))
        self._calls["page"] += 1
        org.used += 1
        return await _answer(send, body, 200, *self._limits(org), (b"etag", etag))

    async def _runner(
        self, send: Send, org: Organization, runner_id: int, limits: list[tuple[bytes, bytes]], *, deletes: bool
    ) -> None:
        org.used += 1
        row = org.runners.get(runner_id)
        if row is None:
            return await _answer(send, b'{"message":"Not Found"}', 404, *limits)
        if deletes:
            org.lose([runner_id])
            return await _answer(send, b"", 204, *limits)
        return await _answer(send, row, 200, *limits)

    async def _installations(self, scope: dict[str, Any], send: Send, rest: list[str]) -> None:
        if not rest:
            page = int(parse_qs(scope["query_string"].decode()).get("page", ["1"])[0])
            rows = [*self._by_id.values()][(page - 1) * PER_PAGE : page * PER_PAGE]
            return await _answer(send, msgspec.json.encode([_installation(each) for each in rows]))
        org = self._by_id.get(int(rest[0]))
        if org is None:
            return await _answer(send, b'{"message":"Not Found"}', 404)
        if rest[1:] == ["access_tokens"]:
            self._calls["token"] += 1
            token = {"token": f"ghs_{org.installation}", "expires_at": TOKEN_EXPIRES}
            return await _answer(send, msgspec.json.encode(token), 201)
        self._calls["installation"] += 1
        return await _answer(send, msgspec.json.encode(_installation(org)))

    async def _event(self, send: Send, body: bytes) -> None:
        """Plays the controller: each runner that is to be replaced has a successor at once."""
        event = msgspec.json.decode(body)
        if event["type"] == "ghapp.runner.replace.v1" and event["data"]["runner_id"] not in self._events:
            self._events[event["data"]["runner_id"]] = time.time()
            self._successor += 1
            self._organizations[event["data"]["org"]].add(self._successor)
        await _answer(send, b"", 204)

    async def _lose(self, send: Send, ids: dict[str, list[int]]) -> None:
        for org, lost in ids.items():
            self._organizations[org].lose(lost)
        await _answer(send, msgspec.json.encode({"at": time.time()}))

    async def _register(self, send: Send, ids: dict[str, list[int]]) -> None:
        for org, new in ids.items():
            for each in new:
                self._organizations[org].add(each)
        await _answer(send, msgspec.json.encode({"at": time.time()}))

    def _limits(self, org: Organization) -> list[tuple[bytes, bytes]]:
        values = {"limit": org.hourly, "remaining": max(0, org.hourly - org.used), "used": org.used, "reset": org.reset}
        return [(f"x-ratelimit-{name}".encode(), str(value).encode()) for name, value in values.items()]

    def _report(self) -> Report:
        lists = {org.name: org.lists for org in self._organizations.values() if org.lists}
        return Report(dict(self._calls), self._refused, [*self._unknown], lists, self._events)


def _installation(org: Organization) -> dict[str, Any]:
    permissions = {
        "organization_self_hosted_runners": "write",
        "checks": "write",
        "actions": "read",
        "metadata": "read",
    }
    return {
        "id": org.installation,
        "account": {"login": org.name, "id": org.installation},
        "permissions": permissions,
        "events": ["workflow_job"],
        "suspended_at": None,
    }


async def _answer(send: Send, body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def body_of(receive: Receive) -> bytes:
    """Returns the whole body of a request."""
    body = b""
    while (message := await receive()).get("more_body"):
        body += message.get("body", b"")
    return body + bytes(message.get("body", b""))


def listen(application: Callable[..., Awaitable[None]]) -> None:
    """Serves an ASGI application on a free port of the loopback, and prints its address once it can be connected to.

    The socket names its protocol: else asyncio does not turn Nagle's algorithm off, which delays bodies by 40 ms.
    """
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)  # a client may connect as soon as the address is printed
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        server = uvicorn.Server(uvicorn.Config(application, access_log=False, log_config=None))
        asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    listen(GitHub(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config)))
