"""A terminal in which a program runs."""

from __future__ import annotations

import os
import pty
import re
import threading

OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)
"""A script that runs its arguments with stdin as their controlling terminal; it needs a session of its own."""


class Terminal:
    """What a program shows on a wide terminal: `text`."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:
                return
            self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", chunk.decode(errors="replace"))
