"""Reads request bodies up to a size limit, and parses them as JSON."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ghapp.decoding import decode

T = TypeVar("T")

MOST_FIELDS = 20
"""Of a form."""


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


async def read_form(request: Request) -> dict[str, str]:
    """Returns the fields of a form, of each name the first; routes limit the bytes.

    Raises:
        HTTPException: 400: it is none of ours.
    """
    try:
        fields = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, f"a form has at most {MOST_FIELDS} fields") from None
    return {name: values[0] for name, values in fields.items()}
