"""How long processes wait for one another, and for servers that do not answer, before they go on without them.

One value for a process: its settings have it, and hand it to what waits. It is no configuration: these waits fit into
each other, and into what is promised (`tests/stories/roles/test_patience.py`). Stories that would spend their time
waiting run their roles with a shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """The waits, in seconds.

    Attributes:
        lock_seconds: how long a lock outlives its crashed holder. Shorter than the time to detect that a worker and its
            job both crashed.
        watch_retry_seconds: between two attempts of a watch to get its lock.
        beat_seconds: between two heartbeats of the clock and the watch.
        worker_ttl_seconds: how long RQ keeps a worker's record. It looks up from its queues after this less 15.
        worker_maintenance_seconds: between two looks for jobs of crashed workers.
        job_monitoring_seconds: between two heartbeats of a running job.
        job_heartbeat_seconds: without a heartbeat for so long, a running job counts as abandoned.
        finish_seconds: how long a worker that is asked to end waits for its job. Orchestrators send SIGKILL ten seconds
            after SIGTERM, or later.
        cluster_call_seconds: for a request to the API server; a page of 500 pods has some megabytes.
        cluster_head_seconds: until the head of a watch's answer: the API server sends it at once, and may then be
            silent for long.
    """

    lock_seconds: float = 10.0
    watch_retry_seconds: float = 1.0
    beat_seconds: float = 5.0
    worker_ttl_seconds: int = 20
    worker_maintenance_seconds: int = 5
    job_monitoring_seconds: int = 5
    job_heartbeat_seconds: int = 12
    finish_seconds: float = 7.0
    cluster_call_seconds: float = 30.0
    cluster_head_seconds: float = 10.0


NORMAL = Timings()
