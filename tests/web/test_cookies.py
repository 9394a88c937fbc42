"""Which cookie of a browser is ours."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from ghapp.web.cookies import cookie_of

NO_BREAK_SPACE, NEXT_LINE = b"\xa0", b"\x85"


def request_with(*cookies):
    return Request({"type": "http", "headers": [(b"cookie", each) for each in cookies]})


@pytest.mark.parametrize(
    "cookies",
    [
        [b"__Host-a=1"],
        [b"b=2; __Host-a=1"],
        [b"b=2;__Host-a=1;c"],
        [b"b", b"__Host-a=1"],
        [b'b="; __Host-a=1'],
        [NO_BREAK_SPACE + b"__Host-a=2; __Host-a=1"],
        [b"__Host-a=1; __Host-a=2"],
    ],
)
def test_it_is_found_among_others(cookies):
    assert cookie_of(request_with(*cookies), "a", is_secure=True) == "1"


@pytest.mark.parametrize(
    "cookie",
    [
        b"",
        b"a=1",
        b"__Host-a",
        b"__host-a=1",
        b"__Host-ab=1",
        b"=__Host-a=1",
        NO_BREAK_SPACE + b"__Host-a=1",
        b"b=2; " + NEXT_LINE + b"__Host-a=1",
        b"\x1c__Host-a=1",
        "\u2000__Host-a=1".encode(),
        b"__Host-a" + NO_BREAK_SPACE + b"=1",
    ],
)
def test_a_cookie_of_another_name_is_not_ours(cookie):
    """Browsers let any host of the domain set those that do not begin with `__Host-`."""
    assert cookie_of(request_with(cookie), "a", is_secure=True) == ""
