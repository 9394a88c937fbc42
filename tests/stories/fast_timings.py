"""`fast_timings.py ROLE` runs `ghapp ROLE` with short time-outs for processes and servers that do not answer.

For stories that would spend most of their time waiting for that. What follows when a wait is over is what always
follows; that the real waits fit into each other, and into what is promised, `test_patience` shows.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace

from ghapp.settings import Settings
from ghapp.timings import Timings

FAST = Timings(
    lock_seconds=3.0,
    watch_retry_seconds=0.5,
    beat_seconds=1.0,
    worker_ttl_seconds=16,  # RQ looks up from its queues after this less 15
    worker_maintenance_seconds=1,
    job_monitoring_seconds=1,
    job_heartbeat_seconds=4,
    finish_seconds=2.0,
    cluster_call_seconds=4.0,
    cluster_head_seconds=2.0,
)


def run(role: str) -> None:
    """Runs a role with settings whose waits are short."""
    from ghapp import log

    settings = replace(Settings.read(os.environ), timings=FAST)
    log.configure(settings.log_format)
    match role:
        case "worker":
            from jobs.worker import run as work

            work(settings)
        case "clock":
            from jobs.scheduler import run_scheduler

            asyncio.run(run_scheduler(settings))
        case "watch":
            from jobs.pods.watch import watch

            asyncio.run(watch(settings))
        case _:  # nothing waits there
            from ghapp.cli.main import main

            main()


if __name__ == "__main__":
    run(sys.argv[1])
