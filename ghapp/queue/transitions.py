"""Every transition of a job between RQ's keys, each as one Lua script.

RQ 2.12 moves a job in several steps and identifies it by its id alone, which has two flaws when a process is killed
between two steps. First, a job that was popped but not yet registered as started is lost. Second, an id that two
parties requeue (the cleanup of abandoned executions, and the recovery of lost jobs) runs twice at a time; the first run
that ends deletes the job that the second one still executes, so that the id can be enqueued again meanwhile, and from
then on two copies of it circulate. Each script here keeps two invariants:

- A queue never contains an id twice, whichever process enqueues it.
- An execution may change its job only while it is registered in `rq:wip:*`. An execution that was abandoned but
  continues (a frozen process, Redis unreachable) ends without an effect on the job, which another worker has by then.

The keys remain RQ's: its own tools read them, and so does what scales workers by the length of a queue.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from ghapp.redis_clock import redis_time_sync

if TYPE_CHECKING:
    from redis import Redis
    from rq.job import Job

KNOWN_JOBS = "ghapp:queue:jobs"
"""set: ids of jobs that wait, are scheduled or run. Deleted with the job; the recovery searches it for lost jobs."""

RQ_QUEUES = "rq:queues"

_PUSH = """
local function push(queue, id)
    if not redis.call('LPOS', queue, id) then redis.call('RPUSH', queue, id) end
end
"""

_ENQUEUE = (
    _PUSH
    + """
local job, queue, scheduled, failed, known, queues = unpack(KEYS)
local id, due = ARGV[1], ARGV[2]
if redis.call('HGET', job, 'status') == 'failed' then
    redis.call('DEL', job)
    redis.call('ZREM', failed, id)
end
redis.call('SADD', known, id)
if redis.call('EXISTS', job) == 1 then return 0 end
redis.call('SADD', queues, queue)
redis.call('HSET', job, unpack(ARGV, 3))
if due ~= '' then redis.call('ZADD', scheduled, due, id) else push(queue, id) end
return 1
"""
)

_PROMOTE = (
    _PUSH
    + """
local job, queue, scheduled = unpack(KEYS)
local id, now, enqueued_at = unpack(ARGV)
local due = redis.call('ZSCORE', scheduled, id)
if not due or tonumber(due) > tonumber(now) then return 0 end
redis.call('ZREM', scheduled, id)
if redis.call('EXISTS', job) == 0 then return 0 end
redis.call('HSET', job, 'status', 'queued', 'enqueued_at', enqueued_at)
push(queue, id)
return 1
"""
)

_BEGIN = """
local job, queue, wip, execution, executions = unpack(KEYS)
local id, execution_id, expires, ttl, now, worker = unpack(ARGV)
if redis.call('HGET', job, 'status') ~= 'queued' or redis.call('LPOS', queue, id) then return 0 end
redis.call('HSET', job, 'status', 'started', 'worker_name', worker)
redis.call('HSET', execution, 'id', execution_id, 'created_at', now, 'last_heartbeat', now, 'worker_name', worker)
redis.call('EXPIRE', execution, ttl)
redis.call('ZADD', wip, expires, id .. ':' .. execution_id)
redis.call('ZADD', executions, expires + 60, execution_id)
redis.call('EXPIRE', executions, ttl + 60)
return 1
"""

_FINISH = """
local job, wip, execution, executions, known = unpack(KEYS)
local id, execution_id = unpack(ARGV)
if redis.call('ZREM', wip, id .. ':' .. execution_id) == 0 then return 0 end
redis.call('DEL', job, execution, executions)
redis.call('SREM', known, id)
return 1
"""

_FAIL = (
    _PUSH
    + """
local job, queue, scheduled, failed, wip, execution, executions, known = unpack(KEYS)
local id, execution_id, expired_by, at_once, now, enqueued_at, failure_ttl = unpack(ARGV)
local expires = redis.call('ZSCORE', wip, id .. ':' .. execution_id)
if not expires or (expired_by ~= '' and tonumber(expires) > tonumber(expired_by)) then return '' end
redis.call('ZREM', wip, id .. ':' .. execution_id)
redis.call('DEL', execution, executions)
if redis.call('HEXISTS', job, 'data') == 0 then
    redis.call('DEL', job)
    redis.call('SREM', known, id)
    return ''
end
local left = tonumber(redis.call('HGET', job, 'retries_left') or 0)
if left > 0 then
    local waits = cjson.decode(redis.call('HGET', job, 'retry_intervals') or '[]')
    local wait = at_once == '1' and 0 or waits[math.max(#waits - left, 0) + 1] or 0
    redis.call('HSET', job, 'retries_left', left - 1, 'enqueued_at', enqueued_at)
    if wait > 0 then
        redis.call('HSET', job, 'status', 'scheduled')
        redis.call('ZADD', scheduled, math.ceil(now + wait), id)
        return 'scheduled'
    end
    redis.call('HSET', job, 'status', 'queued')
    push(queue, id)
    return 'queued'
end
redis.call('HSET', job, 'status', 'failed')
redis.call('EXPIRE', job, failure_ttl)
redis.call('ZADD', failed, now + failure_ttl, id)
redis.call('SREM', known, id)
return 'failed'
"""
)

_REQUEUE = """
local job, queue, scheduled, wip, known = unpack(KEYS)
local id, seen_enqueued_at, enqueued_at = unpack(ARGV)
local status = redis.call('HGET', job, 'status')
if redis.call('EXISTS', job) == 0 or status == 'failed' then
    redis.call('SREM', known, id)
    return 0
end
if (redis.call('HGET', job, 'enqueued_at') or '') ~= seen_enqueued_at then return 0 end
if redis.call('LPOS', queue, id) or redis.call('ZSCORE', scheduled, id) then return 0 end
for _, member in ipairs(redis.call('ZRANGE', wip, 0, -1)) do
    if string.sub(member, 1, #id + 1) == id .. ':' then return 0 end
end
if redis.call('HEXISTS', job, 'data') == 0 then
    redis.call('DEL', job)
    redis.call('SREM', known, id)
    return 0
end
redis.call('HSET', job, 'status', 'queued', 'enqueued_at', enqueued_at)
redis.call('RPUSH', queue, id)
return 1
"""


class Execution(NamedTuple):
    """One run of a job: the queue's name, the job's id, and the id of the run."""

    queue: str
    job_id: str
    id: str


class Enqueued(NamedTuple):
    """A job as it was enqueued: its queue, its id, and when (RQ's text, with microseconds), which makes it unique."""

    queue: str
    job_id: str
    at: str


def queue_key(name: str) -> str:
    """list: ids of waiting jobs."""
    return f"rq:queue:{name}"


def scheduled_key(name: str) -> str:
    """Sorted set: id of a scheduled job → when it is due (epoch seconds)."""
    return f"rq:scheduled:{name}"


def started_key(name: str) -> str:
    """Sorted set: job id:execution id → when the execution counts as abandoned without a further heartbeat."""
    return f"rq:wip:{name}"


def failed_key(name: str) -> str:
    """Sorted set: id of a job that failed finally → when its record expires."""
    return f"rq:failed:{name}"


def job_key(job_id: str) -> str:
    """hash: the job, as RQ writes it."""
    return f"rq:job:{job_id}"


def enqueue(redis: Redis, job: Job, queue: str, due: float | None = None) -> bool:
    """Enqueues a job, or schedules it for `due` (epoch seconds); returns False if its id waits, is scheduled or runs.

    Replaces a job of that id that failed finally.
    """
    fields: list[Any] = ["status", "queued" if due is None else "scheduled"]
    for name, value in {**job.to_dict(), "origin": queue, "enqueued_at": _now()}.items():
        if value is not None and name != "status":
            fields += (name, value)
    keys = [job_key(job.id), queue_key(queue), scheduled_key(queue), failed_key(queue), KNOWN_JOBS, RQ_QUEUES]
    return bool(_run(redis, _ENQUEUE, keys, [job.id, "" if due is None else repr(due), *fields]))


def promote(redis: Redis, queue: str, job_id: str, now: float) -> bool:
    """Moves a scheduled job into its queue; returns False if it is not due, or another process moved it first."""
    keys = [job_key(job_id), queue_key(queue), scheduled_key(queue)]
    return bool(_run(redis, _PROMOTE, keys, [job_id, now, _now()]))


def begin(redis: Redis, execution: Execution, ttl_seconds: int, worker: str) -> bool:
    """Registers the execution of a job that was popped from its queue.

    Returns False if the job was requeued as lost meanwhile, or has ended.
    """
    queue, job_id, execution_id = execution
    now = redis_time_sync(redis)
    keys = [job_key(job_id), queue_key(queue), started_key(queue), *_execution_keys(execution)]
    args = [job_id, execution_id, int(now) + ttl_seconds, ttl_seconds, now, worker]
    return bool(_run(redis, _BEGIN, keys, args))


def finish(redis: Redis, execution: Execution) -> bool:
    """Deletes a job that has succeeded, which frees its id; returns False if the execution was abandoned before."""
    keys = [job_key(execution.job_id), started_key(execution.queue), *_execution_keys(execution), KNOWN_JOBS]
    return bool(_run(redis, _FINISH, keys, [execution.job_id, execution.id]))


def fail(redis: Redis, execution: Execution, failure_ttl_seconds: int) -> str:
    """Ends a failed execution: retries the job after its next interval, or records it as failed.

    Returns:
        The job's status: `queued`, `scheduled` or `failed`; empty if the execution was abandoned before.
    """
    return _fail(redis, execution, failure_ttl_seconds, None)


def abandon(redis: Redis, execution: Execution, now: float, failure_ttl_seconds: int) -> str:
    """Ends an execution without a heartbeat: retries the job at once, or records it as failed.

    Returns:
        As `fail`; also empty if a heartbeat came after all.
    """
    return _fail(redis, execution, failure_ttl_seconds, now)


def abandoned(redis: Redis, queue: str, now: float) -> list[Execution]:
    """Returns the executions of a queue whose heartbeat is overdue."""
    members: Any = redis.zrangebyscore(started_key(queue), "-inf", now)
    parts = [member.decode().rpartition(":") for member in members]
    return [Execution(queue, job_id, execution_id) for job_id, _, execution_id in parts]


def unplaced(redis: Redis, queues: tuple[str, ...]) -> set[Enqueued]:
    """Returns jobs that are in no queue, not scheduled, and not being executed.

    Not atomic: a job that moves from a queue to its execution is included for milliseconds.
    """
    rows: Any = redis.smembers(KNOWN_JOBS)
    ids = sorted(row.decode() for row in rows)
    with redis.pipeline(transaction=False) as pipe:
        for job_id in ids:
            pipe.hmget(job_key(job_id), "origin", "enqueued_at")
        jobs = dict(zip(ids, pipe.execute(), strict=True)) if ids else {}
        for name in queues:
            pipe.lrange(queue_key(name), 0, -1)
            pipe.zrange(scheduled_key(name), 0, -1)
            pipe.zrange(started_key(name), 0, -1)
        found = [[each.decode() for each in row] for row in pipe.execute()]
    placed = {each for row in (*found[0::3], *found[1::3]) for each in row}
    placed |= {each.rpartition(":")[0] for row in found[2::3] for each in row}
    return {
        Enqueued((origin or queues[0].encode()).decode(), job_id, (at or b"").decode())
        for job_id, (origin, at) in jobs.items()
        if job_id not in placed
    }


def requeue(redis: Redis, lost: Enqueued) -> bool:
    """Moves a lost job back into its queue; returns False if it is no longer lost, or its record is missing."""
    queue, job_id, at = lost
    keys = [job_key(job_id), queue_key(queue), scheduled_key(queue), started_key(queue), KNOWN_JOBS]
    return bool(_run(redis, _REQUEUE, keys, [job_id, at, _now()]))


def _fail(redis: Redis, execution: Execution, failure_ttl_seconds: int, expired_by: float | None) -> str:
    queue, job_id, execution_id = execution
    keys = [job_key(job_id), queue_key(queue), scheduled_key(queue), failed_key(queue), started_key(queue)]
    keys += (*_execution_keys(execution), KNOWN_JOBS)
    is_waiting = expired_by is None
    now = ceil(redis_time_sync(redis))
    args = [job_id, execution_id, "" if is_waiting else expired_by, "0" if is_waiting else "1", now]
    status: Any = _run(redis, _FAIL, keys, [*args, _now(), failure_ttl_seconds])
    return str(status.decode())


def _execution_keys(execution: Execution) -> tuple[str, str]:
    return f"rq:execution:{execution.job_id}:{execution.id}", f"rq:executions:{execution.job_id}"


def _now() -> str:
    from rq.utils import now, utcformat

    return utcformat(now())


def _run(redis: Redis, script: str, keys: list[str], args: list[Any]) -> Any:
    return redis.eval(script, len(keys), *keys, *args)
