"""What surrounded a death, from a store that answers as Loki does.

Asked for with `GET {GHAPP_LOKI_URL}/loki/api/v1/query_range`. Two sources, as `manifests/observability` has Alloy
ship them; other labels may be there, these must:

| source | selector | what a line is |
| --- | --- | --- |
| a runner's container | `{namespace="NS", pod="POD"}` | what it wrote, with its `_diag` mirrored to stdout |
| a node's journal | `{job="integrations/kubernetes/journal", instance="NODE"}` | a message; label `unit`: whose |

Where no journal bears those labels, `{job="systemd-journal", node="NODE"}` is asked for, as earlier values had it.
`NS` and `POD` are the pod's own, `NODE` is its `spec.nodeName`. Nothing narrows the journal down further: kubelet,
containerd and the kernel say why a machine went, and so does what bears no unit at all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import attrgetter

import httpx
import msgspec

from ghapp.errors import LogStoreUnavailableError
from ghapp.loki.wire import BILLION, LONGEST_LINE, LogLine, read, told, within
from ghapp.tls import trusted

__all__ = [
    "JOURNAL_SELECTORS",
    "LONGEST_LINE",
    "MOST_BYTES",
    "MOST_LINES",
    "LogStore",
    "LogStoreAwayError",
    "quoted",
    "runners_selector",
]

PATH = "/loki/api/v1/query_range"
AROUND_SECONDS = 60.0
"""Looked at before an end, and after it."""

TIMEOUT_SECONDS = 5.0
"""For a whole answer, however slowly it drips."""

MOST_BYTES = 4 * 1024 * 1024
MOST_LINES = 200
"""Of each source."""

MOST_CHARACTERS = 32_000
"""Of a journal: as many as are kept of it."""

JOURNALS = (("integrations/kubernetes/journal", "instance"), ("systemd-journal", "node"))
"""The job of a journal, and the label that has the node: of Grafana's chart and ours, and of an older one of ours."""


def runners_selector(namespace: str) -> str:
    """All runners of a namespace, as LogQL selects them."""
    return f'{{namespace={quoted(namespace)}, pod=~".+"}}'


JOURNAL_SELECTORS = tuple(f'{{job="{job}", {label}=~".+"}}' for job, label in JOURNALS)
"""All journals, as LogQL selects them; any of these will do."""


class LogStoreAwayError(LogStoreUnavailableError):
    """It gave no answer at all: asking it something else would take as long."""


class LogStore:
    """A log store, open for some questions. Each may raise `LogStoreUnavailableError`."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        """`url` is the store's base; a user and a password in it are sent as basic auth, and shown nowhere."""
        self._url, self._client = httpx.URL(url.rstrip("/") + PATH), client
        self._name = self._url.netloc.decode("ascii", "replace")

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[LogStore]:
        """Open the connection, and close it at the end."""
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=trusted()) as client:
            yield cls(url, client)

    async def runner_lines(self, namespace: str, pod: str, ended_at: float) -> tuple[str, ...]:
        """What a runner wrote last, oldest first: from a minute before its end (epoch seconds) to a minute after."""
        if not namespace or not pod:
            return ()  # an empty label would match everybody who lacks it
        asked = f"{{namespace={quoted(namespace)}, pod={quoted(pod)}}}"
        start, end = _window(ended_at)
        lines = await self._lines(asked, start, end, "backward", MOST_LINES)
        return tuple(line.text for line in lines)

    async def host_lines(self, node: str, ended_at: float) -> tuple[str, ...]:
        """What a node's journal says around an end, oldest first, each line with its time and its unit.

        Half of them are those just before it and half those just after, so that a node that talks much is not heard
        out of the wrong moment.
        """
        if not node:
            return ()
        (start, end), middle = _window(ended_at), int(ended_at * BILLION)
        before, after = list[LogLine](), list[LogLine]()
        for job, label in JOURNALS:
            asked = f"{{job={quoted(job)}, {label}={quoted(node)}}}"
            before = await self._lines(asked, start, middle, "backward", MOST_LINES // 2)
            after = await self._lines(asked, middle, end, "forward", MOST_LINES // 2)
            if before or after:
                break
        nearest_first = within((told(line) for line in reversed(before)), MOST_CHARACTERS // 2)
        return (*reversed(nearest_first), *within(map(told, after), MOST_CHARACTERS // 2))

    async def holds(self, selector: str, start: float, end: float) -> bool:
        """Whether the store has any line of these labels (LogQL) from `start` to before `end` (epoch seconds)."""
        return bool(await self._lines(selector, int(start * BILLION), int(end * BILLION), "backward", 1))

    async def _lines(self, asked: str, start: int, end: int, direction: str, most: int) -> list[LogLine]:
        """Lines from `start` to before `end` (nanoseconds), in order of time; `direction` says from which side."""
        params = {"query": asked, "start": str(start), "end": str(end), "limit": str(most), "direction": direction}
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                body = await self._body(params)
            lines = read(body)
        except TimeoutError:
            raise LogStoreAwayError(self._said(f"did not answer within {TIMEOUT_SECONDS:g} s")) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise LogStoreAwayError(self._said(f"did not answer ({type(error).__name__})")) from None
        except (msgspec.DecodeError, ValueError):
            raise self._unavailable("answered what is not a Loki's streams") from None
        # Whoever heeds neither times nor limit is cut to them.
        lines = sorted((line for line in lines if start <= line.at < end), key=attrgetter("at"))
        return lines[-most:] if direction == "backward" else lines[:most]

    async def _body(self, params: dict[str, str]) -> bytes:
        # Unpacked by nobody: a small answer must not become a large one.
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

    def _unavailable(self, what: str) -> LogStoreUnavailableError:
        return LogStoreUnavailableError(self._said(what))

    def _said(self, what: str) -> str:
        return f"the log store at {self._name} {what}; check GHAPP_LOKI_URL"


def quoted(value: str) -> str:
    """A string as LogQL writes it, whatever is in it: a pod's name is a stranger's word.

    LogQL's strings are Go's, whose escapes JSON's are a part of, but for halves of surrogate pairs.
    """
    return json.dumps(value, ensure_ascii=False)


def _window(ended_at: float) -> tuple[int, int]:
    """Loki's ranges exclude their end."""
    return int((ended_at - AROUND_SECONDS) * BILLION), int((ended_at + AROUND_SECONDS) * BILLION) + 1
