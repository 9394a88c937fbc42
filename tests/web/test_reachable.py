"""From which address a request comes."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from ghapp.web.reachable import address_of, client_network, is_own_origin, origin_of


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("fe80::1%" + "e" * 60_000, ""),
        ("unknown", ""),
        ("_hidden", ""),
        ("<b>", ""),
        ("203.0.113.9:80", ""),
        ("x" * 60_000, ""),
        ("", ""),
    ],
)
def test_what_a_proxy_forwards_and_is_no_address_is_none(host, address):
    assert address_of(Request({"type": "http", "client": (host, 0)})) == address


def test_without_a_client_there_is_no_address():
    assert address_of(Request({"type": "http", "client": None})) == ""


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:0:0:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("", ""),
    ],
)
def test_limits_count_an_ipv6_network_as_one_client(address, network):
    assert client_network(address) == network


@pytest.mark.parametrize(
    ("asked", "public_url", "origin", "is_ours"),
    [
        ("https://ghapp.example", "", "https://ghapp.example", True),
        ("https://ghapp.example", "", "https://ghapp.example:443", True),
        ("https://ghapp.example", "", "http://ghapp.example", False),
        ("https://ghapp.example", "", "http://ghapp.example:443", False),
        ("http://ghapp.example", "", "https://ghapp.example", False),
        ("http://ghapp.example:8000", "", "http://ghapp.example:8000", True),
        ("http://GHAPP.example:8000", "", "http://ghapp.example:8000", True),
        ("http://ghapp.example:8000", "", "http://ghapp.example:8001", False),
        ("http://[::1]:8000", "", "http://[::1]:8000", True),
        ("http://web:8000", "https://ghapp.example", "https://ghapp.example", True),
        ("http://web:8000", "https://ghapp.example/fleet", "https://ghapp.example", True),
        ("http://web:8000", "https://ghapp.example", "http://ghapp.example", False),
        ("http://web:8000", "https://ghapp.example:8443", "https://ghapp.example", False),
    ],
)
def test_a_form_is_of_the_address_that_was_asked_or_of_the_public_one(asked, public_url, origin, is_ours):
    """Scheme, host and port."""
    assert is_own_origin([origin], asked, public_url) is is_ours
    assert is_own_origin([origin, "https://evil.example"], asked, public_url) is False
    assert is_own_origin([], asked, public_url), "as programs and old browsers"


@pytest.mark.parametrize(
    "origin", ["null", "", "ghapp.example", "http://", "http://[", "http://ghapp.example:x", "//ghapp.example"]
)
@pytest.mark.parametrize("asked", ["http://ghapp.example", "http://", "http://[", "null"])
def test_an_origin_that_is_none_is_not_ours_whatever_was_asked(origin, asked):
    assert is_own_origin([origin], asked, "") is False


@pytest.mark.parametrize("asked", ["http://mona@ghapp.example", "ftp://ghapp.example", "http://ghapp.example:99999"])
def test_an_address_with_a_user_or_of_another_scheme_has_no_origin(asked):
    assert origin_of(asked) is None
