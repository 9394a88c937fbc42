"""How the kinds of keys in Redis are declared: type, content, bounds, and who writes and reads them.

`ghapp.store.keys` declares all of them; `docs/keys.md` is made from the declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from inspect import signature
from typing import NamedTuple, ParamSpec

P = ParamSpec("P")

MINUTE, HOUR, DAY = 60, 3600, 86_400
WEEK, MONTH, YEAR = 7 * DAY, 30 * DAY, 365 * DAY


class KeyType(StrEnum):
    """A type of Redis, as TYPE names it."""

    STRING = "string"
    HASH = "hash"
    SET = "set"
    SORTED_SET = "zset"
    LIST = "list"
    STREAM = "stream"


class KeyUser(StrEnum):
    """What writes or reads keys."""

    WEB = "web"
    WORKER = "worker"
    CLOCK = "clock"
    WATCH = "watch"
    COMMANDS = "commands"


class KeyBound(NamedTuple):
    """What limits the size of a kind of key. One of the first two is given, and one of the others.

    Attributes:
        most: the maximum of entries of one key; that of a string is 1.
        number: what the number of entries, or of keys, follows from.
        seconds: the key expires so long after its last write, at the latest.
        time: what ends an entry, or the key.
    """

    most: int | None = None
    number: str = ""
    seconds: int | None = None
    time: str = ""


class KeyKind(NamedTuple):
    """One kind of key.

    Attributes:
        pattern: the key, with the names of its parts in braces.
        type: of Redis.
        holds: what it holds.
        bound: of its size.
        written_by: the roles that write it.
        read_by: the roles that read it.
    """

    pattern: str
    type: KeyType
    holds: str
    bound: KeyBound
    written_by: tuple[KeyUser, ...]
    read_by: tuple[KeyUser, ...]


KINDS: list[KeyKind] = []
"""All kinds, in the order of their declarations."""


class _Part(str):
    """Stands for an argument in a pattern, whatever format the key has for it."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        return str(self)


def key(
    name: str, kind: KeyType, holds: str, bound: KeyBound, written_by: tuple[KeyUser, ...], read_by: tuple[KeyUser, ...]
) -> str:
    """Declares a single key, and returns its name."""
    KINDS.append(KeyKind(name, kind, holds, bound, written_by, read_by))
    return name


def keys_of(
    kind: KeyType, bound: KeyBound, written_by: tuple[KeyUser, ...], read_by: tuple[KeyUser, ...], pattern: str = ""
) -> Callable[[Callable[P, str]], Callable[P, str]]:
    """Declares the keys that a function names; its docstring has what they hold.

    The pattern is the key of the function's parameters, unless another one is given.
    """

    def declare(named: Callable[P, str]) -> Callable[P, str]:
        parts = {name: _Part(f"{{{name}}}") for name in signature(named).parameters}
        found = pattern or named(**parts)  # type: ignore[arg-type, call-arg]
        KINDS.append(KeyKind(found, kind, named.__doc__ or "", bound, written_by, read_by))
        return named

    return declare
