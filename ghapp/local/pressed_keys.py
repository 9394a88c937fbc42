"""Reads single keys from the terminal without waiting for Enter. Ctrl-C keeps its meaning."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ghapp.local.watchdog import KeyMode, attributes

MOST_BYTES = 64


class PressedKeys(Iterator[str]):
    """The keys that were pressed since they were last read, the oldest first."""

    def __init__(self) -> None:
        self._keys = deque[str]()

    def __next__(self) -> str:
        """Returns and forgets the oldest one."""
        if not self._keys:
            raise StopIteration
        return self._keys.popleft()

    def add(self, text: str) -> None:
        """Adds keys."""
        self._keys.extend(text)


@contextmanager
def pressed_keys(changed: Callable[[KeyMode | None], None]) -> Iterator[PressedKeys]:
    """Yields the keys while the block runs, in a running event loop; without a terminal in the foreground, none.

    `changed` is called with the mode of the terminal when it is set, and with None when it is restored.
    """
    keys = PressedKeys()
    descriptor = _terminal()
    if descriptor is None:
        yield keys
        return
    loop, before = asyncio.get_running_loop(), attributes(descriptor)

    def read() -> None:
        try:
            found = os.read(descriptor, MOST_BYTES)
        except OSError:  # the terminal was closed
            found = b""
        if not found:
            loop.remove_reader(descriptor)
        keys.add(found.decode("ascii", "ignore"))

    tty.setcbreak(descriptor, termios.TCSANOW)
    changed(KeyMode(os.ttyname(descriptor), before, attributes(descriptor)))
    loop.add_reader(descriptor, read)
    try:
        yield keys
    finally:
        loop.remove_reader(descriptor)
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
            changed(None)


def _terminal() -> int | None:
    """Returns stdin if it is a terminal and this process is in its foreground: else reading stops the process."""
    try:
        descriptor = sys.stdin.fileno()
        is_ours = os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # no stdin, or no controlling terminal
        return None
    return descriptor if is_ours else None
