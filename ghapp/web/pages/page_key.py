"""The key of `ghapp up`: a browser that has it sees the pages, and uses their buttons, without signing in.

Where a request seems to come from proves nothing: reverse proxies, forwarders, containers and the other users of this
machine come from 127.0.0.1, too, and a name that leads there is quickly made. So `up` makes a key at each start, and
prints an address with it. The key moves to a cookie, so that it stays in no address bar and no history.

Browsers send the cookie (`SameSite=Strict`) only with requests that a page of ours made. So two kinds of answers are
pages that request an address of ours at once: the one that sets the cookie, for a file or another site may have led
there; and the one to a link from another site.

Cookies know no ports: a browser sends that of `http://127.0.0.1:8000` to each server on 127.0.0.1. So the cookie is not
the key but is derived from the key and the port, which its name has, too: it is worth nothing in an address, on
another port, or at another `ghapp up`, be it the next one on this port. What is left: who runs a server on this very
host, and has the browser that holds the cookie visit it, gets the cookie and may use it here until this `up` ends. On a
machine that is shared with strangers, have people sign in instead, or serve https under a name of its own.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest, digest
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ghapp.web.cookies import cookie_of, set_cookie
from ghapp.web.pages import layout
from ghapp.web.reachable import origin_of

PARAMETER = "key"


def key_cookie(key: str, port: int) -> tuple[str, str]:
    """Returns the name and the value of the cookie that shows, on this port, that the browser has the key."""
    return f"ghapp_key_{port}", digest(key.encode(), f"page on port {port}".encode(), sha256).hex()


class PageKey:
    """The key; None if the web role does not run under `up`."""

    def __init__(self, key: str | None) -> None:
        self._key = key

    def is_held(self, request: Request) -> bool:
        """True if the browser has the key."""
        port = _port(request)
        if self._key is None or port is None:
            return False
        _, value = key_cookie(self._key, port)
        return compare_digest(value.encode(), self.cookie(request).encode())

    def cookie(self, request: Request) -> str:
        """Returns the cookie that the browser sends; empty without one."""
        port = _port(request)
        if self._key is None or port is None:
            return ""
        name, _ = key_cookie(self._key, port)
        return cookie_of(request, name, is_secure=_is_secure(request))

    def taken(self, request: Request) -> Response | None:
        """Returns the answer to an address with the key, which gives it to the browser; None for other addresses."""
        key, port = request.query_params.get(PARAMETER, ""), _port(request)
        if request.method != "GET" or port is None or not self._is_right(key):
            return None
        response = _continue(request)
        name, value = key_cookie(key, port)
        set_cookie(response, name, value, is_secure=_is_secure(request), same_site="strict")
        return response

    def again(self, request: Request) -> Response | None:
        """Returns the answer to a link from another site, for which a browser may have the key; else None."""
        is_link = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
        return _continue(request) if is_link and self.is_set else None

    @property
    def is_set(self) -> bool:
        """True under `ghapp up`."""
        return self._key is not None

    def _is_right(self, key: str) -> bool:
        return self._key is not None and compare_digest(key.encode(), self._key.encode())


def _port(request: Request) -> int | None:
    """Returns the port of the address that the browser shows; None if the request does not name it."""
    origin = origin_of(f"{request.url.scheme}://{request.headers.get('host', '')}")
    return None if origin is None else origin.port


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _continue(request: Request) -> Response:
    """Returns a page that requests this address, without a key in it."""
    query = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != PARAMETER])
    path = request.url.path
    to = f"./{quote(path.rpartition('/')[2])}{'?' if query else ''}{query}"
    return HTMLResponse(layout.render("continue.html", to=to, root=layout.root_of(path)), 200, layout.headers())
