"""`killed_queue_report.py INSTALLATION SECONDS` posts "Runner queue", and is killed when the check run is created.

SECONDS is how far the story's clock is ahead. The lock is short: it is never released.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any

from ghapp.github.checks import Checks
from ghapp.settings import Settings
from ghapp.timings import Timings
from jobs.context import open_context
from jobs.reports import queue_report


async def main(installation: int, ahead: float) -> None:
    create = Checks.create

    async def create_and_die(self: Checks, *args: Any) -> None:
        await create(self, *args)
        os.kill(os.getpid(), signal.SIGKILL)

    Checks.create = create_and_die  # type: ignore[method-assign,assignment]
    async with open_context(
        replace(Settings.read(os.environ), timings=Timings(lock_seconds=1.0)), lambda: time.time() + ahead
    ) as context:
        await queue_report.report_queue_of(context, installation)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
