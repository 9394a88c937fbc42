"""What is sent to us: read up to a size, and understood as a shape."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

T = TypeVar("T")


async def read_body(request: Request, most: int) -> bytes:
    """The body, of `most` bytes at most, whatever its Content-Length says.

    Starlette's own limit on a route answers in plain text, where every error here is a problem document.

    Raises:
        HTTPException: 413.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"a body here has at most {most} bytes")
    return bytes(body)


def parse_json(shape: type[T], body: bytes, takes: str) -> T:
    """A JSON body as a value.

    Args:
        shape: a msgspec type.
        body: the bytes that were sent.
        takes: an example of what would be right.

    Raises:
        HTTPException: 400.
    """
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"{_said(error)}; it takes {takes}") from None


def _said(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    return "the body is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
