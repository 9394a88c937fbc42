"""Addresses: whether GitHub can reach one of ours, from which a request comes, and of which origin a page is."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from ghapp.addresses import is_loopback

PORTS = {"http": 80, "https": 443}

LONGEST_ADDRESS = 64
"""IPv6 with a zone."""


def can_deliver(web_url: str, address: str) -> bool:
    """True if the GitHub at `web_url` can send deliveries to `address`.

    A loopback address is reachable only for a GitHub on this machine. github.com and ghe.com deliver to public
    addresses only; a GitHub Enterprise Server may be in the same network.
    """
    theirs, ours = (_hostname(urlsplit(url).netloc) for url in (web_url, address))
    if is_loopback(theirs):
        return True
    if theirs == "github.com" or theirs.endswith(".ghe.com"):
        return _is_public(ours)
    return not is_loopback(ours)


class Origin(NamedTuple):
    """Scheme, host and port, as browsers compare origins."""

    scheme: str
    host: str
    port: int


def origin_of(url: str) -> Origin | None:
    """Returns the origin of an address, with the port that its scheme implies; None for one that has none."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in PORTS or not host or "@" in parts.netloc:
        return None
    return Origin(scheme, host, PORTS[scheme] if port is None else port)


def is_own_origin(origins: Iterable[str], asked: str, public_url: str) -> bool:
    """True unless a browser names another origin for a form than the address that it asked, or the public one.

    The scheme of `asked` is the proxy's where `GHAPP_TRUSTED_PROXIES` has it. A proxy that ends TLS and is not among
    them, or that replaces Host, needs `GHAPP_PUBLIC_URL`.

    Args:
        origins: the values of the fields `Origin`; browsers send one with a form.
        asked: the address that was asked.
        public_url: `GHAPP_PUBLIC_URL`; empty if it is not set.
    """
    ours = {origin_of(asked), origin_of(public_url)} - {None}
    return all(origin_of(each) in ours for each in origins)


def address_of(request: Request) -> str:
    """Returns the client's address, by `GHAPP_TRUSTED_PROXIES`; empty if the server does not know it.

    A proxy passes on what it got where it does not check it; what is no address is none.
    """
    host = "" if request.client is None else request.client.host
    return host if len(host) <= LONGEST_ADDRESS and _is_address(host) else ""


def client_network(address: str) -> str:
    """Returns what limits count as one client: an IPv4 address, or an IPv6 network of 64 bits, as one machine has."""
    if not address or isinstance(ip := ip_address(address), IPv4Address):
        return address
    if ip.ipv4_mapped is not None:  # as a server sees it that listens on IPv6
        return str(ip.ipv4_mapped)
    return str(IPv6Network((int(ip), 64), strict=False))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
