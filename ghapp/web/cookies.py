"""Cookies: hidden from scripts, and where the browser came by https, bound to it and to this host.

A name that begins with `__Host-` is set by this host alone: neither another host of the domain nor plain http can
replace such a cookie (RFC 6265bis, section 4.1.3).
"""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

HOST_PREFIX = "__Host-"


def cookie_of(request: Request, name: str, *, is_secure: bool) -> str:
    """Returns the value of a cookie of ours; empty if the browser sends none.

    Names are compared as they are. Starlette removes what Python takes for white space, such as U+00A0: so another host
    of the domain could set a cookie that browsers know by another name than `__Host-…`, and that counted as ours.
    """
    full = _full(name, is_secure)
    pairs = (pair.strip(" \t").partition("=") for line in request.headers.getlist("cookie") for pair in line.split(";"))
    return next((value for found, _, value in pairs if found == full), "")


def set_cookie(
    response: Response,
    name: str,
    value: str,
    *,
    is_secure: bool,
    same_site: Literal["lax", "strict"],
    seconds: int | None = None,
) -> None:
    """Sets a cookie, for `seconds` or until the browser is closed."""
    full = _full(name, is_secure)
    response.set_cookie(full, value, max_age=seconds, httponly=True, samesite=same_site, secure=is_secure, path="/")


def delete_cookie(response: Response, name: str, *, is_secure: bool) -> None:
    """Deletes a cookie."""
    response.delete_cookie(_full(name, is_secure), path="/", secure=is_secure, httponly=True)


def _full(name: str, is_secure: bool) -> str:
    return HOST_PREFIX + name if is_secure else name
