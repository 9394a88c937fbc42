"""Whose token a scan uses, and which GitHub it asks: from the environment, as `gh` does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from shutil import which
from typing import NamedTuple
from urllib.parse import urlsplit

from ghapp.addresses import GITHUB_API, GITHUB_COM, github_urls, is_loopback
from ghapp.errors import ConfigurationError

VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")

GH_SECONDS = 10.0

AskGh = Callable[[str], str]
"""Returns gh's token for a host; empty if it has none."""


class GitHubHost(NamedTuple):
    """Which GitHub is asked: the address of its REST API, of its pages, and its host as `gh` names it."""

    api_url: str
    web_url: str
    host: str

    @property
    def is_public(self) -> bool:
        """True for github.com."""
        return self.host == GITHUB_COM

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> GitHubHost:
        """Reads GHAPP_GITHUB_API_URL and GHAPP_GITHUB_WEB_URL; without them, gh's GH_HOST.

        Raises:
            ConfigurationError: an address is not valid, or would get the token unencrypted over a network.
        """
        urls = github_urls(environ, environ.get("GH_HOST") or GITHUB_COM)
        parts = urlsplit(urls.api)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise ConfigurationError(
                f"{GITHUB_API}: http:// would send your token unencrypted to another host; use https://"
            )
        return cls(urls.api, urls.web, urls.host)


class FoundToken(NamedTuple):
    """A token, and where it was found."""

    secret: str
    source: str

    def __repr__(self) -> str:
        return f"FoundToken(source={self.source!r})"


def find_token(environ: Mapping[str, str], github: GitHubHost, ask_gh: AskGh) -> FoundToken:
    """Returns the token of GH_TOKEN, of GITHUB_TOKEN, or else gh's own.

    Raises:
        ConfigurationError: there is none, or it is none that a header can have. No message shows it.
    """
    for name in VARIABLES:
        if token := environ.get(name, "").strip():
            return _checked(FoundToken(token, name))
    if token := ask_gh(github.host).strip():
        return _checked(FoundToken(token, "gh auth token"))
    raise ConfigurationError(
        "GH_TOKEN: not set, and `gh auth token` gives none; run `gh auth login`, or make a token at "
        f"{github.web_url}/settings/tokens with the scope admin:org (repo for a repository) and set GH_TOKEN"
    )


def _checked(token: FoundToken) -> FoundToken:
    if not token.secret.isascii() or not token.secret.isprintable() or " " in token.secret:
        raise ConfigurationError(f"{token.source}: is no token of GitHub's: it has blanks or other odd characters")
    return token


def token_of_gh(host: str) -> str:
    """Asks `gh`, if it is on the PATH."""
    program = which("gh")
    if program is None:
        return ""
    command = [program, "auth", "token", "--hostname", host]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=GH_SECONDS, check=False)  # noqa: S603 - the host is one argument
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return answer.stdout if answer.returncode == 0 else ""
