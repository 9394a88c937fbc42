"""`killed_worker.py WORK STEP` is an impatient `ghapp worker` that is killed at a step of a job of that kind.

Steps are those of RQ's worker: each is a method of it, and whether the kill comes before or after. What dies is the
worker and its work-horse together, as in an out-of-memory kill of the pod.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

STEPS = {
    "popped": ("reorder_queues", "before"),
    "before it is registered": ("execute_job", "before"),
    "registered": ("fork_work_horse", "before"),
    "forked": ("monitor_work_horse", "before"),
    "before it starts": ("perform_job", "before"),
    "started": ("prepare_job_execution", "after"),
    "over": ("handle_execution_ended", "before"),
    "before its end is recorded": ("handle_job_success", "before"),
    "its end recorded": ("handle_job_success", "after"),
    "before its failure is recorded": ("handle_job_failure", "before"),
    "its failure recorded": ("handle_job_failure", "after"),
}


def kill(worker: Any) -> None:
    """kill -9 of the worker and of its horse, whichever of them this is; neither sees the other die."""
    other = os.getppid() if worker.is_horse else worker.horse_pid
    if other:
        os.kill(other, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


async def fail(*_arguments: int) -> None:
    """Instead of a sweep."""
    raise ZeroDivisionError


def die_at(step: str, work: str) -> None:
    """Have this process' worker die there."""
    from ghapp.queue import worker as module

    name, when = STEPS[step]
    method: Callable[..., Any] = getattr(module.FastRecoveryWorker, name)

    def dying(self: Any, *args: Any, **options: Any) -> Any:
        job = options.get("job", args[0] if args else None)
        is_ours = name == "reorder_queues" or getattr(job, "func_name", "") == work
        if is_ours and when == "before":
            kill(self)
        answer = method(self, *args, **options)
        if is_ours:
            kill(self)
        return answer

    setattr(module.FastRecoveryWorker, name, dying)


if __name__ == "__main__":
    import fast_timings  # beside this file, which is run as a script

    import jobs.worker

    if "failure" in sys.argv[2]:
        jobs.worker.FUNCTIONS[sys.argv[1]] = fail
    die_at(sys.argv[2], sys.argv[1])
    fast_timings.run("worker")
