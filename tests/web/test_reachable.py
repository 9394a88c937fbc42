"""From which address a request comes."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from ghapp.web.reachable import address_of, client_network


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
