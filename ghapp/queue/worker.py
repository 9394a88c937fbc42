"""RQ's worker, fair to its queues, and quick to recover the jobs of workers that were killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Worker
from rq.exceptions import AbandonedJobError, NoSuchJobError
from rq.executions import Execution as RunningExecution
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import now
from rq.worker import WorkerStatus
from rq.worker_registration import clean_worker_registry

from ghapp.errors import UnknownJobError
from ghapp.log import bound, logger
from ghapp.queue import transitions
from ghapp.queue.jobs import FAILURE_TTL_SECONDS, QUEUES, next_order
from ghapp.queue.transitions import Execution

log = logger(__name__)

MAINTENANCE_SECONDS = 5
WORKER_TTL_SECONDS = 20
MONITORING_SECONDS = 5
HEARTBEAT_SECONDS = 12
LONGEST_REDIS_WAIT_SECONDS = 5.0
FINISH_SECONDS = 7.0
"""Orchestrators send SIGKILL ten seconds after SIGTERM, or later."""

FailureHandler = Callable[[Job, type[BaseException], BaseException, object], bool]


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
            log.info("job abandoned before it ended", work=job.func_name)

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
            self.handle_exception(job, AbandonedJobError, AbandonedJobError(), None)

    def _take_execution(self, job: Job) -> Execution | None:
        """The execution in hand, which is over."""
        running, self.execution = self.execution, None
        return None if running is None else Execution(job.origin, job.id, running.id)


def worker(
    connection: Redis, functions: Mapping[str, Callable[..., Any]], on_failure: FailureHandler
) -> FastRecoveryWorker:
    """A worker of all queues.

    Args:
        connection: a synchronous client.
        functions: what runs for each `JobName`.
        on_failure: called after each failed attempt with the job, the error's class, the error and its traceback.
    """
    return FastRecoveryWorker(
        [Queue(name, connection=connection, serializer=JSONSerializer) for name in QUEUES],
        connection=connection,
        serializer=JSONSerializer,
        job_class=_job_class(functions),
        worker_ttl=WORKER_TTL_SECONDS,
        maintenance_interval=MAINTENANCE_SECONDS,
        job_monitoring_interval=MONITORING_SECONDS,
        exception_handlers=[on_failure],
    )


def _job_class(functions: Mapping[str, Callable[..., Any]]) -> type[Job]:
    class RegisteredJob(Job):
        """Runs registered functions only: RQ itself imports any dotted path that it reads from Redis."""

        @property
        def func(self) -> Callable[..., Any]:
            try:
                return functions[str(self.func_name)]
            except KeyError:
                raise UnknownJobError(f"{self.func_name}: not a job of this version") from None

    return RegisteredJob
