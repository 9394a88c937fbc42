"""`docs/keys.md`, made from the declarations of the keys: `python -m tests.store.keys_page [--write]`."""

from __future__ import annotations

import sys
from pathlib import Path

from ghapp.store import keys
from ghapp.store.key_kinds import DAY, HOUR, KINDS, MINUTE, KeyBound, KeyKind, KeyUser

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"
HEAD = """\
# Keys in Redis

All that `ghapp` keeps is in Redis, below `ghapp:`. This page is made from the declarations in `ghapp/store/keys.py` by
`python -m tests.store.keys_page --write`; a test compares them, and others fill each kind to its bound and past it.

- Each kind is bounded in number and in time, also where nothing is swept, no worker drains the inbox, or a pool's `url` is down.
  What exceeds a bound is refused, deferred or counted; the [glossary](glossary.md) and [operations](operations.md) say where
  that is shown.
- All keys `ghapp:{installation}:…` expire 30 days after the App was uninstalled, and those of an installation that GitHub does
  not list 30 days after its first delivery.
- The queue has keys of its own below `rq:`: one for each job of `ghapp:queue:jobs`, and those of its workers, which expire.
- Records are rows of msgpack, by position for a NamedTuple and by name for a dataclass: `ghapp/store/codec.py`.
- Types are those of Redis' TYPE. `…` after a key stands for one more part, as a job's id.

| key | type | holds | bound in number | bound in time | written by | read by |
| --- | --- | --- | --- | --- | --- | --- |
"""
UNITS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second"))


def in_words(seconds: int) -> str:
    """`an hour`, `3 days and 6 hours`."""
    parts = []
    for unit, name in UNITS:
        count, seconds = divmod(seconds, unit)
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    return " and ".join(parts)


def number_of(bound: KeyBound) -> str:
    return bound.number if bound.most is None else f"{bound.most:,}{bound.number}"


def time_of(bound: KeyBound) -> str:
    return bound.time if bound.seconds is None else f"expires after {in_words(bound.seconds)}{bound.time}"


def holds(kind: KeyKind) -> str:
    text = " ".join(kind.holds.split()).removesuffix(".")
    return text[0].upper() + text[1:]


def row(kind: KeyKind) -> str:
    text = holds(kind)
    name = kind.pattern
    if text.startswith("Prefix of keys: "):
        text, name = text.removeprefix("Prefix of keys: "), f"{name}:…"
        text = text[0].upper() + text[1:]
    cells = [f"`{name}`", kind.type, text, number_of(kind.bound), time_of(kind.bound)]
    cells += [_users(kind.written_by), _users(kind.read_by)]
    return "| " + " | ".join(each.replace("|", r"\|") for each in cells) + " |\n"


def _users(users: tuple[KeyUser, ...]) -> str:
    return "all" if set(users) == set(KeyUser) else ", ".join(users)


def page() -> str:
    assert keys, "which declares the kinds"
    return HEAD + "".join(map(row, KINDS))


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
