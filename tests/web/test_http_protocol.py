"""Requests on one connection are answered in their order, whether from memory or by the application."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import h11
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from ghapp.web.http_protocol import DirectProtocol

FAST, SLOW = "GET /fast HTTP/1.1\r\nHost: x\r\n", "GET /slow HTTP/1.1\r\nHost: x\r\n"
END = "\r\n"


@pytest.fixture
def calls():
    """The requests that reached the application."""
    return []


@pytest.fixture
async def port(calls):
    """A server that answers `/fast` from memory, and whose application is slow."""

    async def answer(request):
        calls.append(f"{request.method} {request.url.path}")
        if request.url.path == "/slow":
            await asyncio.sleep(0.05)
        return JSONResponse({"by": "application", "path": request.url.path})

    def from_memory(target, _):
        return b'{"by": "memory"}' if target == b"/fast" else None

    application = Starlette(routes=[Route("/{path}", answer, methods=["GET", "POST", "DELETE"])])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        free = listener.getsockname()[1]
    config = uvicorn.Config(
        application, port=free, http=partial(DirectProtocol, from_memory), access_log=False, log_config=None
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    yield free
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


async def answers(port, *requests):
    """Sends requests at once; returns the status and the body of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("".join(requests).encode())
    client = h11.Connection(h11.CLIENT)
    found = []
    for request in requests:
        method, target, _ = request.split(" ", 2)
        client.send(h11.Request(method=method, target=target, headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        found.append(await one_answer(client, reader))
        if client.their_state is h11.MUST_CLOSE:
            break
        client.start_next_cycle()
    writer.close()
    return found


async def one_answer(client, reader):
    status, body = 0, b""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            client.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return status, body.decode()
        else:
            raise AssertionError(f"the connection was closed: {event}")


MEMORY = '{"by": "memory"}'


def by_application(path):
    return f'{{"by":"application","path":"{path}"}}'


@pytest.mark.parametrize(
    "requests",
    [
        [FAST + END] * 3,
        [FAST + END, SLOW + END, FAST + END, SLOW + END, FAST + END],
        [SLOW + END] + [FAST + END] * 3,
        [SLOW + END] * 3 + [FAST + END],
        [FAST + END] * 2000,
        [SLOW + END] + [FAST + END] * 2000,
    ],
    ids=["fast", "mixed", "fast behind slow", "slow before fast", "2,000 fast", "2,000 fast behind a slow one"],
)
async def test_pipelined_requests_are_answered_in_their_order(port, requests):
    for request, (status, body) in zip(requests, await answers(port, *requests), strict=True):
        path = request.split(" ")[1]
        assert status == 200
        assert body == by_application(path) or (path, body) == ("/fast", MEMORY)


async def test_a_get_is_answered_from_memory_and_another_method_by_the_application(port, calls):
    assert await answers(port, FAST + END, "DELETE /fast HTTP/1.1\r\nHost: x\r\n\r\n") == [
        (200, MEMORY),
        (200, by_application("/fast")),
    ]
    assert calls == ["DELETE /fast"]


@pytest.mark.parametrize(
    "request_",
    [FAST + "Connection: close\r\n" + END, "GET /fast HTTP/1.0\r\n" + END],
    ids=["Connection: close", "HTTP/1.0"],
)
async def test_the_last_request_of_a_connection_is_answered_by_the_application_which_closes_it(port, calls, request_):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((request_ + "DELETE /fast HTTP/1.1\r\nHost: x\r\n\r\n").encode())
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.count("HTTP/1.1 200 OK") == 1
    assert answer.endswith(by_application("/fast"))
    assert calls == ["GET /fast"]


async def test_the_body_of_a_get_that_was_answered_from_memory_is_not_taken_for_the_next_request(port, calls):
    body = "DELETE /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    with_body = FAST + f"Content-Length: {len(body)}\r\n" + END + body
    assert await answers(port, with_body, SLOW + END) == [(200, MEMORY), (200, by_application("/slow"))]
    assert calls == ["GET /slow"]
