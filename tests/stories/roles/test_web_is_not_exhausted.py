"""What clients without any secret send at a real web role: it stays small, and answers others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import httpx
import pytest

from tests.stories.processes import Role
from tests.support.keys import private_key
from tests.support.ports import free_port
from tests.support.waiting import wait_for

MOST_MEGABYTES = 192
SILENT, BODIES, BODY_BYTES, HEADS, HEAD_BYTES = 300, 16, 24_000_000, 1_000, 1_000_000
FORM = b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: g\r\n"
SIGNATURES = {"none": b"", "another secret's": b"X-Hub-Signature-256: sha256=" + b"0" * 64 + b"\r\n"}


@pytest.fixture
def web(redis_url, tmp_path):
    environ = {
        "GHAPP_REDIS_URL": redis_url,
        "GHAPP_LISTEN": f"127.0.0.1:{(port := free_port())}",
        "GHAPP_APP_ID": "1",
        "GHAPP_PRIVATE_KEY": private_key(),
        "GHAPP_WEBHOOK_SECRET": "secret",
    }
    with Role("web", environ, tmp_path) as role:
        role.port = port
        assert wait_for(lambda: _is_alive(port)), role.log
        yield role


def _is_alive(port):
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
    return False


def peak_megabytes(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


async def send(port, *parts):
    """Sends as much as the server takes; returns the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await asyncio.wait_for(writer.drain(), 20)
        with contextlib.suppress(ConnectionError, TimeoutError):
            return await asyncio.wait_for(reader.readline(), 20)
        return b""
    finally:
        writer.close()


async def endless_heads(port, count):
    """One after the other: a head of a megabyte."""
    return [
        await send(port, b"GET / HTTP/1.1\r\nHost: x\r\na:", *[b"x" * 65536] * (HEAD_BYTES // 65536))
        for _ in range(count)
    ]


async def bodies(port, signature):
    head = FORM + signature + b"Content-Length: %d\r\n\r\n" % BODY_BYTES
    part = b"x" * 1_000_000
    return await asyncio.gather(*(send(port, head, *[part] * (BODY_BYTES // len(part))) for _ in range(BODIES)))


async def answered_others(port, until):
    """How often another client was answered until the task was done; each time it was."""
    count = 0
    async with httpx.AsyncClient(timeout=20) as client:
        while not until.done():
            assert (await client.get(f"http://127.0.0.1:{port}/livez")).status_code == 200
            count += 1
            await asyncio.sleep(0.05)
    return count


@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=SIGNATURES)
async def test_long_bodies_without_a_secret(web, signature):
    sending = asyncio.ensure_future(bodies(web.port, signature))
    assert await answered_others(web.port, sending)
    assert {each.split(b" ")[1] for each in await sending if each} <= {b"401", b"503"}
    assert peak_megabytes(web.process.pid) < MOST_MEGABYTES


async def test_silent_connections_and_a_gigabyte_of_heads(web):
    silent = [await asyncio.open_connection("127.0.0.1", web.port) for _ in range(SILENT)]
    sending = asyncio.gather(*(endless_heads(web.port, HEADS // 50) for _ in range(50)))
    assert await answered_others(web.port, sending)
    assert {each.split(b" ")[1] for some in await sending for each in some if each} == {b"431"}
    for _, writer in silent:
        writer.close()
    assert peak_megabytes(web.process.pid) < MOST_MEGABYTES


ASKED_AT_ONCE = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000
TRAILERS = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"ab:c\r\n" * 100_000
SHORT_FIELDS = FORM + b"ab:\r\n" * 11_000


async def test_clients_that_do_not_read_and_many_short_fields(web):
    """What they send is small, and would be large in memory."""
    opened = []
    for number in range(450):
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port, limit=1024)
        writer.write((ASKED_AT_ONCE, TRAILERS, SHORT_FIELDS)[number % 3])
        opened.append((reader, writer))
    assert await answered_others(web.port, asyncio.ensure_future(asyncio.sleep(1)))
    for _, writer in opened:
        writer.close()
    assert peak_megabytes(web.process.pid) < MOST_MEGABYTES
