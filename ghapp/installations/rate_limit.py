"""Judges whether an answer of GitHub is a rate limit, and how long to wait. No header raises, whatever it holds.

Source: docs.github.com, "Rate limits for the REST API", and RFC 9110, 10.2.3. Proxies before GitHub rewrite headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

LEAST_SECONDS = 1.0
"""A wait of 0 would repeat the call within the second in which GitHub has refused it."""

DEFAULT_SECONDS = 60.0
"""GitHub's documentation asks for a minute where the answer gives no usable time."""

LONGEST_SECONDS = 3600.0
"""GitHub's limits last an hour at most; a longer wait is shortened to that."""

FAR_SECONDS = 7200.0
"""GitHub's reset is never further ahead: a later date was written by a clock that had jumped, and is ignored."""

_FORBIDDEN, _TOO_MANY = 403, 429

_ELEMENT = re.compile(r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,)?[^,]+")
"""A header that was sent twice is one text with commas; the comma after the day of the week is part of a date."""

_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


def rate_limit_wait(status: int, headers: Mapping[str, str], body: bytes, now: float) -> float | None:
    """Returns the seconds to wait, from `LEAST_SECONDS` to `LONGEST_SECONDS`; None if the answer is no rate limit.

    A rate limit is a 429, and a 403 with `retry-after`, with no remaining calls, or with a body that says so. The wait
    is `retry-after`, else the time until `x-ratelimit-reset` if no calls remain, else a minute. Of a header that was
    sent twice, the longest wait counts. A value that cannot be read, is negative or in the past counts as missing.

    Args:
        status: of the answer.
        headers: of the answer, by names in lower case.
        body: of the answer.
        now: our clock (epoch seconds), for an answer without a valid `date`: its other dates are by the same clock.
    """
    is_spent = any(each <= 0 for each in _numbers(headers.get("x-ratelimit-remaining", "")))
    if status != _TOO_MANY:
        is_named = "retry-after" in headers or is_spent or b"rate limit" in body.lower()
        if status != _FORBIDDEN or not is_named:
            return None
    date = http_date(headers.get("date", ""))
    sent_at = now if date is None else date
    retry_after = headers.get("retry-after", "")
    dates = [http_date(each) for each in _elements(retry_after)]
    waits = [*_numbers(retry_after), *(each - sent_at for each in dates if each is not None)]
    waits = [each for each in waits if each >= 0]
    if not waits and is_spent:
        resets = [each - sent_at for each in _numbers(headers.get("x-ratelimit-reset", ""))]
        waits = [each for each in resets if 0 <= each <= FAR_SECONDS]
    return min(max(max(waits, default=DEFAULT_SECONDS), LEAST_SECONDS), LONGEST_SECONDS)


def http_date(text: str) -> float | None:
    """Returns an HTTP date in one of the three formats of RFC 9110 as epoch seconds; None if it is none."""
    try:
        date = parsedate_to_datetime(text)
        return date.replace(tzinfo=date.tzinfo or UTC).timestamp()  # asctime's format has no zone, and means GMT
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _elements(text: str) -> list[str]:
    return [each.strip() for each in _ELEMENT.findall(text)]


def _numbers(text: str) -> list[float]:
    return [float(each) for each in _elements(text) if _NUMBER.fullmatch(each)]
