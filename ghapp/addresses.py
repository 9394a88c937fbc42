"""Validates the addresses in the environment before any connection is made."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from ghapp.errors import ConfigurationError

REDIS_SCHEMES = ("redis://", "rediss://", "redis+sentinel://", "unix://")
TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
HIGHEST_PORT = 65535

GITHUB_API, GITHUB_WEB = "GHAPP_GITHUB_API_URL", "GHAPP_GITHUB_WEB_URL"
GITHUB_COM, RESIDENCY = "github.com", ".ghe.com"
"""The host of GitHub itself, and the end of the hosts of enterprises with data residency."""

LONGEST_SHOWN = 60


def redis_url(environ: Mapping[str, str]) -> str | None:
    """Returns `GHAPP_REDIS_URL` unchanged; a Sentinel URL is parsed where it is used. Errors show no password."""
    url = environ.get("GHAPP_REDIS_URL")
    if not url:
        return None
    if not url.startswith(REDIS_SCHEMES):
        raise ConfigurationError("GHAPP_REDIS_URL: must begin with redis://, rediss://, redis+sentinel:// or unix://")
    if not url.startswith("redis+sentinel://") and not _is_one_redis(url):
        raise ConfigurationError(
            "GHAPP_REDIS_URL: is not valid; it takes redis://USER:PASSWORD@HOST:PORT/DB, the last two numbers, and "
            f"after rediss:// as options {', '.join(TLS_OPTIONS)}"
        )
    return url


def http_url(environ: Mapping[str, str], name: str, default: str = "") -> str:
    """Returns a variable's HTTP URL, to which paths are added, without a slash at its end."""
    url = (environ.get(name) or default).rstrip("/")
    if url and not is_http(url):
        raise ConfigurationError(f"{name}: {shown(url)} is not valid; it takes an http:// or https:// address")
    if "?" in url or "#" in url:
        raise ConfigurationError(f"{name}: {shown(url)} is not valid; paths are added to it, so it ends before ? and #")
    return url


def link_url(environ: Mapping[str, str], name: str, default: str = "") -> str:
    """Returns a variable's HTTP URL, as `http_url`, for links that people see: without user name and password."""
    url = http_url(environ, name, default)
    if "@" in urlsplit(url).netloc:
        raise ConfigurationError(f"{name}: contains a user name or a password, which every link would show; remove it")
    return url


class GitHubUrls(NamedTuple):
    """The addresses of one GitHub: of its REST API, and of its pages."""

    api: str
    web: str

    @property
    def host(self) -> str:
        """The host of the API, as `gh` names it."""
        return urlsplit(_web_url_of(self.api)).netloc


def github_urls(environ: Mapping[str, str], host: str = GITHUB_COM) -> GitHubUrls:
    """Returns the addresses of GitHub. Where one is set, the other follows from it; without both they are of `host`.

    Raises:
        ConfigurationError: one is not valid, or they are of two GitHubs: the App would be created on one and used on
            the other.
    """
    api, mistakes = "", list[str]()
    try:
        api = link_url(environ, GITHUB_API)
    except ConfigurationError as error:
        mistakes += error.mistakes
    try:
        web = _web_url(environ, _web_url_of(api) if api else f"https://{host}")
    except ConfigurationError as error:
        mistakes += error.mistakes
    if mistakes:
        raise ConfigurationError(*mistakes)
    urls = GitHubUrls(api or _api_url_of(web), web)
    _require_one_github(urls)
    return urls


def _web_url(environ: Mapping[str, str], default: str) -> str:
    web = link_url(environ, GITHUB_WEB, default)
    parts = urlsplit(web)
    if parts.path:
        right = f"{parts.scheme}://{parts.netloc}"
        raise ConfigurationError(f"{GITHUB_WEB}: {shown(web)} is not valid; GitHub's pages have no path: {right}")
    return web


def _require_one_github(urls: GitHubUrls) -> None:
    host = urlsplit(urls.web).netloc.lower()
    is_cloud = any(each == GITHUB_COM or each.endswith(RESIDENCY) for each in (urls.host, host))
    if is_cloud and urls.host != host:
        raise ConfigurationError(
            f"{GITHUB_API}: {shown(urls.api)} is the API of another GitHub than {GITHUB_WEB}, {shown(urls.web)}; set "
            f"{GITHUB_API} alone, and the other follows"
        )
    if urls.api == urls.web:
        api = shown(_api_url_of(urls.web))
        raise ConfigurationError(f"{GITHUB_API}: {shown(urls.api)} is the address of GitHub's pages; its API is {api}")


_API_PATH = "/api/v3"
"""Of GitHub Enterprise Server."""


def _web_url_of(api_url: str) -> str:
    parts = urlsplit(api_url)
    host = parts.netloc.lower()
    bare = host.removeprefix("api.")
    is_cloud = bare != host and (bare == GITHUB_COM or bare.endswith(RESIDENCY))
    return f"{parts.scheme}://{bare if is_cloud else host}"


def _api_url_of(web_url: str) -> str:
    parts = urlsplit(web_url)
    host = parts.netloc.lower()
    if host == GITHUB_COM or host.endswith(RESIDENCY):
        return f"{parts.scheme}://api.{host}"
    return f"{web_url}{_API_PATH}"


def listen(value: str) -> tuple[str, int]:
    """Returns host, without brackets, and port of `GHAPP_LISTEN`.

    Port 0, any free port, is refused: links, set-up and GitHub's deliveries need an address that stays.
    """
    host, _, port = value.rpartition(":")
    is_port = port.isdecimal() and len(port) <= len(str(HIGHEST_PORT)) and int(port) <= HIGHEST_PORT
    if not host or not is_port or int(port) == 0:
        raise ConfigurationError(
            f"GHAPP_LISTEN: {shown(value)} is not valid; it takes host:port, like 0.0.0.0:8000, "
            f"with a port from 1 to {HIGHEST_PORT}"
        )
    return host.strip("[]"), int(port)


def is_http(url: str) -> bool:
    """True if it is an http or https URL with a host, and without blanks."""
    parts = _parts(url) if url.isprintable() and " " not in url else None
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def is_loopback(host: str) -> bool:
    """True if a name or an address is that of the machine itself."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def shown(value: object) -> str:
    """Returns the value as error messages show it: quoted, at most `LONGEST_SHOWN` characters."""
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
    """Returns the parts of a URL; None if its host is not a valid name, or its port not a valid port."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        port = parts.port
    except ValueError:
        return None
    return parts if port != 0 else None


NO_SUCH_ADDRESS = "there is no such address; /docs and /v1/openapi.json describe the API"
"""The `detail` of the answer 404 where no operation has the path; what an operation does not find has its own text."""
