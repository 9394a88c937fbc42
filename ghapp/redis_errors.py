"""Translates errors of redis-py to ours: the only place that does, for the store and the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

from redis.exceptions import RedisError, ResponseError

from ghapp.errors import Refusal, StoreRefusedError, StoreUnavailableError
from ghapp.log import redact

LONGEST_SHOWN = 160
"""Characters of Redis' own message that are quoted."""

FOREIGN = (RedisError, OSError)
"""Errors of redis-py. A socket's error is one of its own, except while it resolves a name or reads a certificate."""

_REFUSALS: dict[str, Refusal] = {
    "READONLY": Refusal.REPLICA,
    "MASTERDOWN": Refusal.REPLICA,
    "UNBLOCKED": Refusal.REPLICA,
    "OOM": Refusal.MEMORY,
    "MISCONF": Refusal.DISK,
    "NOPERM": Refusal.PERMISSION,
}
"""By Redis' code. `UNBLOCKED` ends blocking commands when a primary becomes a replica."""

_CODE = re.compile(rf"\b({'|'.join(_REFUSALS)})\b")
"""For codes that redis-py has no class for, and for errors of scripts, which quote the code up to Redis 6."""

_DEMOTED = "The previous master is now a slave"
"""redis-py's own error, of a connection that Sentinel's pool made, in place of `READONLY`."""


def translated(error: Exception) -> StoreUnavailableError:
    """Returns our error for one of `FOREIGN`; its message quotes Redis, without secrets."""
    why = shorten(redact(without_number(str(error))), LONGEST_SHOWN, placeholder=" …").rstrip(".")
    if isinstance(error, ResponseError) or _DEMOTED in str(error):
        return StoreRefusedError(why, refusal_of(error))
    return StoreUnavailableError(f"Redis does not answer: {why}; check GHAPP_REDIS_URL")


def refusal_of(error: Exception) -> Refusal:
    """Returns why Redis refused a command, by its error."""
    if _DEMOTED in str(error):
        return Refusal.REPLICA
    code = getattr(error, "status_code", None)
    if code not in _REFUSALS:
        found = _CODE.search(str(error))
        code = found[1] if found else ""
    return _REFUSALS.get(code, Refusal.OTHER)


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
