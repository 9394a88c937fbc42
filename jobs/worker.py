"""The worker: RQ's, with the jobs imported before it forks, fair to its queues, and quick to recover abandoned jobs."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Worker
from rq.exceptions import AbandonedJobError, NoSuchJobError, StopRequested
from rq.executions import Execution as RunningExecution
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import now
from rq.worker import WorkerStatus
from rq.worker_registration import clean_worker_registry

import jobs.checks.gate_report
import jobs.checks.health_report
import jobs.deaths.post_mortem
import jobs.deliveries.inbox
import jobs.deliveries.installations
import jobs.deliveries.redeliver
import jobs.events.notify
import jobs.gate.active_shard
import jobs.leaks.reap
import jobs.remediation.remediate
import jobs.runners.check_runner
import jobs.runners.confirm
import jobs.runners.sweep  # noqa: F401 - imported before the fork, not in every job
from ghapp.errors import ConfigurationError, GhappError
from ghapp.log import bound, logger
from ghapp.queue import transitions
from ghapp.queue.jobs import FAILURE_TTL_SECONDS, QUEUES, next_order
from ghapp.queue.transitions import Execution
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.store.metric_counters import count
from ghapp.tls import trusted
from jobs.context import configure

log = logger(__name__)

MAINTENANCE_SECONDS = 5
WORKER_TTL_SECONDS = 20
MONITORING_SECONDS = 5
HEARTBEAT_SECONDS = 12
LONGEST_REDIS_WAIT_SECONDS = 5.0
FINISH_SECONDS = 7.0
"""Orchestrators send SIGKILL ten seconds after SIGTERM, or later."""

PAUSE_SECONDS = 1.0


class FastRecoveryWorker(Worker):
    """RQ's worker with other transitions of a job, and other turns of its queues.

    - Jobs of a worker that was killed with its work-horse are retried within seconds; RQ's defaults take a quarter of
      an hour.
    - Each transition is one script of `transitions`, so that a kill at any step loses no job and runs none twice.
    - No queue starves another; see `next_order`.

    Our jobs have no dependents, results, repetitions or callbacks: what RQ does for these is left out.
    """

    max_connection_wait_time = LONGEST_REDIS_WAIT_SECONDS
    asked_to_stop = False

    def get_heartbeat_ttl(self, job: Job) -> int:  # noqa: ARG002
        """Seconds without a heartbeat after which a running job counts as abandoned."""
        return HEARTBEAT_SECONDS

    def reorder_queues(self, reference_queue: Queue) -> None:
        """Called with the queue that was just served."""
        by_name = {queue.name: queue for queue in self._ordered_queues}
        self._ordered_queues = [by_name[name] for name in next_order(list(by_name), reference_queue.name)]

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run a popped job in a work-horse, unless it was requeued since it was popped."""
        execution_id, ttl = uuid4().hex, self.get_heartbeat_ttl(job)
        if not transitions.begin(self.connection, Execution(queue.name, job.id, execution_id), ttl, self.name):
            return
        self.execution = RunningExecution(execution_id, job.id, self.connection, self.name)
        self.set_state(WorkerStatus.BUSY)
        self.fork_work_horse(job, queue)
        self.monitor_work_horse(job, queue)
        self.set_state(WorkerStatus.IDLE)

    def perform_job(self, job: Job, queue: Queue) -> bool:
        """Every log line of the job has its id."""
        with bound(job=job.id):
            return bool(super().perform_job(job, queue))

    def handle_execution_ended(self, job: Job, queue: Queue, heartbeat_ttl: int) -> None:  # noqa: ARG002
        """No last heartbeat: it would recreate the hash of a job that another execution has finished."""
        job.ended_at = now()

    def handle_job_success(self, job: Job, queue: Queue, started_job_registry: Any) -> None:  # noqa: ARG002
        """The job leaves nothing, and its id is free."""
        execution = self._take_execution(job)
        if execution is not None and not transitions.finish(self.connection, execution):
            log.info("job was given up before it ended", work=job.func_name)

    def handle_job_failure(
        self,
        job: Job,
        queue: Queue,  # noqa: ARG002
        started_job_registry: Any = None,  # noqa: ARG002
        exc_string: str = "",  # noqa: ARG002 - it may hold secrets; `_log_failure` has logged what may be said
    ) -> None:
        """Retry it, or record it as failed. Without Redis neither: its heartbeat runs out, and it is retried."""
        execution = self._take_execution(job)
        if execution is not None:
            with suppress(RedisError):
                transitions.fail(self.connection, execution, FAILURE_TTL_SECONDS)

    def clean_registries(self) -> None:
        """Retry the jobs whose worker and work-horse were killed. Any number of workers may do so at once."""
        for queue in self.queues:
            for execution in transitions.abandoned(self.connection, queue.name, time.time()):
                self._abandon(execution)
            queue.failed_job_registry.cleanup()
            clean_worker_registry(queue)
        self.last_cleaned_at = now()  # type: ignore[assignment]

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Finish the running job; or, when that takes too long, end it: another worker retries it."""
        self.asked_to_stop = True
        if self.horse_pid:
            ending = threading.Timer(FINISH_SECONDS, self.kill_horse)
            ending.daemon = True
            ending.start()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def _abandon(self, execution: Execution) -> None:
        try:
            job = Job.fetch(execution.job_id, connection=self.connection, serializer=JSONSerializer)
        except NoSuchJobError:
            job = None
        if transitions.abandon(self.connection, execution, time.time(), FAILURE_TTL_SECONDS) and job is not None:
            _log_failure(job, AbandonedJobError, AbandonedJobError(), None)

    def _take_execution(self, job: Job) -> Execution | None:
        """The execution in hand, which is over."""
        running, self.execution = self.execution, None
        return None if running is None else Execution(job.origin, job.id, running.id)


def run(settings: Settings) -> None:
    """Work until SIGTERM; the job in hand is finished first, or handed back. A Redis that goes away is waited for."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    configure(settings)
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
        log.warning("Redis unavailable, retrying", why=str(error))
        return False
    return worker.asked_to_stop


def _worker(connection: Redis) -> FastRecoveryWorker:
    return FastRecoveryWorker(
        [Queue(name, connection=connection, serializer=JSONSerializer) for name in QUEUES],
        connection=connection,
        serializer=JSONSerializer,
        worker_ttl=WORKER_TTL_SECONDS,
        maintenance_interval=MAINTENANCE_SECONDS,
        job_monitoring_interval=MONITORING_SECONDS,
        exception_handlers=[_log_failure],
    )


def _log_failure(job: Job, kind: type[BaseException], error: BaseException, _trace: object) -> bool:
    """One line for what went wrong; a mistake of ours comes with its traceback."""
    expected = isinstance(error, GhappError | RedisError | AbandonedJobError)
    log.warning(
        "job failed",
        job=job.id,
        work=job.func_name,
        error=kind.__name__,
        why=str(error) or "its worker was killed; the job is retried",
        exc_info=None if expected else error,
    )
    kind_of_work = str(job.func_name).rpartition(".")[2]
    with suppress(RedisError):
        count(job.connection, "ghapp_jobs_failed_total", work=kind_of_work)
    return True
