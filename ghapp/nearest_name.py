"""The words after an unknown name: which known one may be meant, and what the known ones are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMED = 5

SHORTEST_PART = 3
"""Characters of a name by which it is found in longer ones: fewer are in most of them."""


def meant(name: str, known: Iterable[str], known_are: str, nothing: str = "none", *, most: int = MOST_NAMED) -> str:
    """Returns such as `did you mean linux? known are linux, mac and 3 more`.

    Args:
        name: the unknown name; upper and lower case are one.
        known: the known names.
        known_are: the words before the known names.
        nothing: the word in place of the known names if there are none.
        most: how many of them are named.
    """
    names = sorted(known)
    near = _shortest_with(name, names) or nearest(name, names)
    suggestion = "" if near is None else f"did you mean {near}? "
    listed = ", ".join(names[:most]) or nothing
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{suggestion}{known_are} {listed}{more}"


def _shortest_with(part: str, known: Iterable[str]) -> str | None:
    """Returns the shortest known name that has another one as its part, as `host-oom` has `oom`."""
    having = [each for each in known if part.lower() in each.lower()]
    return min(having, key=len, default=None) if len(part) >= SHORTEST_PART else None


def nearest(name: str, known: Iterable[str], alike: float = 0.5) -> str | None:
    """Returns the known name that is most like another one; None if there is none.

    Args:
        name: the unknown name; upper and lower case are one.
        known: the known names.
        alike: share of the letters that must agree, from 0 to 1.
    """
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=alike)
    return by_lower[near[0]] if near else None
