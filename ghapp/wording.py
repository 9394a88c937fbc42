"""Words for numbers, durations, sentences and unknown names, the same on every surface. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches

_DAY, _TO_THE_SECOND = 86_400, 900


DOCS = "https://github.com/ghapp/ghapp/blob/main/docs"
"""Where messages lead for more: an installation has no copy of the documentation."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """Returns a number with its noun: `1 runner`, `2,000 runners`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def are(count: int) -> str:
    """Returns the verb of a count."""
    return "is" if count == 1 else "are"


def duration(seconds: float) -> str:
    """Returns a duration in at most two units, below a quarter of an hour to the second: `1 min 46 s`, `2 h 5 min`."""
    whole = max(0, int(seconds + 0.001))  # differences of times are less than the number by some nanoseconds
    if whole < _TO_THE_SECOND:
        return _in_units(whole, ("min", 60), ("s", 1))
    return _in_units(whole, ("h", 3600), ("min", 60)) if whole < _DAY else _in_units(whole, ("d", _DAY), ("h", 3600))


def _in_units(seconds: int, large: tuple[str, int], small: tuple[str, int]) -> str:
    numbers = (seconds // large[1], large[0]), (seconds % large[1] // small[1], small[0])
    return " ".join(f"{number} {unit}" for number, unit in numbers if number) or f"0 {small[0]}"


def second_of(at: float) -> int:
    """Returns the second of an epoch time, so that texts and documents, which have milliseconds, show the same one."""
    return int(round(at, 3))


def clock_time(at: float) -> str:
    """Returns the time of day of an epoch time: `17:54:40 UTC`."""
    return f"{datetime.fromtimestamp(second_of(at), UTC):%H:%M:%S} UTC"


def time_of(at: float, now: float | None = None) -> str:
    """Returns an epoch time to the second: `2026-11-26 17:54:40 UTC`, without the date on the day of `now`."""
    time = datetime.fromtimestamp(second_of(at), UTC)
    is_today = now is not None and time.date() == datetime.fromtimestamp(now, UTC).date()
    return clock_time(at) if is_today else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def capitalized(text: str) -> str:
    """Returns a text with a capital letter at its begin; a command keeps its first letter."""
    return text if text.startswith("ghapp ") else f"{text[:1].upper()}{text[1:]}"


def sentence(text: str) -> str:
    """Returns a text as a sentence."""
    return f"{capitalized(text)}."


def bounded(parts: Iterable[str], most: int) -> list[str]:
    """Returns the first parts, and how many others there are as the last one: `["a", "b", "7 more"]`."""
    found = list(parts)
    return found[:most] + ([f"{len(found) - most:,} more"] if len(found) > most else [])


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
