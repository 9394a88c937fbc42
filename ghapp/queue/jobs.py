"""Enqueues jobs by name, because `ghapp` never imports `jobs`.

Arguments are JSON: pickle would give code execution to anyone who can write to Redis.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ghapp.metric import Counter
from ghapp.queue import transitions
from ghapp.queue.transitions import Enqueued
from ghapp.redis_clock import redis_time_sync
from ghapp.redis_errors import redis_errors

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

URGENT = "urgent"
QUEUES = (URGENT, "inbox", "sweep", "report")
"""Confirmations and remediations; deliveries; sweeps; reports. `next_order` defines the order of service."""

JOBS_FAILED = Counter(
    "ghapp_jobs_failed_total",
    "Failed jobs by function name, and failed attempts to deliver an event to a pool's URL (deliver-event).",
    ("work",),
)

FAILURE_TTL_SECONDS = 3600
MOST_PROMOTED = 1000
"""Per queue and tick."""


class JobName(StrEnum):
    """The jobs, by their names in Redis; `jobs.worker` registers a function for each.

    The names are the paths of the functions in the first version. They never change, so that workers of two versions
    can serve the same queues.
    """

    CONFIRM = "jobs.confirm.confirm"
    REMEDIATE = "jobs.remediate.remediate"
    INBOX = "jobs.inbox.drain"
    INSTALLATIONS = "jobs.installations.discover"
    SCOPES = "jobs.installations.scopes.find_scopes"
    SWEEP = "jobs.sweep.sweep"
    REAP = "jobs.reap.reap"
    CHECK = "jobs.check.check"
    REPORT = "jobs.report.report"
    ACTIVE = "jobs.active.ask_shards"
    GATE = "jobs.gate.report_gates"
    RESUME = "jobs.deliveries.resume.resume"
    QUEUE = "jobs.queue_report.report_queue"
    POST_MORTEM = "jobs.postmortem.post_mortem"
    RERUN = "jobs.deaths.rerun.rerun_job"
    JOB_DEATH = "jobs.deaths.job_deaths.examine_job"
    REDELIVER = "jobs.redeliver.redeliver"
    NOTIFICATIONS = "jobs.notifications.send_notifications"
    VERSIONS = "jobs.versions.end_dates.read_versions"


QUEUE_OF = {
    JobName.CONFIRM: "urgent",
    JobName.REMEDIATE: "urgent",
    JobName.INBOX: "inbox",
    JobName.INSTALLATIONS: "sweep",
    JobName.SCOPES: "sweep",
    JobName.SWEEP: "sweep",
    JobName.REAP: "sweep",
    JobName.CHECK: "report",
    JobName.REPORT: "report",
    JobName.ACTIVE: "report",
    JobName.GATE: "report",
    JobName.RESUME: "report",
    JobName.QUEUE: "report",
    JobName.POST_MORTEM: "report",
    JobName.JOB_DEATH: "report",
    JobName.RERUN: "report",
    JobName.REDELIVER: "report",
    JobName.NOTIFICATIONS: "report",
    JobName.VERSIONS: "report",
}

TIMEOUT_SECONDS = 100
"""Less than `observations.OVERTAKING_SECONDS`: no observation outlives the job that made it."""

SWEEP_TIMEOUT_SECONDS = 175
"""Also less than `observations.OVERTAKING_SECONDS`. At GitHub's 900 points a minute a complete list of 100,000 runners
takes 73 s, and twice as long while confirmations and removals take half of the points.
"""

BACKOFF_SECONDS = (1, 5, 15, 60, 300, 900, 3600)
AT_ONCE = (0, 0)

MOST_INSTALLATIONS = 50
"""Of one job of `enqueue_for_each`. One that takes long holds up the next job of the others."""

ASKED_AGAIN = frozenset({JobName.REMEDIATE, JobName.CONFIRM, JobName.INBOX})
"""Enqueued again by sweeps and the clock. In a long backoff such a job would keep its key, and block these."""

BRIEF_BACKOFF_SECONDS = (1, 5)

DEFAULT_KEYS = {JobName.INBOX: "inbox"}
"""Default keys of jobs of which only one may wait or run at a time."""


def next_order(queues: Sequence[str], served: str) -> list[str]:
    """Returns the order in which a worker polls its queues after it has served one of them.

    `urgent` gets every second turn; the other queues share the rest, least recently served first. So no queue waits
    for more than five jobs of other queues, and an idle queue takes no turn.

    Args:
        queues: the names in the previous order.
        served: the queue that was served.
    """
    urgent = [name for name in queues if name == URGENT]
    others = [name for name in queues if name not in (URGENT, served)]
    return [*others, *urgent] if served == URGENT else [*urgent, *others, served]


@redis_errors()
def enqueue(
    redis: Redis,
    work: JobName,
    *args: int | str,
    key: str | None = None,
    after_seconds: float = 0.0,
    retry: bool = True,
) -> bool:
    """Enqueues a job, now or later.

    Args:
        redis: a synchronous client; a call takes about half a millisecond.
        work: the job's name.
        args: its arguments, primitives only.
        key: at most one job with this key ([A-Za-z0-9_-]) waits or runs; None: any number, except for the jobs in
            `DEFAULT_KEYS`.
        after_seconds: delay; the clock then moves the job to its queue.
        retry: True: retried with backoff until it succeeds. False: retried twice at once, in case its worker was
            killed; then it fails, and must be enqueued again.

    Returns:
        False if a job with that key waits, is scheduled or runs.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    from rq import Retry

    queue, key = _queue(redis, QUEUE_OF[work]), key or DEFAULT_KEYS.get(work)
    waits = (BRIEF_BACKOFF_SECONDS if work in ASKED_AGAIN else BACKOFF_SECONDS) if retry else AT_ONCE
    job = queue.create_job(
        work.value,
        args=args,
        job_id=key,
        timeout=SWEEP_TIMEOUT_SECONDS if work is JobName.SWEEP else TIMEOUT_SECONDS,
        result_ttl=0,
        failure_ttl=FAILURE_TTL_SECONDS,
        retry=Retry(max=len(waits), interval=list(waits)),
    )
    due = redis_time_sync(redis) + after_seconds if after_seconds > 0 else None
    return transitions.enqueue(redis, job, queue.name, due)


@redis_errors()
def first_waiting(redis: Redis, work: JobName, keys: Sequence[str]) -> tuple[str, float] | None:
    """Returns the first of these keys whose job waits or is scheduled, and in how many seconds it is due."""
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.hget(transitions.job_key(key), "status")
            pipe.zscore(transitions.scheduled_key(QUEUE_OF[work]), key)
        rows = pipe.execute()
    for key, status, due in zip(keys, rows[::2], rows[1::2], strict=True):
        if status in (b"queued", b"scheduled"):
            return key, 0.0 if due is None else max(0.0, due - redis_time_sync(redis))
    return None


def enqueue_due_sweeps(redis: Redis, most: int = 1) -> bool:
    """Enqueues a job that sweeps what is due when it runs; returns False if `most` such jobs wait or run.

    Jobs of which the first left nothing cost little. More than one is needed for fleets that are large, or many.
    """
    keys = (f"sweep-due-{number}" for number in range(most))
    return any(enqueue(redis, JobName.SWEEP, key=key, retry=False) for key in keys)


def enqueue_for_each(redis: Redis, work: JobName, installations: Sequence[int]) -> None:
    """Enqueues periodic work for each of these installations, `MOST_INSTALLATIONS` in a job. Not retried."""
    for at in range(0, len(installations), MOST_INSTALLATIONS):
        several = installations[at : at + MOST_INSTALLATIONS]
        kind = work.name.lower() + ("s" if len(several) > 1 else "")
        enqueue(redis, work, *several, key=f"{kind}-{several[0]}", retry=False)


def enqueue_remediation(redis: Redis, installation: int, runner_id: int) -> bool:
    """Enqueues the job that looks at a lost runner once more, and acts; while one waits, there is no second one."""
    return enqueue(redis, JobName.REMEDIATE, installation, runner_id, key=remediation_key(installation, runner_id))


def remediation_key(installation: int, runner_id: int) -> str:
    """Returns the key of that job."""
    return f"remediate-{installation}-{runner_id}"


def enqueue_report(redis: Redis, installation: int) -> bool:
    """Enqueues a check whether the report has changed. Not retried, because the clock enqueues it again."""
    return enqueue(redis, JobName.REPORT, installation, key=f"report-{installation}", retry=False)


def enqueue_versions(redis: Redis, installation: int) -> bool:
    """Enqueues a read of the end dates of versions that are due. Not retried, because a later sweep enqueues it."""
    return enqueue(redis, JobName.VERSIONS, installation, key=f"versions-{installation}", retry=False)


def enqueue_gates(redis: Redis, installation: int) -> bool:
    """Enqueues an update of the gate's check runs on deployed commits. Not retried."""
    return enqueue(redis, JobName.GATE, installation, key=gates_key(installation), retry=False)


def gates_key(installation: int) -> str:
    """Returns the key of that job."""
    return f"gate-{installation}"


SILENT_SECONDS = 20
"""A worker without a heartbeat for so long hangs or was killed."""

HEARTBEAT_LASTS_SECONDS = 80
"""The record of a worker expires so long after its last heartbeat, by Redis' clock."""


class Load(NamedTuple):
    """The numbers of live workers, of waiting jobs by queue, and of jobs that failed in the last hour.

    `silent`: of workers that are registered, and sent no heartbeat for `SILENT_SECONDS`.
    """

    workers: int
    waiting: dict[str, int]
    failed: int
    silent: int = 0


@redis_errors()
def load(redis: Redis) -> Load:
    """Returns the present load."""
    from rq import Worker

    queues = {name: _queue(redis, name) for name in QUEUES}
    with redis.pipeline(transaction=False) as pipe:
        for key in Worker.all_keys(connection=redis):
            pipe.ttl(key)
        remaining: list[int] = pipe.execute()
    alive = sum(each > HEARTBEAT_LASTS_SECONDS - SILENT_SECONDS for each in remaining)
    return Load(
        workers=alive,
        silent=len(remaining) - alive,
        waiting={name: queue_redis.count for name, queue_redis in queues.items()},
        failed=sum(queue_redis.failed_job_registry.count for queue_redis in queues.values()),
    )


@redis_errors()
def started_at(redis: Redis) -> float | None:
    """Returns when the oldest live worker started (epoch seconds, by its machine's clock); None without one."""
    from rq import Worker
    from rq.utils import utcparse

    with redis.pipeline(transaction=False) as pipe:
        for key in Worker.all_keys(connection=redis):
            pipe.hget(key, "birth")
        births: list[Any] = pipe.execute()
    return min((utcparse(each.decode()).timestamp() for each in births if each), default=None)


@redis_errors()
def promote_due(redis: Redis, now: float) -> int:
    """Moves due jobs into their queues; returns how many.

    Called by the clock, because RQ's own scheduler takes a minute to notice that another scheduler was killed.
    """
    promoted = 0
    for name in QUEUES:
        rows: Any = redis.zrangebyscore(transitions.scheduled_key(name), "-inf", now, start=0, num=MOST_PROMOTED)
        promoted += sum(transitions.promote(redis, name, row.decode(), now) for row in rows)
    return promoted


@redis_errors()
def find_lost(redis: Redis) -> set[Enqueued]:
    """Returns jobs that are in no queue, not scheduled, and not being executed.

    RQ pops a job from its queue before it registers the job as started. A worker killed between the two leaves the job
    in neither place: it never runs, and its id blocks later requests for the same job. A live worker registers a popped
    job within milliseconds: a job found twice, seconds apart and with the same time of enqueueing, is lost. Reads the
    known jobs and the queues only, not all keys in Redis.
    """
    return transitions.unplaced(redis, QUEUES)


@redis_errors()
def requeue_lost(redis: Redis, lost: Enqueued) -> bool:
    """Moves a lost job back into its queue; returns False if it was started, finished or requeued meanwhile."""
    return transitions.requeue(redis, lost)


def _queue(redis: Redis, name: str) -> Queue:
    from rq import Queue
    from rq.serializers import JSONSerializer

    return Queue(name, connection=redis, serializer=JSONSerializer)


class Enqueue(Protocol):
    """Enqueues a job, like `enqueue`, without blocking the event loop."""

    async def __call__(self, work: JobName, /, *args: int | str, key: str | None = None, retry: bool = True) -> None:
        """At most one job per key waits or runs."""
