"""Checks that the web role's port is free before anything is started."""

from __future__ import annotations

import socket

from ghapp.errors import ConfigurationError


def require_free(host: str, port: int) -> None:
    """Checks that a server can listen at this address.

    Raises:
        ConfigurationError: the port is taken, or the address is not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"GHAPP_LISTEN: cannot listen at {host}:{port}: {error.strerror}; "
                "choose another with GHAPP_LISTEN, or with --port of `ghapp up`"
            ) from None
