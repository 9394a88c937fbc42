"""Who reaches whom: is it this machine's own browser, and can GitHub deliver here."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

_LEFT_BY_PROXIES = ("forwarded", "via", "x-real-ip")


def is_from_this_machine(request: Request) -> bool:
    """Whether a browser on this machine sent it, to this machine's own name, with nobody between.

    The peer alone proves nothing: a reverse proxy here passes on the whole world's requests, and a page from
    elsewhere whose name was made to resolve to 127.0.0.1 has the browser send its own.
    """
    peer = request.client
    return (
        peer is not None
        and is_loopback(peer.host)
        and is_loopback(_hostname(request.headers.get("host", "")))
        and not any(name.startswith("x-forwarded") or name in _LEFT_BY_PROXIES for name in request.headers)
        # No browser speaks 1.0; reverse proxies do that leave none of these headers.
        and request.scope.get("http_version") != "1.0"
    )


def is_loopback(host: str) -> bool:
    """Whether a name or an address means the machine itself."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def can_deliver(web_url: str, address: str) -> bool:
    """Whether that GitHub can send deliveries to an address of ours.

    One on this machine it reaches only when it is here too. github.com takes none but public addresses; a server of
    one's own may stand in the same network.
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
