"""Which answers are rate limits and how long to wait, at the exact boundaries and for any header."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ghapp.installations.rate_limit import (
    DEFAULT_SECONDS,
    FAR_SECONDS,
    LEAST_SECONDS,
    LONGEST_SECONDS,
    http_date,
    rate_limit_wait,
)

SENT = int(datetime(2026, 11, 25, 6, 0, tzinfo=UTC).timestamp())
"""GitHub's clock, by the answer."""

OURS = SENT - 90.0
PRIMARY = b'{"message": "API rate limit exceeded for installation ID 1."}'
SECONDARY = b'{"message": "You have exceeded a secondary Rate Limit."}'
DENIED = b'{"message": "Resource not accessible by integration"}'


def wait(status=429, body=b"", now=OURS, **headers):
    """The wait for an answer with these headers (`_` is `-`) and a date, unless it is given."""
    sent = {"date": formatdate(SENT, usegmt=True), **headers}
    return rate_limit_wait(status, {name.replace("_", "-"): each for name, each in sent.items()}, body, now)


def spent(reset, remaining="0", **more):
    return {"x_ratelimit_remaining": remaining, "x_ratelimit_reset": reset, **more}


@pytest.mark.parametrize(
    ("status", "headers", "body", "is_limit"),
    [
        (429, {}, b"", True),
        (429, {}, b"<html>slow down", True),
        (403, {}, b"", False),
        (403, {}, DENIED, False),
        (403, {}, PRIMARY, True),
        (403, {}, SECONDARY, True),
        (403, {"retry_after": "5"}, DENIED, True),
        (403, {"retry_after": ""}, DENIED, True),
        (403, {"x_ratelimit_remaining": "0"}, DENIED, True),
        (403, {"x_ratelimit_remaining": "-1"}, DENIED, True),
        (403, {"x_ratelimit_remaining": "0, 0"}, DENIED, True),
        (403, {"x_ratelimit_remaining": "1"}, DENIED, False),
        (403, {"x_ratelimit_remaining": "0.5"}, DENIED, False),
        (403, {"x_ratelimit_remaining": ""}, DENIED, False),
        (403, {"x_ratelimit_remaining": "none"}, DENIED, False),
        (200, spent("0"), b"", False),
        (304, spent("0"), b"", False),
        (404, {"retry_after": "5"}, PRIMARY, False),
        (401, {"retry_after": "5"}, PRIMARY, False),
        (503, {"retry_after": "5"}, PRIMARY, False),
    ],
)
def test_which_answers_are_rate_limits(status, headers, body, is_limit):
    assert (wait(status, body, **headers) is not None) is is_limit


def date_in(seconds):
    return formatdate(SENT + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("30", 30),
        (" 30 ", 30),
        ("1", LEAST_SECONDS),
        ("0", LEAST_SECONDS),
        ("0.999", LEAST_SECONDS),
        ("1.5", 1.5),
        ("30.", 30),
        (".5", LEAST_SECONDS),
        ("3600", LONGEST_SECONDS),
        ("3599.9", 3599.9),
        ("3601", LONGEST_SECONDS),
        ("9" * 5000, LONGEST_SECONDS),
        ("-1", DEFAULT_SECONDS),
        ("-30.5", DEFAULT_SECONDS),
        ("", DEFAULT_SECONDS),
        (" ", DEFAULT_SECONDS),
        (",", DEFAULT_SECONDS),
        ("soon", DEFAULT_SECONDS),
        ("30s", DEFAULT_SECONDS),
        ("nan", DEFAULT_SECONDS),
        ("inf", DEFAULT_SECONDS),
        ("1e3", DEFAULT_SECONDS),
        ("1_000", DEFAULT_SECONDS),
        ("²", DEFAULT_SECONDS),
        ("٣٠", DEFAULT_SECONDS),
        ("30, 120", 120),
        ("120, 30", 120),
        ("soon, 30", 30),
        ("-5, 30", 30),
        (date_in(30), 30),
        ("Wednesday, 25-Nov-26 06:00:30 GMT", 30),
        ("Wed Nov 25 06:00:30 2026", 30),
        (date_in(0), LEAST_SECONDS),
        (date_in(-1), DEFAULT_SECONDS),
        (date_in(3600), LONGEST_SECONDS),
        (date_in(3601), LONGEST_SECONDS),
        (f"{date_in(30)}, {date_in(120)}", 120),
        (f"{date_in(30)}, 120", 120),
        ("Wed, 25 Nov 2026 99:99:99 GMT", DEFAULT_SECONDS),
        ("Wed, 25 Nov 99999 06:00:30 GMT", DEFAULT_SECONDS),
    ],
)
def test_the_wait_by_retry_after(retry_after, seconds):
    assert wait(retry_after=retry_after) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (spent(str(SENT + 1200)), 1200),
        (spent(str(SENT + 1200), "-3"), 1200),
        (spent(f"{SENT + 1200}.5"), 1200.5),
        (spent(str(SENT + 1200), "1"), DEFAULT_SECONDS),
        (spent(str(SENT + 1200), ""), DEFAULT_SECONDS),
        ({"x_ratelimit_reset": str(SENT + 1200)}, DEFAULT_SECONDS),
        ({"x_ratelimit_remaining": "0"}, DEFAULT_SECONDS),
        (spent(""), DEFAULT_SECONDS),
        (spent("soon"), DEFAULT_SECONDS),
        (spent("-1"), DEFAULT_SECONDS),
        (spent(str(SENT)), LEAST_SECONDS),
        (spent(str(SENT - 1)), DEFAULT_SECONDS),
        (spent(str(SENT + 3600)), LONGEST_SECONDS),
        (spent(str(SENT + 3601)), LONGEST_SECONDS),
        (spent(str(SENT + int(FAR_SECONDS))), LONGEST_SECONDS),
        (spent(str(SENT + int(FAR_SECONDS) + 1)), DEFAULT_SECONDS),
        (spent("9" * 5000), DEFAULT_SECONDS),
        (spent(str(SENT + 1200), retry_after="30"), 30),
        (spent(str(SENT + 1200), retry_after="soon"), 1200),
        (spent(str(SENT + 1200), retry_after=""), 1200),
        (spent(str(SENT + 1200), retry_after=date_in(-5)), 1200),
    ],
)
def test_the_wait_by_the_reset(headers, seconds):
    assert wait(**headers) == seconds


@pytest.mark.parametrize("date", ["", "yesterday", "Wed, 25 Nov 2026 99:00:00 GMT"])
def test_without_a_valid_date_our_clock_counts(date):
    assert wait(date=date, **spent(str(SENT + 1200))) == 1290
    assert wait(date=date, retry_after=date_in(30)) == 120


@pytest.mark.parametrize("off", [-86_400, 86_400])
def test_a_reset_that_a_wrong_clock_puts_far_away_or_into_the_past_is_a_minute(off):
    assert wait(date=date_in(off), **spent(str(SENT + 1200))) == DEFAULT_SECONDS


HEADERS = (
    "date",
    "retry-after",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
)
DATES = st.builds(
    "{}{} {} {} {}:{}:{} {}".format,
    st.sampled_from(["", "Wed, ", "Wednesday, ", "Wed "]),
    st.integers(-1, 99),
    st.sampled_from(["Nov", "nov", "11", "Foo"]),
    st.integers(-1, 100_000),
    st.integers(-1, 99),
    st.integers(-1, 99),
    st.integers(-1, 99),
    st.sampled_from(["GMT", "", "-0000", "+9999", "-9999", "+99999999", "EST"]),
)
VALUES = st.one_of(
    st.text(max_size=60), st.text("0123456789,.-+:; MonNovGMT", max_size=60), DATES, st.floats().map(str)
)


@given(
    st.sampled_from([403, 429]), st.dictionaries(st.sampled_from(HEADERS), VALUES), st.binary(max_size=40), st.floats(0)
)
@example(429, {"retry-after": "Mon, 1 Jan 1 00:00:00 +2359"}, b"", 0.0)
@example(429, {"retry-after": "1", "date": "Fri, 31 Dec 9999 23:59:59 -2359"}, b"", 0.0)
def test_no_header_raises_or_gives_a_wait_out_of_bounds(status, headers, body, now):
    seconds = rate_limit_wait(status, headers, body, now)
    assert seconds is None or LEAST_SECONDS <= seconds <= LONGEST_SECONDS
    assert seconds is not None or status == 403


@given(st.one_of(VALUES, st.text()))
def test_an_http_date_never_raises(text):
    assert http_date(text) is None or isinstance(http_date(text), float)


@given(st.integers(0, 4_000_000_000))
def test_an_http_date_is_read_as_it_was_written(at):
    assert http_date(formatdate(at, usegmt=True)) == at
    assert http_date(datetime.fromtimestamp(at, UTC).strftime("%a %b %d %H:%M:%S %Y")) == at
