"""`killed_incident.py INSTALLATION SECONDS WHEN` plans once, and is killed at one line of recording an incident.

SECONDS is how far the story's clock is ahead. WHEN is `before` the incident is written, or `after` that, before the
runners are marked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace

from ghapp.incidents.store import Incidents
from ghapp.settings import Settings
from ghapp.timings import Timings
from jobs.context import open_context
from jobs.remediation import plan_remediation


async def main(installation_id: int, ahead: float, when: str) -> None:
    revise = Incidents.revise

    async def die(self: Incidents, *args: object) -> None:
        if when == "after":
            await revise(self, *args)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    Incidents.revise = die  # type: ignore[assignment]
    async with open_context(
        replace(Settings.read(os.environ), timings=Timings(lock_seconds=1.0)), lambda: time.time() + ahead
    ) as context:
        installation = await context.installations.one(installation_id)
        assert installation is not None
        await plan_remediation.plan_remediation(context, installation)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
