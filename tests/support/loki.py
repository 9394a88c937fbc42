"""A stand-in for Loki on a real port."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def answer(kind, result, status="success"):
    return json.dumps({"status": status, "data": {"resultType": kind, "result": result, "stats": {}}}).encode()


@dataclass
class Loki:
    """Gives every query the same answer until another is set; records the queries."""

    status: int = 200
    body: bytes = b""
    drip_seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str], str]] = field(default_factory=list)

    def holds(self, *streams: tuple[dict[str, str], list[list[object]]]) -> None:
        self.body = answer("streams", [{"stream": labels, "values": values} for labels, values in streams])

    def line(self, at: float, text: str) -> list[object]:
        """A line of that time (epoch seconds)."""
        return [str(int(at * 1_000_000_000)), text]

    def __enter__(self):
        found = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                params = {name: values[0] for name, values in parse_qs(parts.query).items()}
                found.asked.append((parts.path, params, self.headers.get("authorization", "")))
                self.send_response(found.status)
                for name, value in found.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    while found.drip_seconds:
                        self.wfile.write(b" ")
                        self.wfile.flush()
                        time.sleep(found.drip_seconds)
                    self.wfile.write(found.body)
                except OSError:
                    pass  # the client has had enough

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __exit__(self, *_: object) -> None:
        self.drip_seconds = 0.0
        self._server.shutdown()
        self._server.server_close()
