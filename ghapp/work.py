"""Work, asked for by name: `ghapp` never imports `jobs`, and whoever asks need not know where it is done.

Everything travels as JSON: pickle would be code execution for whoever can write to Redis.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

QUEUES = ("urgent", "inbox", "sweep", "report")
"""In the order in which a worker serves them: what heals, what was told, what looks, and then what is said of it."""

FAILURE_TTL_SECONDS = 3600


class Work(StrEnum):
    """Each job, as the dotted path that a worker resolves."""

    CONFIRM = "jobs.confirm.confirm"
    REMEDIATE = "jobs.remediate.remediate"
    NOTIFY = "jobs.notify.notify"
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
    Work.CONFIRM: "urgent",
    Work.REMEDIATE: "urgent",
    Work.NOTIFY: "urgent",
    Work.INBOX: "inbox",
    Work.INSTALLATIONS: "sweep",
    Work.SWEEP: "sweep",
    Work.REAP: "sweep",
    Work.CHECK: "report",
    Work.REPORT: "report",
    Work.ACTIVE: "report",
    Work.GATE: "report",
    Work.POST_MORTEM: "report",
    Work.REDELIVER: "report",
}

TIMEOUT_SECONDS = 100
"""Under `seen.OVERTAKING_SECONDS`: no observation outlives the job that made it."""

BACKOFF_SECONDS = (1, 5, 15, 60, 300, 900, 3600)
AT_ONCE = (0, 0)

_CLEAR_FAILED = """
if redis.call('HGET', KEYS[1], 'status') == 'failed' then
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[2], ARGV[1])
end
"""


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
        retry: whether it is tried again until it succeeds, with backoff. Without it another worker tries at once,
            for its own may have died, and then it is left to whoever asks next.

    Returns:
        False when there already is one under that key.
    """
    from rq import Retry
    from rq.exceptions import DuplicateJobError

    desk, waits = _queue(redis, QUEUE_OF[work]), BACKOFF_SECONDS if retry else AT_ONCE
    if key is not None:
        _clear_failed(redis, desk, key)
    job = desk.create_job(
        work.value,
        args=args,
        job_id=key,
        timeout=TIMEOUT_SECONDS,
        result_ttl=0,  # a finished job must not block its key
        failure_ttl=FAILURE_TTL_SECONDS,
        retry=Retry(max=len(waits), interval=list(waits)),
    )
    try:
        if after_seconds > 0:  # not `enqueue_at`: that one takes `unique` and does not heed it
            due = datetime.fromtimestamp(
                ceil(time.time() + after_seconds), UTC
            )  # RQ cuts to whole seconds: never too early
            desk.schedule_job(job, due, unique=key is not None)
        else:
            desk.enqueue_job(job, unique=key is not None)
    except DuplicateJobError:
        return False
    return True


def ask_for_sweep(redis: Redis, installation: int) -> bool:
    """Have some worker sweep an installation; False when one waits or is at it. The clock asks again, so no retry."""
    return ask(redis, Work.SWEEP, installation, key=f"sweep-{installation}", retry=False)


def ask_for_report(redis: Redis, installation: int) -> bool:
    """Have some worker look whether there is something to report; as with a sweep."""
    return ask(redis, Work.REPORT, installation, key=f"report-{installation}", retry=False)


def ask_for_gates(redis: Redis, installation: int) -> bool:
    """Have some worker look at the deploys whose commits wait for the gate's answer; as with a sweep."""
    return ask(redis, Work.GATE, installation, key=gates_key(installation), retry=False)


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
        waiting={name: desk.count for name, desk in queues.items()},
        failed=sum(desk.failed_job_registry.count for desk in queues.values()),
    )


def promote_due(redis: Redis, now: float) -> int:
    """Put work whose time has come into its queue; how many.

    For the clock: RQ's own scheduler takes a minute to notice that another one died. It moves in one transaction:
    a job that is in neither place would keep its key for ever.
    """
    from redis import WatchError
    from rq.exceptions import NoSuchJobError
    from rq.job import Job
    from rq.registry import ScheduledJobRegistry
    from rq.serializers import JSONSerializer

    promoted = 0
    for name in QUEUES:
        desk = _queue(redis, name)
        registry = ScheduledJobRegistry(queue=desk)  # type: ignore[no-untyped-call]
        for job_id in registry.get_jobs_to_schedule(int(now)):
            try:
                with redis.pipeline() as pipe:
                    pipe.watch(registry.key, Job.key_for(job_id))  # type: ignore[no-untyped-call]
                    job = Job.fetch(job_id, connection=redis, serializer=JSONSerializer)
                    if pipe.zscore(registry.key, job_id) is None:
                        continue  # another clock was faster
                    pipe.multi()
                    pipe.zrem(registry.key, job_id)
                    desk._enqueue_job(job, pipeline=pipe)  # noqa: SLF001 - what RQ's scheduler calls
                    pipe.execute()
            except WatchError:  # somebody else moved something; the next tick looks again
                continue
            except NoSuchJobError:
                redis.zrem(registry.key, job_id)
                continue
            promoted += 1
    return promoted


def _clear_failed(redis: Redis, desk: Queue, key: str) -> None:
    """A failed job neither waits nor runs; RQ would let it block its key until `failure_ttl` is over."""
    from rq.job import Job

    redis.eval(_CLEAR_FAILED, 2, Job.key_for(key), desk.failed_job_registry.key, key)


def _queue(redis: Redis, name: str) -> Queue:
    from rq import Queue
    from rq.serializers import JSONSerializer

    return Queue(name, connection=redis, serializer=JSONSerializer)
