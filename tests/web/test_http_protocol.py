"""Requests on one connection are answered in their order, whether directly or by the application."""

from __future__ import annotations

import asyncio
from functools import partial

import h11
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ghapp.web.http_protocol import MOST_BODY_BYTES, DirectProtocol
from tests.support.ports import free_port

FAST, SLOW = "GET /fast HTTP/1.1\r\nHost: x\r\n", "GET /slow HTTP/1.1\r\nHost: x\r\n"
END = "\r\n"
MEMORY = '{"by": "memory"}'


def by_application(path, method="GET", size=0):
    return f'{{"by":"application","request":"{method} {path}","size":{size}}}'


def post(body, *headers, path="/kept"):
    lines = [f"POST {path} HTTP/1.1", "Host: x", *(headers or [f"Content-Length: {len(body)}"])]
    return "\r\n".join([*lines, "", body])


class Application:
    """Answers GET `/fast` from memory and POST `/kept` when `keeping` is set; any other request by Starlette."""

    def __init__(self):
        self.calls, self.keeping, self.kept = [], asyncio.Event(), []
        self._starlette, self._tasks = Starlette(), set()
        self.keeping.set()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self._starlette(scope, receive, send)
            return
        request = Request(scope, receive)
        name = f"{request.method} {request.url.path}"
        self.calls.append(name)
        if request.url.path == "/slow":
            await asyncio.sleep(0.05)
        answer = JSONResponse({"by": "application", "request": name, "size": len(await request.body())})
        await answer(scope, receive, send)

    def document(self, target, _):
        if target == b"/bug":
            raise RuntimeError("a bug")
        return MEMORY.encode() if target == b"/fast" else None

    def takes(self, target):
        return target == b"/kept"

    def post(self, headers, body, answer):
        self.kept.append(body)
        task = asyncio.create_task(self._keep(len(body), answer))
        self._tasks.add(task)

    async def _keep(self, size, answer):
        await self.keeping.wait()
        answer(Response(f"kept {size}", 202, {"x-by": "memory"}, "text/plain"))


@pytest.fixture
async def application():
    return Application()


@pytest.fixture
async def server(application):
    port = free_port()
    protocol = partial(DirectProtocol, application)
    server = uvicorn.Server(uvicorn.Config(application, port=port, http=protocol, access_log=False, log_config=None))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    yield server
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


@pytest.fixture
def port(server):
    return server.config.port


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
        elif isinstance(event, h11.InformationalResponse):
            assert event.status_code == 100
        elif isinstance(event, h11.EndOfMessage):
            return status, body.decode()
        else:
            raise AssertionError(f"the connection was closed: {event}")


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


async def test_a_get_is_answered_from_memory_and_another_method_by_the_application(port, application):
    got = await answers(port, FAST + END, "DELETE /fast HTTP/1.1\r\nHost: x\r\n\r\n")
    assert got == [(200, MEMORY), (200, by_application("/fast", "DELETE"))]
    assert application.calls == ["DELETE /fast"]


@pytest.mark.parametrize(
    "request_",
    [FAST + "Connection: close\r\n" + END, "GET /fast HTTP/1.0\r\n" + END],
    ids=["Connection: close", "HTTP/1.0"],
)
async def test_the_last_request_of_a_connection_is_answered_by_the_application_which_closes_it(
    port, application, request_
):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((request_ + "DELETE /fast HTTP/1.1\r\nHost: x\r\n\r\n").encode())
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.count("HTTP/1.1 200 OK") == 1
    assert answer.endswith(by_application("/fast"))
    assert application.calls == ["GET /fast"]


async def test_the_body_of_a_get_that_was_answered_from_memory_is_not_taken_for_the_next_request(port, application):
    body = "DELETE /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    with_body = FAST + f"Content-Length: {len(body)}\r\n" + END + body
    assert await answers(port, with_body, SLOW + END) == [(200, MEMORY), (200, by_application("/slow"))]
    assert application.calls == ["GET /slow"]


async def test_posts_are_answered_in_their_order_when_they_are_kept(port, application):
    application.keeping.clear()
    asking = asyncio.create_task(answers(port, post("a" * 16_000), post("b"), FAST + END, post("")))
    async with asyncio.timeout(10):
        while not application.kept:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert (application.kept, asking.done()) == ([b"a" * 16_000], False)
    application.keeping.set()
    first, *rest = await asking
    assert first == (202, "kept 16000")
    waited = [by_application("/kept", "POST", 1), by_application("/fast"), by_application("/kept", "POST")]
    assert rest == [(200, body) for body in waited], "what waited behind it is answered by the application"


@pytest.mark.parametrize(
    ("request_", "size"),
    [
        (post("a" * (MOST_BODY_BYTES + 1)), MOST_BODY_BYTES + 1),
        (post("3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 3),
        (post("abc", "Content-Length: 3", "Expect: 100-continue"), 3),
        (post("abc", path="/other"), 3),
    ],
    ids=["a long body", "a chunked body", "Expect: 100-continue", "another target"],
)
async def test_other_posts_are_answered_by_the_application(port, application, request_, size):
    path = request_.split(" ")[1]
    assert (await answers(port, request_))[-1] == (200, by_application(path, "POST", size))
    assert application.kept == []


async def test_a_body_may_arrive_in_parts_and_be_as_long_as_the_limit(port, application):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = post("a" * MOST_BODY_BYTES).encode()
    for part in (request[:10], request[10:1000], request[1000:]):
        writer.write(part)
        await asyncio.sleep(0.02)
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="POST", target="/kept", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    assert await one_answer(client, reader) == (202, f"kept {MOST_BODY_BYTES}")
    writer.close()


async def test_a_request_at_which_the_direct_answer_fails_is_answered_by_the_application(port):
    bug = "GET /bug HTTP/1.1\r\nHost: x\r\n\r\n"
    assert await answers(port, bug, FAST + END) == [(200, by_application("/bug")), (200, by_application("/fast"))]
    assert await answers(port, FAST + END) == [(200, MEMORY)]


async def test_a_post_whose_sender_left_is_kept_and_not_answered(port, application):
    application.keeping.clear()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post("abc").encode())
    async with asyncio.timeout(10):
        while not application.kept:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    writer.transport.abort()
    await asyncio.sleep(0.05)
    application.keeping.set()
    assert await answers(port, FAST + END) == [(200, MEMORY)]


async def test_a_server_that_stops_answers_a_post_first_and_closes_idle_connections(server, port, application):
    application.keeping.clear()
    idle, _ = await asyncio.open_connection("127.0.0.1", port)
    _.write((FAST + END).encode())
    await idle.readuntil(MEMORY.encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post("abc").encode())
    async with asyncio.timeout(10):
        while not application.kept:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    server.should_exit = True
    assert await asyncio.wait_for(idle.read(), 10) == b""
    application.keeping.set()
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.endswith(b"connection: close\r\n\r\nkept 3")
    writer.close()
