"""Below HTTP: connections that a request can break."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_BREAK_KEY = "sandbox.break_connection"
#: SO_LINGER on, for zero seconds: the peer sees a reset and no orderly end.
_NO_LINGER = struct.pack("ii", 1, 0)


class BreakableProtocol(HttpToolsProtocol):
    """HTTP whose requests can break their own connection."""

    def on_headers_complete(self) -> None:
        """Gives the request a function that breaks its connection."""
        self.scope.setdefault("extensions", {})[_BREAK_KEY] = {"act": self._break}
        super().on_headers_complete()

    def _break(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


def break_connection(scope: Scope) -> None:
    """Resets the connection of a request."""
    act: Callable[[], None] = scope["extensions"][_BREAK_KEY]["act"]
    act()
