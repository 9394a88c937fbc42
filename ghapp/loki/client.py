"""Reads the log lines around a death from a store with Loki's API.

Requests are `GET {GHAPP_LOKI_URL}/loki/api/v1/query_range`. There are two sources, shipped by Alloy as in
`manifests/observability`. Streams may have more labels, but need these:

| source | selector | a line is |
| --- | --- | --- |
| a runner's container | `{namespace="NS", pod="POD"}` | a line of its output, with its `_diag` on stdout |
| a node's journal | `{job="integrations/kubernetes/journal", instance="NODE"}` | a message, its unit in label `unit` |

If no journal has those labels, `{job="systemd-journal", node="NODE"}` is queried, the labels of our earlier values.
`NS` and `POD` are those of the pod, `NODE` is its `spec.nodeName`. The journal is not filtered by unit: kubelet,
containerd and the kernel explain why a machine went away, and so do messages without a unit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import attrgetter

import httpx
import msgspec

from ghapp.decoding import LeftOutRows
from ghapp.errors import LogStoreUnavailableError
from ghapp.loki.wire import BILLION, LONGEST_LINE, LogLine, formatted, read, within
from ghapp.tls import trusted

__all__ = [
    "JOURNAL_SELECTORS",
    "LONGEST_LINE",
    "MOST_BYTES",
    "MOST_LINES",
    "LogStore",
    "LogStoreUnreachableError",
    "quoted",
    "runners_selector",
]

PATH = "/loki/api/v1/query_range"
AROUND_SECONDS = 60.0
"""Length of the time range before a death, and of the one after it."""

TIMEOUT_SECONDS = 5.0
"""For a whole answer, including a slow body."""

MOST_BYTES = 4 * 1024 * 1024
MOST_LINES = 200
"""Of each source."""

MOST_CHARACTERS = 32_000
"""Of a journal: as many as a record keeps."""

JOURNALS = (("integrations/kubernetes/journal", "instance"), ("systemd-journal", "node"))
"""The `job` of a journal, and its label with the node: of Grafana's chart and ours, then of an older chart of ours."""


def runners_selector(namespace: str) -> str:
    """Returns the LogQL selector of all runners of a namespace."""
    return f'{{namespace={quoted(namespace)}, pod=~".+"}}'


JOURNAL_SELECTORS = tuple(f'{{job="{job}", {label}=~".+"}}' for job, label in JOURNALS)
"""LogQL selectors of all journals; logs that match any of them are sufficient."""


class LogStoreUnreachableError(LogStoreUnavailableError):
    """The store gave no answer at all; another request would take as long."""


class LogStore:
    """A log store with an open connection. Each request may raise `LogStoreUnavailableError`."""

    def __init__(self, url: str, client: httpx.AsyncClient, left_out: LeftOutRows) -> None:
        """Creates a log store.

        Args:
            url: the store's base URL; a user and a password in it are sent as basic auth, and never shown.
            client: the client.
            left_out: gets what is odd in the answers.
        """
        self._left_out = left_out
        self._url, self._client = httpx.URL(url.rstrip("/") + PATH), client
        self._name = self._url.netloc.decode("ascii", "replace")

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, left_out: LeftOutRows | None = None) -> AsyncIterator[LogStore]:
        """Opens the connection, and closes it at the end. `left_out` gets what is odd in the answers."""
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=trusted()) as client:
            yield cls(url, client, LeftOutRows() if left_out is None else left_out)

    async def runner_lines(self, namespace: str, pod: str, ended_at: float) -> tuple[str, ...]:
        """Returns a runner's last lines, oldest first, from a minute before its death to a minute after.

        Args:
            namespace: of the pod.
            pod: its name.
            ended_at: time of the death, epoch seconds.
        """
        if not namespace or not pod:
            return ()  # an empty label would match every stream without that label
        selector = f"{{namespace={quoted(namespace)}, pod={quoted(pod)}}}"
        start, end = _window(ended_at)
        lines = await self._lines(selector, start, end, "backward", MOST_LINES)
        return tuple(line.text for line in lines)

    async def host_lines(self, node: str, ended_at: float) -> tuple[str, ...]:
        """Returns a node's journal around a death, oldest first, each line with its time and its unit.

        Half of the lines are the last before the death and half the first after it, so that a node that logs much
        does not fill the limit with lines far from the death.
        """
        if not node:
            return ()
        (start, end), middle = _window(ended_at), int(ended_at * BILLION)
        before, after = list[LogLine](), list[LogLine]()
        for job, label in JOURNALS:
            selector = f"{{job={quoted(job)}, {label}={quoted(node)}}}"
            before = await self._lines(selector, start, middle, "backward", MOST_LINES // 2)
            after = await self._lines(selector, middle, end, "forward", MOST_LINES // 2)
            if before or after:
                break
        nearest_first = within((formatted(line) for line in reversed(before)), MOST_CHARACTERS // 2)
        return (*reversed(nearest_first), *within(map(formatted, after), MOST_CHARACTERS // 2))

    async def has_lines(self, selector: str, start: float, end: float) -> bool:
        """True if a line matches the LogQL selector from `start` to before `end` (epoch seconds)."""
        return bool(await self._lines(selector, int(start * BILLION), int(end * BILLION), "backward", 1))

    async def _lines(self, selector: str, start: int, end: int, direction: str, most: int) -> list[LogLine]:
        """Returns lines from `start` to before `end` (nanoseconds), by time; `direction` is the end to start from."""
        params = {"query": selector, "start": str(start), "end": str(end), "limit": str(most), "direction": direction}
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                body = await self._body(params)
            lines = read(body, self._left_out)
        except TimeoutError:
            raise LogStoreUnreachableError(self._message(f"did not answer within {TIMEOUT_SECONDS:g} s")) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise LogStoreUnreachableError(self._message(f"did not answer ({type(error).__name__})")) from None
        except (msgspec.DecodeError, ValueError):
            raise self._unavailable("sent an answer that is not Loki's list of streams") from None
        # Some stores ignore the time range or the limit.
        lines = sorted((line for line in lines if start <= line.at < end), key=attrgetter("at"))
        return lines[-most:] if direction == "backward" else lines[:most]

    async def _body(self, params: dict[str, str]) -> bytes:
        # Compression is refused, so that a small answer cannot expand into a large one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self._client.stream("GET", self._url, params=params, headers=headers) as answer:
            if answer.status_code != httpx.codes.OK:
                raise self._unavailable(f"answered {answer.status_code}")
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise self._unavailable(f"answered more than {MOST_BYTES:,} bytes")
            return bytes(body)

    def _unavailable(self, problem: str) -> LogStoreUnavailableError:
        return LogStoreUnavailableError(self._message(problem))

    def _message(self, problem: str) -> str:
        return f"the log store at {self._name} {problem}; check GHAPP_LOKI_URL"


def quoted(value: str) -> str:
    """Returns a LogQL string literal; the value is untrusted, for example the name of a pod.

    LogQL uses Go's string literals, which accept JSON's escapes except halves of surrogate pairs.
    """
    return json.dumps(value, ensure_ascii=False)


def _window(ended_at: float) -> tuple[int, int]:
    """Returns start and end in nanoseconds. Loki's ranges exclude their end."""
    return int((ended_at - AROUND_SECONDS) * BILLION), int((ended_at + AROUND_SECONDS) * BILLION) + 1
