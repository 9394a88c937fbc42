"""Ports for servers that another process starts later."""

from __future__ import annotations

import random
import socket

PORTS = range(10240, 32768)
"""Below those that the kernel chooses by itself, by default from 32768 on: it may give one to any other process."""

_reserved: list[socket.socket] = []


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 that no other test gets, of this or of another suite, while this process runs.

    A reservation is the name of an abstract Unix socket, which the kernel frees when the process ends.
    """
    for port in random.sample(PORTS, len(PORTS)):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0ghapp-test-port-{port}")
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
        else:
            _reserved.append(reservation)
            return port
    raise OSError("no free port")
