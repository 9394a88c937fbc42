"""Sends single requests to GitHub through githubkit, and translates errors to ours.

githubkit's own retries, cache, checks of answers and per-call clients are off: each answer is needed as GitHub gave it,
the check raises ValueError for a `Retry-After` that is a date, and one shared client saves 17 ms per call.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import githubkit
import httpx
import msgspec
from githubkit import AppAuthStrategy, TokenAuthStrategy, UnauthAuthStrategy
from githubkit.auth import BaseAuthStrategy
from githubkit.cache import MemCacheStrategy

from ghapp.decoding import decode
from ghapp.errors import (
    DeletedError,
    GitHubError,
    GitHubUnavailableError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.github.response import GitHubResponse
from ghapp.installations.installation import accepted_text
from ghapp.installations.rate_limit import rate_limit_wait
from ghapp.proxies import through_proxy
from ghapp.tls import trusted

TIMEOUT = httpx.Timeout(10.0, connect=5.0)
"""Per phase."""

IN_FLIGHT = 100
"""GitHub's own limit; the keep-alive count must match it, or every call beyond twenty reconnects."""

LONGEST_MESSAGE = 200
API_VERSION = "2022-11-28"


class _Error(msgspec.Struct):
    message: str | None = None


_message = msgspec.json.Decoder(_Error)


class GitHubTransport(githubkit.GitHub[Any]):
    """githubkit with one shared client, no retries and no cache."""

    def __init__(self, auth: BaseAuthStrategy, api_url: str, client: httpx.AsyncClient) -> None:
        """`client` is shared, and closed by its creator; see `open_client`."""
        super().__init__(
            auth,
            base_url=api_url,
            user_agent="ghapp",
            timeout=TIMEOUT,
            http_cache=False,
            auto_retry=False,
            cache_strategy=MemCacheStrategy(),
        )
        self._client, self._api_url = client, api_url.rstrip("/")

    @classmethod
    def as_app(cls, app_id: str, private_key: str, api_url: str, client: httpx.AsyncClient) -> GitHubTransport:
        """Authenticates as the App. `client` as in `__init__`."""
        return cls(AppAuthStrategy(app_id, private_key), api_url, client)

    @classmethod
    def anonymous(cls, api_url: str, client: httpx.AsyncClient) -> GitHubTransport:
        """Does not authenticate. `client` as in `__init__`."""
        return cls(UnauthAuthStrategy(), api_url, client)

    def with_token(self, token: str) -> GitHubTransport:
        """Returns the same with the token of an installation or a person."""
        return GitHubTransport(TokenAuthStrategy(token), self._api_url, self._client)

    @asynccontextmanager
    async def get_async_client(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        """Yields the shared client."""
        yield self._client

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, json: Any = None, **params: str | int
    ) -> GitHubResponse:
        """Sends one request.

        Args:
            method: in capitals.
            path: below the API's base URL, beginning with a slash.
            headers: in addition to githubkit's own.
            json: the body.
            params: of the query.

        Raises:
            UnauthorizedError: 401.
            PermissionMissingError: 403.
            RateLimitedError: 403 or 429 over a limit; `after_seconds` is the time to wait, see `rate_limit_wait`.
            GitHubUnavailableError: 5xx, a time-out, or an incomplete answer.
        """
        query = f"?{urlencode(params)}" if params else ""  # as a text: httpx would parse the URL three times
        headers = {"X-GitHub-Api-Version": API_VERSION, **(headers or {})}
        request = self._client.build_request(method, f"{self._api_url}{path}{query}", json=json, headers=headers)
        return await self._exchange(request, method, path, follow=True)

    async def redirect(self, path: str) -> GitHubResponse:
        """Sends a GET and returns the answer, a redirect as it is; errors as of `send`."""
        headers = {"X-GitHub-Api-Version": API_VERSION}
        request = self._client.build_request("GET", f"{self._api_url}{path}", headers=headers)
        return await self._exchange(request, "GET", path, follow=False)

    async def _exchange(self, request: httpx.Request, method: str, path: str, *, follow: bool) -> GitHubResponse:
        try:
            answer = await self._client.send(request, auth=self.auth.get_auth_flow(self), follow_redirects=follow)
        except httpx.HTTPError as error:
            why = f"{type(error).__name__}{through_proxy(str(request.url))}"
            raise GitHubUnavailableError(f"{method} {path}: no answer ({why})") from None
        return _answer_or_error(method, path, answer)

    async def tail(self, url: str, most: int, longest: int) -> bytes | None:
        """Reads the end of a document at a short-lived address, without credentials.

        Args:
            url: as GitHub gave it; its query is a secret, and appears in no message.
            most: bytes to return.
            longest: bytes to read; None is returned for a longer document.

        Raises:
            GitHubUnavailableError: no answer, or another status than 200.
        """
        kept, size = bytearray(), 0
        try:
            async with self._client.stream("GET", url) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise GitHubUnavailableError(f"the log's address answered {answer.status_code}")
                async for chunk in answer.aiter_bytes():
                    size += len(chunk)
                    if size > longest:
                        return None
                    kept += chunk
                    del kept[:-most]
        except httpx.HTTPError as error:
            raise GitHubUnavailableError(f"the log's address gave no answer ({type(error).__name__})") from None
        return bytes(kept)


def open_client(api_url: str) -> httpx.AsyncClient:
    """Returns a client to be shared by all transports to one API; the caller closes it."""
    limits = httpx.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
    return httpx.AsyncClient(
        base_url=api_url,
        verify=trusted(),
        limits=limits,
        timeout=TIMEOUT,
        follow_redirects=True,
        headers={"User-Agent": "ghapp", "Accept": "application/vnd.github+json"},
    )


def _answer_or_error(method: str, path: str, response: httpx.Response) -> GitHubResponse:
    """Returns an answer that callers interpret, or raises the error that it stands for."""
    wait = rate_limit_wait(response.status_code, response.headers, response.content, time.time())
    if wait is not None:
        raise RateLimitedError(f"{method} {path}: over GitHub's rate limit", after_seconds=wait)
    match response.status_code:
        case status if status < 400 or status in (404, 422):  # noqa: PLR2004
            return GitHubResponse(status, response.headers, response.content)
        case 401:
            raise UnauthorizedError(f"{method} {path}: GitHub does not accept our credentials")
        case 403:
            accepted = response.headers.get("x-accepted-github-permissions", "")
            # a 403 of a proxy or an IP allow list names none
            needs = f"; needs {accepted_text(accepted)}" if accepted else ""
            explanation = _message_of(response.content)
            raise PermissionMissingError(
                f"{method} {path}: not permitted (403){needs}",
                accepted=accepted,
                explanation=explanation,
                needs_single_sign_on=response.headers.get("x-github-sso", "").startswith("required"),
            )
        case 410:
            raise DeletedError(f"{method} {path}: GitHub answered 410")
        case status if status >= 500:  # noqa: PLR2004
            raise GitHubUnavailableError(f"{method} {path}: GitHub answered {status}")
        case status:
            raise GitHubError(f"{method} {path}: GitHub answered {status}")


def _message_of(body: bytes) -> str:
    """Returns the `message` of an error's body; empty if there is none."""
    try:
        return (decode(_message, body).message or "")[:LONGEST_MESSAGE]
    except msgspec.MsgspecError:
        return ""
