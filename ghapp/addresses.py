"""Addresses in the environment: whether they lead anywhere, before anybody calls there."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlsplit

from ghapp.errors import ConfigurationError

REDIS_SCHEMES = ("redis://", "rediss://", "redis+sentinel://", "unix://")
TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
HIGHEST_PORT = 65535
LONGEST_SHOWN = 60


def redis_url(environ: Mapping[str, str]) -> str | None:
    """`GHAPP_REDIS_URL`, as it is; Sentinel's is taken apart where it is used. No refusal shows a password."""
    url = environ.get("GHAPP_REDIS_URL")
    if not url:
        return None
    if not url.startswith(REDIS_SCHEMES):
        raise ConfigurationError("GHAPP_REDIS_URL: must begin with redis://, rediss:// or redis+sentinel://")
    if not url.startswith("redis+sentinel://") and not _is_one_redis(url):
        raise ConfigurationError(
            "GHAPP_REDIS_URL: is not valid; it takes redis://USER:PASSWORD@HOST:PORT/DB, the last two numbers, and "
            f"after rediss:// as options {', '.join(TLS_OPTIONS)}"
        )
    return url


def http_url(environ: Mapping[str, str], name: str, default: str) -> str:
    """A variable that is an address for HTTP, without a slash at its end."""
    url = (environ.get(name) or default).rstrip("/")
    if url and not is_http(url):
        raise ConfigurationError(f"{name}: {shown(url)} is not valid; it takes an http:// or https:// address")
    return url


def listen(value: str) -> tuple[str, int]:
    """`GHAPP_LISTEN`: the host, without brackets, and the port; 0 for any that is free."""
    host, _, port = value.rpartition(":")
    is_port = port.isdecimal() and len(port) <= len(str(HIGHEST_PORT)) and int(port) <= HIGHEST_PORT
    if not host or not is_port:
        raise ConfigurationError(f"GHAPP_LISTEN: {shown(value)} is not valid; it takes host:port, like 0.0.0.0:8000")
    return host.strip("[]"), int(port)


def is_http(url: str) -> bool:
    """Whether it is the address of somebody whom one can ask."""
    parts = _parts(url)
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def shown(value: object) -> str:
    """A value as a refusal shows it: no longer than a line has room for."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _is_one_redis(url: str) -> bool:
    parts = _parts(url)
    if parts is None:
        return False
    options, path = dict(parse_qsl(parts.query, keep_blank_values=True)), parts.path.strip("/")
    db = options.pop("db", "0") if parts.scheme == "unix" else path or "0"
    known = set(TLS_OPTIONS) if parts.scheme == "rediss" else set()
    return db.isdecimal() and options.keys() <= known and (bool(path) or parts.scheme != "unix")


def _parts(url: str) -> SplitResult | None:
    """The parts of an address, if its host is one that can be looked up, and its port one to connect to."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        port = parts.port
    except ValueError:
        return None
    return parts if port != 0 else None
