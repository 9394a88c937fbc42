"""May we listen there: asked before anything is started that would only fail at it."""

from __future__ import annotations

import socket

from ghapp.errors import ConfigurationError


def require_free(host: str, port: int) -> None:
    """Say at once, and in one line, that nothing can be served at this address.

    Raises:
        ConfigurationError: it is taken, or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"GHAPP_LISTEN: cannot listen at {host}:{port}: {error.strerror}; "
                "choose another, by GHAPP_LISTEN or `ghapp up --port 8001`"
            ) from None
