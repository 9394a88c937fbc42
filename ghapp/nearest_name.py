"""The words after an unknown name: which known one may be meant, and what the known ones are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMED = 5


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
    by_lower = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    suggestion = f"did you mean {by_lower[near[0]]}? " if near else ""
    listed = ", ".join(names[:most]) or nothing
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{suggestion}{known_are} {listed}{more}"
