"""The worker role: registers the job functions, imported once before RQ forks, and runs jobs until SIGTERM."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from rq.job import Job

from ghapp.errors import ConfigurationError, StoreUnavailableError
from ghapp.log import logger
from ghapp.notifier import Notifier
from ghapp.queue.jobs import JOBS_FAILED, JobName
from ghapp.queue.worker import is_expected, work
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.store.metric_counters import count
from ghapp.tls import trusted
from jobs.active_shard import refresh_active_shards
from jobs.context import configure, open_context
from jobs.deaths.job_deaths import examine_job
from jobs.deaths.post_mortem import post_mortem
from jobs.deaths.rerun import rerun_job
from jobs.deliveries.inbox import drain
from jobs.deliveries.redeliver import redeliver
from jobs.deliveries.resume import resume
from jobs.installations.discover import discover
from jobs.installations.scopes import find_scopes
from jobs.leaks.reap import reap
from jobs.notifications import send_notifications
from jobs.remediation.remediate import remediate
from jobs.reports.gate_report import report_gates
from jobs.reports.health_report import report
from jobs.reports.queue_report import report_queue
from jobs.runners.check_runner import check
from jobs.runners.confirm import confirm
from jobs.runners.due_sweeps import sweep_due
from jobs.versions.end_dates import read_versions

log = logger(__name__)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    JobName.CONFIRM: confirm,
    JobName.REMEDIATE: remediate,
    JobName.INBOX: drain,
    JobName.INSTALLATIONS: discover,
    JobName.SWEEP: sweep_due,
    JobName.REAP: reap,
    JobName.CHECK: check,
    JobName.REPORT: report,
    JobName.ACTIVE: refresh_active_shards,
    JobName.GATE: report_gates,
    JobName.RESUME: resume,
    JobName.QUEUE: report_queue,
    JobName.POST_MORTEM: post_mortem,
    JobName.JOB_DEATH: examine_job,
    JobName.RERUN: rerun_job,
    JobName.REDELIVER: redeliver,
    JobName.NOTIFICATIONS: send_notifications,
    JobName.VERSIONS: read_versions,
    JobName.SCOPES: find_scopes,
}


def run(settings: Settings) -> None:
    """Runs jobs until SIGTERM; the current job is finished or requeued. While Redis is unavailable, it retries."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    configure(settings)
    Notifier(settings.notify_urls)  # an invalid address is a configuration error, reported at once
    trusted()  # read before the fork, for all jobs
    import_libraries(settings)
    work(connect_sync(settings.redis_url), FUNCTIONS, _log_failure, settings.timings)


def import_libraries(settings: Settings) -> None:
    """Imports what a job imports on first use, mostly by opening and closing a context.

    Without it each job imports githubkit, httpcore and what they need after its fork, which takes 0.4 s of CPU.
    """
    import_module("ghapp.cluster.connection")

    async def open_once() -> None:
        async with open_context(settings, time.time):  # Redis may be unavailable
            pass

    if settings.credentials is not None:
        asyncio.run(open_once())


def _log_failure(job: Job, kind: type[BaseException], error: BaseException, _trace: object) -> bool:
    """Logs a failed job in one line, with a traceback for unexpected errors, and counts it."""
    log.warning(
        "job failed",
        job=job.id,
        work=job.func_name,
        error=kind.__name__,
        why=str(error) or "its worker was killed; the job is retried",
        exc_info=None if is_expected(error) else error,
    )
    kind_of_work = str(job.func_name).rpartition(".")[2]
    with suppress(StoreUnavailableError):
        count(job.connection, JOBS_FAILED, work=kind_of_work)
    return True
