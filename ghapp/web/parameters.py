"""Parameters that several operations of the API have: how each is described, and how it is read."""

from __future__ import annotations

from ghapp.web.operation import Parameter, Schema

MOST_DIGITS = 18
"""Fits 64 bits."""

DEFAULT_PAGE, MOST_AT_ONCE = 100, 1000

RUNNER_ID: Schema = {"type": "integer", "minimum": 1, "maximum": 10**MOST_DIGITS - 1}
COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": 9_999_999}

POOL = Parameter("pool")
LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST_AT_ONCE, "default": DEFAULT_PAGE})
CURSOR = Parameter("cursor", {"type": "string", "pattern": f"^[0-9]{{1,{MOST_DIGITS}}}$"})
IF_NONE_MATCH = Parameter("If-None-Match", place="header")

MISSING_ID = "a runner id is a whole number of 1 or more"
NOT_A_LIMIT = f"limit takes a number from 1 to {MOST_AT_ONCE}"
NOT_A_CURSOR = "cursor takes the next_cursor of the previous page"


def whole_number(given: str) -> int | None:
    """Returns a whole number of at most `MOST_DIGITS` digits; else None."""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS else None


def runner_number(given: str) -> int | None:
    """Returns a runner id; None if it is not a whole number of 1 or more."""
    return whole_number(given) or None


def etag_matches(tag: str, known: str | None) -> bool:
    """True if an `If-None-Match` header, which may list several tags, has that tag or `*`."""
    return known is not None and (tag in known or known.strip() == "*")
