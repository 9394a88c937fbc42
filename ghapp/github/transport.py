"""One request to GitHub through githubkit, and what went wrong, in our own words.

githubkit's own retries, cache and per-call clients are off: the judgement wants each answer as it was given, and
one shared client saves 17 ms a call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import githubkit
import httpx
from githubkit.auth import BaseAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import RateLimitExceeded, RequestError, RequestFailed, RequestTimeout

from ghapp.errors import (
    GitHubError,
    GitHubUnavailableError,
    NotFoundError,
    PermissionMissingError,
    RateLimitedError,
    UnauthorizedError,
)
from ghapp.tls import trusted

TIMEOUT = httpx.Timeout(10.0, connect=5.0)
"""Per phase; a sweep's page that takes longer is no answer."""

IN_FLIGHT = 100
"""GitHub's own ceiling; the keep-alive count must match it, or every call beyond twenty reconnects."""

API_VERSION = "2022-11-28"
FORBIDDEN = 403
PER_PAGE = 100
NOT_FOUND = 404
TOO_MANY = 429
UNSAID_SECONDS = 60.0
UNPROCESSABLE = 422


class GitHubResponse(NamedTuple):
    """An answer that GitHub gave: 2xx, 304, 404 or 422. `headers` in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class GitHubTransport(githubkit.GitHub[Any]):
    """githubkit with one shared client, no retries and no cache."""

    def __init__(self, auth: BaseAuthStrategy, api_url: str, client: httpx.AsyncClient) -> None:
        """`client` is shared and closed by whoever made it; see `open_client`."""
        super().__init__(
            auth,
            base_url=api_url,
            user_agent="ghapp",
            timeout=TIMEOUT,
            http_cache=False,
            auto_retry=False,
            cache_strategy=MemCacheStrategy(),
        )
        self._client = client

    @asynccontextmanager
    async def get_async_client(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        """The shared client, whichever task asks."""
        yield self._client

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, json: Any = None, **params: str | int
    ) -> GitHubResponse:
        """Send one request.

        Args:
            method: in capitals.
            path: below the API's base, beginning with a slash.
            headers: besides githubkit's own.
            json: a body.
            params: of the query.

        Raises:
            UnauthorizedError: 401.
            PermissionMissingError: 403.
            RateLimitedError: 403 or 429 over a limit; `after_seconds` is how long to stay away.
            GitHubUnavailableError: 5xx, a time-out, no or half an answer.
        """
        request = self._client.build_request(
            method,
            self.config.base_url.join(path.lstrip("/")),
            params=params or None,
            json=json,
            headers={"X-GitHub-Api-Version": API_VERSION, **(headers or {})},
        )
        try:
            answer = await self._client.send(request, auth=self.auth.get_auth_flow(self))
            self._check(answer)
        except RateLimitExceeded as error:
            wait = error.retry_after.total_seconds()
            raise RateLimitedError(f"{method} {path}: over GitHub's rate limit", after_seconds=wait) from None
        except RequestFailed as error:
            return _understand(method, path, error.response.raw_response)
        except (RequestTimeout, RequestError, httpx.HTTPError) as error:
            raise GitHubUnavailableError(f"{method} {path}: no answer ({type(error).__name__})") from None
        return _answer(answer)


def open_client(api_url: str) -> httpx.AsyncClient:
    """A client to be shared by all transports to one API; close it when all work is done."""
    limits = httpx.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
    return httpx.AsyncClient(
        base_url=api_url,
        verify=trusted(),
        limits=limits,
        timeout=TIMEOUT,
        follow_redirects=True,
        headers={"User-Agent": "ghapp", "Accept": "application/vnd.github+json"},
    )


def _answer(response: httpx.Response) -> GitHubResponse:
    return GitHubResponse(response.status_code, response.headers, response.content)


def _understand(method: str, path: str, response: httpx.Response) -> GitHubResponse:
    """An answer that may mean something, or the error that it is."""
    match response.status_code:
        case 404 | 422:
            return _answer(response)
        case 401:
            raise UnauthorizedError(f"{method} {path}: GitHub does not accept our credentials")
        case status if status == TOO_MANY or (status == FORBIDDEN and b"rate limit" in response.content):
            # Over a secondary limit GitHub need not say for how long: at least a minute, by its documentation.
            raise RateLimitedError(f"{method} {path}: over GitHub's rate limit", after_seconds=UNSAID_SECONDS)
        case 403:
            accepted = response.headers.get("x-accepted-github-permissions", "")
            needs = f"; needs {accepted}" if accepted else ""  # a proxy, or an IP allow list, names none
            raise PermissionMissingError(f"{method} {path}: not permitted (403){needs}", accepted=accepted)
        case status if status >= 500:  # noqa: PLR2004
            raise GitHubUnavailableError(f"{method} {path}: GitHub answered {status}")
        case status:
            raise GitHubError(f"{method} {path}: GitHub answered {status}")


def expect(answer: GitHubResponse, path: str) -> bytes:
    """The body of an answer that is neither 404 nor 422.

    Raises:
        NotFoundError: 404.
        GitHubError: 422.
    """
    if answer.status == NOT_FOUND:
        raise NotFoundError(f"{path}: GitHub answered 404")
    if answer.status == UNPROCESSABLE:
        raise GitHubError(f"{path}: GitHub answered {answer.status}")
    return answer.body
