"""What a client may take of the server before it has shown anything, over real connections."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager, suppress
from unittest.mock import MagicMock

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from uvicorn.server import ServerState

from ghapp.web import bounded_connection
from ghapp.web.bounded_connection import (
    KEEP_ALIVE_SECONDS,
    LARGEST_HEAD_BYTES,
    SLICE_BYTES,
    Connections,
    bounded_config,
)
from tests.support.ports import free_port

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def application(scope, receive, send):
    """Answers with the length of the body; `/endless` with more than a client reads; `/broken` not at all."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/broken":
        raise RuntimeError("broken")
    if scope["path"] == "/endless":
        answer = StreamingResponse(_endless())
    else:
        answer = PlainTextResponse(str(len(await Request(scope, receive).body())))
    await answer(scope, receive, send)


async def _endless():
    while True:
        yield b"x" * 65536
        await asyncio.sleep(0)


@pytest.fixture
def logged(caplog):
    """What the server logs as a warning or worse, whatever other servers of this process set."""
    caplog.set_level(logging.INFO, "uvicorn.error")
    found, handler = [], logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append((record.levelname, record.getMessage()))
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for each in loggers:
        each.addHandler(handler)
    yield found
    for each in loggers:
        each.removeHandler(handler)


@asynccontextmanager
async def serving(**limits):
    """Serves while the block runs; yields a function that opens a connection."""
    port = free_port()
    config = bounded_config(application, Connections(**limits), port=port, lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    writers = []

    async def connect(data=b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        writer.write(data)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in writers:
            writer.close()
        server.should_exit = True
        await asyncio.wait_for(running, 10)


async def status_of(reader):
    """The status of the next answer; 0 if the connection was closed without one."""
    line = await asyncio.wait_for(reader.readline(), 10)
    return int(line.split(b" ")[1]) if line else 0


@pytest.fixture
def hurried(monkeypatch):
    """Time-outs that a test can wait for."""
    for name in ("HEAD_SECONDS", "REQUEST_SECONDS", "STALLED_SECONDS", "LINGER_SECONDS", "KEEP_ALIVE_LATE_SECONDS"):
        monkeypatch.setattr(bounded_connection, name, 0.2)
    monkeypatch.setattr(bounded_connection, "KEEP_ALIVE_SECONDS", 1.0)
    monkeypatch.setattr(bounded_connection, "CHECK_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("size", "status"), [(LARGEST_HEAD_BYTES - SLICE_BYTES, 200), (LARGEST_HEAD_BYTES + 1, 431), (1_000_000, 431)]
)
@pytest.mark.parametrize("fields", [1, 8])
async def test_a_head_has_at_most_64_kib(size, status, fields):
    each, rest = divmod(size - len(HEAD) - 2 - 4 * fields, fields)
    lines = [b"a:%b\r\n" % (b"x" * (each + (rest if not number else 0))) for number in range(fields)]
    head = HEAD + b"".join(lines) + b"\r\n"
    assert len(head) == size
    async with serving() as connect:
        reader, _ = await connect(head)
        assert await status_of(reader) == status


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "part",
    [
        b"GET /",
        HEAD + b"a:",
        HEAD,
        HEAD + b"a: b\r\n" * 20_000,
        HEAD + b"a:\r\n" * 2_000,
        CHUNKED + b"0\r\n" + b"a:\r\n" * 2_000,
        CHUNKED + b"0\r\na:",
        CHUNKED + b"1;a=",
        b"\r\n" * 32_768,
    ],
    ids=["address", "field", "name", "fields", "short fields", "trailers", "a trailer", "a chunk's extension", "lines"],
)
async def test_a_head_that_does_not_end_is_cut_off_with_431(part):
    async with serving() as connect:
        reader, writer = await connect(part)
        for _ in range(20):
            writer.write(b"x" * 8192)
            await asyncio.sleep(0)
        assert await status_of(reader) == 431
        answer = await reader.read()
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["detail"].startswith("the head of a request")


async def test_long_heads_one_after_the_other_are_counted_alone():
    async with serving() as connect:
        reader, writer = await connect()
        for _ in range(5):
            writer.write(HEAD + b"a:" + b"x" * 60_000 + b"\r\n\r\n")
            assert await status_of(reader) == 200
            while (await reader.readline()).strip():
                pass
            await reader.readexactly(1)


@pytest.mark.parametrize(("fields", "status"), [(400, 200), (2_000, 431)])
async def test_a_head_has_a_bounded_number_of_fields(fields, status):
    """Each is an object of its own, however short it is."""
    async with serving() as connect:
        reader, _ = await connect(HEAD + b"a:\r\n" * fields + b"\r\n")
        assert await status_of(reader) == status


@pytest.mark.parametrize(("count", "is_cut"), [(20, False), (2_000, True)])
async def test_requests_that_are_sent_at_once_wait_in_a_bounded_number(count, is_cut):
    """Each would be an object of its own that waits for the answers before it."""
    async with serving() as connect:
        reader, _ = await connect((HEAD + b"\r\n") * count)
        answered = 0
        with suppress(ConnectionError):
            while answered < count and await status_of(reader) == 200:
                answered += 1
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(1)
        assert (answered < count) == is_cut


async def test_what_follows_an_upgrade_is_the_same_for_both_parsers():
    """What one of them takes for a body, and the other for a head, would be bounded by neither."""
    begin = HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\na:"
    upgrade = begin + b"x" * (SLICE_BYTES - len(begin) - 4) + b"\r\n\r\n"
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    async with serving() as connect:
        reader, writer = await connect(upgrade + post)
        writer.write(b"x" * 200_000)
        assert await status_of(reader) == 200
        assert (await asyncio.wait_for(reader.readuntil(b"200000"), 10)).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "part",
    [b"", b"GET /", HEAD, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab", HEAD + b"\r\n" + HEAD],
    ids=["nothing", "a line", "half a head", "half a body", "half of a second head"],
)
async def test_a_request_that_does_not_arrive_in_time_is_408(hurried, part):
    async with serving() as connect:
        reader, _ = await connect(part)
        answers = (await asyncio.wait_for(reader.read(), 10)).split(b"HTTP/1.1 ")
        assert answers[-1].startswith(b"408 ")


async def test_a_client_that_does_not_read_its_answer_is_cut_off(hurried):
    async with serving() as connect:
        reader, _ = await connect(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.6)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1 << 40), 10)


@pytest.mark.parametrize("first", [HEAD + b"\r\n", HEAD + b"\r\n\r\n"], ids=["idle", "sends line breaks"])
async def test_a_connection_without_a_request_gives_way_and_is_closed_in_time(hurried, first):
    async with serving(most=3) as connect:
        idle = [(await connect(first))[0] for _ in range(3)]
        assert [await status_of(reader) for reader in idle] == [200] * 3
        reader, _ = await connect(HEAD + b"\r\n")
        assert await status_of(reader) == 200
        for each in [*idle, reader]:
            await asyncio.wait_for(each.read(), 10)


async def test_a_connection_is_kept_longer_than_proxies_keep_theirs(hurried, monkeypatch):
    """A proxy that sends a delivery on a connection that is just being closed answers 502 in our place."""
    monkeypatch.setattr(bounded_connection, "KEEP_ALIVE_SECONDS", KEEP_ALIVE_SECONDS)
    assert bounded_config(application, Connections()).timeout_keep_alive > 600
    async with serving() as connect:
        reader, writer = await connect(HEAD + b"\r\n")
        assert await status_of(reader) == 200
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readuntil(b"HTTP/1.1 408"), 1.0)  # five times as long as a head may take
        writer.write(HEAD + b"\r\n")
        assert await status_of(reader) != 0
        writer.write(HEAD)  # and a head that has begun is awaited for as long as any other
        assert b"HTTP/1.1 408" in await asyncio.wait_for(reader.read(), 10)


async def test_clients_that_do_not_read_their_answers_give_way():
    async with serving(most=3) as connect:
        for _ in range(3):
            await connect(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.3)
        reader, _ = await connect(HEAD + b"\r\n")
        assert await status_of(reader) == 200


async def test_answers_that_are_not_read_are_bounded_together():
    async with serving(most_bytes=150_000) as connect:
        clients = [await connect(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(3)]
        await asyncio.sleep(0.3)
        assert 1 <= sum([await is_cut_off(reader) for reader, _ in clients]) < 3


async def is_cut_off(reader):
    try:
        await asyncio.wait_for(reader.readexactly(1 << 25), 10)
    except (ConnectionError, asyncio.IncompleteReadError):
        return True
    return False


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
async def test_a_request_for_another_protocol_is_answered_as_any_other_and_is_not_logged(upgrade, logged):
    fields = b"Connection: upgrade\r\nUpgrade: %b\r\nSec-WebSocket-Version: 13\r\n" % upgrade
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    async with serving(most=3) as connect:
        for _ in range(5):
            reader, writer = await connect(HEAD + fields + key + b"\r\n")
            assert await status_of(reader) == 200
            writer.close()
        reader, _ = await connect(HEAD + b"\r\n")
        assert await status_of(reader) == 200
    assert logged == []


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00", b"nonsense\r\n\r\n", HEAD + b"Content-Length: x\r\n\r\n"])
async def test_what_is_no_http_is_refused_and_is_not_logged(sent, logged):
    """As TLS on a port without it."""
    async with serving() as connect:
        reader, _ = await connect(sent)
        assert await status_of(reader) == 400
    assert logged == []


async def test_nothing_is_passed_on_once_the_connection_is_closed():
    """uvicorn would answer each further piece, which asyncio's own loop logs as writes to a closed connection."""
    config = bounded_config(application, Connections(), lifespan="off")
    config.load()
    connection = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})
    transport = MagicMock(asyncio.Transport)
    transport.is_closing = lambda: transport.close.called
    connection.connection_made(transport)
    connection.data_received(bytes(SLICE_BYTES * 3))
    assert (transport.write.call_count, transport.close.call_count) == (1, 1)


async def test_an_error_of_the_application_is_logged(logged):
    async with serving() as connect:
        reader, _ = await connect(b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await status_of(reader) == 500
    assert logged == [("ERROR", "Exception in ASGI application\n")]


async def test_when_there_are_too_many_connections_the_slowest_is_closed():
    async with serving(most=3) as connect:
        slowest, _ = await connect(b"GET /")
        await asyncio.sleep(0.05)
        others = [await connect() for _ in range(2)]
        await asyncio.sleep(0.05)
        reader, _ = await connect(HEAD + b"\r\n")
        assert await status_of(reader) == 200
        assert await status_of(slowest) == 503
        for reader, writer in others:
            writer.write(HEAD + b"\r\n")
            assert await status_of(reader) == 200


async def test_a_body_is_no_part_of_the_head_and_may_be_long():
    body = b"x" * 3_000_000
    async with serving() as connect:
        reader, _ = await connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        assert await status_of(reader) == 200
        assert (await asyncio.wait_for(reader.readuntil(b"3000000"), 10)).endswith(b"3000000")


async def test_a_head_that_begins_behind_a_body_is_counted_alone():
    body = b"x" * 150_000
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with serving() as connect:
        reader, writer = await connect(post + HEAD)
        await asyncio.sleep(0.05)
        writer.write(b"\r\n")
        assert await status_of(reader) == 200
        await asyncio.wait_for(reader.readuntil(b"150000"), 10)
        assert await status_of(reader) == 200


async def test_what_is_no_http_is_400_by_uvicorn():
    async with serving() as connect:
        reader, _ = await connect(b"\x16\x03\x01 hello\r\n\r\n")
        assert await status_of(reader) == 400
