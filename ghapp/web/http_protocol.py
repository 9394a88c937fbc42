"""Uvicorn's HTTP protocol, which answers the two most frequent requests without a task.

For each request uvicorn makes an event and a task, calls its middleware, and checks each header of the answer. That
takes longer than an answer from memory. Uvicorn handles every request that is not answered here, as if this module did
not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from starlette.responses import Response
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ghapp.log import logger

log = logger(__name__)

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""

MOST_BODY_BYTES = HIGH_WATER_LIMIT
"""Longer bodies are the application's, which pauses the sender when it does not keep up."""

_MOST_DIGITS = len(str(MOST_BODY_BYTES))


class DirectAnswers(Protocol):
    """What an application answers by itself."""

    def document(self, target: bytes, headers: Headers) -> bytes | None:
        """Returns the JSON document that answers a GET; None if the application has to answer."""

    def takes(self, target: bytes) -> bool:
        """True if `post` answers POST requests of this target."""

    def post(self, headers: Mapping[bytes, bytes], body: bytes, answer: Callable[[Response], None]) -> None:
        """Answers a POST, once, now or later; raises no error."""


class _Answered:
    """Stands for uvicorn's state of a request that was answered."""

    message_event = asyncio.Event()
    response_complete = True


class _Post:
    """Stands for uvicorn's state of a POST that is answered here, and has what arrived of its body."""

    message_event = asyncio.Event()
    keep_alive, disconnected, response_complete = True, False, False

    def __init__(self, headers: Mapping[bytes, bytes]) -> None:
        self.headers = headers
        self.chunks: list[bytes] = []


class DirectProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        answers: what the application answers by itself.
        options: of uvicorn.
    """

    cycle: Any  # one of the two above, or uvicorn's own
    _default: tuple[list[tuple[bytes, bytes]], bytes] = [], b""

    def __init__(self, answers: DirectAnswers, **options: Any) -> None:
        super().__init__(**options)
        self._answers = answers

    def on_headers_complete(self) -> None:
        """Answers a GET, or prepares for the body of a POST, or hands the request to uvicorn."""
        method = self.parser.get_method() if self._is_next() else None
        if method == b"GET" and (body := self._document()) is not None:
            self._write(b"content-length: %d\r\ncontent-type: application/json\r\n\r\n%b" % (len(body), body))
            self.cycle = _Answered
            self.on_response_complete()
        elif method == b"POST" and self._answers.takes(self.url) and _has_short_body(headers := dict(self.headers)):
            self.cycle = _Post(headers)
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keeps a part of the body of a POST that is answered here."""
        if type(self.cycle) is _Post:
            self.cycle.chunks.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Answers a POST."""
        post = self.cycle
        if type(post) is _Post:
            self._answers.post(post.headers, b"".join(post.chunks), partial(self._answer, post))
        else:
            super().on_message_complete()

    def _is_next(self) -> bool:
        """True for a plain request on a connection that stays open, if all requests before it were answered."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )

    def _document(self) -> bytes | None:
        try:
            return self._answers.document(self.url, self.headers)
        except Exception:
            log.exception("answer from memory failed")
            return None

    def _answer(self, post: _Post, response: Response) -> None:
        if post.response_complete or self.transport.is_closing():
            return
        post.response_complete = True
        headers = response.raw_headers if post.keep_alive else [*response.raw_headers, (b"connection", b"close")]
        fields = [b"%b: %b\r\n" % header for header in headers]
        self._write(b"".join([*fields, b"\r\n", response.body]), response.status_code)
        if not post.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _write(self, rest: bytes, status: int = 200) -> None:
        headers = self.server_state.default_headers  # uvicorn replaces the list each second, for the date
        if headers is not DirectProtocol._default[0]:
            DirectProtocol._default = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
        self.transport.write(b"".join([STATUS_LINE[status], DirectProtocol._default[1], rest]))


def _has_short_body(headers: Mapping[bytes, bytes]) -> bool:
    length = headers.get(b"content-length", b"")
    return length.isdigit() and len(length) <= _MOST_DIGITS and int(length) <= MOST_BODY_BYTES
