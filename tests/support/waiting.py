"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WITHIN_SECONDS = 60

COMMAND_PAUSE = 2.0
"""Seconds between two runs of a command: each starts an interpreter, and the processes that it looks at need the CPU."""


def wait_for(condition: Callable[[], Any], seconds: float = WITHIN_SECONDS, pause: float = 0.1) -> Any:
    """Returns the first true result of `condition`; its last one if none is true within `seconds`."""
    ends = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < ends:
        time.sleep(pause)
    return result


def has_ended(pid: int | str) -> bool:
    """Whether no process runs under this id: a zombie has ended. SIGKILL returns before its process has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
