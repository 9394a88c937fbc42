"""A webhook receiver on a real port."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

PATIENCE_SECONDS = 5


@dataclass(frozen=True)
class Received:
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> str:
        return self.headers["x-github-event"]

    @property
    def payload(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Receiver:
    """Keeps what comes, and answers `status`: while `accepts` is set."""

    status: int = 202
    accepts: threading.Event = field(default_factory=threading.Event)
    received: list[Received] = field(default_factory=list)
    _answered: int = 0
    _answered_one: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Self:
        receiver = self
        self.accepts.set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.accepts.wait()
                receiver.received.append(Received(headers, body))  # before the sender can take it for delivered
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()
                with receiver._answered_one:
                    receiver._answered += 1
                    receiver._answered_one.notify_all()

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128  # with the default of 5, some of a burst's connections fail

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, count: int) -> list[Received]:
        """The deliveries, once so many are answered: the sender's log is not far behind then."""
        with self._answered_one:
            assert self._answered_one.wait_for(lambda: self._answered >= count, PATIENCE_SECONDS), self.received
            return list(self.received)
