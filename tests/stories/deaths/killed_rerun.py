"""`killed_rerun.py INSTALLATION DEATH SECONDS` requests a re-run, and is killed when GitHub has accepted it.

SECONDS is how far the story's clock is ahead. The lock is short, because its holder is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace

from ghapp.github.jobs import Jobs
from ghapp.settings import Settings
from ghapp.timings import Timings
from jobs.context import open_context
from jobs.deaths import rerun


async def main(installation: int, death: str, ahead: float) -> None:
    request = Jobs.rerun

    async def request_and_die(self: Jobs, job_id: int) -> None:
        await request(self, job_id)
        os.kill(os.getpid(), signal.SIGKILL)

    Jobs.rerun = request_and_die  # type: ignore[method-assign]
    async with open_context(
        replace(Settings.read(os.environ), timings=Timings(lock_seconds=1.0)), lambda: time.time() + ahead
    ) as context:
        await rerun.rerun_job_of(context, installation, death, "mona")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
