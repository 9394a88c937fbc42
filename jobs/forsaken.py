"""Work that a worker took out of its queue, and was killed before it could say so.

RQ takes work out of its queue, and notes after that who is at it. A worker that is killed in between leaves it in
neither place: nobody would do it, and it would keep its key for ever.
"""

from __future__ import annotations

from redis import Redis
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.serializers import JSONSerializer

from ghapp.work import QUEUES

_TAKE_UP = """
if redis.call('HGET', KEYS[1], 'status') == 'queued' and not redis.call('LPOS', KEYS[2], ARGV[1]) then
    redis.call('RPUSH', KEYS[2], ARGV[1])
    return 1
end
return 0
"""


def forsaken(redis: Redis) -> set[str]:
    """The ids of work that says it waits in a queue, and that is in none.

    A worker that lives takes milliseconds to begin: whatever is found twice, seconds apart, is forsaken.
    """
    prefix = Job.redis_job_namespace_prefix.encode()
    ids = [key.removeprefix(prefix) for key in redis.scan_iter(prefix + b"*", count=1000)]
    with redis.pipeline(transaction=False) as pipe:
        for each in ids:
            pipe.hget(prefix + each, "status")
        waiting = {each for each, status in zip(ids, pipe.execute(), strict=True) if status == b"queued"}
        for name in QUEUES:
            pipe.lrange(_queue(redis, name).key, 0, -1)
        return {each.decode() for each in waiting.difference(*pipe.execute())}


def take_up(redis: Redis, job_id: str) -> bool:
    """Put it back into its queue; False when it is not forsaken any more."""
    try:
        job = Job.fetch(job_id, connection=redis, serializer=JSONSerializer)
    except NoSuchJobError:
        return False
    return bool(redis.eval(_TAKE_UP, 2, job.key, _queue(redis, job.origin).key, job_id))


def _queue(redis: Redis, name: str) -> Queue:
    return Queue(name, connection=redis, serializer=JSONSerializer)
