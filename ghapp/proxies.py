"""Proxies that the HTTP clients take from the environment: refused if unusable, named if there is no answer."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ghapp.addresses import is_http
from ghapp.errors import ConfigurationError

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""In lower case, too."""

SOCKS = ("socks5://", "socks5h://")


def require_usable_proxies(environ: Mapping[str, str]) -> None:
    """Checks the variables that name a proxy, unless NO_PROXY excepts all addresses.

    Raises:
        ConfigurationError: the HTTP client could not use one. The message does not show it: it may have a password.
    """
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if "*" in [each.strip() for each in exceptions.split(",")]:
        return
    for name, value in environ.items():
        if name.upper() in NAMES and value and not _is_usable(value):
            raise ConfigurationError(
                f"{name}: is not a proxy that ghapp can use; it takes http://HOST:PORT, or https:// "
                "(socks5:// after `pip install socksio`)"
            )


def _is_usable(proxy: str) -> bool:
    if proxy.startswith(SOCKS):
        return importlib.util.find_spec("socksio") is not None
    return is_http(proxy if "://" in proxy else f"http://{proxy}")


def through_proxy(url: str) -> str:
    """Returns the end of an error message: the proxy through which this URL is requested; empty without one."""
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    address = urlsplit(proxy if "://" in proxy else f"http://{proxy}").netloc.rpartition("@")[2]
    return f" through the proxy {address}; check {parts.scheme.upper()}_PROXY, ALL_PROXY and NO_PROXY"
