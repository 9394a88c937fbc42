"""Reads request bodies up to a size limit, and parses them as JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ghapp.decoding import decode

T = TypeVar("T")


async def read_body(request: Request, most: int) -> bytes:
    """Returns the body, of at most `most` bytes; the limit does not rely on Content-Length.

    Starlette's own limit for routes answers with plain text, but every error of ours is a problem document.

    Raises:
        HTTPException: 413.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"the body may have at most {most} bytes")
    return bytes(body)


def parse_json(shape: type[T], body: bytes, takes: str) -> T:
    """Returns a JSON body as a value of a msgspec type.

    Args:
        shape: the msgspec type.
        body: the request's bytes.
        takes: an example of a valid body, for the error message.

    Raises:
        HTTPException: 400.
    """
    try:
        return decode(msgspec.json.Decoder(shape), body)
    except msgspec.DecodeError as error:
        raise HTTPException(400, f"{error}; it takes {takes}") from None
