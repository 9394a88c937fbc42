"""Messages of mistakes without the lines of the file, which `test_lines.py` has."""

from __future__ import annotations

import re


def without_line(message: str) -> str:
    """The message without the number of its line."""
    return re.sub(r": line \d+: ", ": ", message, count=1)
