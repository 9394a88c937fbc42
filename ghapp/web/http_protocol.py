"""Uvicorn's HTTP protocol, which answers the most frequent request as soon as its headers are read.

For each request uvicorn makes an event and a task, calls its middleware, and checks each header of the answer. That
takes longer than an answer from memory. Uvicorn handles every request that is not answered here, as if this module did
not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""

FromMemory = Callable[[bytes, Headers], bytes | None]
"""Returns the JSON document that answers a GET of this target with these headers; None if the application answers."""


class _Answered:
    """Stands for uvicorn's state of a request that was answered completely."""

    response_complete = True
    message_event = asyncio.Event()


class DirectProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        from_memory: answers GET requests at once, if it can.
        options: of uvicorn.
    """

    def __init__(self, from_memory: FromMemory, **options: Any) -> None:
        super().__init__(**options)
        self._from_memory = from_memory

    def on_headers_complete(self) -> None:
        """Answers the request, or hands it to uvicorn."""
        body = self._from_memory(self.url, self.headers) if self._may_answer() else None
        if body is None:
            super().on_headers_complete()
            return
        default = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        head = b"%b%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n"
        self.transport.write(head % (STATUS_LINE[200], default, len(body)) + body)
        self.cycle: Any = _Answered
        self.on_response_complete()

    def _may_answer(self) -> bool:
        """True for a plain GET on a connection that stays open, if all requests before it were answered."""
        return (
            self.parser.get_method() == b"GET"
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self.parser.should_upgrade()
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )
