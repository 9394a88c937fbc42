"""Decodes JSON that other programs wrote."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decodes JSON; whatever is wrong with it is a `DecodeError`.

    msgspec itself raises `RecursionError` for some thousand nested brackets, also in fields that no type names, and
    `UnicodeDecodeError` for text that is not UTF-8.

    Raises:
        msgspec.DecodeError: not JSON, not of the decoder's type, nested too deeply, or not UTF-8.
    """
    try:
        return decoder.decode(body)
    except RecursionError:
        raise msgspec.DecodeError("the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise msgspec.DecodeError("the JSON is not UTF-8") from None
