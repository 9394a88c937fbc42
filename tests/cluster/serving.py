"""A server that answers with given bytes, down to the last one, and then hangs up. For what no framework would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Served:
    """Where it is, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[bytes] = []


@asynccontextmanager
async def answering(
    *bodies: bytes, code: int = 200, length: int | None = None, hangs: bool = False
) -> AsyncIterator[Served]:
    """Answers each request with the next body, the last one forever; `length` is a false Content-Length.

    With `hangs` the connection stays open.
    """
    served, left = Served(), list(bodies)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            served.requests.append(await reader.readuntil(b"\r\n\r\n"))
            body = left.pop(0) if len(left) > 1 else left[0]
            head = f"HTTP/1.1 {code} X\r\ncontent-length: {len(body) if length is None else length}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
            if hangs:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield served
