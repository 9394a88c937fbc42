"""Requeues jobs lost by a killed worker.

RQ pops a job from its queue before it registers the job as started. A worker killed between the two leaves the job in
neither place: it never runs, and its id blocks later requests for the same job.
"""

from __future__ import annotations

from redis import Redis

from ghapp.queue import transitions
from ghapp.queue.jobs import QUEUES
from ghapp.queue.transitions import Enqueued


def find(redis: Redis) -> set[Enqueued]:
    """Jobs that are in no queue, not scheduled, and not being executed.

    A worker that lives registers a popped job within milliseconds: one that is found twice, seconds apart and enqueued
    at the same moment, is lost. Costs one read of the known jobs and of the queues, not of all keys in Redis.
    """
    return transitions.in_no_place(redis, QUEUES)


def requeue(redis: Redis, lost: Enqueued) -> bool:
    """Put a lost job back into its queue; False when it was started, finished or requeued meanwhile."""
    return transitions.requeue(redis, lost)
