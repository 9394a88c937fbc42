"""The worker: RQ, with everything imported before it forks, and with eyes for colleagues that died."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import FrameType

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Worker
from rq.exceptions import AbandonedJobError, StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer

import jobs.active
import jobs.check
import jobs.confirm
import jobs.gate
import jobs.inbox
import jobs.installations
import jobs.notify
import jobs.postmortem
import jobs.reap
import jobs.redeliver
import jobs.remediate
import jobs.report
import jobs.sweep  # noqa: F401 - imported before the fork, not in every job
from ghapp.errors import ConfigurationError, GhappError
from ghapp.log import bound, logger
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.store.counters import count
from ghapp.trust import trusted
from ghapp.work import QUEUES
from jobs.house import furnish

log = logger(__name__)

MAINTENANCE_SECONDS = 5
LOCKED_SECONDS = 10
"""For one who looks for dead workers, and may die of it."""

WORKER_TTL_SECONDS = 20
MONITORING_SECONDS = 5
HEARTBEAT_SECONDS = 12
LONGEST_REDIS_WAIT_SECONDS = 5.0
FINISH_SECONDS = 7.0
"""Orchestrators send SIGKILL ten seconds after SIGTERM, or later."""

PAUSE_SECONDS = 1.0


class BrieflyLockedQueue(Queue):
    """RQ's queue; a worker that is killed while it looks for dead ones keeps the others from it for seconds only."""

    def acquire_maintenance_lock(self) -> bool:
        """Whether we are to look; RQ's own lock would outlive its holder by a quarter of an hour."""
        return bool(self.connection.set(self.registry_cleaning_key, 1, nx=True, ex=LOCKED_SECONDS))


class AttentiveWorker(Worker):
    """RQ's worker; a job whose worker and horse both died is taken over in seconds, not in a quarter of an hour."""

    max_connection_wait_time = LONGEST_REDIS_WAIT_SECONDS
    asked_to_stop = False

    def get_heartbeat_ttl(self, job: Job) -> int:  # noqa: ARG002
        """How long a silent job is believed to run."""
        return HEARTBEAT_SECONDS

    def perform_job(self, job: Job, queue: Queue) -> bool:
        """Whatever the job logs bears its id."""
        with bound(job=job.id):
            return bool(super().perform_job(job, queue))

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Finish the job in hand; or, when it takes too long, end it: RQ hands it to the next worker."""
        self.asked_to_stop = True
        if self.horse_pid:
            ending = threading.Timer(FINISH_SECONDS, self.kill_horse)
            ending.daemon = True
            ending.start()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]


def run(settings: Settings) -> None:
    """Work until SIGTERM; the job in hand is finished first, or handed back. A Redis that goes away is waited for."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    furnish(settings)
    connection = connect_sync(settings.redis_url)
    connection.ping()  # at the start, a Redis that is not there is a mistake, and said at once
    trusted()  # read before the fork, for all jobs
    while not _worked_until_asked_to_stop(connection):
        time.sleep(PAUSE_SECONDS)


def _worked_until_asked_to_stop(connection: Redis) -> bool:
    """Work; False when it ended by itself: RQ's worker ends when Redis goes away in the midst of something."""
    try:
        worker = _worker(connection)
        worker.work(with_scheduler=False, logging_level="CRITICAL")
    except StopRequested:
        return True
    except RedisError as error:
        log.warning("worker waits for Redis", why=str(error))
        return False
    return worker.asked_to_stop


def _worker(connection: Redis) -> AttentiveWorker:
    return AttentiveWorker(
        [BrieflyLockedQueue(name, connection=connection, serializer=JSONSerializer) for name in QUEUES],
        connection=connection,
        serializer=JSONSerializer,
        worker_ttl=WORKER_TTL_SECONDS,
        maintenance_interval=MAINTENANCE_SECONDS,
        job_monitoring_interval=MONITORING_SECONDS,
        exception_handlers=[_told],
    )


def _of_a_lost_execution(error: BaseException) -> bool:
    """RQ's own, after Redis was away: the job is done, and an earlier try at it has run out in Redis meanwhile."""
    return isinstance(error, ValueError) and str(error).startswith("Execution ")


def _told(job: Job, kind: type[BaseException], error: BaseException, _trace: object) -> bool:
    """One line for what went wrong; a mistake of ours comes with its traceback."""
    expected = isinstance(error, GhappError | RedisError | AbandonedJobError) or _of_a_lost_execution(error)
    log.warning(
        "job failed",
        job=job.id,
        work=job.func_name,
        error=kind.__name__,
        why=str(error) or "its worker is gone; another one takes over",
        exc_info=None if expected else error,
    )
    kind_of_work = str(job.func_name).rpartition(".")[2]
    with suppress(RedisError):
        count(job.connection, "ghapp_jobs_failed_total", work=kind_of_work)
    return True
