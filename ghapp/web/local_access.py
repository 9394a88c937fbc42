"""Decides whether a request comes from this machine's browser, and whether GitHub can reach an address of ours."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

_PROXY_HEADERS = ("forwarded", "via", "x-real-ip")


def is_from_this_machine(request: Request) -> bool:
    """True if a browser on this machine sent the request to a loopback name, without a proxy.

    The peer's address alone proves nothing: a local reverse proxy forwards requests from everywhere, and by DNS
    rebinding a foreign page can make the browser send requests to 127.0.0.1.
    """
    peer = request.client
    return (
        peer is not None
        and is_loopback(peer.host)
        and is_loopback(_hostname(request.headers.get("host", "")))
        and not any(name.startswith("x-forwarded") or name in _PROXY_HEADERS for name in request.headers)
        # Browsers never send HTTP/1.0, but some reverse proxies that add no header do.
        and request.scope.get("http_version") != "1.0"
    )


def is_loopback(host: str) -> bool:
    """True if a name or an address is that of the machine itself."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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
