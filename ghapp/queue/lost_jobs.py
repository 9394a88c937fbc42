"""Requeues jobs lost by a killed worker.

RQ pops a job from its queue before it registers the job as started. A worker killed between the two leaves the job in
neither place: it never runs, and its id blocks later requests for the same job.
"""

from __future__ import annotations

from redis import Redis

from ghapp.queue import transitions
from ghapp.queue.jobs import QUEUES
from ghapp.queue.transitions import Enqueued
from ghapp.redis_errors import redis_errors


@redis_errors()
def find(redis: Redis) -> set[Enqueued]:
    """Returns jobs that are in no queue, not scheduled, and not being executed.

    A live worker registers a popped job within milliseconds: a job found twice, seconds apart and with the same time
    of enqueueing, is lost. Reads the known jobs and the queues only, not all keys in Redis.
    """
    return transitions.unplaced(redis, QUEUES)


@redis_errors()
def requeue(redis: Redis, lost: Enqueued) -> bool:
    """Moves a lost job back into its queue; returns False if it was started, finished or requeued meanwhile."""
    return transitions.requeue(redis, lost)
