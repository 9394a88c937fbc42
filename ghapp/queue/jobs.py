"""Work, asked for by name: `ghapp` never imports `jobs`, and whoever asks need not know where it is done.

Everything travels as JSON: pickle would be code execution for whoever can write to Redis.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from ghapp.queue import transitions

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

URGENT = "urgent"
QUEUES = (URGENT, "inbox", "sweep", "report")
"""What heals, deliveries, sweeps, and what is published of them; `next_order` says how they take turns."""

FAILURE_TTL_SECONDS = 3600
MOST_PROMOTED = 1000
"""For each queue and tick."""


class JobName(StrEnum):
    """The jobs, by the names under which they stand in Redis; `jobs.worker` registers a function for each.

    These are the paths that the functions had in the first version. They never change, so that workers of two versions
    can serve the same queues.
    """

    CONFIRM = "jobs.confirm.confirm"
    REMEDIATE = "jobs.remediate.remediate"
    NOTIFY = "jobs.notify.notify"
    """Only the previous version enqueues it; events are delivered by the clock."""

    INBOX = "jobs.inbox.drain"
    INSTALLATIONS = "jobs.installations.discover"
    SWEEP = "jobs.sweep.sweep"
    REAP = "jobs.reap.reap"
    CHECK = "jobs.check.check"
    REPORT = "jobs.report.report"
    ACTIVE = "jobs.active.ask_shards"
    GATE = "jobs.gate.report_gates"
    POST_MORTEM = "jobs.postmortem.post_mortem"
    REDELIVER = "jobs.redeliver.redeliver"


QUEUE_OF = {
    JobName.CONFIRM: "urgent",
    JobName.REMEDIATE: "urgent",
    JobName.NOTIFY: "urgent",
    JobName.INBOX: "inbox",
    JobName.INSTALLATIONS: "sweep",
    JobName.SWEEP: "sweep",
    JobName.REAP: "sweep",
    JobName.CHECK: "report",
    JobName.REPORT: "report",
    JobName.ACTIVE: "report",
    JobName.GATE: "report",
    JobName.POST_MORTEM: "report",
    JobName.REDELIVER: "report",
}

TIMEOUT_SECONDS = 100
"""Under `seen.OVERTAKING_SECONDS`: no observation outlives the job that made it."""

BACKOFF_SECONDS = (1, 5, 15, 60, 300, 900, 3600)
AT_ONCE = (0, 0)

ASKED_AGAIN = frozenset({JobName.REMEDIATE, JobName.CONFIRM, JobName.INBOX})
"""Sweeps and the clock enqueue these again. One that waited out a long backoff would keep its key, and block them."""

BRIEF_BACKOFF_SECONDS = (1, 5)

DEFAULT_KEYS = {JobName.INBOX: "inbox"}
"""Work of which one at a time is enough: the keys under which it is enqueued when no key is given."""


def next_order(queues: Sequence[str], served: str) -> list[str]:
    """In which order a worker looks at its queues after it has served one of them.

    `urgent` has every second turn; the other queues share the rest, the one that was served longest ago first. So no
    queue waits for more than five jobs of other queues, whatever comes, and an idle queue takes no turn.

    Args:
        queues: the names in the order of the last look.
        served: the one that was served.
    """
    urgent = [name for name in queues if name == URGENT]
    others = [name for name in queues if name not in (URGENT, served)]
    return [*others, *urgent] if served == URGENT else [*urgent, *others, served]


def enqueue(
    redis: Redis,
    work: JobName,
    *args: int | str,
    key: str | None = None,
    after_seconds: float = 0.0,
    retry: bool = True,
) -> bool:
    """Enqueue a job, now or later.

    Args:
        redis: a synchronous client; a call takes about half a millisecond.
        work: what is to be done.
        args: primitives, all that travels.
        key: at most one such job waits or runs under this key ([A-Za-z0-9_-]); None for any number, but for the work
            in `DEFAULT_KEYS`.
        after_seconds: not before then; the clock puts it in its queue.
        retry: whether it is retried with backoff until it succeeds. Without it it is retried twice at once, because its
            worker may have been killed, and then it fails; whoever enqueued it does so again.

    Returns:
        False when a job waits, is scheduled or runs under that key.
    """
    from rq import Retry

    queue, key = _queue(redis, QUEUE_OF[work]), key or DEFAULT_KEYS.get(work)
    waits = (BRIEF_BACKOFF_SECONDS if work in ASKED_AGAIN else BACKOFF_SECONDS) if retry else AT_ONCE
    job = queue.create_job(
        work.value,
        args=args,
        job_id=key,
        timeout=TIMEOUT_SECONDS,
        result_ttl=0,
        failure_ttl=FAILURE_TTL_SECONDS,
        retry=Retry(max=len(waits), interval=list(waits)),
    )
    due = ceil(time.time() + after_seconds) if after_seconds > 0 else None
    return transitions.enqueue(redis, job, queue.name, due)


def enqueue_sweep(redis: Redis, installation: int) -> bool:
    """Have some worker sweep an installation; False when one waits or is at it. The clock asks again, so no retry."""
    return enqueue(redis, JobName.SWEEP, installation, key=f"sweep-{installation}", retry=False)


def enqueue_report(redis: Redis, installation: int) -> bool:
    """Have some worker look whether there is something to report; as with a sweep."""
    return enqueue(redis, JobName.REPORT, installation, key=f"report-{installation}", retry=False)


def enqueue_gates(redis: Redis, installation: int) -> bool:
    """Have some worker look at the deploys whose commits wait for the gate's answer; as with a sweep."""
    return enqueue(redis, JobName.GATE, installation, key=gates_key(installation), retry=False)


def gates_key(installation: int) -> str:
    """Under which that work is asked for."""
    return f"gate-{installation}"


class Load(NamedTuple):
    """Who works and what waits: workers alive, jobs waiting by queue, and jobs that failed in the last hour."""

    workers: int
    waiting: dict[str, int]
    failed: int


def load(redis: Redis) -> Load:
    """How it stands just now."""
    from rq import Worker

    queues = {name: _queue(redis, name) for name in QUEUES}
    return Load(
        workers=Worker.count(connection=redis),
        waiting={name: queue_redis.count for name, queue_redis in queues.items()},
        failed=sum(queue_redis.failed_job_registry.count for queue_redis in queues.values()),
    )


def promote_due(redis: Redis, now: float) -> int:
    """Put the jobs whose time has come into their queues; how many.

    For the clock: RQ's own scheduler takes a minute to notice that another one was killed.
    """
    promoted = 0
    for name in QUEUES:
        rows: Any = redis.zrangebyscore(transitions.scheduled_key(name), "-inf", now, start=0, num=MOST_PROMOTED)
        promoted += sum(transitions.promote(redis, name, row.decode(), now) for row in rows)
    return promoted


def _queue(redis: Redis, name: str) -> Queue:
    from rq import Queue
    from rq.serializers import JSONSerializer

    return Queue(name, connection=redis, serializer=JSONSerializer)
