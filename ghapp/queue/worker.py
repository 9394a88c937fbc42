"""RQ's worker with fair queues, and fast recovery of jobs whose worker was killed."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import Queue, Worker
from rq.exceptions import AbandonedJobError, NoSuchJobError, StopRequested
from rq.executions import Execution as RunningExecution
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import now
from rq.worker import WorkerStatus
from rq.worker_registration import REDIS_WORKER_KEYS as WORKERS
from rq.worker_registration import clean_worker_registry

from ghapp.errors import GhappError, UnknownJobError
from ghapp.log import bound, logger
from ghapp.queue import transitions
from ghapp.queue.jobs import FAILURE_TTL_SECONDS, HEARTBEAT_LASTS_SECONDS, QUEUES, TIMEOUT_SECONDS, next_order
from ghapp.queue.transitions import Execution
from ghapp.redis_clock import redis_time_sync
from ghapp.redis_errors import redis_errors
from ghapp.timings import NORMAL, Timings

log = logger(__name__)

GC_THRESHOLD = 10_000
"""New objects between two collections. A sweep of 10,000 runners makes 100,000."""

PAUSE_SECONDS = 1.0
"""Before work is resumed after Redis was unavailable."""

LONGEST_REDIS_WAIT_SECONDS = 2.0
"""Between two attempts to reach Redis."""

ANSWER_SECONDS = 2.0
"""How much longer than requested a command may block. RQ waits for ten seconds more."""

UNREGISTER_SECONDS = 2.0
"""How long a worker that stops waits for Redis to forget it; otherwise its registration expires."""

FailureHandler = Callable[[Job, type[BaseException], BaseException, object], bool]


class FastRecoveryWorker(Worker):
    """RQ's worker with other job transitions and another queue order.

    - Jobs of a worker that was killed with its work-horse are retried within seconds; with RQ's defaults, after a
      quarter of an hour.
    - Each transition is one script of `transitions`, so that a kill at any step neither loses a job nor runs one twice.
    - No queue starves another; see `next_order`.

    Our jobs have no dependents, results, repetitions or callbacks: RQ's code for these is left out.
    """

    max_connection_wait_time = LONGEST_REDIS_WAIT_SECONDS
    timings = NORMAL
    stop_requested: threading.Event

    @property
    def connection_timeout(self) -> int:
        """Seconds without an answer after which Redis counts as unavailable."""
        return int(self.dequeue_timeout + ANSWER_SECONDS)

    def get_heartbeat_ttl(self, job: Job) -> int:  # noqa: ARG002
        """Seconds without a heartbeat after which a running job counts as abandoned."""
        return self.timings.job_heartbeat_seconds

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:  # noqa: ARG002
        """Renews the worker's record for the same time in each state: `jobs.load` reads its age from the time left."""
        super().heartbeat(HEARTBEAT_LASTS_SECONDS, pipeline)

    def reorder_queues(self, reference_queue: Queue) -> None:
        """Sets the next order of queues; called with the queue that was just served."""
        by_name = {queue.name: queue for queue in self._ordered_queues}
        self._ordered_queues = [by_name[name] for name in next_order(list(by_name), reference_queue.name)]

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Runs a popped job in a work-horse, unless it was requeued since it was popped."""
        execution_id, ttl = uuid4().hex, self.get_heartbeat_ttl(job)
        if not transitions.begin(self.connection, Execution(queue.name, job.id, execution_id), ttl, self.name):
            return
        self.execution = RunningExecution(execution_id, job.id, self.connection, self.name)
        self.set_state(WorkerStatus.BUSY)
        self.fork_work_horse(job, queue)
        self.monitor_work_horse(job, queue)
        self.set_state(WorkerStatus.IDLE)

    def perform_job(self, job: Job, queue: Queue) -> bool:
        """Runs the job, with its id in every log line."""
        with bound(job=job.id):
            return bool(super().perform_job(job, queue))

    def handle_execution_ended(self, job: Job, queue: Queue, heartbeat_ttl: int) -> None:  # noqa: ARG002
        """Sends no last heartbeat: it would recreate the hash of a job that another execution has finished."""
        job.ended_at = now()

    def handle_job_success(self, job: Job, queue: Queue, started_job_registry: Any) -> None:  # noqa: ARG002
        """Deletes the job, which frees its id."""
        execution = self._take_execution(job)
        if execution is not None and not transitions.finish(self.connection, execution):
            log.info("job result discarded: execution was abandoned", work=job.func_name)

    def handle_job_failure(
        self,
        job: Job,
        queue: Queue,  # noqa: ARG002
        started_job_registry: Any = None,  # noqa: ARG002
        exc_string: str = "",  # noqa: ARG002 - it may contain secrets; `_log_failure` has logged a safe form
    ) -> None:
        """Retries the job, or records it as failed. Without Redis, its heartbeat expires, and it is retried then."""
        execution = self._take_execution(job)
        if execution is not None:
            with suppress(RedisError):
                transitions.fail(self.connection, execution, FAILURE_TTL_SECONDS)

    def clean_registries(self) -> None:
        """Retries the jobs whose worker and work-horse were killed. Several workers may do so concurrently."""
        self._register_again()
        for queue in self.queues:
            now_there = redis_time_sync(self.connection)
            for execution in transitions.abandoned(self.connection, queue.name, now_there):
                self._abandon(execution)
            queue.failed_job_registry.cleanup()
            clean_worker_registry(queue)
        self.last_cleaned_at = now()  # type: ignore[assignment]

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Finishes the running job, or kills it after `finish_seconds`: another worker then retries it."""
        self.stop_requested.set()
        ending = threading.Timer(self.timings.finish_seconds, self._kill_running_horse)
        ending.daemon = True
        ending.start()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def _kill_running_horse(self) -> None:
        """Kills the work-horse if one runs. RQ otherwise has process id 0, which stands for this process group."""
        if self.horse_pid:
            self.kill_horse()

    def register_birth(self) -> None:
        """Registers the worker, in place of an earlier record of this process: its name is used by no other one."""
        self.connection.delete(self.key)
        super().register_birth()  # type: ignore[no-untyped-call]

    def subscribe(self) -> None:
        """Takes no commands over Redis: a worker ends by signals. RQ's thread for them crashes when Redis hangs."""

    def set_shutdown_requested_date(self) -> None:
        """Writes nothing: the date is never read, and Redis may not answer the signal handler."""

    def teardown(self) -> None:
        """Unregisters the worker, unless Redis does not answer in time: the process must end all the same."""
        if self.is_horse:
            return
        unregistering = threading.Thread(target=self._unregister, daemon=True)
        unregistering.start()
        unregistering.join(UNREGISTER_SECONDS)

    def _unregister(self) -> None:
        with suppress(RedisError):
            super().teardown()  # type: ignore[no-untyped-call]

    def _register_again(self) -> None:
        """Registers the worker again if Redis lost it: by a restart without its last second, or while it was hung."""
        is_known = self.connection.hexists(self.key, "birth") and self.connection.sismember(WORKERS, self.key)
        if not is_known:
            self.register_birth()

    def _abandon(self, execution: Execution) -> None:
        try:
            job = Job.fetch(execution.job_id, connection=self.connection, serializer=JSONSerializer)
        except NoSuchJobError:
            job = None
        at = redis_time_sync(self.connection)
        if transitions.abandon(self.connection, execution, at, FAILURE_TTL_SECONDS) and job is not None:
            self.handle_exception(job, AbandonedJobError, AbandonedJobError(), None)

    def _take_execution(self, job: Job) -> Execution | None:
        """Returns the execution that has just ended, and clears it."""
        running, self.execution = self.execution, None
        return None if running is None else Execution(job.origin, job.id, running.id)


def work(
    connection: Redis,
    functions: Mapping[str, Callable[..., Any]],
    on_failure: FailureHandler,
    timings: Timings = NORMAL,
) -> None:
    """Works until SIGTERM; the running job is finished first, or handed back. Waits for a Redis that is unavailable.

    Args:
        connection: a synchronous client.
        functions: the function of each `JobName`.
        on_failure: called after each failed attempt with the job, the error's class, the error and its traceback.
        timings: how long it waits for other processes.

    Raises:
        StoreUnavailableError: at the start, Redis does not answer: a configuration error, reported at once.
    """
    with redis_errors():
        connection.ping()
    # A collection in a forked job would scan the imported objects, and thereby copy the memory that it shares with this
    # process.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    stop_requested = threading.Event()
    make = partial(worker, connection, functions, on_failure, uuid4().hex, timings, stop_requested)
    with suppress(StopRequested):
        while not stop_requested.is_set():
            _work_while_redis_answers(make)
            # RQ's handler would leave it to its worker, which may have ended in the middle of a job.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, _stop)
            time.sleep(0.0 if stop_requested.is_set() else PAUSE_SECONDS)


def is_expected(error: BaseException) -> bool:
    """True if a failed attempt needs no traceback: one of our errors, an unavailable Redis, or a killed worker."""
    return isinstance(error, GhappError | RedisError | AbandonedJobError)


def _work_while_redis_answers(make: Callable[[], FastRecoveryWorker]) -> None:
    """Works until asked to stop; returns earlier if Redis becomes unavailable at a moment at which RQ's worker ends.

    Raises:
        StopRequested: by the signal handler, before or after RQ's worker.
    """
    try:
        make().work(with_scheduler=False, logging_level="CRITICAL")  # `make` asks Redis, too
    except RedisError as error:
        log.warning("Redis unavailable, retrying", why=str(error))


def _stop(_signum: int, _frame: FrameType | None) -> None:
    raise StopRequested


def worker(
    connection: Redis,
    functions: Mapping[str, Callable[..., Any]],
    on_failure: FailureHandler,
    name: str | None = None,
    timings: Timings = NORMAL,
    stop_requested: threading.Event | None = None,
) -> FastRecoveryWorker:
    """Returns a worker of all queues; see `work`.

    `name`: unique to its process; None: a new one. `stop_requested`: is set by the first signal.
    """
    made = FastRecoveryWorker(
        [Queue(name, connection=connection, serializer=JSONSerializer) for name in QUEUES],
        name=name,
        connection=connection,
        serializer=JSONSerializer,
        job_class=_job_class(functions),
        worker_ttl=timings.worker_ttl_seconds,
        maintenance_interval=timings.worker_maintenance_seconds,
        job_monitoring_interval=timings.job_monitoring_seconds,
        exception_handlers=[on_failure],
    )
    made.timings = timings
    made.stop_requested = stop_requested or threading.Event()
    return made


def _job_class(functions: Mapping[str, Callable[..., Any]]) -> type[Job]:
    from ghapp.queue.event_loop import run_job  # before the fork, and only where jobs run: Windows has no uvloop

    class RegisteredJob(Job):
        """Runs registered functions only; RQ itself imports any dotted path that it reads from Redis."""

        @property
        def func(self) -> Callable[..., Any]:
            try:
                function = functions[str(self.func_name)]
            except KeyError:
                raise UnknownJobError(f"{self.func_name}: not a job of this version") from None
            return partial(run_job, function, float(self.timeout or TIMEOUT_SECONDS))

    return RegisteredJob
