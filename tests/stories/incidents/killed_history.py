"""`killed_history.py METHOD WHEN WORK INSTALLATION SECONDS` works in this process, and is killed (kill -9) at a method.

METHOD is a class of a store and its method, such as `Demand.record`; WHEN is before or after its first call; WORK is
`sweep` or `drain`. SECONDS is how far the story's clock is ahead. Locks are short: the killed process gives none back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any

from ghapp.deliveries.store import Inbox
from ghapp.incidents.store import HistoryStore, SettledSweeps
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.schedule import Schedule
from ghapp.timings import Timings
from ghapp.workflow_jobs.store import Demand
from jobs.context import open_context
from jobs.deliveries.inbox import drain_inbox
from jobs.runners import sweep

STORES = {each.__name__: each for each in (Demand, HistoryStore, Inbox, Runners, Schedule, SettledSweeps)}


def die_at(method: str, when: str) -> None:
    """This process is killed there."""
    store, name = method.split(".")
    original = getattr(STORES[store], name)

    async def dying(self: Any, *args: Any) -> Any:
        if when == "after":
            await original(self, *args)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(STORES[store], name, dying)


async def main(work: str, installation: int, ahead: float) -> None:
    async with open_context(
        replace(Settings.read(os.environ), timings=Timings(lock_seconds=1.0)), lambda: time.time() + ahead
    ) as context:
        if work == "sweep":
            await sweep.sweep_installation(context, installation)
        else:
            await drain_inbox(context)


if __name__ == "__main__":
    die_at(sys.argv[1], sys.argv[2])
    asyncio.run(main(sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
