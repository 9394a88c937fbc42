"""The bound of all bodies together."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from ghapp.web.held_bodies import HeldBodies


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

    transport = httpx.ASGITransport(HeldBodies(application, most=100))
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

    transport = httpx.ASGITransport(HeldBodies(failing, most=100), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for _ in range(3):
            assert (await client.post("/", content=b"x" * 60)).status_code == 500
