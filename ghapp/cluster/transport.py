"""One request to the API server on lightkube's client, and what went wrong, in our own words.

Every request has an end: a total time beside the client's time-outs for each phase, which an answer that drips would
never reach.
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

from ghapp.cluster.api_errors import error_of, one_line, says_absent
from ghapp.cluster.request import ClusterRequest
from ghapp.errors import ClusterUnavailableError, ConfigurationError

TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
"""Per phase."""

CALL_SECONDS = 30.0
"""For a whole call: a page of 500 pods is some megabytes."""

HEAD_SECONDS = 10.0
"""Until a watch begins to answer: the API server says at once that it listens, and then may be silent for long."""

LONGEST_LINE = 16 * 1024 * 1024
"""Of a watch, in bytes. An object of etcd's is at most 1.5 MB."""

OK = 200

_FOREIGN = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConfigError, OSError, ValueError, LookupError)
"""What the client raises, and lightkube's credentials with it: a command that fails, or prints something else."""


class ClusterResponse(NamedTuple):
    """What the API server said. `at`: when, by its own clock, in epoch seconds; None where it does not tell."""

    body: bytes
    at: float | None


class ClusterTransport:
    """The API server, as one client sees it. The client is closed by whoever made it."""

    def __init__(self, client: httpx2.AsyncClient, call_seconds: float = CALL_SECONDS) -> None:
        self._client, self._seconds = client, call_seconds

    async def send(
        self, call: ClusterRequest, *, json: Any = None, content_type: str = "application/json", **params: str | int
    ) -> bytes | None:
        """As `ask`, where the time of the answer is of no use: its body alone."""
        answer = await self.ask(call, json=json, content_type=content_type, **params)
        return None if answer is None else answer.body

    async def ask(
        self, call: ClusterRequest, *, json: Any = None, content_type: str = "application/json", **params: str | int
    ) -> ClusterResponse | None:
        """Send one request.

        Args:
            call: what is asked.
            json: a body.
            content_type: the body's.
            params: of the query.

        Returns:
            The answer; None when there is no such object, which only the API server itself can say.

        Raises:
            ClusterError: everything else; see `refusal.understood`.
        """
        if not call.can_exist:
            return None
        with _in_our_words(call):
            async with asyncio.timeout(self._seconds):
                response = await self._client.send(self._request(call, params, json=json, content_type=content_type))
        if response.is_success:
            return ClusterResponse(response.content, _told_at(response))
        if says_absent(call, response.status_code, response.content):
            return None
        raise error_of(call, response.status_code, response.content)

    async def lines(
        self, call: ClusterRequest, within_seconds: float, **params: str | int
    ) -> AsyncGenerator[bytes, None]:
        """Send one request, and yield the lines of its answer as they come; ends when the server ends it.

        Args:
            call: what is asked.
            within_seconds: after this long there is nobody at the other end any more.
            params: of the query.

        Raises:
            ClusterUnavailableError: the connection broke, or the last line was cut short.
            ClusterError: see `refusal.understood`.
        """
        ends = asyncio.get_running_loop().time() + within_seconds
        request = self._request(call, params)
        request.headers["Accept-Encoding"] = "identity"  # a compressor would hold events back
        request.extensions["timeout"] = {**TIMEOUT.as_dict(), "read": within_seconds}
        with _in_our_words(call):
            async with asyncio.timeout(min(HEAD_SECONDS, within_seconds)):
                response = await self._client.send(request, stream=True)
        try:
            if response.status_code != OK:
                with _in_our_words(call):
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
    """The bytes as they come. No time-out spans a `yield`: it would cut off whoever reads, wherever that is."""
    stream = response.aiter_bytes()
    while True:
        with _in_our_words(call):
            async with asyncio.timeout_at(ends):
                chunk = await anext(stream, None)
        if chunk is None:
            return
        yield chunk


async def _lines(call: ClusterRequest, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Whole lines alone. Split at the newline and nothing else: JSON may hold other characters that end lines."""
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
            raise ClusterUnavailableError(f"{call}: a line of more than {LONGEST_LINE} bytes is no event")
    if rest.strip():
        raise ClusterUnavailableError(f"{call}: the answer was cut short")


def _told_at(response: httpx2.Response) -> float | None:
    """The `Date` of an answer; whole seconds, and never later than the answer itself."""
    try:
        at = parsedate_to_datetime(response.headers["Date"])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None


@contextmanager
def _in_our_words(call: ClusterRequest) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ClusterUnavailableError(f"{call}: no answer in time") from None
    except ConfigError as error:
        raise ClusterUnavailableError(f"{call}: no credentials: {one_line(str(error))}") from None
    except _FOREIGN as error:
        raise ClusterUnavailableError(f"{call}: no answer ({type(error).__name__})") from None
