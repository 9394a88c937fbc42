"""The bound of all bodies together."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ghapp.web.bounded_connection import CONNECTION, SLOW_SECONDS, BoundedRequests
from ghapp.web.command_api import as_problem


@pytest.fixture
def answering():
    """Set once requests are answered."""
    return asyncio.Event()


@pytest.fixture
async def client(answering):
    async def application(scope, receive, send):
        body = await Request(scope, receive).body()
        await answering.wait()
        await PlainTextResponse(str(len(body)))(scope, receive, send)

    transport = httpx.ASGITransport(BoundedRequests(application, most=100))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def test_a_body_counts_until_its_request_is_answered(client, answering):
    first = asyncio.create_task(client.post("/", content=b"x" * 60))
    await asyncio.sleep(0.01)
    refused = await client.post("/", content=b"x" * 41)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    fits = asyncio.create_task(client.post("/", content=b"x" * 40))
    await asyncio.sleep(0.01)
    answering.set()
    assert [(await each).text for each in (first, fits)] == ["60", "40"]
    assert (await client.post("/", content=b"x" * 100)).text == "100"
    assert (await client.post("/", content=b"x" * 101)).status_code == 503


async def test_the_body_of_a_request_that_failed_counts_no_longer():
    async def failing(scope, receive, send):
        await Request(scope, receive).body()
        raise RuntimeError

    transport = httpx.ASGITransport(BoundedRequests(failing, most=100), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for _ in range(3):
            assert (await client.post("/", content=b"x" * 60)).status_code == 500


async def test_a_body_without_room_is_503_by_starlette_too():
    async def read(request):
        return PlainTextResponse(str(len(await request.body())))

    application = Starlette(routes=[Route("/", read, methods=["POST"])], exception_handlers={Exception: as_problem})
    transport = httpx.ASGITransport(BoundedRequests(application, most=100))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        refused = await client.post("/", content=b"x" * 101)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")


class Sender:
    """A client that sends a body in parts, over a connection that has waited for it for some time."""

    def __init__(self, application, waited):
        self.waited, self.is_cut_off, self.is_answered, self.answers = waited, False, False, []
        self._parts = asyncio.Queue()
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "state": {CONNECTION: self}}
        self.task = asyncio.create_task(application(scope, self._parts.get, self._send))

    def has_waited(self, seconds):
        return self.waited > seconds

    def answered(self):
        self.is_answered = True

    def cut_off(self):
        self.is_cut_off = True

    async def send(self, size, *, more_body):
        await self._parts.put({"type": "http.request", "body": b"x" * size, "more_body": more_body})
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _send(self, message):
        self.answers.append(message.get("status"))


@pytest.mark.parametrize(
    ("waited", "is_cut_off", "status"),
    [(SLOW_SECONDS, False, 503), (SLOW_SECONDS + 0.1, True, 200)],
)
async def test_a_body_that_does_not_arrive_gives_way_to_others(waited, is_cut_off, status):
    async def application(scope, receive, send):
        await Request(scope, receive).body()
        await PlainTextResponse("")(scope, receive, send)

    bounded = BoundedRequests(application, most=100)
    slow = Sender(bounded, waited)
    await slow.send(90, more_body=True)
    other = Sender(bounded, 0.0)
    await other.send(20, more_body=False)
    await other.task
    assert (slow.is_cut_off, other.answers[0]) == (is_cut_off, status)
    slow.task.cancel()
