"""Whose forwarding headers count, over a real connection."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.responses import JSONResponse

from ghapp.errors import ConfigurationError
from ghapp.settings import Settings
from ghapp.web.app import Server
from tests.support.ports import free_port

FORWARDED = {"x-forwarded-for": "198.51.100.66, 203.0.113.9, 10.0.0.7", "x-forwarded-proto": "https"}
"""A client that wrote a false address, and two proxies."""


class Echo:
    """Answers with what a request seems to be."""

    def __init__(self):
        self.state = self
        self.stopping = asyncio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            await JSONResponse([scope["client"][0], scope["scheme"]])(scope, receive, send)

    def document(self, *_):
        return None

    def takes(self, _):
        return False


@pytest.mark.parametrize(
    ("trusted", "seen"),
    [
        ("", ["127.0.0.1", "http"]),
        ("10.0.0.7", ["127.0.0.1", "http"]),
        ("127.0.0.1", ["10.0.0.7", "https"]),
        ("127.0.0.0/8, 10.0.0.7", ["203.0.113.9", "https"]),
        ("127.0.0.1,10.0.0.0/8", ["203.0.113.9", "https"]),
    ],
    ids=["none", "not the peer", "the peer", "both", "a network"],
)
async def test_forwarding_headers_count_from_trusted_proxies_alone(trusted, seen):
    settings = Settings.read({"GHAPP_TRUSTED_PROXIES": trusted})
    server = Server(Echo(), "127.0.0.1", port := free_port(), settings.trusted_proxies)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/", headers=FORWARDED)).json() == seen
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


@pytest.mark.parametrize("value", ["proxy", "10.0.0.7/8", "10.0.0.7 10.0.0.8", "*", "127.0.0.1:80"])
def test_anything_but_addresses_and_networks_is_refused(value):
    with pytest.raises(ConfigurationError, match="GHAPP_TRUSTED_PROXIES: "):
        Settings.read({"GHAPP_TRUSTED_PROXIES": value})
