"""Words for numbers, durations and sentences, the same on every surface. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

UNITS = (("d", 86_400), ("h", 3600), ("min", 60))


def counted(count: int, singular: str, plural: str = "") -> str:
    """Returns a number with its noun: `1 runner`, `2,000 runners`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def are(count: int) -> str:
    """Returns the verb of a count."""
    return "is" if count == 1 else "are"


def duration(seconds: float) -> str:
    """Returns a duration in the largest unit of which it has at least two: `14 min`."""
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def clock_time(at: float) -> str:
    """Returns the time of day of an epoch time: `17:54:40 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def capitalized(text: str) -> str:
    """Returns a text with a capital letter at its begin; a command keeps its first letter."""
    return text if text.startswith("ghapp ") else f"{text[:1].upper()}{text[1:]}"


def sentence(text: str) -> str:
    """Returns a text as a sentence."""
    return f"{capitalized(text)}."
