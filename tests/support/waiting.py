"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WITHIN_SECONDS = 60

COMMAND_PAUSE = 2.0
"""Seconds between two runs of a command: each starts an interpreter, and the processes that it looks at need the CPU."""


def wait_for(condition: Callable[[], Any], seconds: float = WITHIN_SECONDS, pause: float = 0.2) -> Any:
    """Returns the first true result of `condition`; None if there is none within `seconds`."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := condition():
            return found
        time.sleep(pause)
    return None
