"""Signing people in by the App, and what GitHub shows to them: installations, runners, repositories.

https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app

The web application flow of OAuth with a state and PKCE (RFC 7636, S256). It is one address and one request, so no OAuth
library is installed for it. githubkit is imported where it is used: the web role must not load it at its start.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from http import HTTPStatus
from importlib import import_module
from math import ceil
from typing import Annotated, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import msgspec

from ghapp.credentials import SignInClient
from ghapp.decoding import Count, Id, LeftOutRows, Name, RowDecoder, decode
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
"""Of the exchange of a code, from the connection to the end of the answer."""

LONGEST_ANSWER = 64 * 1024
"""Of the exchange of a code, in bytes; GitHub's have some hundred."""

SERVER_ERROR = 500
REVOKED = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Revoked now, or no token any longer."""


class SignInRequest(NamedTuple):
    """A sign-in to send to GitHub: the browser's address there, our state, and PKCE's code verifier."""

    url: str
    state: str
    verifier: str


class GitHubUser(msgspec.Struct, frozen=True):
    """A person."""

    id: Id
    login: Name


class UserRepository(NamedTuple):
    """A repository that a person may read: its id, `owner/name`, and whether they are an admin of it."""

    id: int
    name: str
    is_admin: bool


class _Account(msgspec.Struct, frozen=True):
    id: Id


class _Permissions(msgspec.Struct, frozen=True):
    admin: bool = False


class _Repository(msgspec.Struct, frozen=True):
    id: Id
    full_name: Name
    permissions: _Permissions | None = None


class _Installations(msgspec.Struct, frozen=True):
    installations: list[_Account]


class _Repositories(msgspec.Struct, frozen=True):
    repositories: list[_Repository]
    total_count: Count = 0


class _Token(msgspec.Struct, frozen=True):
    access_token: Annotated[str, msgspec.Meta(min_length=1)]
    expires_in: float | None = None
    """None for an App whose user tokens do not expire."""


class _Refusal(msgspec.Struct, frozen=True):
    error: Annotated[str, msgspec.Meta(pattern=r"\A[ -~]{1,100}\Z")] | None = None


_refusal = msgspec.json.Decoder(_Refusal)
_token = msgspec.json.Decoder(_Token)
_user = msgspec.json.Decoder(GitHubUser)
_installations = RowDecoder[_Installations]("user-installation", _Installations)
_repositories = RowDecoder[_Repositories]("user-repository", _Repositories)


class UserAuthorization:
    """The App's web application flow, and reads with a person's own token."""

    def __init__(self, web_url: str, api_url: str, client: SignInClient, left_out: LeftOutRows | None = None) -> None:
        """`left_out` gets what is odd in the lists of installations and repositories."""
        self._web_url, self._api_url, self._client = web_url, api_url, client
        self._left_out = LeftOutRows() if left_out is None else left_out

    def begin(self, redirect_uri: str) -> SignInRequest:
        """Returns where to send the browser. GitHub sends it back to `redirect_uri`, with a code and the state."""
        state, verifier = secrets.token_urlsafe(STATE_BYTES), secrets.token_urlsafe(VERIFIER_BYTES)
        query = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        return SignInRequest(f"{self._web_url}/login/oauth/authorize?{urlencode(query)}", state, verifier)

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> tuple[str, float]:
        """Exchanges a code for a user access token; returns it and its lifetime in seconds, eight hours at most.

        Raises:
            CodeRefusedError: GitHub refused the code, or our client id and secret; the message has GitHub's error.
            GitHubUnavailableError: GitHub gave no usable answer.
        """
        fields = {
            "grant_type": "authorization_code",
            "client_id": self._client.id,
            "client_secret": self._client.secret,
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_uri,
        }
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                answer = await _post(f"{self._web_url}/login/oauth/access_token", fields)
            if refusal := decode(_refusal, answer).error:
                raise CodeRefusedError(f"GitHub refused the sign-in: {refusal}")
            token = decode(_token, answer)
        except (httpx.HTTPError, TimeoutError, ValueError) as error:  # a DecodeError is a ValueError
            raise GitHubUnavailableError(f"GitHub gave no usable answer ({type(error).__name__})") from None
        return token.access_token, min(token.expires_in or LONGEST_TOKEN_SECONDS, LONGEST_TOKEN_SECONDS)

    async def revoke(self, token: str) -> None:
        """Revokes a user access token.

        https://docs.github.com/rest/apps/oauth-applications#delete-an-app-token

        Raises:
            GitHubUnavailableError: GitHub gave no usable answer; the token ends by itself.
        """
        url = f"{self._api_url}/applications/{quote(self._client.id, safe='')}/token"
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                httpx.AsyncClient(verify=trusted(), timeout=TIMEOUT_SECONDS) as client,
            ):
                answer = await client.request(
                    "DELETE",
                    url,
                    auth=(self._client.id, self._client.secret),
                    json={"access_token": token},
                    headers={"Accept": "application/vnd.github+json", "User-Agent": "ghapp"},
                )
        except (httpx.HTTPError, TimeoutError) as error:
            raise GitHubUnavailableError(f"GitHub gave no usable answer ({type(error).__name__})") from None
        if answer.status_code not in REVOKED:
            raise GitHubUnavailableError(f"GitHub answered {answer.status_code}")

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
            body = await self._get(token, "/user/installations", page)
            listed, odd = wire.read_rows(_installations, body, self._left_out)
            found += [each.id for each in listed.installations]
            if len(listed.installations) + sum(each.is_row for each in odd) < PER_PAGE:
                break
        return tuple(found)

    async def repositories(self, token: str, installation: int) -> tuple[UserRepository, ...]:
        """Returns the installation's repositories that the person may read; errors as of `user`.

        The first page has their number; the others are read at once, because a person waits for the page.
        """
        first = await self._repositories(token, installation, 1)
        pages = min(ceil(first.total_count / PER_PAGE), MOST_PAGES)
        others = await asyncio.gather(*(self._repositories(token, installation, each) for each in range(2, pages + 1)))
        rows = [each for page in (first, *others) for each in page.repositories]
        return tuple(
            UserRepository(each.id, each.full_name, each.permissions is not None and each.permissions.admin)
            for each in rows
        )

    async def _repositories(self, token: str, installation: int, page: int) -> _Repositories:
        try:
            body = await self._get(token, f"/user/installations/{installation}/repositories", page)
        except (NotFoundError, PermissionMissingError):
            return _Repositories([])
        return wire.read_rows(_repositories, body, self._left_out).value

    async def manages(self, token: str, account_id: int) -> bool:
        """True if the person may list the organization's runners; errors as of `user`.

        The organization is named by its id, as in the links of GitHub's own pages: its login may belong to another one
        now, which anyone can create who waits for a rename.
        """
        try:
            await self._get(token, f"/organizations/{account_id}/actions/runners", per_page=1)
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


def code_challenge(verifier: str) -> str:
    """Returns the S256 challenge of a code verifier (RFC 7636, section 4.2)."""
    return urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


async def _post(url: str, fields: dict[str, str]) -> bytes:
    """Posts a form and returns the body of the answer, which has at most `LONGEST_ANSWER` bytes.

    Redirects are not followed: the form has the client secret, which only this address may receive. The answer is
    requested without compression, so that the limit holds before anything is decompressed.

    Raises:
        httpx.HTTPError: no answer, or a 5xx.
        ValueError: the answer is too long.
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "ghapp"}
    async with (
        httpx.AsyncClient(verify=trusted(), timeout=TIMEOUT_SECONDS) as client,
        client.stream("POST", url, data=fields, headers=headers) as answer,
    ):
        if answer.status_code >= SERVER_ERROR:
            answer.raise_for_status()
        body = bytearray()
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > LONGEST_ANSWER:
                raise ValueError("the answer is too long")
    return bytes(body)


def _import() -> None:
    """Imports what takes half a second, in a thread, so that other requests are answered meanwhile."""
    import_module("ghapp.github.transport")
