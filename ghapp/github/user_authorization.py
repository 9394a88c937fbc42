"""Signing people in by the App, and what GitHub shows to them: installations, runners, repositories.

https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app

Authlib makes the addresses and exchanges the code (state and PKCE with S256). githubkit and Authlib are imported where
they are used: the web role must not load them at its start.
"""

from __future__ import annotations

import asyncio
import secrets
from importlib import import_module
from math import ceil
from typing import Annotated, NamedTuple

import msgspec

from ghapp.credentials import SignInClient
from ghapp.errors import CodeRefusedError, GitHubUnavailableError, NotFoundError, PermissionMissingError
from ghapp.github import wire
from ghapp.github.response import expect
from ghapp.tls import trusted

STATE_BYTES, VERIFIER_BYTES = 32, 48
MOST_PAGES = 20
"""Pages of a list that are read: 2,000 installations or repositories. Those beyond are not shown to the person."""

PER_PAGE = 100
MOST_LISTED = MOST_PAGES * PER_PAGE
LONGEST_TOKEN_SECONDS = 8 * 3600.0
TIMEOUT_SECONDS = 10.0


class SignInRequest(NamedTuple):
    """A sign-in to send to GitHub: the browser's address there, our state, and PKCE's code verifier."""

    url: str
    state: str
    verifier: str


class GitHubUser(msgspec.Struct, frozen=True):
    """A person."""

    id: int
    login: str


class _Account(msgspec.Struct, frozen=True):
    id: int


class _Repository(msgspec.Struct, frozen=True):
    full_name: str


class _Installations(msgspec.Struct, frozen=True):
    installations: list[_Account]


class _Repositories(msgspec.Struct, frozen=True):
    repositories: list[_Repository]
    total_count: int = 0


class _Token(msgspec.Struct, frozen=True):
    access_token: Annotated[str, msgspec.Meta(min_length=1)]
    expires_in: float | None = None
    """None for an App whose user tokens do not expire."""


_user = msgspec.json.Decoder(GitHubUser)
_installations = msgspec.json.Decoder(_Installations)
_repositories = msgspec.json.Decoder(_Repositories)


class UserAuthorization:
    """The App's web application flow, and reads with a person's own token."""

    def __init__(self, web_url: str, api_url: str, client: SignInClient) -> None:
        self._web_url, self._api_url, self._client = web_url, api_url, client

    async def begin(self, redirect_uri: str) -> SignInRequest:
        """Returns where to send the browser. GitHub sends it back to `redirect_uri`, with a code and the state."""
        state, verifier = secrets.token_urlsafe(STATE_BYTES), secrets.token_urlsafe(VERIFIER_BYTES)
        await asyncio.to_thread(_import)
        async with self._oauth(redirect_uri) as oauth:
            url, _ = oauth.create_authorization_url(
                f"{self._web_url}/login/oauth/authorize", state=state, code_verifier=verifier
            )
        return SignInRequest(str(url), state, verifier)

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> tuple[str, float]:
        """Exchanges a code for a user access token; returns it and its lifetime in seconds, eight hours at most.

        Raises:
            CodeRefusedError: GitHub refused the code, or our client id and secret; the message has GitHub's error.
            GitHubUnavailableError: GitHub gave no usable answer.
        """
        await asyncio.to_thread(_import)
        from authlib.common.errors import AuthlibBaseError
        from authlib.integrations.base_client import OAuthError
        from httpx2 import HTTPError

        async with self._oauth(redirect_uri) as oauth:
            try:
                answer = await oauth.fetch_token(
                    f"{self._web_url}/login/oauth/access_token",
                    code=code,
                    code_verifier=verifier,
                    headers={"Accept": "application/json"},
                )
                token = msgspec.convert(dict(answer), _Token)
            except OAuthError as error:
                raise CodeRefusedError(f"GitHub refused the sign-in: {error.error}") from None
            except (HTTPError, AuthlibBaseError, ValueError) as error:  # a ValidationError is a ValueError
                raise GitHubUnavailableError(f"GitHub gave no usable answer ({type(error).__name__})") from None
        return token.access_token, min(token.expires_in or LONGEST_TOKEN_SECONDS, LONGEST_TOKEN_SECONDS)

    async def user(self, token: str) -> GitHubUser:
        """Returns the person of a token.

        Raises:
            UnauthorizedError: GitHub no longer accepts the token.
            GitHubError: GitHub gave no usable answer.
        """
        return wire.read(_user, await self._get(token, "/user"))

    async def installations(self, token: str) -> tuple[int, ...]:
        """Returns the ids of the App's installations that the person sees; errors as of `user`."""
        found: list[int] = []
        for page in range(1, MOST_PAGES + 1):
            rows = wire.read(_installations, await self._get(token, "/user/installations", page)).installations
            found += [each.id for each in rows]
            if len(rows) < PER_PAGE:
                break
        return tuple(found)

    async def repositories(self, token: str, installation: int) -> tuple[str, ...]:
        """Returns the full names of the installation's repositories that the person may read; errors as of `user`.

        The first page has their number; the others are read at once, because a person waits for the page.
        """
        first = await self._repositories(token, installation, 1)
        pages = min(ceil(first.total_count / PER_PAGE), MOST_PAGES)
        others = await asyncio.gather(*(self._repositories(token, installation, each) for each in range(2, pages + 1)))
        return tuple(each.full_name for page in (first, *others) for each in page.repositories)

    async def _repositories(self, token: str, installation: int, page: int) -> _Repositories:
        try:
            return wire.read(
                _repositories, await self._get(token, f"/user/installations/{installation}/repositories", page)
            )
        except (NotFoundError, PermissionMissingError):
            return _Repositories([])

    async def manages(self, token: str, login: str) -> bool:
        """True if the person may list the organization's runners; errors as of `user`."""
        try:
            await self._get(token, f"/orgs/{login}/actions/runners", per_page=1)
        except (NotFoundError, PermissionMissingError):
            return False
        return True

    async def _get(self, token: str, path: str, page: int = 1, per_page: int | None = None) -> bytes:
        await asyncio.to_thread(_import)
        from ghapp.github.transport import GitHubTransport, open_client

        async with open_client(self._api_url) as client:
            transport = GitHubTransport.anonymous(self._api_url, client).with_token(token)
            answer = await transport.send("GET", path, per_page=per_page or PER_PAGE, page=page)
        return expect(answer, path)

    def _oauth(self, redirect_uri: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - Authlib's, imported late
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        return AsyncOAuth2Client(
            client_id=self._client.id,
            client_secret=self._client.secret,
            token_endpoint_auth_method="client_secret_post",  # noqa: S106 - the name of a method
            code_challenge_method="S256",
            redirect_uri=redirect_uri,
            verify=trusted(),
            timeout=TIMEOUT_SECONDS,
        )


def _import() -> None:
    """Imports what takes half a second, in a thread, so that other requests are answered meanwhile."""
    import_module("authlib.integrations.httpx_client")
    import_module("ghapp.github.transport")
