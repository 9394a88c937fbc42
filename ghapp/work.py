"""Work, asked for by name: `ghapp` never imports `jobs`, and whoever asks need not know where it is done.

Everything travels as JSON: pickle would be code execution for whoever can write to Redis.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

QUEUES = ("urgent", "inbox", "sweep")
"""In the order in which a worker serves them: what heals before what is told before what looks."""

FAILURE_TTL_SECONDS = 3600


class Work(StrEnum):
    """Each job, as the dotted path that a worker resolves."""

    CONFIRM = "jobs.confirm.confirm"
    REMEDIATE = "jobs.remediate.remediate"
    NOTIFY = "jobs.notify.notify"
    INBOX = "jobs.inbox.drain"
    INSTALLATIONS = "jobs.installations.discover"
    SWEEP = "jobs.sweep.sweep"


QUEUE_OF = {
    Work.CONFIRM: "urgent",
    Work.REMEDIATE: "urgent",
    Work.NOTIFY: "urgent",
    Work.INBOX: "inbox",
    Work.INSTALLATIONS: "sweep",
    Work.SWEEP: "sweep",
}

TIMEOUT_SECONDS = 100
"""Under `evidence.OVERTAKING_SECONDS`: no observation outlives the job that made it."""

BACKOFF_SECONDS = (1, 5, 15, 60, 300, 900, 3600)


def ask(
    redis: Redis, work: Work, *args: int | str, key: str | None = None, after_seconds: float = 0.0, retry: bool = True
) -> bool:
    """Ask for work to be done by some worker, now or later.

    Args:
        redis: a synchronous client; a call takes about half a millisecond.
        work: what is to be done.
        args: primitives, all that travels.
        key: at most one such work waits or runs under this key ([A-Za-z0-9_-]); None for any number.
        after_seconds: not before then; the clock puts it in its queue.
        retry: whether a failure, or a worker's death, has it done again, with backoff.

    Returns:
        False when there already is one under that key.
    """
    from rq import Retry
    from rq.exceptions import DuplicateJobError

    desk = _queue(redis, QUEUE_OF[work])
    options = {
        "job_id": key,
        "unique": key is not None,
        "job_timeout": TIMEOUT_SECONDS,
        "result_ttl": 0,  # a finished job must not block its key
        "failure_ttl": FAILURE_TTL_SECONDS,
        "retry": Retry(max=len(BACKOFF_SECONDS), interval=list(BACKOFF_SECONDS)) if retry else None,
    }
    try:
        if after_seconds > 0:
            due = datetime.now(UTC) + timedelta(seconds=after_seconds)
            desk.enqueue_at(due, work.value, *args, **options)
        else:
            desk.enqueue(work.value, *args, **options)
    except DuplicateJobError:
        return False
    return True


def promote_due(redis: Redis, now: float) -> int:
    """Put work whose time has come into its queue; how many.

    For the clock: RQ's own scheduler takes a minute to notice that another one died. What is lost by a crash
    between the two steps is asked for again by the next sweep (confirmations), plan (remediations) or by the
    clock itself (events).
    """
    from rq.exceptions import NoSuchJobError
    from rq.job import Job
    from rq.registry import ScheduledJobRegistry
    from rq.serializers import JSONSerializer

    promoted = 0
    for name in QUEUES:
        desk = _queue(redis, name)
        registry = ScheduledJobRegistry(queue=desk)  # type: ignore[no-untyped-call]
        for job_id in registry.get_jobs_to_schedule(int(now)):
            if not redis.zrem(registry.key, job_id):
                continue  # another clock was faster
            try:
                job = Job.fetch(job_id, connection=redis, serializer=JSONSerializer)
            except NoSuchJobError:
                continue
            desk._enqueue_job(job)  # noqa: SLF001 - what RQ's scheduler calls
            promoted += 1
    return promoted


def _queue(redis: Redis, name: str) -> Queue:
    from rq import Queue
    from rq.serializers import JSONSerializer

    return Queue(name, connection=redis, serializer=JSONSerializer)
