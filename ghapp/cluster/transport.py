"""Sends single requests to the API server through lightkube's client, and translates errors to ours.

Every request has a total time limit in addition to the client's limit per phase, which a slow, dripping answer would
never exceed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx2
from lightkube import ConfigError

from ghapp.cluster.api_errors import LONGEST_SHOWN, error_of, proves_absence
from ghapp.cluster.request import ClusterRequest
from ghapp.errors import ClusterUnavailableError, ConfigurationError
from ghapp.timings import NORMAL, Timings
from ghapp.untrusted_text import one_line

TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
"""Per phase."""

LONGEST_LINE = 16 * 1024 * 1024
"""Of a line of a watch, in bytes. An object in etcd has at most 1.5 MB."""

OK = 200

_FOREIGN = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConfigError, OSError, ValueError, LookupError)
"""Errors of the client and of lightkube's credentials, for example of an exec command that fails."""


class ClusterResponse(NamedTuple):
    """An answer. `at`: its Date by the API server's clock, in epoch seconds; None without one."""

    body: bytes
    at: float | None


class ClusterTransport:
    """Requests through one client, which its creator closes."""

    def __init__(self, client: httpx2.AsyncClient, timings: Timings = NORMAL) -> None:
        self._client, self._seconds = client, timings.cluster_call_seconds
        self._head_seconds = timings.cluster_head_seconds

    async def send(
        self, call: ClusterRequest, *, json: Any = None, content_type: str = "application/json", **params: str | int
    ) -> bytes | None:
        """Sends one request as `request`, and returns only the body of the answer."""
        answer = await self.request(call, json=json, content_type=content_type, **params)
        return None if answer is None else answer.body

    async def request(
        self, call: ClusterRequest, *, json: Any = None, content_type: str = "application/json", **params: str | int
    ) -> ClusterResponse | None:
        """Sends one request.

        Args:
            call: the request.
            json: its body.
            content_type: of the body.
            params: of the query.

        Returns:
            The answer; None if the API server itself reports that the object does not exist.

        Raises:
            ClusterError: any other answer, or none; see `api_errors.error_of`.
        """
        if not call.can_exist:
            return None
        with _translated_errors(call):
            async with asyncio.timeout(self._seconds):
                response = await self._client.send(self._request(call, params, json=json, content_type=content_type))
        if response.is_success:
            return ClusterResponse(response.content, _date_of(response))
        if proves_absence(call, response.status_code, response.content):
            return None
        raise error_of(call, response.status_code, response.content)

    async def lines(
        self, call: ClusterRequest, within_seconds: float, **params: str | int
    ) -> AsyncGenerator[bytes, None]:
        """Sends one request, and yields the lines of its answer as they arrive, until the server ends it.

        Args:
            call: the request.
            within_seconds: total time limit, after which the connection counts as broken.
            params: of the query.

        Raises:
            ClusterUnavailableError: the connection broke, or the last line was cut short.
            ClusterError: see `api_errors.error_of`.
        """
        ends = asyncio.get_running_loop().time() + within_seconds
        request = self._request(call, params)
        request.headers["Accept-Encoding"] = "identity"  # compression would delay events
        request.extensions["timeout"] = {**TIMEOUT.as_dict(), "read": within_seconds}
        with _translated_errors(call):
            async with asyncio.timeout(min(self._head_seconds, within_seconds)):
                response = await self._client.send(request, stream=True)
        try:
            if response.status_code != OK:
                with _translated_errors(call):
                    async with asyncio.timeout(self._seconds):
                        body = await response.aread()
                raise error_of(call, response.status_code, body)
            async with aclosing(_chunks(call, response, ends)) as chunks, aclosing(_lines(call, chunks)) as lines:
                async for line in lines:
                    yield line
        finally:
            await response.aclose()

    def _request(
        self,
        call: ClusterRequest,
        params: dict[str, str | int],
        *,
        json: Any = None,
        content_type: str = "application/json",
    ) -> httpx2.Request:
        if call.namespace and not ClusterRequest("get", call.resource, name=call.namespace).can_exist:
            raise ConfigurationError(f"namespace: {call.namespace!r} is not valid; it takes a Kubernetes namespace")
        headers = {"Accept": "application/json", "User-Agent": "ghapp"}
        if json is None:
            return self._client.build_request(call.method, call.path, params=params, headers=headers)
        headers["Content-Type"] = content_type
        return self._client.build_request(call.method, call.path, params=params, headers=headers, json=json)


async def _chunks(call: ClusterRequest, response: httpx2.Response, ends: float) -> AsyncGenerator[bytes, None]:
    """Yields the bytes as they arrive. No time limit spans a `yield`, because it would cancel the consumer's code."""
    stream = response.aiter_bytes()
    while True:
        with _translated_errors(call):
            async with asyncio.timeout_at(ends):
                chunk = await anext(stream, None)
        if chunk is None:
            return
        yield chunk


async def _lines(call: ClusterRequest, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yields complete lines. Splits only at LF, because JSON may contain other line separators."""
    rest = bytearray()
    async for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for part in whole:
            line = bytes(rest) + part
            rest.clear()
            if line.strip():
                yield line
        rest += last
        if len(rest) > LONGEST_LINE:
            raise ClusterUnavailableError(f"{call}: a line has more than {LONGEST_LINE} bytes")
    if rest.strip():
        raise ClusterUnavailableError(f"{call}: the answer was cut short")


def _date_of(response: httpx2.Response) -> float | None:
    """Returns the `Date` of an answer, without fractions of seconds, so never later than the answer itself."""
    try:
        at = parsedate_to_datetime(response.headers["Date"])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


@contextmanager
def _translated_errors(call: ClusterRequest) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ClusterUnavailableError(f"{call}: no answer in time") from None
    except ConfigError as error:
        raise ClusterUnavailableError(f"{call}: no credentials: {one_line(str(error), LONGEST_SHOWN)}") from None
    except _FOREIGN as error:
        raise ClusterUnavailableError(f"{call}: no answer ({type(error).__name__})") from None
