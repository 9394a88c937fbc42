"""Translates errors of redis-py to ours: the only place that does, for the store and the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from ghapp.errors import Refusal, StoreRefusedError, StoreUnavailableError
from ghapp.log import redact

LONGEST_SHOWN = 160
"""Characters of Redis' own message that are quoted."""

FOREIGN = (RedisError, OSError)
"""Errors of redis-py. A socket's error is one of its own, except while it resolves a name or reads a certificate."""

_REFUSALS: dict[type[ResponseError], Refusal] = {
    ReadOnlyError: Refusal.REPLICA,
    OutOfMemoryError: Refusal.MEMORY,
    NoPermissionError: Refusal.PERMISSION,
}


def translated(error: Exception) -> StoreUnavailableError:
    """Returns our error for one of `FOREIGN`; its message quotes Redis, without secrets."""
    why = shorten(redact(without_number(str(error))), LONGEST_SHOWN, placeholder=" …").rstrip(".")
    if isinstance(error, ResponseError):
        return StoreRefusedError(why, _REFUSALS.get(type(error), Refusal.OTHER))
    return StoreUnavailableError(f"Redis does not answer: {why}; check GHAPP_REDIS_URL")


def without_number(text: str) -> str:
    """Returns redis-py's message of a connection error without its errno, which means nothing to most people."""
    return re.sub(r"^Error -?\d+ (?=connecting )", "", text)


@contextmanager
def redis_errors() -> Iterator[None]:
    """Raises StoreUnavailableError in place of redis-py's errors; also a decorator, of functions that do not await."""
    try:
        yield
    except FOREIGN as error:
        raise translated(error) from error
